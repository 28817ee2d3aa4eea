"""`sexton` as a person runs it: on a pipe or on a terminal, in an environment of its own."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from console.main import main
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "import sys; from console.entry import main; sys.exit(main())"]
SECONDS = 60.0


@dataclass(frozen=True)
class Printed:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Sexton:
    """The command with these settings, and none of whoever runs the tests."""

    settings: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """What the process sees."""
        foreign = ("SEXTON_", "POD_", "KUBECONFIG")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return inherited | {"COLUMNS": "80", "no_proxy": "127.0.0.1"} | dict(self.settings)

    def __call__(self, *words: str) -> Printed:
        """Run it to its end, within this process: starting one takes longer than most commands."""
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, self.environment, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        return Printed(code, out.getvalue(), err.getvalue())

    def having(self, **settings: str) -> Sexton:
        """With other settings."""
        return Sexton({**self.settings, **settings})

    @contextmanager
    def begun(self, *words: str) -> Iterator[Running]:
        """Start it on a terminal; killed at the end if it still runs."""
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, *words],
            env={**self.environment, "TERM": "xterm"},
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        running = Running(process, master)
        reader = threading.Thread(target=running.read, daemon=True)
        reader.start()
        try:
            yield running
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            reader.join(SECONDS)
            os.close(master)


@dataclass
class Running:
    """A command on a terminal."""

    process: subprocess.Popen[bytes]
    terminal: int
    shown: bytearray = field(default_factory=bytearray)

    def read(self) -> None:
        """Take in what it shows until it has ended."""
        with suppress(OSError):  # how Linux says that nobody holds the other end any more
            while part := os.read(self.terminal, 65536):
                self.shown += part

    @property
    def text(self) -> str:
        """What was shown so far, with the control sequences in it."""
        return self.shown.decode("utf-8", "replace")

    def until_shown(self, text: str) -> None:
        """Until the text appears on the terminal."""
        until(lambda: text in self.text or self.process.poll() is not None, f"{text!r} is shown", seconds=SECONDS)
        assert text in self.text, self.text

    def interrupt(self) -> int:
        """Press Ctrl-C. Returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)

"""The demo's processes: started on loopback, watched while they run, and certainly gone at the end.

Every child gets a process group of its own, so that Ctrl-C reaches only this process and each child can be ended
together with whatever it forked, by its id. A stage that cannot clean up after itself any more (SIGKILL, a
crash) is noticed by a small watchdog at the other end of a pipe, which then does it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from eno.characters import visible
from eno.errors import Retryable, Terminal

T = TypeVar("T")

STOP_SECONDS = 8.0
"""How long a child may take to end in good order before it is killed."""

_POLL_SECONDS = 0.05
_TAIL_LINES = 15

# Reads one process group a line; sees the end of the pipe when the stage is gone, however it went.
_WATCHDOG = """
groups=
while read -r group; do groups="$groups -$group"; done
kill -s TERM -- $groups 2>/dev/null
sleep 1
kill -s KILL -- $groups 2>/dev/null
rm -rf -- "$1"
"""


@dataclass(frozen=True, slots=True)
class Child:
    """A running process and the file that its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def tail(self) -> str:
        """The last lines of its output, for people."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(map(visible, lines[-_TAIL_LINES:]))


class Stage:
    """A directory and the processes that live as long as the `with` block does.

    Children started in one call belong together: the last ones started are the first ones ended.
    """

    def __init__(self) -> None:
        self._exits = ExitStack()
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        directory = tempfile.mkdtemp(prefix="sexton-demo-")
        self.directory = Path(directory)
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._exits.close()
            shutil.rmtree(self.directory, ignore_errors=True)
            self._watchdog.kill()
            self._watchdog.wait()
        finally:
            # If that was interrupted, the end of the pipe hands the rest to the watchdog.
            self._pipe.close()

    @property
    def children(self) -> Sequence[Child]:
        """Every child that was started and not ended on purpose."""
        return tuple(self._children)

    def start(self, commands: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> tuple[Child, ...]:
        """Start the commands by name, each with its output in `<name>.log`. Raises Terminal."""
        started: list[Child] = []
        self._exits.callback(self.stop, started)
        for name, command in commands.items():
            started.append(self._launch(name, command, environment))
        return tuple(started)

    def adopt(self, group: int, stop: Callable[[], None]) -> None:
        """Look after a process that somebody else started: `stop` ends it, the watchdog knows its group."""
        self._exits.callback(stop)
        self._tell_watchdog(group)

    def stop(self, children: Sequence[Child]) -> None:
        """End these children together, by force after STOP_SECONDS. Does nothing to one that has ended."""
        for child in children:
            _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
        for child in children:
            # Also when the child itself is gone: what it forked may have outlived it.
            _signal_group(child, signal.SIGKILL)
            child.process.wait()
            if child in self._children:
                self._children.remove(child)

    def check(self, *, grace: float = 0.0) -> None:
        """Raises Terminal, naming the process, when a child has ended that should be running.

        An error that a dying child causes can be there before its end is: `grace` seconds are waited for it.
        """
        deadline = time.monotonic() + grace
        while True:
            for child in self._children:
                if not child.running:
                    raise Terminal(f"{child.name} ended with exit code {child.process.returncode}", where="demo")
            if time.monotonic() >= deadline:
                return
            time.sleep(_POLL_SECONDS)

    def wait_for(self, what: str, look: Callable[[], T | None], *, deadline: float) -> T:
        """What `look` finds, as soon as it is not None; retryable errors count as not yet.

        `deadline` is in `time.monotonic()` seconds. Raises Terminal when it passes, or a child ends.
        """
        last: Retryable | None = None
        while True:
            self.check()
            try:
                found = look()
            except Retryable as error:
                found, last = None, error
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                raise Terminal(
                    f"no {what} in time", where="demo", detail=str(last or ""), hint="raise --timeout"
                ) from last
            time.sleep(_POLL_SECONDS)

    def _launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Child:
        log = self.directory / f"{name}.log"
        try:
            with log.open("wb") as output:
                process = subprocess.Popen(
                    list(command),
                    cwd=self.directory,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise Terminal(f"{name} cannot be started: {error.strerror}", where=command[0]) from error
        child = Child(name, process, log)
        self._children.append(child)
        self._tell_watchdog(process.pid)
        return child

    @property
    def _pipe(self) -> IO[bytes]:
        pipe = self._watchdog.stdin
        assert pipe is not None  # noqa: S101 (it was opened as a pipe)
        return pipe

    def _tell_watchdog(self, group: int) -> None:
        with suppress(BrokenPipeError):
            self._pipe.write(f"{group}\n".encode())
            self._pipe.flush()


def _signal_group(child: Child, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process.pid, number)

"""docker-compose.yml, read; and its services as processes of this machine.

Each service has a loopback address of its own, as it has one in Docker's network: what listens on 127.0.0.1 there is
out of the others' reach here, too. Ports become free ones, volumes directories; the rest runs as it is written.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from runtime.redis_server import find_program
from tests.deploy.image import ROOT, Image
from tests.support.waiting import until

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VOLUME = "/playground"
EVERYWHERE = "0.0.0.0"  # noqa: S104
LOOPBACK = "127.0.0.1"
HOST = re.compile(rf"(?<=[/@])([a-z]+|{re.escape(LOOPBACK)}):(\d+)")
"""A service, or the container itself, and a port in a URL."""

START_SECONDS = 60.0
STOP_SECONDS = 20.0


def interpolated(text: str) -> str:
    """With ${NAME:-default} as it is where NAME is not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def words(service: str) -> list[str]:
    """Its command."""
    return [interpolated(word) for word in SERVICES[service]["command"]]


def variables(service: str) -> dict[str, str]:
    """Its environment."""
    return {name: interpolated(value) for name, value in SERVICES[service].get("environment", {}).items()}


def check(service: str) -> list[str]:
    """The command of its healthcheck; empty when it has none."""
    test: list[str] = SERVICES[service].get("healthcheck", {}).get("test", ["CMD"])
    assert test[0] == "CMD", "a shell is not there to be relied on"
    return [interpolated(word) for word in test[1:]]


def dependencies(service: str) -> dict[str, str]:
    """What has to have happened to which service before this one starts."""
    return {name: how["condition"] for name, how in SERVICES[service].get("depends_on", {}).items()}


def in_order() -> list[str]:
    """All services, none before those that it depends on."""
    found: list[str] = []
    while len(found) < len(SERVICES):
        ready = [name for name in SERVICES if name not in found and dependencies(name).keys() <= set(found)]
        assert ready, f"these wait for each other: {SERVICES.keys() - set(found)}"
        found += ready
    return found


def listens_everywhere(service: str) -> bool:
    """Whether other services can reach it."""
    return EVERYWHERE in [*words(service), *variables(service).values()] or words(service)[0] == "redis-server"


def free_port(address: str) -> int:
    """A port that nobody listens on."""
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class Playground:
    """The running services, below `directory`: one volume, one working directory and one log for each."""

    image: Image
    directory: Path
    addresses: dict[str, str] = field(default_factory=dict)
    ports: dict[tuple[str, str], int] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, name in enumerate(SERVICES, start=2):
            self.addresses[name] = f"127.0.0.{number}" if listens_everywhere(name) else LOOPBACK
            (self.directory / name).mkdir()
        self.volume.mkdir()

    @property
    def volume(self) -> Path:
        """The directory that all of them share."""
        return self.directory / "volume-of-all"

    def port(self, service: str, written: str) -> int:
        """What listens at this port of the service's container, here."""
        key = (service, written)
        if key not in self.ports:
            self.ports[key] = free_port(self.addresses[service])
        return self.ports[key]

    def authority(self, service: str, written: str) -> str:
        """Where a port of the service answers, as `host:port`."""
        return f"{self.addresses[service]}:{self.port(service, written)}"

    def native(self, service: str, text: str) -> str:
        """What a container is told, for a process here."""
        text = re.sub(rf"{VOLUME}\b", str(self.volume), text)
        for name, address in self.addresses.items():
            text = re.sub(
                rf"(?<=[/@]){name}:(\d+)", lambda found, n=name, a=address: f"{a}:{self.port(n, found[1])}", text
            )  # type: ignore[misc]
        text = re.sub(
            r"(?<=//)127\.0\.0\.1:(\d+)",
            lambda found: f"{self.addresses[service]}:{self.port(service, found[1])}",
            text,
        )
        if re.fullmatch(r"\d{4}", text):
            return str(self.port(service, text))
        return self.addresses[service] if text == EVERYWHERE else text

    def command(self, service: str, written: list[str]) -> list[str]:
        """The program of the image, or Redis, with what it is told."""
        program, *arguments = [self.native(service, word) for word in written]
        if program == "redis-server":
            # The image listens on every address and was built without protected mode.
            where = ["--bind", self.addresses[service], "--port", str(self.port(service, "6379"))]
            return [find_program(), *where, "--protected-mode", "no", *arguments]
        return [self.image.program(program) if program != "chown" else program, *arguments]

    def environment(self, service: str) -> dict[str, str]:
        """The image's, then the service's, and none of whoever runs the tests. There is no home to write to."""
        own = {name: self.native(service, value) for name, value in variables(service).items()}
        return {**self.image.environment, "HOME": "/dev/null", "TMPDIR": str(self.directory / service), **own}

    def start(self, service: str) -> None:
        """Begin its command, in a directory that stands for its /tmp."""
        with (self.directory / f"{service}.log").open("wb") as log:
            self.running[service] = subprocess.Popen(
                self.command(service, words(service)),
                env=self.environment(service),
                cwd=self.directory / service,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def healthy(self, service: str) -> bool:
        """Whether its own check says so. `redis-cli ping` is asked here, since no wheel brings that program."""
        if check(service) == ["redis-cli", "ping"]:
            with suppress(OSError):
                where = (self.addresses[service], self.port(service, "6379"))
                with socket.create_connection(where, timeout=3) as connection:
                    connection.sendall(b"PING\r\n")
                    return connection.recv(7) == b"+PONG\r\n"
            return False
        command = self.command(service, check(service))
        return subprocess.run(command, env=self.environment(service), capture_output=True).returncode == 0

    def log(self, service: str) -> str:
        """What it has printed."""
        return (self.directory / f"{service}.log").read_text(encoding="utf-8", errors="replace")

    def stop(self, service: str) -> int:
        """SIGTERM, as Docker does; returns the exit code. A worker that is killed would leave its pool behind."""
        process = self.running[service]
        process.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def await_condition(self, service: str, condition: str) -> None:
        """Wait for what a dependent names. Raises AssertionError with the log when it cannot come."""
        process = self.running[service]
        if condition == "service_completed_successfully":
            assert process.wait(START_SECONDS) == 0, self.log(service)
            return
        assert condition == "service_healthy"
        until(
            lambda: self.healthy(service) or process.poll() is not None, f"{service} is healthy", seconds=START_SECONDS
        )
        assert process.poll() is None, self.log(service)


@contextmanager
def running_playground(image: Image, directory: Path) -> Iterator[Playground]:
    """What `docker compose up` starts, each service once its dependencies are what it wants them to be."""
    playground = Playground(image, directory)
    with ExitStack() as stack:
        for service in in_order():
            for name, condition in dependencies(service).items():
                playground.await_condition(name, condition)
            if words(service)[0] == "chown" and os.geteuid() != 0:
                continue
            playground.start(service)
            if check(service):
                stack.callback(playground.stop, service)
        for service in in_order():
            if check(service):
                playground.await_condition(service, "service_healthy")
        yield playground

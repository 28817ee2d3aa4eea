"""The image and the playground, without Docker: what the Dockerfile installs and what the compose file starts.

Service names become loopback, ports become free ones, the volume becomes a directory; the rest runs as written.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from eno.errors import ApiError
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS
from runtime.redis_server import find_program
from tests.support.factories import composition_json, entry, inventory, manifest, slice_json, synthesis
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
NAMESPACE = "eno"
SECONDS = 60.0

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*(?:\[[^\]]*\])?)==(\S+)", re.MULTILINE)


def pins(path: str) -> dict[str, str]:
    """Name and version of everything in a lock."""
    return dict(PIN.findall((ROOT / path).read_text(encoding="utf-8")))


def test_the_image_holds_what_the_tests_ran_with() -> None:
    ours, all_of_them = pins("deploy/requirements.lock"), pins("requirements.lock")
    assert ours
    assert ours.items() <= all_of_them.items()


def test_the_image_is_built_in_stages_and_runs_as_nobody() -> None:
    stages = DOCKERFILE.split("\nFROM ")
    assert len(stages) == 3, "what comes before, a stage that builds, a stage that runs"
    assert "COPY --from=build /venv /venv" in stages[-1]
    assert re.search(r"^USER 65532:65532$", stages[-1], re.MULTILINE)
    assert "pip" not in stages[-1]
    assert "latest" not in DOCKERFILE


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual environment that the Dockerfile makes, with its own commands."""
    directory = tmp_path_factory.mktemp("image")
    source, environment = directory / "src", directory / "venv"
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")]
    for name in tracked:
        if any(name == each or name.startswith(f"{each}/") for each in allowed) and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    for line in re.findall(r"^RUN (.*)$", DOCKERFILE, re.MULTILINE):
        command = line.replace("/venv", str(environment))
        if command.startswith("python "):
            command = f"{sys.executable} {command.removeprefix('python ')}"
        subprocess.run(command.replace("--no-cache-dir ", "").split(), cwd=source, check=True, capture_output=True)
    return environment / "bin"


@pytest.mark.parametrize(
    "command",
    ["sexton version", "python -m watcher --help", "python -m devcluster --help", "celery -A workers worker --help"],
)
def test_every_process_is_in_the_image(image: Path, tmp_path: Path, command: str) -> None:
    program, *arguments = command.split()
    environment = {"PATH": f"{image}:{os.environ['PATH']}", "POD_NAMESPACE": NAMESPACE}
    subprocess.run([image / program, *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True)


def test_every_host_and_volume_of_the_playground_is_one_of_its_own() -> None:
    for service in SERVICES.values():
        texts = [*service.get("environment", {}).values(), *service["command"]]
        hosts = {host for text in texts for host in re.findall(r"://(?:[^@/]*@)?([a-z]+):\d", text)}
        assert hosts <= SERVICES.keys()
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= COMPOSE["volumes"].keys()
        assert set(service.get("depends_on", ())) <= SERVICES.keys()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Playground:
    """The services of the compose file as processes of this machine."""

    def __init__(self, image: Path, directory: Path) -> None:
        self.image, self.directory = image, directory
        self.ports = {"8001": free_port(), "6379": free_port(), "5555": free_port()}
        self.probes = {name: free_port() for name in SERVICES}

    def native(self, service: str, text: str) -> str:
        """What a container is told, for a process here."""
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
        text = re.sub(r"//(devcluster|redis):", "//127.0.0.1:", text).replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        text = text.replace("/playground/", f"{self.directory}/").replace("8080", str(self.probes[service]))
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(free), text)
        return text

    def command(self, service: str, words: list[str]) -> list[str]:
        program, *arguments = [self.native(service, word) for word in words]
        if program == "redis-server":
            return [find_program(), "--port", str(self.ports["6379"]), "--bind", "127.0.0.1", *arguments]
        return [str(self.image / program), *arguments]

    def environment(self, service: str) -> dict[str, str]:
        given = {name: self.native(service, value) for name, value in SERVICES[service].get("environment", {}).items()}
        return {"PATH": f"{self.image}:{os.environ['PATH']}", "HOME": str(self.directory), **given}

    def start(self, service: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{service}.log").open("wb") as log:
            return subprocess.Popen(
                self.command(service, SERVICES[service]["command"]),
                env=self.environment(service),
                cwd=self.directory,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def healthy(self, service: str) -> bool:
        """Whether the service's own check says so."""
        kind, *words = SERVICES[service]["healthcheck"]["test"]
        assert kind == "CMD"
        if words[0] == "redis-cli":
            with socket.create_connection(("127.0.0.1", self.ports["6379"]), 3) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        done = subprocess.run(self.command(service, words), env=self.environment(service), capture_output=True)
        return done.returncode == 0

    def log(self, service: str) -> str:
        return (self.directory / f"{service}.log").read_text(encoding="utf-8", errors="replace")


def _quietly(playground: Playground, service: str) -> bool:
    try:
        return playground.healthy(service)
    except OSError:
        return False


@pytest.fixture
def playground(image: Path, tmp_path: Path) -> Iterator[Playground]:
    """Everything that `docker compose up` starts, in the order of its dependencies, healthy by its own checks."""
    playground = Playground(image, tmp_path)
    with ExitStack() as stack:
        for service in ("devcluster", "redis", "watcher", "worker", "flower"):
            process = playground.start(service)
            stack.callback(process.wait)
            stack.callback(process.kill)
            if service == "watcher":
                _create_namespace(playground)
            until(
                lambda service=service, process=process: _quietly(playground, service) or process.poll() is not None,  # type: ignore[misc]
                f"{service} is healthy",
                seconds=SECONDS,
            )
            assert process.poll() is None, playground.log(service)
        assert set(SERVICES) == {"volume", "devcluster", "redis", "watcher", "worker", "flower"}
        yield playground


def _client(playground: Playground) -> HttpCluster:
    connection = load_connection(str(playground.directory / "kubeconfig"))
    return HttpCluster(connection, user_agent="test", limits=RateLimits(1000, 1000, 1000))


def _create_namespace(playground: Playground) -> None:
    client = _client(playground)
    client.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
    client.close()


def _forget(body: dict[str, Any]) -> dict[str, Any]:
    for key in ("uid", "resourceVersion"):
        body["metadata"].pop(key, None)
    return body


def test_the_playground_recovers_a_composition_and_flower_shows_it_to_who_knows_the_password(
    playground: Playground,
) -> None:
    cluster = _client(playground)
    try:
        for secret in inventory([entry(name="old")], name="shop", namespace=NAMESPACE):
            cluster.create(SECRETS, "kube-system", _forget(secret))
        body = composition_json("shop", namespace=NAMESPACE, uid=None, current=synthesis("second", slices=["shop-2"]))
        uid = cluster.create(COMPOSITIONS, NAMESPACE, body)["metadata"]["uid"]
        made = slice_json("shop-2", [manifest(name="new")], owner="shop", uid=uid)
        made["metadata"]["namespace"] = NAMESPACE
        cluster.create(RESOURCE_SLICES, NAMESPACE, _forget(made))
        cluster.merge_patch(COMPOSITIONS, NAMESPACE, "shop", {"status": body["status"]}, subresource="status")
        until(lambda: _tombstones(cluster) == 1, "the order to delete what is only in the history", seconds=SECONDS)
    finally:
        cluster.close()
    url = f"http://127.0.0.1:{playground.ports['5555']}/tasks"
    assert _status(url) == 401
    assert _status(url, "sexton:playground") == 200


def _tombstones(cluster: HttpCluster) -> int:
    try:
        resources = cluster.get(RESOURCE_SLICES, NAMESPACE, "shop-2")["spec"]["resources"]
    except ApiError:
        return 0
    return sum(bool(each.get("deleted")) for each in resources)


def _status(url: str, credentials: str = "") -> int:
    request = urllib.request.Request(url)
    if credentials:
        request.add_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code

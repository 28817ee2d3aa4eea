"""The user that docs/install.md makes in Redis may do what Sexton and Flower do, and nothing else."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
import urllib3
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from console.doctor.commands import probes
from devcluster.kubeconfig import write_kubeconfig
from devcluster.server import Server
from eno.errors import UsageError
from runtime.backlog import BacklogReader
from runtime.dispatch import Dispatcher
from runtime.redis_server import find_program
from runtime.settings import Settings, variable
from tests.deploy.rendering import DEPLOY, ROOT
from tests.support.factories import NAMESPACE, entry, manifest, synthesis
from tests.support.waiting import until
from tests.support.worker import running_worker
from tests.support.world import World, recover_message

PASSWORD, ADMIN = "secret", "admin"

CREDENTIALS = "me:secret"


@dataclass(frozen=True)
class Broker:
    """A server with the configuration and the users of the trial overlay, and an administrator for the test."""

    port: int

    @property
    def url(self) -> str:
        """As in the Secret of the guide."""
        return f"redis://sexton:{PASSWORD}@127.0.0.1:{self.port}/0"

    def connect(self, user: str, password: str) -> redis.Redis:
        """As some user."""
        return redis.Redis(port=self.port, username=user, password=password, decode_responses=True, protocol=2)

    def refusals(self) -> list[str]:
        """What the user was refused, by Redis' own log."""
        with self.connect(ADMIN, ADMIN) as client:
            return [f"{each['reason']} {each['object']}" for each in client.acl_log()]

    def commands(self) -> set[str]:
        """Whatever was ever carried out, as its statistics name it."""
        with self.connect(ADMIN, ADMIN) as client:
            statistics = client.info("commandstats").items()
            return {name.removeprefix("cmdstat_") for name, each in statistics if each["calls"]}


BEGINNING = {"auth", "hello", "client|setname", "client|setinfo"}
"""What a connection begins with. Redis refuses nobody the first two, and clients do without the last."""

TRANSACTIONS = {"watch", "unwatch", "multi", "exec", "discard"}
ADMINISTRATION = {"acl|log", "config|get"}
"""The user is refused these."""


def asked_by_the_doctor() -> set[str]:
    """The commands that `sexton doctor` asks about."""
    found = set()
    for probe in probes(Settings.load()):
        command, *rest = (word.lower() for word in probe.words)
        found.add(f"{command}|{rest[0]}" if command == "script" else command)
    return found | TRANSACTIONS


def users() -> str:
    """The ACL file of the guide, with a password."""
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    found = re.search(r'--from-literal=users\.acl="(.*?)"$', text, re.DOTALL | re.MULTILINE)
    assert found
    return found[1].replace("$password", PASSWORD)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        program = find_program()
    except UsageError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("redis")
    port = free_port()
    acl = directory / "users.acl"
    acl.write_text(f"{users()}\nuser {ADMIN} on >{ADMIN} ~* &* +@all\n", encoding="utf-8")
    text = (DEPLOY / "components" / "redis" / "redis.conf").read_text(encoding="utf-8")
    text = text.replace("/etc/redis/users/users.acl", str(acl)).replace("dir /tmp", f"dir {directory}")
    (directory / "redis.conf").write_text(f"{text}\nbind 127.0.0.1\nport {port}\n", encoding="utf-8")
    with running([program, str(directory / "redis.conf")], directory / "redis.log", {}):
        found = Broker(port)
        until(lambda: answers(found), "Redis answers")
        yield found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(broker: Broker) -> bool:
    with suppress(redis.ConnectionError), broker.connect(ADMIN, ADMIN) as client:
        return bool(client.ping())
    return False


@contextmanager
def running(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    """A process for the length of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_sexton_and_flower_are_refused_nothing(broker: Broker, tmp_path: Path) -> None:
    world = World()
    shop = world.add_composition("shop", current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="kept")])
    world.remember([entry(name="kept"), entry(name="lost")])
    with Server(world.up.store).running() as up, Server(world.down.store).running() as down:
        write_kubeconfig(tmp_path / "upstream", up.url)
        write_kubeconfig(tmp_path / "downstream", down.url)
        settings = Settings.load(
            enable_tombstone_recovery=True,
            pod_namespace=NAMESPACE,
            broker_url=broker.url,
            kubeconfig=tmp_path / "upstream",
            downstream_kubeconfig=tmp_path / "downstream",
        )
        port = free_port()
        flower = [sys.executable, "-m", "celery", "-A", "workers", "flower", f"--port={port}"]
        environment = {
            variable("pod_namespace"): NAMESPACE,
            variable("broker_url"): broker.url,
            "FLOWER_BASIC_AUTH": CREDENTIALS,
        }
        log = tmp_path / "flower.log"
        with running_worker(tmp_path, settings), running(flower, log, environment):
            until(lambda: "sexton.recover" in seen_by_flower(port, "/api/workers?refresh=1"), "Flower asks", seconds=60)
            with closing(Dispatcher.connect(settings)) as dispatcher:
                dispatcher.enqueue(recover_message(shop, scope=settings.scope))
                until(lambda: "SUCCESS" in seen_by_flower(port, "/api/tasks"), "Flower hears of the task", seconds=60)
                assert dispatcher.parked() == []
            with closing(BacklogReader.connect(settings)) as backlog:
                assert not backlog.read().defects

    assert world.tombstones() == ["lost"]
    assert broker.refusals() == []
    assert broker.commands() - ADMINISTRATION <= asked_by_the_doctor() | BEGINNING


def seen_by_flower(port: int, path: str) -> str:
    headers = urllib3.make_headers(basic_auth=CREDENTIALS)
    with suppress(urllib3.exceptions.HTTPError), urllib3.PoolManager(retries=False, timeout=20.0) as pool:
        return pool.request("GET", f"http://127.0.0.1:{port}{path}", headers=headers).data.decode()
    return ""


FORBIDDEN = [
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("KEYS", "*"),
    ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
    ("ACL", "LIST"),
    ("SHUTDOWN", "NOSAVE"),
    ("GET", "somebody-elses"),
    ("SET", "sexton", "x"),
    ("LPUSH", "other.recover", "x"),
    ("PUBLISH", "/0.other.events/worker.online", "x"),
    ("PSUBSCRIBE", "*"),
]


@pytest.mark.parametrize("command", FORBIDDEN, ids=[" ".join(command) for command in FORBIDDEN])
def test_the_user_may_do_nothing_else(broker: Broker, command: tuple[str, ...]) -> None:
    with broker.connect("sexton", PASSWORD) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command)
    with broker.connect(ADMIN, ADMIN) as client:
        client.acl_log_reset()


def test_nobody_gets_in_without_a_user(broker: Broker) -> None:
    once = Retry(NoBackoff(), 0)
    with redis.Redis(port=broker.port, protocol=2, retry=once) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_queues_are_not_evicted(broker: Broker) -> None:
    with broker.connect("sexton", PASSWORD) as client:
        assert client.info("memory")["maxmemory_policy"] == "noeviction"

"""docker-compose.yml, without Docker: it agrees with itself, and what it starts is the playground of docs/try-it.md."""

from __future__ import annotations

import base64
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.__main__ import main as serve
from devcluster.server import Server
from devcluster.store import Store
from kube.config import load_connection
from kube.http import HttpCluster
from kube.limits import RateLimits
from kube.resources import COMPOSITIONS, RESOURCE_SLICES, SECRETS
from runtime.settings import Settings, variable
from tests.deploy.guides import TRY_IT as GUIDE
from tests.deploy.guides import console_blocks, is_by_hand
from tests.deploy.image import built_image, read_stages
from tests.deploy.playground import (
    COMPOSE,
    HOST,
    LOOPBACK,
    SERVICES,
    VOLUME,
    Playground,
    check,
    dependencies,
    in_order,
    listens_everywhere,
    running_playground,
    variables,
    words,
)
from tests.deploy.rendering import find_kubectl
from tests.support.assets import HINT
from tests.support.factories import composition_json, entry, inventory, manifest, slice_json, synthesis
from tests.support.redis import running_redis
from tests.support.waiting import until

NAMESPACE = "eno"
SECONDS = 60.0
ONCE = {"volume", "namespace"}

every_service = pytest.mark.parametrize("service", SERVICES)


def texts(service: str) -> list[str]:
    """Everything that names hosts, ports and paths."""
    return [*words(service), *variables(service).values(), *check(service)]


def hosts(service: str) -> set[tuple[str, str]]:
    """The other containers that it names, each with a port."""
    found = {pair for text in texts(service) for pair in HOST.findall(text)}
    return {(host, port) for host, port in found if host != LOOPBACK}


def test_the_playground_is_all_of_sexton_and_what_it_needs() -> None:
    assert set(SERVICES) == {"volume", "devcluster", "namespace", "redis", "watcher", "worker", "flower"}
    assert in_order()[-3:] == ["watcher", "worker", "flower"]


@every_service
def test_a_host_that_is_named_is_a_service_that_listens_there(service: str) -> None:
    for host, port in hosts(service):
        assert listens_everywhere(host), f"{host} cannot be reached by {service}"
        assert port in ([*words(host), *variables(host).values()] if host != "redis" else ["6379"])


@every_service
def test_what_is_published_is_listened_on_and_published_on_loopback_only(service: str) -> None:
    for published in SERVICES[service].get("ports", ()):
        address, _, port = published.split(":")
        assert address == LOOPBACK
        assert listens_everywhere(service)
        assert port in [*words(service), *variables(service).values()]


@every_service
def test_a_volume_that_is_mounted_exists_and_paths_lie_in_mounted_ones(service: str) -> None:
    mounts = [mount.split(":") for mount in SERVICES[service].get("volumes", ())]
    assert {mount[0] for mount in mounts} <= COMPOSE["volumes"].keys()
    if any(VOLUME in text for text in texts(service)):
        assert VOLUME in [mount[1] for mount in mounts]
    writes = service in ("volume", "devcluster")
    assert all((mount[2:] == []) if writes else (mount[2:] == ["ro"]) for mount in mounts)


@every_service
def test_a_service_that_stays_says_when_it_is_healthy_and_is_waited_for(service: str) -> None:
    assert bool(check(service)) == (service not in ONCE)
    for name, condition in dependencies(service).items():
        assert condition == ("service_completed_successfully" if name in ONCE else "service_healthy")
    talks_to = {host for host, _ in hosts(service)} - {service}
    assert talks_to <= before(service)


def before(service: str) -> set[str]:
    """What is up before a service starts."""
    return {each for name in dependencies(service) for each in {name} | before(name)}


@every_service
def test_a_service_may_do_nothing_but_its_work(service: str) -> None:
    body = SERVICES[service]
    assert body["read_only"] is True
    assert body["cap_drop"] == ["ALL"]
    assert body["security_opt"] == ["no-new-privileges:true"]
    assert body.get("cap_add", []) == (["CHOWN"] if service == "volume" else [])
    assert (body.get("user") == "0:0") == (service == "volume"), "the image's user is nobody"


def test_one_image_with_a_version_for_all_processes_and_no_registry() -> None:
    images = {body["image"] for name, body in SERVICES.items() if name != "redis"}
    assert len(images) == 1
    for image in {*images, SERVICES["redis"]["image"]}:
        assert re.fullmatch(r"[a-z]+:\d[\w.-]*", image)


def test_the_image_is_built_by_the_service_that_starts_first_and_by_no_other() -> None:
    """Several that build one tag race for it, and some stores of images refuse the second."""
    builds = {name: body["build"] for name, body in SERVICES.items() if "build" in body}
    assert builds == {"volume": {"context": ".", "dockerfile": "deploy/Dockerfile"}}
    assert SERVICES["volume"]["pull_policy"] == "build"
    for name in SERVICES.keys() - {"volume", "redis"}:
        assert SERVICES[name]["pull_policy"] == "never", f"{name} would be looked for at a registry"
        assert "volume" in before(name)


@every_service
def test_every_setting_exists(service: str) -> None:
    ours = {name for name in variables(service) if name.startswith(("SEXTON_", "POD_"))}
    assert ours <= {variable(name) for name in Settings.model_fields}


def test_the_volume_is_given_to_the_user_of_the_image() -> None:
    assert words("volume") == ["chown", read_stages()[-1].all("USER")[0], VOLUME]


def test_the_namespace_is_the_one_that_sexton_looks_after() -> None:
    assert f'"name": "{variables("watcher")["POD_NAMESPACE"]}"' in words("namespace")[-1]
    assert variables("watcher") == variables("worker")


def test_a_worker_is_given_longer_to_end_than_a_task_may_take() -> None:
    grace = float(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > Settings.model_fields["task_time_limit"].default


def test_redis_never_evicts_and_writes_nothing() -> None:
    command = words("redis")
    for option, value in (("--maxmemory-policy", "noeviction"), ("--save", ""), ("--appendonly", "no")):
        assert command[command.index(option) + 1] == value


def test_a_server_names_the_address_that_it_listens_on() -> None:
    for host, named in ((LOOPBACK, LOOPBACK), ("127.0.0.9", "127.0.0.9")):
        with Server(Store(seed="address"), host=host).running() as server:
            assert server.url.startswith(f"http://{named}:")


@pytest.mark.parametrize("url", ["devcluster:8001", "https://devcluster:8001", "http://", "http://host:port"])
def test_an_address_that_no_client_could_use_is_not_advertised(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        serve(["--advertise", url])
    assert ended.value.code == 2
    assert "--advertise: must look like http://host:port" in capsys.readouterr().err


def test_an_address_that_cannot_be_listened_on_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(["--host", "192.0.2.1", "--port", "8001"]) == 2
    assert "192.0.2.1:8001" in capsys.readouterr().err


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """Everything that `docker compose up` starts, healthy by its own checks; stopped by SIGTERM, which all follow."""
    with running_redis(tmp_path_factory.mktemp("redis")):
        """Skips where there is no Redis."""
    image = built_image(tmp_path_factory)
    with running_playground(image, tmp_path_factory.mktemp("playground")) as playground:
        yield playground


@pytest.fixture
def cluster(playground: Playground) -> Iterator[HttpCluster]:
    """The playground's cluster, through the kubeconfig that its processes share."""
    connection = load_connection(str(playground.volume / "kubeconfig"))
    client = HttpCluster(connection, user_agent="test", limits=RateLimits(1000, 1000, 1000))
    yield client
    client.close()


def forget(body: dict[str, object]) -> dict[str, object]:
    """Without what the server gives."""
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    for key in ("uid", "resourceVersion"):
        metadata.pop(key, None)
    return body


def test_a_composition_is_recovered(cluster: HttpCluster) -> None:
    for secret in inventory([entry(name="old")], name="bakery", namespace=NAMESPACE):
        cluster.create(SECRETS, "kube-system", forget(secret))
    body = composition_json("bakery", namespace=NAMESPACE, uid=None, current=synthesis("second", slices=["bakery-2"]))
    uid = cluster.create(COMPOSITIONS, NAMESPACE, body)["metadata"]["uid"]
    made = slice_json("bakery-2", [manifest(name="new")], owner="bakery", uid=uid)
    made["metadata"]["namespace"] = NAMESPACE
    cluster.create(RESOURCE_SLICES, NAMESPACE, forget(made))
    cluster.merge_patch(COMPOSITIONS, NAMESPACE, "bakery", {"status": body["status"]}, subresource="status")

    def tombstones() -> int:
        resources = cluster.get(RESOURCE_SLICES, NAMESPACE, "bakery-2")["spec"]["resources"]
        return sum(bool(each.get("deleted")) for each in resources)

    until(lambda: tombstones() == 1, "the order to delete what is only in the history", seconds=SECONDS)


def commands(playground: Playground) -> str:
    """docs/try-it.md with Docker, as a script; what Docker would do is done by the processes that run already."""
    with_docker = [block for block in console_blocks(GUIDE) if not is_by_hand(block)]
    text = re.sub(r"^docker compose (up|down) .*$", "", "".join(with_docker), flags=re.MULTILINE)
    published, _, port = SERVICES["devcluster"]["ports"][0].rpartition(":")
    text = text.replace(f"http://{published}", f"http://{playground.authority('devcluster', port)}")
    return text.replace("docker compose exec -T worker sexton", "command sexton")


def test_the_guide_gets_a_reader_to_a_recovered_composition(playground: Playground, tmp_path: Path) -> None:
    kubectl = find_kubectl()
    if kubectl is None:
        pytest.skip(f"no kubectl: {HINT}")
    environment = playground.environment("worker")
    environment["PATH"] = f"{environment['PATH']}:{Path(kubectl).parent}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands(playground)],
        cwd=tmp_path,
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "InventoryNotFound" in done.stdout
    assert re.search(r'"deleted":true.{1,40}"manifest":"[^}]*\\"old\\"', done.stdout), done.stdout
    assert re.search(r"^Events:", done.stdout, re.MULTILINE)


def test_flower_shows_the_tasks_to_who_knows_the_password(playground: Playground) -> None:
    url = f"http://{playground.authority('flower', '5555')}/tasks"
    assert status(url) == 401
    assert status(url, "sexton:wrong") == 401
    assert status(url, "sexton:playground") == 200


def status(url: str, credentials: str = "") -> int:
    """The status code of a page."""
    request = urllib.request.Request(url)
    if credentials:
        request.add_header("Authorization", "Basic " + base64.b64encode(credentials.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_what_has_run_once_may_run_again(playground: Playground) -> None:
    for service in ONCE & playground.running.keys():
        playground.start(service)
        assert playground.running[service].wait(SECONDS) == 0, playground.log(service)


def test_nothing_is_written_but_to_tmp_and_the_volume(playground: Playground) -> None:
    assert {path.name for path in playground.volume.iterdir()} == {"kubeconfig"}
    assert set(playground.image.venv.rglob("*")) == playground.image.files

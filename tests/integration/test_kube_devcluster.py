"""The whole way: a kubeconfig, a connection, guarded writes and a reflector, against a development cluster."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eno import errors
from kube import guards
from kube.backoff import Backoff
from kube.cluster import Json, Query, list_all
from kube.config import load_connection
from kube.http import HttpCluster
from kube.reflector import Reflector
from kube.resources import COMPOSITIONS, SECRETS
from tests.support.waiting import until

METADATA = Query(SECRETS, "default", metadata_only=True)


@contextmanager
def devcluster(kubeconfig: Path, *, port: int = 0) -> Iterator[int]:
    """Run a development cluster and yield its port."""
    command = [sys.executable, "-m", "devcluster", "--port", str(port), "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()


@contextmanager
def client_of(kubeconfig: Path) -> Iterator[HttpCluster]:
    client = HttpCluster(load_connection(str(kubeconfig)), user_agent="sexton/test")
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("devcluster") / "kubeconfig"
    with devcluster(path):
        yield path


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[HttpCluster]:
    with client_of(kubeconfig) as client:
        yield client


def secret(name: str, **metadata: object) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": name, **metadata}}


def test_a_guarded_patch_writes_once_and_never_onto_another_state(client: HttpCluster) -> None:
    created = client.create(SECRETS, "default", secret("guarded"))
    patch = guards.set_annotation(created, "eno.azure.io/x", "1")
    assert client.json_patch(SECRETS, "default", "guarded", patch)["metadata"]["annotations"] == {"eno.azure.io/x": "1"}
    with pytest.raises(errors.Invalid):
        client.json_patch(SECRETS, "default", "guarded", patch)


def test_a_finalizer_of_ours_is_removed_and_the_others_stay(client: HttpCluster) -> None:
    created = client.create(SECRETS, "default", secret("finalized", finalizers=["a/b", "ours/x", "c/d"]))
    patch = guards.remove_finalizer(created, "ours/x")
    assert patch is not None
    patched = client.json_patch(SECRETS, "default", "finalized", patch)
    assert patched["metadata"]["finalizers"] == ["a/b", "c/d"]


def test_a_status_is_published_through_its_subresource(client: HttpCluster) -> None:
    composition = {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "metadata": {"name": "a"}}
    created = client.create(COMPOSITIONS, "default", composition)
    patch = guards.status_patch(created, put={("status", "currentSynthesis", "uuid"): "u"})
    assert patch is not None
    patched = client.json_patch(COMPOSITIONS, "default", "a", patch, subresource="status", strict=True)
    assert patched["status"]["currentSynthesis"]["uuid"] == "u"


def test_a_deletion_under_a_foreign_uid_deletes_nothing(client: HttpCluster) -> None:
    created = client.create(SECRETS, "default", secret("kept"))
    with pytest.raises(errors.Conflict):
        client.delete(SECRETS, "default", "kept", uid="another")
    client.delete(SECRETS, "default", "kept", uid=created["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        client.get(SECRETS, "default", "kept")


def test_a_taken_name_is_said_to_be_taken(client: HttpCluster) -> None:
    client.create(SECRETS, "default", secret("taken"))
    with pytest.raises(errors.AlreadyExists):
        client.create(SECRETS, "default", secret("taken"))


def test_pages_make_one_list_with_the_servers_date(client: HttpCluster) -> None:
    for index in range(5):
        client.create(SECRETS, "default", secret(f"paged-{index}", labels={"paged": "true"}))
    query = Query(SECRETS, "default", label_selector="paged=true", metadata_only=True)
    listing = list_all(client, query, page_size=2)
    assert [item["metadata"]["name"] for item in listing.items] == [f"paged-{index}" for index in range(5)]
    assert {item["kind"] for item in listing.items} == {"PartialObjectMetadata"}
    assert listing.date is not None
    assert abs(listing.date - datetime.now(UTC)) < timedelta(minutes=1)


class Names:
    """A sink that keeps the names of what is there."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def record(self, obj: Json) -> str:
        return str(obj["metadata"]["name"])

    def replace(self, records: list[str], version: str) -> None:
        assert version
        self.names = set(records)

    def changed(self, obj: Json) -> None:
        self.names = {*self.names, self.record(obj)}

    def deleted(self, obj: Json) -> None:
        self.names = self.names - {self.record(obj)}

    def bookmark(self, version: str) -> None:
        assert version


@contextmanager
def following(client: HttpCluster, sink: Names, *, relist_interval: float = 600.0) -> Iterator[Reflector[str]]:
    stop, quick = threading.Event(), Backoff(first=0.1, limit=0.2)
    reflector = Reflector(client, METADATA, sink, page_size=2, backoff=quick, relist_interval=relist_interval)
    thread = threading.Thread(target=reflector.run, args=(stop,))
    thread.start()
    try:
        yield reflector
    finally:
        stop.set()
        client.close()
        thread.join(10)
        assert not thread.is_alive()


def test_a_reflector_follows_additions_and_deletions(client: HttpCluster, kubeconfig: Path) -> None:
    sink = Names()
    with following(client, sink) as reflector, client_of(kubeconfig) as writer:
        until(lambda: reflector.synced, "the reflector is synced")
        created = writer.create(SECRETS, "default", secret("followed"))
        until(lambda: "followed" in sink.names, "the addition is seen")
        writer.delete(SECRETS, "default", "followed", uid=created["metadata"]["uid"])
        until(lambda: "followed" not in sink.names, "the deletion is seen")


def test_a_full_list_repairs_what_a_restored_server_no_longer_tells(tmp_path: Path) -> None:
    """A restored server counts versions anew, so the old version of a watch lies in its future: silence."""
    sink, path = Names(), tmp_path / "kubeconfig"
    with ExitStack() as reflecting:
        with devcluster(path) as port, client_of(path) as writer:
            for index in range(3):
                writer.create(SECRETS, "default", secret(f"lost-{index}"))
            client = HttpCluster(load_connection(str(path)), user_agent="sexton/test")
            reflector = reflecting.enter_context(following(client, sink, relist_interval=2.0))
            until(lambda: len(sink.names) == 3, "all three are seen")
        until(lambda: reflector.stats.last_error is not None, "the outage is seen")
        assert len(sink.names) == 3
        with devcluster(path, port=port), client_of(path) as writer:
            writer.create(SECRETS, "default", secret("new"))
            until(lambda: sink.names == {"new"}, "the new history is seen")

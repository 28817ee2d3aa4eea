"""The development API server over real sockets: as a process, with many connections, and with kubectl."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from devcluster.audit import Entry, read_entries
from devcluster.requests import BODY_LIMIT
from devcluster.server import Server
from devcluster.store import Store
from tests.support.waiting import until

ENO = "/apis/eno.azure.io/v1/namespaces/default"
COMPOSITIONS = f"{ENO}/compositions"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE_PATCH = "application/merge-patch+json"
SECONDS = 20.0


@dataclass
class Process:
    """`python -m devcluster` and the files it was told to write."""

    popen: subprocess.Popen[str]
    url: str
    kubeconfig: Path
    audit: Path

    def stop(self, number: signal.Signals) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(SECONDS)

    def entries(self) -> list[Entry]:
        return read_entries(self.audit)


@contextlib.contextmanager
def started(directory: Path, *arguments: str) -> Iterator[Process]:
    kubeconfig, audit = directory / "kubeconfig", directory / "audit.jsonl"
    command = [sys.executable, "-m", "devcluster", "--port", "0", "--kubeconfig", str(kubeconfig)]
    command += ["--audit-log", str(audit), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
        try:
            assert popen.stdout is not None
            line = popen.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:")
            yield Process(popen, line.split()[-1], kubeconfig, audit)
        finally:
            if popen.poll() is None:
                popen.kill()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    with started(tmp_path) as process:
        yield process


@pytest.fixture
def api() -> Iterator[Server]:
    with Server(Store(seed="test")).running() as running:
        yield running


class Client:
    """One kept connection."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        response = self.response(method, path, body, content_type)
        text = response.read()
        return response.status, json.loads(text) if text.startswith(b"{") else text

    def response(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> http.client.HTTPResponse:
        text = body if isinstance(body, bytes | None) else json.dumps(body)
        headers = {"Content-Type": content_type, "User-Agent": "sexton-test/1"}
        self._connection.request(method, path, body=text, headers=headers)
        return self._connection.getresponse()


def config_map(name: str, **members: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **members}


def eventually(condition: Callable[[], bool]) -> None:
    until(condition, "what is waited for", seconds=SECONDS)


def read_events(response: http.client.HTTPResponse, count: int) -> list[dict[str, Any]]:
    return [json.loads(response.readline()) for _ in range(count)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_with_a_watch_open(process: Process, number: signal.Signals) -> None:
    with Client(process.url) as client:
        response = client.response("GET", f"{COMPOSITIONS}?watch=1")
        assert response.status == 200
        assert process.stop(number) == 0
        assert response.read() == b"", "the stream ends in good order"


def test_the_kubeconfig_is_there_when_the_server_says_that_it_listens(process: Process) -> None:
    assert process.url in process.kubeconfig.read_text()


def test_finished_requests_are_logged(process: Process) -> None:
    with Client(process.url) as client:
        body = {"apiVersion": "eno.azure.io/v1", "kind": "Composition", "metadata": {"name": "web"}}
        assert client.send("POST", COMPOSITIONS, body)[0] == 201
        assert client.send("PATCH", f"{COMPOSITIONS}/web/status", {}, MERGE_PATCH)[0] == 200
        assert client.send("GET", f"{COMPOSITIONS}?watch=1&timeoutSeconds=1")[0] == 200
        assert client.send("DELETE", f"{COMPOSITIONS}/nobody")[0] == 404
    eventually(lambda: len(process.entries()) == 4)
    entries = process.entries()
    assert [(entry.verb, entry.subresource, entry.name, entry.code) for entry in entries] == [
        ("create", "", "", 201),
        ("patch", "status", "web", 200),
        ("watch", "", "", 200),
        ("delete", "", "nobody", 404),
    ]
    assert {(entry.group, entry.resource, entry.userAgent) for entry in entries} == {
        ("eno.azure.io", "compositions", "sexton-test/1")
    }
    assert entries[0].bytesIn == len(json.dumps(body))
    assert all(entry.bytesOut for entry in entries)


def test_every_answer_carries_the_time(api: Server) -> None:
    with Client(api.url) as client:
        for path in ("/healthz", MAPS, f"{MAPS}/nobody", f"{MAPS}?watch=1&timeoutSeconds=1"):
            response = client.response("GET", path)
            response.read()
            assert response.headers["Date"]


def test_warnings_are_headers(api: Server) -> None:
    with Client(api.url) as client:
        response = client.response("POST", MAPS, config_map("a", extra=1))
        response.read()
        assert response.headers["Warning"] == '299 - "unknown field \\"extra\\""'


@pytest.mark.parametrize("size", [BODY_LIMIT + 1, 2 * BODY_LIMIT])
def test_a_body_above_the_limit_is_answered_and_the_connection_ends(api: Server, size: int) -> None:
    with Client(api.url) as client:
        response = client.response("POST", MAPS, b"x" * size)
        status = json.loads(response.read())
        assert (response.status, status["reason"]) == (413, "RequestEntityTooLarge")
        assert response.headers["Connection"] == "close"
        assert client.send("GET", "/healthz") == (200, b"ok")


def test_a_chunked_body_is_read(api: Server) -> None:
    with Client(api.url) as client:
        connection = client._connection
        chunks = iter([b'{"metadata":', b'{"name":"chunked"}}'])
        connection.request("POST", MAPS, body=chunks, headers={"Content-Type": "application/json"}, encode_chunked=True)
        response = connection.getresponse()
        response.read()
        assert response.status == 201


def test_a_length_that_is_none_is_a_bad_request(api: Server) -> None:
    with Client(api.url) as client:
        connection = client._connection
        connection.putrequest("POST", MAPS)
        connection.putheader("Content-Length", "many")
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 400
        response.read()


def test_a_watch_tells_changes_as_they_happen(api: Server) -> None:
    with Client(api.url) as watcher, Client(api.url) as writer:
        response = watcher.response("GET", f"{MAPS}?watch=1&resourceVersion={api.store.version}")
        for name in ("a", "b"):
            writer.send("POST", MAPS, config_map(name))
        writer.send("DELETE", f"{MAPS}/a")
        events = read_events(response, 3)
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
            ("ADDED", "a"),
            ("ADDED", "b"),
            ("DELETED", "a"),
        ]


def test_a_watch_ends_after_its_timeout_with_a_bookmark(api: Server) -> None:
    with Client(api.url) as client:
        path = f"{MAPS}?watch=1&resourceVersion={api.store.version}&allowWatchBookmarks=true"
        started_at = time.monotonic()
        _, event = client.send("GET", f"{path}&timeoutSeconds=1")
        assert 0.9 <= time.monotonic() - started_at < SECONDS
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["resourceVersion"] == str(api.store.version)
        assert client.send("GET", "/healthz") == (200, b"ok"), "the connection is kept"


def test_a_watch_from_a_forgotten_version_is_told_so_in_the_stream(api: Server) -> None:
    api.store.history.compact()
    with Client(api.url) as client:
        code, event = client.send("GET", f"{MAPS}?watch=1&resourceVersion=1")
        assert (code, event["type"]) == (200, "ERROR")
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_client_that_goes_away_frees_its_thread(api: Server) -> None:
    def threads() -> int:
        return sum("process_request_thread" in thread.name for thread in threading.enumerate())

    before = threads()
    with Client(api.url) as client:
        client.response("GET", f"{MAPS}?watch=1")
        eventually(lambda: threads() == before + 1)
    eventually(lambda: threads() == before)


def test_many_writers_lose_nothing(api: Server) -> None:
    writers, writes = 8, 25
    with Client(api.url) as client:
        client.send("POST", MAPS, config_map("counter", data={"n": "0"}))

    def count_up() -> None:
        with Client(api.url) as client:
            done = 0
            while done < writes:
                _, body = client.send("GET", f"{MAPS}/counter")
                body["data"]["n"] = str(int(body["data"]["n"]) + 1)
                code, _ = client.send("PUT", f"{MAPS}/counter", body)
                assert code in (200, 409)
                done += code == 200

    threads = [threading.Thread(target=count_up) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Client(api.url) as client:
        assert client.send("GET", f"{MAPS}/counter")[1]["data"]["n"] == str(writers * writes)


def test_the_server_empties_deleted_namespaces_by_itself(api: Server) -> None:
    with Client(api.url) as client:
        client.send("POST", "/api/v1/namespaces", config_map("team"))
        client.send("POST", "/api/v1/namespaces/team/configmaps", config_map("a"))
        code, body = client.send("DELETE", "/api/v1/namespaces/team")
        assert (code, body["status"]["phase"]) == (200, "Terminating")
        eventually(lambda: client.send("GET", "/api/v1/namespaces/team")[0] == 404)


KUBECTL = shutil.which("kubectl")
MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Secret
metadata: {name: inventory, namespace: team}
stringData: {a: "%(value)s"}
---
apiVersion: eno.azure.io/v1
kind: Composition
metadata: {name: web, namespace: team}
spec: {synthesizer: {name: "%(value)s"}}
"""


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
class TestKubectl:
    """The commands that people use."""

    @pytest.fixture
    def kubectl(self, process: Process, tmp_path: Path) -> Callable[..., str]:
        def run(*arguments: str) -> str:
            command = [KUBECTL or "", "--kubeconfig", str(process.kubeconfig), "--cache-dir", str(tmp_path)]
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run

    def apply(self, kubectl: Callable[..., str], directory: Path, value: str) -> list[str]:
        file = directory / "manifests.yaml"
        file.write_text(MANIFESTS % {"value": value})
        return [line.split()[-1] for line in kubectl("apply", "-f", str(file)).splitlines()]

    def test_apply_get_describe_patch_delete(self, kubectl: Callable[..., str], tmp_path: Path) -> None:
        assert self.apply(kubectl, tmp_path, "one") == ["created", "created", "created"]
        assert self.apply(kubectl, tmp_path, "two") == ["unchanged", "configured", "configured"]
        status = {"currentSynthesis": {"tombstoneRecoveryStatus": {"reason": "NotNeeded"}}}
        patch = json.dumps({"status": status})
        kubectl("patch", "composition", "web", "-n", "team", "--subresource=status", "--type=merge", "-p", patch)
        table = kubectl("get", "compositions.eno.azure.io", "-A").splitlines()
        assert table[0].split() == ["NAMESPACE", "NAME", "SYNTHESIZER", "STATUS", "RECOVERY", "READY", "AGE"]
        assert table[1].split()[:4] == ["team", "web", "two", "NotNeeded"]
        assert "synthesizer:\n    name: two" in kubectl("get", "composition", "web", "-n", "team", "-o", "yaml")
        assert "Events:" in kubectl("describe", "composition", "web", "-n", "team")
        assert kubectl("get", "secrets", "-n", "team").splitlines()[1].split()[:3] == ["inventory", "Opaque", "1"]
        kubectl("delete", "namespace", "team", "--timeout=20s")
        assert "team" not in kubectl("get", "namespaces", "-o", "name")

    def test_the_served_resources_are_known(self, kubectl: Callable[..., str]) -> None:
        resources = kubectl("api-resources", "-o", "name").split()
        assert {"compositions.eno.azure.io", "secrets", "leases.coordination.k8s.io"} <= set(resources)

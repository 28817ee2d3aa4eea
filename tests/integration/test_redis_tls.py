"""A Redis that is reached by TLS alone, the way docs/install.md has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from eno.errors import BrokerUnavailable
from runtime.broker import check_broker
from runtime.dispatch import Dispatcher, Enqueued
from runtime.messages import GateMessage
from runtime.settings import Settings
from tests.support.encrypting import encrypted
from tests.support.factories import NAMESPACE
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.wire import TLS
from tests.support.worker import running_worker

MESSAGE = GateMessage(namespace=NAMESPACE, name="shop", uid="u", synthesis_uuid="s")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server, encrypted(server.port) as port:
        yield port


def settings(
    port: int, kubeconfig: Path | None = None, *, ca: Path = TLS / "ca.crt", scheme: str = "rediss"
) -> Settings:
    query = f"?ssl_cert_reqs=required&ssl_ca_certs={quote(str(ca))}" if scheme == "rediss" else ""
    url = f"{scheme}://127.0.0.1:{port}/0{query}"
    return Settings.load(broker_url=url, pod_namespace=NAMESPACE, kubeconfig=kubeconfig)


def test_messages_go_and_come_by_tls(tmp_path: Path, port: int) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}],"
        " clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    ours = settings(port, kubeconfig)
    assert check_broker(ours) == []
    dispatcher = Dispatcher.connect(ours)
    with running_worker(tmp_path, ours) as worker:
        assert dispatcher.enqueue(MESSAGE) == Enqueued()
        (line,) = until(lambda: worker.lines("task-ended"), "the task has run")
        assert line["outcome"] == "retry", "there is no API server at all"
        until(lambda: dispatcher.describe(MESSAGE.key).failures == 1, "how it ended is noted")
        assert worker.stop() == 0
    dispatcher.close()


@pytest.mark.parametrize(
    ("scheme", "ca", "told"),
    [
        pytest.param("rediss", "client.crt", "certificate verify failed", id="a certificate of somebody else"),
        pytest.param("redis", "ca.crt", "", id="no TLS"),
    ],
)
def test_what_is_wrong_with_tls_is_told_in_one_line(port: int, scheme: str, ca: str, told: str) -> None:
    dispatcher = Dispatcher.connect(settings(port, ca=TLS / ca, scheme=scheme))
    with pytest.raises(BrokerUnavailable) as caught:
        dispatcher.enqueue(MESSAGE)
    dispatcher.close()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)

"""What no well-behaved server can be asked for, put in front of each by a proxy: how the `Cluster` tells it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from eno import errors
from kube.cluster import Query, list_all
from kube.config import Connection
from kube.http import HttpCluster, Timeouts
from tests.contract.kinds import PROBES, probe
from tests.contract.servers import UNHURRIED
from tests.contract.space import Call, Here, Space
from tests.support.faults import (
    Answer,
    Cut,
    Delay,
    Drop,
    Fault,
    Hang,
    Silence,
    Stale,
    expired,
    expired_in_stream,
    throttled,
)
from tests.support.proxy import Proxy, request

pytestmark = pytest.mark.servers("http", "kube-apiserver")

QUICK = Timeouts(connect=2.0, read=0.25, watch_grace=-0.75)
"""A watch of one second counts as silent after a quarter of one."""

PROBE_PATH = r"/probes"


@contextmanager
def through(proxy: Proxy, space: Space, timeouts: Timeouts | None = None) -> Iterator[Here]:
    """The namespace as it is seen through the proxy."""
    connection = Connection(proxy.url)
    with closing(HttpCluster(connection, user_agent="contract", limits=UNHURRIED, timeouts=timeouts)) as cluster:
        yield Here(cluster, space.namespace)


@pytest.fixture
def proxy(space: Space) -> Iterator[Proxy]:
    assert space.server.connection is not None
    with Proxy(space.server.connection) as proxy:
        yield proxy


def test_without_rules_a_proxy_is_the_server(space: Space, proxy: Proxy) -> None:
    start = space.page(PROBES).resource_version
    with through(proxy, space) as there:
        created = there.create(PROBES, probe(text="x"))
        there.json_patch(PROBES, {"op": "test", "path": "/spec/text", "value": "x"})
        with pytest.raises(errors.Invalid):
            there.json_patch(PROBES, {"op": "test", "path": "/spec/text", "value": "y"})
        with closing(there.watch(PROBES, start, seconds=5)) as stream:
            assert next(stream).object == created
        there.delete(PROBES)
    assert [seen.method for seen in proxy.seen] == ["POST", "PATCH", "PATCH", "GET", "DELETE"]
    assert proxy.seen[3].watch
    assert space.state() == []


READS: list[tuple[str, Call]] = [
    ("a get", lambda h: h.get(PROBES)),
    ("a list", lambda h: h.page(PROBES)),
    ("a watch", lambda h: list(h.watch(PROBES, "1", seconds=1))),
]
FAULTS: list[tuple[str, Fault, type[errors.ApiError]]] = [
    ("throttled", throttled(7), errors.Throttled),
    ("expired", expired(), errors.Expired),
    ("unavailable", Answer(503, b"<html>"), errors.ServerError),
    ("a login page", Answer(200, b"<html>\n"), errors.BadResponse),
    ("an object of another kind", Answer(200, {"kind": "Other", "metadata": {}}), errors.ApiError),
    ("dropped", Drop(), errors.Unreachable),
    ("hanging", Hang(), errors.TimedOut),
]


@pytest.mark.parametrize(("fault", "error"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
@pytest.mark.parametrize("read", [read for _, read in READS], ids=[name for name, _ in READS])
def test_a_read_that_fails_is_never_taken_for_absence(
    space: Space, proxy: Proxy, read: Call, fault: Fault, error: type[errors.ApiError]
) -> None:
    space.probe()
    proxy.rule(request("GET", PROBE_PATH), fault)
    with through(proxy, space, QUICK) as there, pytest.raises(error) as raised:
        read(there)
    assert not isinstance(raised.value, errors.NotFound)


def test_a_pause_that_the_server_asks_for_is_passed_on(space: Space, proxy: Proxy) -> None:
    proxy.rule(request("GET"), throttled(7))
    with through(proxy, space) as there, pytest.raises(errors.Throttled) as raised:
        there.page(PROBES)
    assert raised.value.retry_after == 7


WRITES: list[tuple[str, Call]] = [
    ("a create", lambda h: h.create(PROBES, probe("b"))),
    ("a merge patch", lambda h: h.merge_patch(PROBES, {"spec": {"text": "y"}})),
    ("a JSON patch", lambda h: h.json_patch(PROBES, {"op": "add", "path": "/spec/text", "value": "y"})),
    ("a delete", lambda h: h.delete(PROBES)),
]


@pytest.mark.parametrize("write", [write for _, write in WRITES], ids=[name for name, _ in WRITES])
@pytest.mark.parametrize(
    ("fault", "error", "carried_out"),
    [
        (Drop(), errors.Unreachable, False),
        (Drop(carried_out=True), errors.Unreachable, True),
        (Hang(), errors.TimedOut, False),
        (Hang(carried_out=True), errors.TimedOut, True),
    ],
    ids=["dropped before", "dropped after", "hanging before", "hanging after"],
)
def test_a_write_without_an_answer_may_or_may_not_have_happened_and_is_sent_once(
    space: Space, proxy: Proxy, write: Call, fault: Fault, error: type[errors.ApiError], carried_out: bool
) -> None:
    space.probe(text="x")
    before = space.state()
    proxy.rule(request(path=PROBE_PATH), fault)
    with through(proxy, space, QUICK) as there, pytest.raises(error):
        write(there)
    assert (space.state() != before) is carried_out
    assert len(proxy.seen) == 1


def test_a_list_that_expires_midway_starts_over_and_is_whole(space: Space, proxy: Proxy) -> None:
    for name in "abcde":
        space.probe(name)
    proxy.rule(lambda seen: "continue" in seen.query, expired(), times=1)
    with through(proxy, space) as there:
        listing = list_all(there.cluster, Query(PROBES, space.namespace), page_size=2)
    assert [item["metadata"]["name"] for item in listing.items] == list("abcde")
    assert len(proxy.seen) == 2 + 3


def test_a_list_that_always_expires_is_given_up(space: Space, proxy: Proxy) -> None:
    for name in "abc":
        space.probe(name)
    proxy.rule(lambda seen: "continue" in seen.query, expired())
    with through(proxy, space) as there, pytest.raises(errors.Expired):
        list_all(there.cluster, Query(PROBES, space.namespace), page_size=2)


def test_a_page_that_fails_midway_leaves_no_partial_list(space: Space, proxy: Proxy) -> None:
    for name in "abc":
        space.probe(name)
    proxy.rule(lambda seen: "continue" in seen.query, Drop())
    with through(proxy, space) as there, pytest.raises(errors.Unreachable):
        list_all(there.cluster, Query(PROBES, space.namespace), page_size=2)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(lambda: expired_in_stream(after=1), errors.Expired, id="410 in the stream"),
        pytest.param(lambda: Silence(after=1), errors.TimedOut, id="silence"),
        pytest.param(lambda: Cut(after=1), errors.Unreachable, id="cut off"),
        pytest.param(lambda: Cut(after=1, half=b'{"type":"ADD'), errors.Unreachable, id="cut off inside an event"),
    ],
)
def test_a_watch_that_breaks_tells_what_it_knew_and_then_the_error(
    space: Space, proxy: Proxy, fault: Callable[[], Fault], error: type[errors.ApiError]
) -> None:
    start = space.page(PROBES).resource_version
    space.probe("a")
    space.probe("b")
    proxy.rule(request(watch=True), fault())
    with through(proxy, space, QUICK) as there:
        stream = there.watch(PROBES, start, seconds=1)
        assert next(stream).object["metadata"]["name"] == "a"
        with pytest.raises(error):
            next(stream)


def test_a_stale_list_is_what_was(space: Space, proxy: Proxy) -> None:
    space.probe("a")
    proxy.rule(request("GET", PROBE_PATH), Stale())
    with through(proxy, space) as there:
        assert there.names(PROBES) == ["a"]
        space.probe("b")
        assert there.names(PROBES) == ["a"]
        proxy.heal()
        assert there.names(PROBES) == ["a", "b"]


def test_a_delayed_answer_is_an_answer(space: Space, proxy: Proxy) -> None:
    space.probe("a")
    proxy.rule(request("GET"), Delay(0.2), times=1)
    began = time.monotonic()
    with through(proxy, space) as there:
        assert there.names(PROBES) == ["a"]
    assert time.monotonic() - began >= 0.2


def test_a_rule_is_used_up(space: Space, proxy: Proxy) -> None:
    space.probe("a")
    proxy.rule(request("GET"), throttled(1), times=2)
    with through(proxy, space) as there:
        for _ in range(2):
            with pytest.raises(errors.Throttled):
                there.get(PROBES)
        assert there.get(PROBES)["metadata"]["name"] == "a"

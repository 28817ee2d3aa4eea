"""Where the time goes: one recovery, and the watcher's start, by what the process was doing.

cProfile makes Python code look dearer than calls into C, so the shares say where to look, not what is gained.
"""

from __future__ import annotations

import cProfile
import pstats
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from bench import inputs
from bench.figures import Line, Section
from bench.site import FAR, PEER_AGENT, ApiServer, connect, settings, site
from bench.timing import alternating
from eno.objects import Composition, ResourceSlice
from kube.cluster import Cluster, Query, list_all
from kube.reflector import Reflector
from kube.resources import COMPOSITIONS, RESOURCE_SLICES
from runtime.messages import RecoverMessage
from runtime.settings import Settings
from watcher.agenda import Agenda
from watcher.cache import Cache
from watcher.follow import CacheSink
from watcher.process import queries
from watcher.records import Record, Unreadable
from workers.context import Context
from workers.handlers.recover import recover
from workers.reading import read_slices

RECOVERED = inputs.Shape(slices=20, manifests=100, missing=200)
WATCHED = inputs.Shape(slices=4, manifests=4)
RECOVERIES, QUICK_RECOVERIES = 20, 4
COMPOSITIONS_WATCHED, QUICK_COMPOSITIONS_WATCHED = 4_000, 400

_BUILTINS: Mapping[str, tuple[str, ...]] = {
    "sockets (waiting included)": ("_socket.socket", "select.", "_ssl."),
    "JSON": ("msgspec",),
    "models (pydantic)": ("pydantic_core",),
}
_FILES: Mapping[str, tuple[str, ...]] = {
    "HTTP client": ("/urllib3/", "/http/", "/email/", "/kube/"),
    "models (pydantic)": ("/pydantic/", "/eno/objects.py", "/eno/times.py"),
    "rules": ("/eno/",),
    "handlers": ("/workers/",),
    "watcher": ("/watcher/",),
}
_OTHER = "other"


def run(*, quick: bool) -> Section:
    """Profile both."""
    recovery = _recovery(QUICK_RECOVERIES if quick else RECOVERIES)
    start = _start(QUICK_COMPOSITIONS_WATCHED if quick else COMPOSITIONS_WATCHED)
    shape = RECOVERED
    return Section(
        "profile",
        "Where the time goes",
        [*_lines("recovery", recovery), *_lines("watcher start", start), _slice_reads()],
        notes=[
            f"A recovery of {shape.slices} slices with {shape.manifests} manifests each and {shape.missing} missing "
            "resources, on loopback; the watcher's first lists. Shares of the time of one thread, by cProfile.",
        ],
        details={"recovery": recovery, "start": start},
    )


def _recovery(count: int) -> dict[str, float]:
    with site() as here:
        server = here.api_server(inputs.lost(index, RECOVERED) for index in range(count))
        with closing(connect(server, PEER_AGENT)) as cluster:
            context = Context(cluster, cluster, lambda: datetime.now(UTC), _settings(server))
            found = list_all(cluster, Query(COMPOSITIONS, inputs.NAMESPACE)).items
            messages = [_message(Composition.from_json(item)) for item in found]
            return _profiled(lambda: [recover(message, context) for message in messages])


def _message(composition: Composition) -> RecoverMessage:
    assert composition.current is not None
    return RecoverMessage(
        namespace=composition.namespace,
        name=composition.name,
        uid=composition.uid,
        synthesis_uuid=composition.current.uuid,
    )


def _start(compositions: int) -> dict[str, float]:
    with site() as here:
        server = here.api_server(inputs.settled(index, WATCHED) for index in range(compositions))
        with closing(connect(server, PEER_AGENT)) as cluster:
            return _profiled(lambda: _list_everything(cluster, _settings(server)))


def _list_everything(cluster: Cluster, loaded: Settings) -> None:
    """What the streams of a watcher do first, one after the other instead of in threads."""
    cache, agenda = Cache(), Agenda()
    for kind, query in queries(loaded.scope).items():
        stop = threading.Event()
        Reflector(cluster, query, _Once(stop, kind, loaded.scope, cache, agenda)).run(stop)


class _Once(CacheSink):
    """A sink that ends its reflector after the first complete list."""

    def __init__(self, stop: threading.Event, *where: Any) -> None:
        super().__init__(*where)
        self._stop = stop

    def replace(self, records: list[Record | Unreadable], version: str) -> None:
        """See `kube.reflector.Sink`."""
        super().replace(records, version)
        self._stop.set()


def _slice_reads() -> Line:
    """The slices of one synthesis from a distant server, as they are read, and one after the other."""
    with site() as here:
        far = here.delayed(here.api_server([inputs.lost(0, RECOVERED)]), FAR)
        with closing(connect(far, PEER_AGENT)) as cluster:
            (item,) = list_all(cluster, Query(COMPOSITIONS, inputs.NAMESPACE)).items
            composition = Composition.from_json(item)
            names = [name for name in composition.current.slice_names if name] if composition.current else []

            def one_by_one() -> None:
                for name in names:
                    ResourceSlice.from_json(cluster.get(RESOURCE_SLICES, inputs.NAMESPACE, name))

            taken = alternating({"ours": lambda: read_slices(cluster, composition), "theirs": one_by_one}, 3)
    what = f"reading {len(names)} slices, +{FAR:.0f} ms"
    return Line(what, taken["ours"] * 1000, "ms", "one by one", taken["theirs"] * 1000)


def _settings(server: ApiServer) -> Settings:
    return Settings.load(**settings(server))


def _profiled(action: Callable[[], object]) -> dict[str, float]:
    """Percent of the time by what was done, the most first."""
    profile = cProfile.Profile()
    profile.runcall(action)
    statistics: Any = pstats.Stats(profile)
    spent: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in statistics.stats.items():
        spent[room(file, function)] += own
    total = sum(spent.values())
    return {name: 100 * own / total for name, own in spent.most_common()}


def room(file: str, function: str) -> str:
    """What a function is there for; built-in ones have no file (`~`)."""
    table, text = (_BUILTINS, function) if file == "~" else (_FILES, file)
    return next((name for name, marks in table.items() if any(mark in text for mark in marks)), _OTHER)


def _lines(what: str, shares: Mapping[str, float]) -> list[Line]:
    return [Line(f"{what}: {name}", share, "%") for name, share in shares.items() if share >= 1]

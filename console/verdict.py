"""Whether the demo ended as it had to: judged from the story and from what is in the cluster, not from logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from console.audit import ApiCalls
from console.plan import Preview, SliceWrite
from console.play import desired, difference, tombstones
from console.story import Story
from eno.decision import Reason
from eno.identity import ResourceId
from eno.inventory.selection import Snapshot
from eno.objects import ResourceSlice
from eno.times import format_time
from kube.cluster import Json
from kube.resources import EVENTS


@dataclass(frozen=True, slots=True)
class Burial:
    """The recovery. `decision` is the published status object; `kept` counts the resources that stayed as they were.

    `api_calls` are those of this recovery alone, up to the published decision.
    """

    buried: tuple[ResourceId, ...]
    held: tuple[ResourceId, ...]
    kept: int
    decision: Json
    api_calls: ApiCalls


@dataclass(frozen=True, slots=True)
class Sequel:
    """What became of it: Ready at last, its inventory, the Secrets that this replaced, the slices that went."""

    ready: datetime
    inventory: Snapshot
    replaced: tuple[str, ...]
    cleaned_up: tuple[str, ...]

    def to_json(self) -> Json:
        """For machines. The composition itself, its inventory and its slices are gone by the end of the demo."""
        return {
            "ready": format_time(self.ready),
            "recorded": {
                "resources": len(self.inventory.entries()),
                "secrets": [chunk.name for chunk in self.inventory.chunks],
                "replaced": list(self.replaced),
            },
            "cleaned_up": list(self.cleaned_up),
            "deleted": True,
        }


@dataclass(frozen=True, slots=True)
class Ended:
    """How all of it ended, and how long it took."""

    burial: Burial
    sequel: Sequel
    seconds: float

    def to_json(self) -> Json:
        """For machines."""
        return {
            "buried": [identity._asdict() for identity in self.burial.buried],
            "kept": self.burial.kept,
            "decision": self.burial.decision,
            "api_calls": {verb: dict(counts) for verb, counts in self.burial.api_calls.items()},
            "then": self.sequel.to_json(),
            "seconds": round(self.seconds, 2),
        }


def objections(
    story: Story,
    preview: Preview,
    before: Sequence[ResourceSlice],
    after: Sequence[ResourceSlice],
    decision: Json,
) -> list[str]:
    """Everything that is not as it had to be; empty when all is well.

    `before` and `after` are the slices of the recreated synthesis around its recovery.
    """
    found = [] if decision.get("reason") == Reason.FINISHED else [f"the decision is {decision.get('reason')}"]
    buried = tombstones(after)
    owed = story.discontinued - set(preview.held)
    found += _named("buried although it is wanted or was never owned", set(buried) - owed)
    found += _named("not buried", owed - set(buried))
    found += ["something was buried twice"] if len(buried) != len(set(buried)) else []
    found += ["wanted manifests changed"] if desired(after) != [each.text for each in story.kept] else []
    found += ["existing entries changed"] if not _extended(before, after) else []
    writes: tuple[SliceWrite, ...] = tuple(difference(before, after))
    found += ["what was written is not what was planned"] if writes != preview.writes else []
    found += ["the decision is not the planned one"] if decision != preview.decision else []
    return found


def minimum_calls(writes: Sequence[SliceWrite], slices: int) -> ApiCalls:
    """What a recovery with these writes has to ask when its synthesis has that many slices (specification 02).

    Events are not counted, and there are no siblings.
    """
    made = Counter(write.operation for write in writes)
    calls = {
        "get": {"compositions": 1 + len(writes), "resourceslices": slices},
        "list": {"compositions": 1, "secrets": 1},
        "patch": {"compositions/status": 1, "resourceslices": made["append"]},
        "create": {"resourceslices": made["create"]},
    }
    return _counted(calls)


def call_objections(expected: ApiCalls, during: ApiCalls, afterwards: ApiCalls) -> list[str]:
    """Calls that a recovery need not have made, and writes after its decision. Events may be written at any time."""
    found = []
    if _counted(during) != _counted(expected):
        found.append(f"the recovery took {_counted(during)} and not {_counted(expected)}")
    written = {verb: numbers for verb, numbers in _counted(afterwards).items() if verb not in ("get", "list")}
    found += [f"there were writes after the decision: {written}"] if written else []
    return found


def inventory_objections(owned: Collection[ResourceId], inventory: Snapshot) -> list[str]:
    """What an inventory lists that is not owned, and the other way round."""
    listed = {entry.id for entry in inventory.entries()}
    found = _named("recorded although it is not owned", listed - set(owned))
    return found + _named("not recorded", set(owned) - listed)


def _counted(calls: ApiCalls) -> ApiCalls:
    """Without Events, and without what was not called at all."""
    left = {
        verb: {resource: number for resource, number in numbers.items() if number and resource != EVENTS.plural}
        for verb, numbers in calls.items()
    }
    return {verb: numbers for verb, numbers in left.items() if numbers}


def _extended(before: Sequence[ResourceSlice], after: Sequence[ResourceSlice]) -> bool:
    """Whether every earlier slice is still there, its entries first and unchanged."""
    return len(after) >= len(before) and all(
        new.name == old.name and new.resources[: len(old.resources)] == old.resources
        for old, new in zip(before, after, strict=False)
    )


def _named(what: str, identities: Collection[ResourceId]) -> list[str]:
    if not identities:
        return []
    shown = ", ".join(str(identity) for identity in sorted(identities)[:5])
    return [f"{what}: {shown}" + (f" and {len(identities) - 5} more" if len(identities) > 5 else "")]

"""Whether the demo ended as it had to: judged from the story and from what is in the cluster, not from logs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from console.audit import ApiCalls
from console.plan import Preview, SliceWrite
from console.play import desired, difference, tombstones
from console.story import Story
from eno.decision import Reason
from eno.identity import ResourceId
from eno.objects import ResourceSlice
from kube.cluster import Json


@dataclass(frozen=True, slots=True)
class Burial:
    """How it ended. `decision` is the published status object; `kept` counts the manifests that stayed as they were."""

    buried: tuple[ResourceId, ...]
    held: tuple[ResourceId, ...]
    kept: int
    decision: Json
    api_calls: ApiCalls
    seconds: float

    def to_json(self) -> Json:
        """For machines."""
        return {
            "buried": [identity._asdict() for identity in self.buried],
            "kept": self.kept,
            "decision": self.decision,
            "api_calls": {verb: dict(counts) for verb, counts in self.api_calls.items()},
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

"""Who leads: what a candidate makes of a Lease, of when it saw it so, and of its own clock. Pure.

Every instant is in seconds on the candidate's own clock, which may start anywhere and run a little fast or slow.
Clocks are never compared with each other, so none has to be set right: a Lease has expired when it was *seen
unchanged* for as long as its holder promised (client-go's rule), and the times inside of it are for people alone.

Two candidates never believe that they lead at one instant: a holder counts from before its write went out, and
only up to the renew deadline; the others count from after they saw that write, and the whole duration. That holds
as long as one clock passes the renew deadline before another passes the duration: with 10 and 15 seconds, while
neither runs by more than a fifth too fast or too slow. What a person writes into the Lease is beyond that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias

from eno.errors import UsageError
from kube.cluster import Json
from kube.resources import LEASES

JITTER = 0.2
"""Pauses are longer than the retry period by up to this part of it, or candidates would always meet."""

LONGEST_DURATION = 600.0
"""Seconds: no promise of a holder is believed for longer, or a mistyped duration would stop everything for years."""

LONGEST_PAUSE = 60.0
"""Seconds that a server can ask for."""

UNREADABLE = "(unreadable)"
"""Stands for a holder that is no text: it is somebody, and nobody here."""

_GONE = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `duration`: what a holder promises. `renew_deadline`: how long it leads without having renewed.

    `retry_period`: between two looks. Raises UsageError when two could lead at once, or nobody could renew in time.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_period * (1 + JITTER) < self.renew_deadline < self.duration <= LONGEST_DURATION:
            raise UsageError(
                f"must satisfy 0 < retry period × {1 + JITTER} < renew deadline < duration ≤ {LONGEST_DURATION:.0f} s",
                where="lease times",
                hint="15, 10 and 2 seconds are usual",
            )


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says. `holder` is empty when nobody holds it, `duration` (seconds) None when it is unusable.

    `mark` tells one state of the Lease from another: a renewal changes it, a label does not.
    """

    holder: str
    duration: float | None
    mark: str

    @classmethod
    def of(cls, lease: Json) -> Self:
        """Whatever an object looks like that claims to be a Lease, something is made of it."""
        metadata, spec = _mapping(lease.get("metadata")), lease.get("spec")
        fields = _mapping(spec)
        holder, duration = fields.get("holderIdentity"), fields.get("leaseDurationSeconds")
        return cls(
            holder=holder if isinstance(holder, str) else "" if holder is None else UNREADABLE,
            duration=float(min(duration, LONGEST_DURATION)) if type(duration) is int and duration > 0 else None,
            mark=json.dumps([metadata.get("uid"), spec], sort_keys=True, default=str),
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, and when it was first seen as it is: after the answer that showed it had arrived."""

    record: Record
    since: float


@dataclass(frozen=True, slots=True)
class Term:
    """A Lease that was written for oneself. `since`: before that write went out."""

    since: float
    until: float

    @classmethod
    def begun(cls, sent: float, timing: Timing) -> Self:
        """The term after a write that succeeded."""
        return cls(sent, sent + timing.renew_deadline)


@dataclass(frozen=True, slots=True)
class Claim:
    """Write oneself in as a new holder."""

    why: str


@dataclass(frozen=True, slots=True)
class Renew:
    """Write the time anew: one is the holder."""


@dataclass(frozen=True, slots=True)
class StandBy:
    """Somebody holds it, at least until `until`."""

    until: float
    holder: str


@dataclass(frozen=True, slots=True)
class Lost:
    """One led, and may not any more. Nothing makes up for that but a new process."""

    why: str


Verdict: TypeAlias = Claim | Renew | StandBy | Lost


def observed(before: Seen | None, found: Record | None, now: float) -> Seen | None:
    """What was seen, after `found` was read at `now` (None: there was no Lease); None when there never was one.

    A Lease that is gone counts from when that was seen: whoever deleted it, its holder may not have noticed yet.
    """
    if before is None:
        return Seen(found, now) if found is not None else None
    record = replace(before.record, mark=_GONE) if found is None else found
    return before if before.record.mark == record.mark else Seen(record, now)


def decide(me: str, found: Record | None, seen: Seen | None, term: Term | None, now: float, timing: Timing) -> Verdict:
    """What to do about the Lease.

    `found`: as it was just read, None when there is none. `seen`: the record that was read last, this time or
    before (see `observed`). `term`: what one holds by the last write that succeeded, None when one never led.
    """
    if term is not None:
        return _as_leader(me, found, term, now)
    if found is not None and found.holder == me:
        return Renew()  # the answer to the claim was lost
    if found is not None and not found.holder:
        return Claim("nobody holds it")
    if seen is None:
        return Claim("there is none")
    until = expiry(seen, timing)
    if seen.record.holder in ("", me) or now >= until:
        return Claim(f"it expired in the hands of {seen.record.holder}" if found else "it was deleted")
    return StandBy(until, seen.record.holder)


def expiry(seen: Seen, timing: Timing) -> float:
    """When a record that does not change any more expires."""
    return seen.since + (seen.record.duration or timing.duration)


def pause(timing: Timing, draw: float, *, asked: float | None = None, left: float | None = None) -> float:
    """Seconds until the next look. `draw`, in [0, 1), spreads the candidates.

    `asked`: the pause that the server asked for, kept to up to LONGEST_PAUSE: a dead leader is to be followed.
    `left`: what is left of one's own term. A leader leaves itself one more try, since its restart would cost the
    server more than a request.
    """
    spread = 1 + JITTER * draw
    usual = timing.retry_period * spread
    wait = usual if asked is None else max(usual, min(asked, LONGEST_PAUSE) * spread)
    return wait if left is None else min(wait, max(usual, left - usual), max(left, 0.0))


def held(lease: Json, me: str, timing: Timing, now: datetime) -> Json:
    """The Lease with oneself as the holder. `now` is for people. All that is not ours stays."""
    spec = dict(_mapping(lease.get("spec")))
    if spec.get("holderIdentity") != me:
        # Who holds it for the first time is no change of hands.
        changed = int("holderIdentity" in spec)
        spec |= {"holderIdentity": me, "acquireTime": micro_time(now), "leaseTransitions": _transitions(spec) + changed}
    # An integer on the wire, and rounded up: the others wait longer rather than shorter.
    spec |= {"leaseDurationSeconds": -int(-timing.duration // 1), "renewTime": micro_time(now)}
    return {**lease, "spec": spec}


def released(lease: Json, now: datetime) -> Json:
    """The Lease with no holder, as client-go leaves it: the next candidate to look takes it."""
    spec = dict(_mapping(lease.get("spec")))
    spec |= {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": _transitions(spec)}
    spec |= {"renewTime": micro_time(now), "acquireTime": micro_time(now)}
    return {**lease, "spec": spec}


def blank(namespace: str, name: str) -> Json:
    """A Lease that nobody holds yet."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {},
    }


def micro_time(instant: datetime) -> str:
    """As Kubernetes writes metav1.MicroTime, and the only form that it reads: six digits of a second."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _as_leader(me: str, found: Record | None, term: Term, now: float) -> Verdict:
    if now >= term.until:
        return Lost(f"it was not renewed for {now - term.since:.0f} s")
    if found is None:
        return Claim("it was deleted")
    if not found.holder:
        return Claim("its holder was removed")
    return Renew() if found.holder == me else Lost(f"{found.holder} holds it")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _transitions(spec: Mapping[str, Any]) -> int:
    found = spec.get("leaseTransitions")
    return found if type(found) is int and found >= 0 else 0

"""What the properties are held against: any JSON, odd texts, and sound objects with one place distorted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from eno.errors import SextonError
from eno.identity import ResourceId
from eno.inventory.entries import Entry
from eno.times import EARLIEST, LATEST

T = TypeVar("T")
E = TypeVar("E", bound=SextonError)

Path = tuple[str | int, ...]


def repeatable(examples: int = 200) -> settings:
    """The same examples on every machine, so that a red run can be had again."""
    return settings(
        derandomize=True, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


ODD = st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "\n",
        "true",
        "null",
        "%2F",
        "/",
        "0",
        "-1",
        "٣",
        "K",
        "ﬀ",
        "\u202e",
        "😀",
        "é",
        "1e400",
        "x" * 300,
    ]
)
TEXTS = st.text(max_size=12) | ODD
NUMBERS = (
    st.integers()
    | st.sampled_from([2**31, 2**63, 2**64, -(2**63) - 1, 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
)


def json_values(keys: st.SearchStrategy[str] = TEXTS) -> st.SearchStrategy[Any]:
    """Any JSON value; the members of objects have these keys."""
    return st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    )


JSON = json_values()
DNS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
IDENTITIES = st.builds(ResourceId, TEXTS, TEXTS, TEXTS, TEXTS)
INSTANTS = st.datetimes(
    EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None), timezones=st.just(UTC), allow_imaginary=False
)


@st.composite
def inventories(draw: st.DrawFn) -> list[Entry]:
    """What a synthesis may own: whole identities, each once."""
    some = TEXTS.filter(bool)
    identities = draw(st.lists(st.builds(ResourceId, DNS, some, TEXTS, some), min_size=1, max_size=6, unique=True))
    labels = st.dictionaries(TEXTS, TEXTS, max_size=2)
    return [Entry(each, draw(some), draw(labels), draw(labels)) for each in identities]


def places(value: Any, here: Path = ()) -> Iterator[Path]:
    """The paths of all values inside of a JSON value."""
    pairs: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    for key, inner in pairs:
        yield (*here, key)
        yield from places(inner, (*here, key))


def with_value(obj: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy with another value in one place."""
    changed: Any = copy.deepcopy(dict(obj))
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed  # type: ignore[no-any-return]


@st.composite
def distorted(draw: st.DrawFn, obj: Mapping[str, Any], junk: st.SearchStrategy[Any] = JSON) -> dict[str, Any]:
    """The object with anything at all in one place of it."""
    return with_value(obj, draw(st.sampled_from(list(places(obj)))), draw(junk))


def tried(call: Callable[[], T], *errors: type[E]) -> T | E:
    """What a call returns, or the error of these that it raises, which has to be one line."""
    try:
        return call()
    except errors as error:
        caught = error
    assert "\n" not in str(caught)
    assert str(caught)
    return caught


def is_utc(instant: datetime) -> bool:
    """Whether it is an aware instant in UTC within the bounds that Sexton reads times in."""
    return instant.tzinfo is UTC and EARLIEST <= instant <= LATEST

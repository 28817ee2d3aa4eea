"""The identity codec, beyond its round trip."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eno.identity import ResourceId
from tests.properties.strategies import IDENTITIES, repeatable

TRICKY = st.sampled_from(["", "/", "%", "%2F", "%2f", "%25", "%252F", "//", "a"])


@repeatable(500)
@given(st.builds(ResourceId, TRICKY, TRICKY, TRICKY, TRICKY), st.builds(ResourceId, TRICKY, TRICKY, TRICKY, TRICKY))
def test_two_identities_are_never_written_alike(one: ResourceId, other: ResourceId) -> None:
    assert (one.encode() == other.encode()) is (one == other)


@repeatable()
@given(st.builds(ResourceId, TRICKY, TRICKY, TRICKY, TRICKY), st.integers(0, 3), st.integers(0, 3), TRICKY)
def test_text_that_moves_from_one_part_to_another_is_another_identity(
    identity: ResourceId, source: int, target: int, text: str
) -> None:
    one, other = list(identity), list(identity)
    one[source] += text
    other[target] += text
    assert (ResourceId(*one).encode() == ResourceId(*other).encode()) is (one == other)


@repeatable()
@given(IDENTITIES)
def test_an_identity_is_written_in_four_parts(identity: ResourceId) -> None:
    assert identity.encode().count("/") == 3

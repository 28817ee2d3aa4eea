"""Times, opt-ins, requests and notes, which anybody may write into an object."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from eno.decision import Reason, adopted_source, adoption_note, nothing_to_record, recovery_due, resynthesis_refused
from eno.objects import (
    ACKNOWLEDGE_ANNOTATION,
    DELETION_STRATEGY_ANNOTATION,
    FORCE_RESYNTHESIS_ANNOTATION,
    IGNORE_SIDE_EFFECTS_ANNOTATION,
    OPT_IN_ANNOTATION,
    Synthesis,
)
from eno.readiness import skips_slices
from eno.times import format_time, parse_time
from tests.properties.strategies import DNS, INSTANTS, TEXTS, is_utc, repeatable
from tests.support.factories import composition

DIGITS = st.text(alphabet="0123456789-+:.TtZz٣ ", max_size=36)
NEARLY = st.from_regex(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,12})?([Zz]|[+-]\d{2}:\d{2})?", fullmatch=True)
KNOWN = st.sampled_from(
    [
        OPT_IN_ANNOTATION,
        FORCE_RESYNTHESIS_ANNOTATION,
        IGNORE_SIDE_EFFECTS_ANNOTATION,
        DELETION_STRATEGY_ANNOTATION,
        ACKNOWLEDGE_ANNOTATION,
    ]
)


def decided(message: str, reason: str = Reason.FINISHED) -> Synthesis:
    recovery = {"status": True, "reason": reason, "message": message, "synthesisUUID": "u"}
    return Synthesis.model_validate({"uuid": "u", "tombstoneRecoveryStatus": recovery})


@repeatable(500)
@given(TEXTS | DIGITS | NEARLY)
def test_any_text_is_a_time_in_utc_or_none(text: str) -> None:
    try:
        instant = parse_time(text)
    except ValueError:
        return
    assert is_utc(instant)


@repeatable()
@given(INSTANTS)
def test_a_time_that_was_written_is_read_back_to_the_second(instant: datetime) -> None:
    assert parse_time(format_time(instant)) == instant.replace(microsecond=0)


@repeatable()
@given(INSTANTS, st.integers(-23 * 60, 23 * 60))
def test_a_time_is_the_same_instant_in_any_zone(instant: datetime, minutes: int) -> None:
    local = instant.replace(tzinfo=None) + timedelta(minutes=minutes)
    hours, rest = divmod(abs(minutes), 60)
    assume(local.year >= 1970)
    assert parse_time(f"{local.isoformat()}{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}") == instant


@repeatable()
@given(TEXTS | st.sampled_from(["true", "True", " true", "true\n", "TRUE", "1", "yes"]))
def test_nothing_but_true_is_an_opt_in(text: str) -> None:
    found = composition(opted_in=False, annotations={OPT_IN_ANNOTATION: text})
    assert found.opted_in is (text == "true")
    assert text == "true" or not recovery_due(found)


@repeatable()
@given(st.dictionaries(KNOWN | TEXTS, TEXTS | st.sampled_from(["true", "u", "foreground", "orphan"])))
def test_whatever_the_annotations_say_there_is_an_answer(annotations: dict[str, str]) -> None:
    found = composition(opted_in=False, annotations=annotations)
    for answer in (resynthesis_refused(found), nothing_to_record(found)):
        assert answer is None or answer
    assert skips_slices(found) in (True, False)


@repeatable()
@given(DNS, TEXTS.map(lambda text: f" {text}") | st.just(""))
def test_the_name_in_a_note_of_an_adoption_is_read_back(name: str, rest: str) -> None:
    assert adopted_source(decided(adoption_note(name) + rest)) == name
    assert adopted_source(decided(adoption_note(name) + rest, Reason.NOT_NEEDED)) == ""


@repeatable()
@given(TEXTS | st.builds(adoption_note, TEXTS))
def test_any_message_names_one_source_or_none(message: str) -> None:
    assert re.fullmatch(r"\S*", adopted_source(decided(message)))

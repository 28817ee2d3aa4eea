"""Messages: anybody who can write to Redis can put anything into a queue."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eno.scope import Aggregation, Scope
from runtime.holder import Holder
from runtime.messages import InvalidMessage, TaskName, parse
from tests.properties.strategies import DNS, JSON, TEXTS, distorted, repeatable, tried

LONE = st.sampled_from(["\ud800", "a\udfff", "\ud800\ud800"])
OPAQUE = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=40)
SCOPES = st.builds(
    Scope,
    composition_namespace=DNS | st.just(""),
    label_selector=st.sampled_from(["", "a=b", "a in (b,c)"]),
    recovery_namespace=DNS,
    recovery_enabled=st.booleans(),
    aggregation=st.sampled_from(Aggregation),
    retirement_grace=st.floats(0, 1e9),
)


@st.composite
def payloads(draw: st.DrawFn, task: TaskName) -> dict[str, Any]:
    """What the watcher may send."""
    scope = {"scope": draw(SCOPES).model_dump(mode="json")} if draw(st.booleans()) else {}
    if task is TaskName.RETIRE:
        return {"namespace": draw(DNS), "lineage": draw(st.text("0123456789abcdef", min_size=32, max_size=32)), **scope}
    named = {"namespace": draw(DNS), "name": draw(DNS), "uid": draw(OPAQUE), "synthesis_uuid": draw(OPAQUE)}
    slices = {"slices": draw(st.lists(DNS, max_size=4))} if task is TaskName.CLEANUP else {}
    return {**named, **slices, **scope}


SENT = st.sampled_from(TaskName).flatmap(lambda task: st.tuples(st.just(task), payloads(task)))


@repeatable()
@given(SENT)
def test_a_message_that_was_sent_is_received_as_it_was(sent: tuple[TaskName, dict[str, Any]]) -> None:
    task, payload = sent
    message = parse(task, payload)
    again = parse(task, json.loads(json.dumps(message.payload())))
    assert again == message
    assert again.key == message.key
    assert message.payload() == payload
    assert message.key.startswith(f"{task.short}:")


@repeatable(400)
@given(SENT.flatmap(lambda sent: st.tuples(st.just(sent[0]), distorted(sent[1], JSON | LONE))))
def test_a_distorted_message_is_refused_in_one_line_or_keeps_what_it_says(sent: tuple[TaskName, Any]) -> None:
    task, payload = sent
    message = tried(lambda: parse(task, payload), InvalidMessage)
    if isinstance(message, InvalidMessage):
        return
    assert parse(task, message.payload()) == message
    assert not set(message.key) & set(" \n/")


@repeatable()
@given(
    st.sampled_from(TaskName), st.dictionaries(st.sampled_from(["name", "scope", "slices"]) | TEXTS | LONE, JSON | LONE)
)
def test_texts_that_no_encoding_has_are_refused(task: TaskName, payload: dict[str, Any]) -> None:
    assert isinstance(tried(lambda: parse(task, payload), InvalidMessage), InvalidMessage)


@repeatable()
@given(SENT.flatmap(lambda sent: st.tuples(st.just(sent[0]), distorted(sent[1], st.just("top secret: hunter2")))))
def test_a_refusal_never_shows_the_value(sent: tuple[TaskName, dict[str, Any]]) -> None:
    message = tried(partial(parse, *sent), InvalidMessage)
    assert "hunter2" not in str(message) or not isinstance(message, InvalidMessage)


@repeatable()
@given(TEXTS | st.builds("{}@{}:{}".format, TEXTS, TEXTS, TEXTS | st.integers().map(str)))
def test_any_text_in_a_lock_is_a_holder_or_none(text: str) -> None:
    holder = Holder.parse(text)
    assert holder is None or isinstance(holder.is_gone(), bool)


@repeatable()
@given(OPAQUE, DNS, st.integers(1, 2**22))
def test_a_holder_is_read_back_from_its_lock(delivery: str, host: str, pid: int) -> None:
    holder = Holder(delivery, host, pid)
    assert Holder.parse(str(holder)) == holder

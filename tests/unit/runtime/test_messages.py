import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import Terminal
from eno.scope import Scope
from runtime.messages import (
    MAX_SLICES,
    MESSAGES,
    CleanupMessage,
    GateMessage,
    InvalidMessage,
    Message,
    RecordMessage,
    RecoverMessage,
    RetireMessage,
    TaskName,
    parse,
)

COMPOSITION = {"namespace": "apps", "name": "web.v1", "uid": "u-1", "synthesis_uuid": "s-1"}
SCOPE = Scope(composition_namespace="apps", recovery_namespace="apps", recovery_enabled=True)
EXAMPLES: list[Message] = [
    RecoverMessage(**COMPOSITION, scope=SCOPE),
    GateMessage(**COMPOSITION),
    RecordMessage(**COMPOSITION),
    CleanupMessage(**COMPOSITION, slices=("web-1", "web-2")),
    RetireMessage(namespace="apps", lineage="a" * 32),
]


def test_every_task_has_a_payload_and_a_queue_of_its_own() -> None:
    assert set(MESSAGES) == set(TaskName)
    assert len({task.queue("sexton") for task in TaskName}) == len(TaskName)
    assert TaskName.RECOVER.queue("blue") == "blue.recover"


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.task.short)
def test_a_message_survives_the_journey_through_json(message: Message) -> None:
    assert parse(message.task, json.loads(json.dumps(message.payload()))) == message


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (EXAMPLES[0], "recover:u-1:s-1"),
        (EXAMPLES[1], "gate:u-1:s-1"),
        (EXAMPLES[2], "record:u-1:s-1"),
        (EXAMPLES[3], "cleanup:u-1:s-1"),
        (EXAMPLES[4], f"retire:{'a' * 32}"),
    ],
    ids=[message.task.short for message in EXAMPLES],
)
def test_a_key_is_the_task_the_uid_and_the_synthesis(message: Message, key: str) -> None:
    assert message.key == key


def test_the_scope_and_the_slices_are_no_part_of_the_key() -> None:
    with_scope, without = (CleanupMessage(**COMPOSITION, slices=(), scope=scope) for scope in (SCOPE, None))
    assert with_scope.key == without.key == EXAMPLES[3].key


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uid": None}, id="a field without a value"),
        pytest.param({"uid": ""}, id="no UID"),
        pytest.param({"uid": 1}, id="a number for a string"),
        pytest.param({"uid": "a:b"}, id="a UID that would end a part of a key"),
        pytest.param({"uid": "u" * 129}, id="a UID without an end"),
        pytest.param({"synthesis_uuid": "a b"}, id="a UUID with a blank"),
        pytest.param({"namespace": "a/b"}, id="a namespace that would change the URL"),
        pytest.param({"namespace": "apps\n"}, id="a line break after the namespace"),
        pytest.param({"namespace": "n" * 64}, id="a namespace that is too long"),
        pytest.param({"name": "../secrets"}, id="a name that would change the URL"),
        pytest.param({"name": "n" * 254}, id="a name that is too long"),
        pytest.param({"manifest": "{}"}, id="a field that no task takes"),
        pytest.param({"scope": {"recovery_enabled": "yes"}}, id="a switch that is no boolean"),
        pytest.param({"scope": {"everything": True}}, id="a scope with an unknown switch"),
    ],
)
def test_a_payload_that_is_not_exactly_right_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidMessage):
        parse(TaskName.RECOVER, COMPOSITION | change)


def test_slices_without_an_owner_have_a_message_and_a_key_of_their_own() -> None:
    nobody = COMPOSITION | {"name": "", "uid": ""}
    one, same, two = (parse(TaskName.CLEANUP, nobody | {"slices": names}) for names in (["a"], ["a"], ["b"]))
    elsewhere = parse(TaskName.CLEANUP, nobody | {"slices": ["a"], "namespace": "other"})
    assert one.key == same.key
    assert len({one.key, two.key, elsewhere.key, EXAMPLES[3].key}) == 4
    for task in set(TaskName) - {TaskName.CLEANUP, TaskName.RETIRE}:
        for field in ("name", "uid"):
            with pytest.raises(InvalidMessage, match=field):
                parse(task, COMPOSITION | {field: ""})


@pytest.mark.parametrize("name", ["../secrets", "a\n", "n" * 254, "A"])
def test_an_owner_needs_a_name_that_a_url_can_carry(name: str) -> None:
    with pytest.raises(InvalidMessage, match="name"):
        parse(TaskName.CLEANUP, COMPOSITION | {"name": name, "slices": ["a"]})


def test_too_many_slices_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="slices"):
        parse(TaskName.CLEANUP, COMPOSITION | {"slices": ["s"] * (MAX_SLICES + 1)})


def test_a_refusal_is_terminal_and_shows_no_values() -> None:
    with pytest.raises(Terminal) as caught:
        parse(TaskName.RECOVER, COMPOSITION | {"name": "s3cret/value"})
    assert str(caught.value).startswith("message of sexton.recover: name: ")
    assert "s3cret" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.sampled_from(TaskName),
    st.dictionaries(st.sampled_from([*COMPOSITION, "slices", "lineage", "scope", "x"]) | st.text(), JSON),
)
def test_anything_else_is_refused_with_one_line(task: TaskName, payload: dict[str, object]) -> None:
    complaint = ""
    try:
        parse(task, payload)
    except InvalidMessage as error:
        complaint = str(error)
    assert "\n" not in complaint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.envelope import EMPTY, Accepted, Dropped, inspect, is_message

KNOWN = {"sexton.recover"}
HEADERS = {"task": "sexton.recover", "id": "d-1", "kwargsrepr": "{'name': 'web'}"}
BODY = [[], {"name": "web"}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]


def test_what_the_producer_sends_is_accepted() -> None:
    verdict = inspect(HEADERS, BODY, KNOWN)
    assert isinstance(verdict, Accepted)
    assert verdict.headers["task"] == "sexton.recover"
    assert verdict.headers["id"] == "d-1"
    assert verdict.headers["kwargsrepr"] == "{'name': 'web'}"


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"eta": "2099-01-01T00:00:00"}, id="waiting in memory"),
        pytest.param({"expires": "2000-01-01T00:00:00"}, id="expiring"),
        pytest.param({"timelimit": [99999, 99999]}, id="another time limit"),
        pytest.param({"shadow": "something-else"}, id="another name in the logs"),
        pytest.param({"retries": "many"}, id="a count that is none"),
        pytest.param({"stamped_headers": 5}, id="what ends the worker that reads it"),
        pytest.param({"ignore_result": False}, id="a result that somebody would have to store"),
    ],
)
def test_other_options_have_no_effect(header: dict[str, object]) -> None:
    assert inspect(HEADERS | header, BODY, KNOWN) == inspect(HEADERS, BODY, KNOWN)


@pytest.mark.parametrize(
    ("headers", "body", "action"),
    [
        pytest.param(None, BODY, "message-rejected", id="no headers"),
        pytest.param({}, BODY, "message-rejected", id="headers without a task"),
        pytest.param(HEADERS | {"id": None}, BODY, "message-rejected", id="no id"),
        pytest.param(HEADERS | {"id": ["d"]}, BODY, "message-rejected", id="an id that is no string"),
        pytest.param(HEADERS | {"id": "d\n2"}, BODY, "message-rejected", id="an id with a line break"),
        pytest.param(HEADERS | {"id": "d" * 300}, BODY, "message-rejected", id="an id without an end"),
        pytest.param(HEADERS | {"task": "sexton.new"}, BODY, "task-unknown", id="a task of another version"),
        pytest.param(HEADERS | {"task": "celery.map"}, BODY, "task-unknown", id="a task of Celery's own"),
        pytest.param(HEADERS, None, "message-rejected", id="a body that could not be decoded"),
        pytest.param(HEADERS, {"args": [], "kwargs": {}}, "message-rejected", id="task protocol 1"),
        pytest.param(HEADERS, [["positional"], {}, {}], "message-rejected", id="positional arguments"),
        pytest.param(HEADERS, [[], [], {}], "message-rejected", id="arguments without names"),
        pytest.param(HEADERS, [[], {}], "message-rejected", id="a part too few"),
        pytest.param(HEADERS, [[], {"self": 1}, {}], "message-rejected", id="an argument that Celery itself passes"),
        pytest.param(HEADERS, [[], {}, {"chain": [{"task": "x"}]}], "message-rejected", id="a task to call next"),
    ],
)
def test_everything_else_is_dropped(headers: object, body: object, action: str) -> None:
    verdict = inspect(headers, body, KNOWN)
    assert isinstance(verdict, Dropped)
    assert verdict.action == action


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["task", "id", "x"]), inner),
    max_leaves=8,
)


@given(ANYTHING, ANYTHING)
def test_no_message_is_too_strange_to_be_judged(headers: object, body: object) -> None:
    assert isinstance(inspect(headers, body, KNOWN), Accepted | Dropped)


ITEM = {
    "body": "W10=",
    "headers": HEADERS,
    "properties": {
        "delivery_tag": "t",
        "delivery_info": {"exchange": "", "routing_key": "sexton.recover"},
        "body_encoding": "base64",
    },
}


def properties(**changes: object) -> dict[str, object]:
    return ITEM | {"properties": ITEM["properties"] | changes}  # type: ignore[operator]


def test_an_item_with_everything_is_a_message() -> None:
    assert is_message(ITEM)
    assert is_message(EMPTY)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(5, id="a number"),
        pytest.param([], id="a list"),
        pytest.param({}, id="nothing"),
        pytest.param({"properties": {}}, id="no delivery tag"),
        pytest.param(properties(delivery_tag=["t"]), id="a tag that is no string"),
        pytest.param(properties(delivery_info=None), id="no delivery info"),
        pytest.param(properties(delivery_info={"exchange": ""}), id="no routing key"),
        pytest.param(properties(body_encoding="rot13"), id="an unknown encoding"),
        pytest.param(ITEM | {"body": "abc"}, id="a body that does not decode"),
        pytest.param(ITEM | {"body": 1}, id="a body that is no string"),
        pytest.param(ITEM | {"headers": ["task"]}, id="headers that are a list"),
    ],
)
def test_anything_else_is_none(item: object) -> None:
    assert not is_message(item)

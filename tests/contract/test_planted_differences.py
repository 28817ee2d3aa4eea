"""Proof that the contract sees: each difference planted into the store turns the test of that rule red."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from devcluster import builtin, kinds, lists, objects, patches, schema, selectors, store, watches, writing
from devcluster.store import Store
from kube.cluster import Json
from kube.resources import NAMESPACES, SECRETS
from tests.contract import (
    test_delete,
    test_json_patch,
    test_lists,
    test_namespaces,
    test_schema,
    test_secrets,
    test_status,
    test_update,
    test_watches,
)
from tests.contract.kinds import COMPOSITIONS, PROBES, probe, with_metadata
from tests.contract.servers import in_process
from tests.contract.space import Space

ITEM: Json = {"text": "x", "count": 1, "list": ["a", "b"]}


def created(space: Space) -> Json:
    return space.probe(**ITEM)


def start(space: Space) -> str:
    return space.page(PROBES).resource_version


def five(space: Space) -> list[Json]:
    bodies = [with_metadata(probe(name, text=name), labels={"color": "red", "n": name}) for name in "abcde"]
    return [space.create(PROBES, body) for body in bodies]


def immutable(space: Space) -> Json:
    return space.create(SECRETS, {"metadata": {"name": "a"}, "immutable": True, "data": test_secrets.DATA})


def composition(space: Space) -> Json:
    body: Json = {"apiVersion": COMPOSITIONS.api_version, "kind": "Composition", "metadata": {"name": "a"}}
    space.create(COMPOSITIONS, body)
    status = {"status": {"currentSynthesis": {"uuid": "u-1"}}}
    return space.merge_patch(COMPOSITIONS, status, subresource="status")


def terminating(space: Space) -> Space:
    space.create(PROBES, with_metadata(probe("held"), finalizers=["example.com/hold"]))
    space.cluster.delete(NAMESPACES, None, space.namespace)
    return space


FIXTURES: dict[str, Callable[[Space], Any]] = {
    function.__name__: function for function in (created, start, five, immutable, composition, terminating)
}


def skips_modifications(change: Callable[..., Any]) -> Callable[..., Any]:
    def event(*arguments: Any) -> Any:
        found = change(*arguments)
        return None if found is not None and found.type == "MODIFIED" else found

    return event


def ignores_validation(decode: Callable[..., Any]) -> Callable[..., Any]:
    return lambda kind, body, _validation: decode(kind, body, "Ignore")


def always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


PLANTED: list[tuple[str, object, str, Any, Callable[..., None], dict[str, Any]]] = [
    (
        "a JSON-Patch test always holds",
        patches,
        "_equal",
        always(True),
        test_json_patch.test_a_test_that_fails_changes_nothing,
        {"test": {"op": "test", "path": "/spec/text", "value": "y"}},
    ),
    (
        "a missing member is not null",
        patches,
        "_get",
        lambda container, key: container.get(key, "absent"),
        test_json_patch.test_a_test_that_holds_lets_the_patch_through,
        {"test": {"op": "test", "path": "/spec/absent", "value": None}},
    ),
    (
        "a watch skips changes",
        watches.Watch,
        "_event",
        skips_modifications(watches.Watch._event),
        test_watches.test_a_watch_tells_every_change_in_order,
        {},
    ),
    (
        "a deletion has no version of its own",
        objects.Stored,
        "at",
        lambda self, _version: self,
        test_watches.test_a_deletion_tells_the_last_state_at_the_version_of_the_deletion,
        {},
    ),
    (
        "history is never forgotten",
        objects.History,
        "floor",
        0,
        test_watches.test_a_watch_from_before_the_history_is_expired_in_its_stream,
        {},
    ),
    (
        "preconditions are ignored",
        writing,
        "match_preconditions",
        always(None),
        test_delete.test_preconditions_that_fail_change_nothing,
        {"kind": PROBES, "preconditions": {"uid": test_delete.OTHER_UID}},
    ),
    (
        "finalizers hold nothing",
        writing,
        "held",
        always(False),
        test_delete.test_with_finalizers_it_is_only_marked,
        {},
    ),
    (
        "versions do not lock",
        writing,
        "match_version",
        always(None),
        test_update.test_of_two_updates_of_one_version_the_second_is_refused,
        {},
    ),
    (
        "the spec is not compared",
        writing,
        "_contents",
        always({}),
        test_update.test_a_changed_spec_counts_as_a_generation_and_a_version,
        {},
    ),
    (
        "a write to the status writes everything",
        writing,
        "prepared_update",
        lambda _kind, body, _old, _subresource: body,
        test_status.test_a_write_to_the_status_leaves_the_rest_alone,
        {},
    ),
    (
        "strict is not strict",
        store,
        "decode_patched",
        ignores_validation(kinds.decode_patched),
        test_status.test_strictly_an_unknown_status_field_is_refused,
        {},
    ),
    (
        "a recovery decision is bound to no synthesis",
        patches,
        "_test",
        always(None),
        test_status.test_a_decision_about_something_else_is_refused,
        {"path": "/status/currentSynthesis/uuid", "value": "u-0"},
    ),
    (
        "nothing is pruned",
        schema,
        "prune",
        lambda value, *_: value,
        test_schema.test_unknown_fields_outside_the_schema_are_pruned,
        {},
    ),
    (
        "a schema refuses nothing",
        schema,
        "causes",
        always([]),
        test_schema.test_a_schema_refuses,
        {"spec": {"color": "blue"}, "cause": ("spec.color", test_schema.UNSUPPORTED)},
    ),
    (
        "selectors select everything",
        selectors.Selector,
        "matches",
        always(True),
        test_lists.test_a_label_selector_selects,
        {"selector": "n=a", "names": ["a"]},
    ),
    (
        "later pages show what is there now",
        lists,
        "_at_version",
        lambda of, kind, prefix, after, _version: of.table(kind).select(prefix, after),
        test_lists.test_later_pages_show_what_was_there_at_the_first,
        {},
    ),
    (
        "Secrets have no limit",
        builtin,
        "DATA_LIMIT",
        10**9,
        test_secrets.test_a_mebibyte_of_data_fits_and_not_a_byte_more,
        {},
    ),
    (
        "what is immutable can be changed",
        builtin,
        "_immutable_causes",
        always([]),
        test_secrets.test_what_is_immutable_stays,
        {"patch": {"data": {"a": "dw=="}}, "causes": [("data", test_secrets.FORBIDDEN_FIELD)]},
    ),
    (
        "everything can be created anywhere",
        Store,
        "_admit",
        always(None),
        test_namespaces.test_nothing_can_be_created_where_everything_is_deleted,
        {"kind": PROBES},
    ),
]


@pytest.fixture
def space() -> Space:
    """A namespace of a store of its own, in which anything may break."""
    server = in_process(Store())
    server.install()
    server.cluster.create(NAMESPACES, None, {"metadata": {"name": "planted"}})
    return Space(server.cluster, "planted", server)


def run(rule: Callable[..., None], space: Space, arguments: dict[str, Any]) -> None:
    """Run a test of the contract with this space, its fixtures made here."""
    wanted = inspect.signature(rule).parameters
    used = {name for mark in getattr(rule, "pytestmark", []) if mark.name == "usefixtures" for name in mark.args}
    fixtures = {name: make(space) for name, make in FIXTURES.items() if name in wanted.keys() | used}
    given = {"space": space} | fixtures | arguments
    rule(**{name: value for name, value in given.items() if name in wanted})


def is_red(test: Callable[[], None]) -> bool:
    """Whether pytest would call this a failure or an error."""
    try:
        test()
    except (Exception, pytest.fail.Exception):
        return True
    return False


@pytest.mark.parametrize(
    ("owner", "name", "planted", "rule", "arguments"),
    [case[1:] for case in PLANTED],
    ids=[case[0] for case in PLANTED],
)
def test_a_planted_difference_turns_its_rule_red(
    space: Space,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    planted: Any,
    rule: Callable[..., None],
    arguments: dict[str, Any],
) -> None:
    monkeypatch.setattr(owner, name, planted)
    assert is_red(lambda: run(rule, space, arguments))


@pytest.mark.parametrize(("rule", "arguments"), [case[4:] for case in PLANTED], ids=[case[0] for case in PLANTED])
def test_without_it_the_rule_holds(space: Space, rule: Callable[..., None], arguments: dict[str, Any]) -> None:
    run(rule, space, arguments)

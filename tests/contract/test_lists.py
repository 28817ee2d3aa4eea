"""Lists: complete, consistent pages, selectors, versions, and metadata alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kube.cluster import Json, Query, list_all
from kube.requests import PARTIAL_LIST, PARTIAL_OBJECT
from kube.resources import LEASES, SECRETS, Resource
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.refusals import BAD_REQUEST, EXPIRED, NOT_FOUND
from tests.contract.servers import Server
from tests.contract.space import Here, Space
from tests.support.waiting import until

FIVE = ["a", "b", "c", "d", "e"]


@pytest.fixture
def five(space: Space) -> list[Json]:
    """Five Probes, with a color each, created out of order."""
    colors = {"a": "red", "b": "blue", "c": "red", "d": "green", "e": ""}
    return [
        space.create(PROBES, with_metadata(probe(name, text=name), labels={"color": colors[name], "n": name}))
        for name in "caebd"
    ]


def test_a_list_is_in_order_of_names_and_complete(space: Space, five: list[Json]) -> None:
    page = space.page(PROBES)
    assert [item["metadata"]["name"] for item in page.items] == FIVE
    assert page.continue_token == ""
    assert page.items == sorted(five, key=lambda item: str(item["metadata"]["name"]))


def test_a_list_of_nothing_has_a_version_too(space: Space) -> None:
    page = space.page(PROBES)
    assert page.items == []
    assert int(page.resource_version) > 0


@pytest.mark.parametrize("kind", [PROBES, SECRETS], ids=lambda kind: str(kind.kind))
def test_an_empty_list_of_metadata_is_null_on_the_wire(space: Space, kind: Resource) -> None:
    """Go's nil slice: no sign of an incomplete answer."""
    assert space.page(kind, metadata_only=True).items == []
    assert space.ask("GET", kind, accept=PARTIAL_LIST).json["items"] is None
    assert space.ask("GET", kind).json["items"] == []


def test_the_version_of_a_list_is_not_below_that_of_its_items(space: Space, five: list[Json]) -> None:
    newest = max(int(item["metadata"]["resourceVersion"]) for item in five)
    assert int(space.page(PROBES).resource_version) >= newest


def test_a_list_that_was_never_served_is_not_found(space: Space) -> None:
    absent = Resource(PROBES.group, "v1", "absents", "Absent")
    assert space.refused(lambda h: h.page(absent)).reply.code == 404


def test_a_list_in_a_namespace_that_does_not_exist_is_empty(space: Space) -> None:
    assert Here(space.cluster, f"{space.namespace}-absent").names(PROBES) == []


@pytest.mark.usefixtures("five")
def test_a_list_of_all_namespaces_holds_this_one(space: Space) -> None:
    listing = list_all(space.cluster, Query(PROBES))
    found = [item["metadata"]["name"] for item in listing.items if item["metadata"]["namespace"] == space.namespace]
    assert found == FIVE


@pytest.mark.usefixtures("five")
def test_pages_make_the_same_list(space: Space) -> None:
    first = space.page(PROBES, limit=2)
    second = space.page(PROBES, limit=2, continue_token=first.continue_token)
    third = space.page(PROBES, limit=2, continue_token=second.continue_token)
    assert [len(page.items) for page in (first, second, third)] == [2, 2, 1]
    assert [*first.items, *second.items, *third.items] == space.page(PROBES).items
    assert third.continue_token == ""
    assert first.resource_version == second.resource_version == third.resource_version


@pytest.mark.usefixtures("five")
def test_a_last_page_that_is_just_full_has_no_successor(space: Space) -> None:
    assert space.page(PROBES, limit=5).continue_token == ""


@pytest.mark.usefixtures("five")
def test_later_pages_show_what_was_there_at_the_first(space: Space) -> None:
    first = space.page(PROBES, limit=2)
    space.delete(PROBES, "d")
    space.merge_patch(PROBES, {"spec": {"text": "changed"}}, "e")
    space.probe("cc")
    rest = space.page(PROBES, continue_token=first.continue_token)
    assert [(item["metadata"]["name"], item["spec"]["text"]) for item in rest.items] == [
        ("c", "c"),
        ("d", "d"),
        ("e", "e"),
    ]
    assert space.names(PROBES) == ["a", "b", "c", "cc", "e"]


@pytest.mark.usefixtures("five")
def test_a_page_with_a_selector_is_filled_up(space: Space) -> None:
    first = space.page(PROBES, limit=1, label_selector="color=red")
    assert [item["metadata"]["name"] for item in first.items] == ["a"]
    rest = space.page(PROBES, limit=9, label_selector="color=red", continue_token=first.continue_token)
    assert [item["metadata"]["name"] for item in rest.items] == ["c"]


@pytest.mark.usefixtures("five")
def test_what_remains_is_counted_unless_a_selector_is_in_the_way(space: Space) -> None:
    assert space.ask("GET", PROBES, query="limit=2").json["metadata"]["remainingItemCount"] == 3
    narrowed = space.ask("GET", PROBES, query="limit=1&labelSelector=color%3Dred").json["metadata"]
    assert "remainingItemCount" not in narrowed


@pytest.mark.parametrize(
    "token", ["x", "e30", "eyJ2IjoidjEifQ", "%7B%7D"], ids=["no base64", "an empty object", "another version", "JSON"]
)
@pytest.mark.usefixtures("five")
def test_a_continue_token_of_somebody_else_is_a_bad_request(space: Space, token: str) -> None:
    refused = space.refused(lambda h: h.page(PROBES, continue_token=token))
    assert refused.summary == BAD_REQUEST


@pytest.mark.usefixtures("five")
def test_a_continue_token_and_a_version_exclude_each_other(space: Space) -> None:
    first = space.page(PROBES, limit=2)
    query = f"continue={first.continue_token}&resourceVersion={first.resource_version}"
    reply = space.ask("GET", PROBES, query=query)
    assert (reply.code, reply.reason) == (400, "BadRequest")


@pytest.mark.usefixtures("five")
def test_a_continue_token_that_is_too_old_is_expired(space: Space) -> None:
    """kube-apiserver compacts every five minutes; here it is made to."""
    if space.server.compact is None:
        pytest.skip("nobody can make this cluster forget its history")
    first = space.page(PROBES, limit=2)
    space.merge_patch(PROBES, {"spec": {"text": "changed"}}, "e")
    space.server.compact()
    query = f"limit=2&continue={first.continue_token}"
    # The caches of a kube-apiserver follow the compaction within some ten seconds.
    until(lambda: space.ask("GET", PROBES, query=query).code == 410, "the token is expired", seconds=40)
    refused = space.refused(lambda h: h.page(PROBES, limit=2, continue_token=first.continue_token))
    assert refused.summary == EXPIRED
    again = refused.reply.status["metadata"]["continue"]
    rest = space.page(PROBES, limit=9, continue_token=again)
    assert [(item["metadata"]["name"], item["spec"]["text"]) for item in rest.items][-1] == ("e", "changed")
    exact = f"resourceVersionMatch=Exact&resourceVersion={first.resource_version}"
    assert (space.ask("GET", PROBES, query=exact).code, space.ask("GET", PROBES, query=exact).reason) == (
        410,
        "Expired",
    )


LABELS = [
    ("color=red", ["a", "c"]),
    ("color==red", ["a", "c"]),
    ("color!=red", ["b", "d", "e"]),
    ("color in (red,blue)", ["a", "b", "c"]),
    ("color notin (red, blue)", ["d", "e"]),
    ("color", FIVE),
    ("!color", []),
    ("color=", ["e"]),
    ("absent", []),
    ("!absent", FIVE),
    ("absent!=x", FIVE),
    ("absent notin (x)", FIVE),
    ("color=red,n=a", ["a"]),
    ("color=red,n!=a", ["c"]),
    (" color = red ", ["a", "c"]),
    ("color in (,red)", ["a", "c", "e"]),
]


@pytest.mark.parametrize(("selector", "names"), LABELS, ids=[selector for selector, _ in LABELS])
@pytest.mark.usefixtures("five")
def test_a_label_selector_selects(space: Space, selector: str, names: list[str]) -> None:
    assert space.names(PROBES, label_selector=selector) == names


def test_numbers_in_labels_are_compared(space: Space) -> None:
    for name, value in (("a", "5"), ("b", "10"), ("c", "x")):
        space.create(PROBES, with_metadata(probe(name), labels={"n": value}))
    assert space.names(PROBES, label_selector="n>7") == ["b"]
    assert space.names(PROBES, label_selector="n<7") == ["a"]


@pytest.mark.parametrize(
    "selector",
    ["=", "color=red blue", "color in red", "color in (red", "color=(", "a//b=c", "color=_", "!", "n>x", "color,,n"],
)
@pytest.mark.usefixtures("five")
def test_a_label_selector_that_makes_no_sense_is_refused(space: Space, selector: str) -> None:
    assert space.refused(lambda h: h.page(PROBES, label_selector=selector)).summary == BAD_REQUEST


FIELDS = [
    ("metadata.name=a", ["a"]),
    ("metadata.name==a", ["a"]),
    ("metadata.name!=a", ["b", "c", "d", "e"]),
    ("metadata.name=absent", []),
    ("metadata.namespace=elsewhere", []),
    ("metadata.name=a,metadata.name=b", []),
]


@pytest.mark.parametrize(("selector", "names"), FIELDS, ids=[selector for selector, _ in FIELDS])
@pytest.mark.usefixtures("five")
def test_a_field_selector_selects(space: Space, selector: str, names: list[str]) -> None:
    assert space.names(PROBES, field_selector=selector) == names


@pytest.mark.parametrize("kind", [PROBES, SECRETS, LEASES], ids=lambda kind: str(kind.kind))
@pytest.mark.parametrize("selector", ["spec.text=a", "metadata.labels.a=b", "metadata.uid=x", "metadata.name", "x"])
def test_a_field_that_cannot_be_selected_is_refused(space: Space, kind: Resource, selector: str) -> None:
    assert space.refused(lambda h: h.page(kind, field_selector=selector)).summary == BAD_REQUEST


def test_secrets_of_a_type_are_selected_with_their_metadata_alone(space: Space) -> None:
    data = {"password": "c2VjcmV0"}
    for name, kind in (("a", "Opaque"), ("b", "example.com/other"), ("c", "Opaque")):
        space.create(SECRETS, {"metadata": {"name": name, "labels": {"n": name}}, "type": kind, "data": data})
    items = space.page(SECRETS, field_selector="type=Opaque", metadata_only=True).items
    assert [item["metadata"]["name"] for item in items] == ["a", "c"]
    assert {item["kind"] for item in items} == {"PartialObjectMetadata"}
    assert all(item.keys() <= {"kind", "apiVersion", "metadata"} for item in items)
    assert space.names(SECRETS, field_selector="type=Opaque", label_selector="n!=a") == ["c"]


@pytest.mark.usefixtures("five")
def test_metadata_alone_are_the_metadata_of_the_object(space: Space) -> None:
    whole = space.get(PROBES)
    partial = space.get(PROBES, metadata_only=True)
    assert partial == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": whole["metadata"],
    }
    assert [item["metadata"] for item in space.page(PROBES, metadata_only=True).items] == [
        item["metadata"] for item in space.page(PROBES).items
    ]


@pytest.mark.usefixtures("five")
def test_pages_of_metadata_alone_make_the_same_list(space: Space) -> None:
    query = Query(PROBES, space.namespace, metadata_only=True)
    listing = list_all(space.cluster, query, page_size=2)
    assert [item["metadata"]["name"] for item in listing.items] == FIVE


@pytest.mark.usefixtures("five")
def test_the_wrong_form_for_a_list_or_an_object_is_refused(space: Space) -> None:
    assert space.ask("GET", PROBES, accept=PARTIAL_OBJECT).code == 406
    assert space.ask("GET", PROBES, accept="text/html").code == 406
    assert space.ask("GET", PROBES, "a", accept=PARTIAL_LIST).code == 500


@pytest.mark.usefixtures("five")
def test_a_patch_can_be_answered_with_metadata_alone(space: Space) -> None:
    reply = space.ask(
        "PATCH", PROBES, "a", body=b"{}", accept=PARTIAL_OBJECT, content_type="application/merge-patch+json"
    )
    assert (reply.code, reply.json["kind"]) == (200, "PartialObjectMetadata")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("resourceVersion=x", 400, id="a version that is no number"),
        pytest.param("resourceVersion=999999999", 504, id="a version to come"),
        pytest.param("resourceVersionMatch=Exact", 422, id="a match without a version"),
        pytest.param("resourceVersionMatch=Near&resourceVersion=1", 422, id="an unknown match"),
        pytest.param("resourceVersionMatch=Exact&resourceVersion=0", 422, id="exactly version zero"),
        pytest.param("limit=x", 400, id="a limit that is no number"),
    ],
)
def test_a_list_with_unusable_options_is_refused(space: Space, query: str, code: int) -> None:
    assert space.ask("GET", PROBES, query=query).code == code


@pytest.mark.usefixtures("five")
def test_a_list_can_be_asked_for_at_a_version(space: Space) -> None:
    version = space.page(PROBES).resource_version
    space.delete(PROBES, "a")
    exact = space.ask("GET", PROBES, query=f"resourceVersionMatch=Exact&resourceVersion={version}")
    assert [item["metadata"]["name"] for item in exact.json["items"]] == FIVE
    newer = space.ask("GET", PROBES, query=f"resourceVersionMatch=NotOlderThan&resourceVersion={version}")
    assert newer.code == 200


@pytest.mark.usefixtures("five")
def test_an_object_can_be_asked_for_from_a_cache(space: Space) -> None:
    until(lambda: space.ask("GET", PROBES, "a", "resourceVersion=0").code == 200, "the cache knows it")
    assert space.ask("GET", PROBES, "a", "resourceVersion=x").code in (400, 500)


@pytest.mark.usefixtures("five")
def test_items_of_built_in_lists_carry_no_type_of_their_own(space: Space) -> None:
    space.create(SECRETS, {"metadata": {"name": "a"}})
    assert space.page(SECRETS).items[0].keys() >= {"metadata", "type"}
    assert not space.page(SECRETS).items[0].keys() & {"kind", "apiVersion"}
    assert space.page(PROBES).items[0]["kind"] == "Probe"


def test_a_list_tells_the_servers_time(space: Space) -> None:
    date = space.page(PROBES).date
    assert date is not None
    assert abs(date - datetime.now(UTC)) < timedelta(minutes=5)
    assert date.microsecond == 0


@pytest.mark.servers("http", "kube-apiserver")
def test_every_answer_carries_a_date(server: Server) -> None:
    assert {"date"} <= server.get("/version").headers.keys()
    assert {"date"} <= server.get("/api/v1/namespaces/absent").headers.keys()


def test_an_absent_object_is_not_found(space: Space) -> None:
    refused = space.refused(lambda h: h.get(SECRETS, "absent"))
    assert refused.summary == NOT_FOUND
    assert refused.reply.status["details"] == {"name": "absent", "kind": "secrets"}

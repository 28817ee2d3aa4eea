"""What an update does, and how it is refused: PUT replaces everything but what the server decides."""

from __future__ import annotations

import pytest

from kube.cluster import Json
from kube.resources import LEASES, SECRETS
from tests.contract.kinds import PROBES, probe, with_metadata
from tests.contract.refusals import BAD_REQUEST, CONFLICT, INTERNAL, INVALID, NOT_FOUND, Summary
from tests.contract.space import Call, Space

OTHER_UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def created(space: Space) -> Json:
    body = with_metadata(probe(text="x"), labels={"a": "1"}, annotations={"b": "2"})
    return space.create(PROBES, body)


def changed(body: Json, **spec: object) -> Json:
    return body | {"spec": body["spec"] | spec}


def test_an_update_replaces_spec_labels_and_annotations(space: Space, created: Json) -> None:
    body = with_metadata(created, labels={"c": "3"}, annotations=None) | {"spec": {"count": 1}}
    updated = space.update(PROBES, body)
    assert updated["spec"] == {"count": 1, "size": "medium"}
    assert updated["metadata"]["labels"] == {"c": "3"}
    assert "annotations" not in updated["metadata"]
    assert space.get(PROBES) == updated


def test_a_changed_spec_counts_as_a_generation_and_a_version(space: Space, created: Json) -> None:
    updated = space.update(PROBES, changed(created, text="y"))
    assert updated["metadata"]["generation"] == 2
    assert int(updated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


def test_changed_metadata_count_as_a_version_only(space: Space, created: Json) -> None:
    updated = space.update(PROBES, with_metadata(created, labels={"a": "2"}))
    assert updated["metadata"]["generation"] == 1
    assert updated["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]


def test_an_update_that_changes_nothing_keeps_the_version(space: Space, created: Json) -> None:
    assert space.update(PROBES, created) == created
    assert space.get(PROBES) == created


def test_an_update_that_would_only_add_what_is_pruned_keeps_the_version(space: Space, created: Json) -> None:
    assert space.update(PROBES, changed(created, unknown=1)) == created


@pytest.mark.parametrize(
    "metadata",
    [{"generation": 9}, {"creationTimestamp": "2001-01-01T00:00:00Z"}, {"selfLink": "/x"}],
    ids=lambda metadata: next(iter(metadata)),
)
def test_what_only_the_server_decides_cannot_be_changed(space: Space, created: Json, metadata: Json) -> None:
    assert space.update(PROBES, with_metadata(created, **metadata)) == created


def test_without_a_uid_the_uid_stays(space: Space, created: Json) -> None:
    updated = space.update(PROBES, with_metadata(changed(created, text="y"), uid=None))
    assert updated["metadata"]["uid"] == created["metadata"]["uid"]


def test_a_secret_may_be_updated_without_a_version(space: Space) -> None:
    space.create(SECRETS, {"metadata": {"name": "a"}})
    updated = space.update(SECRETS, {"metadata": {"name": "a"}, "data": {"k": "dg=="}})
    assert updated["data"] == {"k": "dg=="}


@pytest.mark.parametrize(
    ("call", "summary", "causes"),
    [
        pytest.param(lambda b: with_metadata(b, resourceVersion="1"), CONFLICT, [], id="a version that is over"),
        pytest.param(lambda b: with_metadata(b, resourceVersion="999999999"), CONFLICT, [], id="a version to come"),
        pytest.param(lambda b: with_metadata(b, resourceVersion="x"), INTERNAL, [], id="a version that is no number"),
        pytest.param(
            lambda b: with_metadata(b, resourceVersion=None),
            INVALID,
            [("metadata.resourceVersion", "FieldValueInvalid")],
            id="no version",
        ),
        pytest.param(
            lambda b: with_metadata(b, resourceVersion="0"),
            INVALID,
            [("metadata.resourceVersion", "FieldValueInvalid")],
            id="version zero",
        ),
        pytest.param(lambda b: with_metadata(b, uid=OTHER_UID), CONFLICT, [], id="another uid"),
        pytest.param(lambda b: with_metadata(b, name="b"), BAD_REQUEST, [], id="another name"),
        pytest.param(lambda b: with_metadata(b, name=None), BAD_REQUEST, [], id="no name"),
        pytest.param(lambda b: with_metadata(b, namespace="elsewhere"), BAD_REQUEST, [], id="another namespace"),
        pytest.param(lambda b: b | {"kind": "Other"}, INVALID, [("kind", "FieldValueInvalid")], id="another kind"),
        pytest.param(lambda b: b | {"apiVersion": "v1"}, BAD_REQUEST, [], id="another apiVersion"),
        pytest.param(
            lambda b: changed(b, count=99), INVALID, [("spec.count", "FieldValueInvalid")], id="an invalid spec"
        ),
        pytest.param(
            lambda b: with_metadata(changed(b, count=99), resourceVersion="1"),
            CONFLICT,
            [],
            id="a version that is over and an invalid spec",
        ),
        pytest.param(
            lambda b: with_metadata(b, labels={"/": "x"}),
            INVALID,
            [("metadata.labels", "FieldValueInvalid")],
            id="an invalid label",
        ),
    ],
)
def test_an_update_is_refused(
    space: Space, created: Json, call: Call, summary: Summary, causes: list[tuple[str, str]]
) -> None:
    body = call(created)  # type: ignore[arg-type]
    refused = space.refused(lambda h: h.update(PROBES, body))  # type: ignore[arg-type]
    assert refused.summary == summary
    assert refused.reply.causes == causes


def test_of_two_updates_of_one_version_the_second_is_refused(space: Space, created: Json) -> None:
    first = space.update(PROBES, changed(created, text="first"))
    refused = space.refused(lambda h: h.update(PROBES, changed(created, text="second")))
    assert refused.summary == CONFLICT
    assert refused.reply.message == (
        f'Operation cannot be fulfilled on {PROBES.qualified} "a": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )
    assert space.get(PROBES) == first


def test_what_is_not_there_cannot_be_updated(space: Space) -> None:
    body = with_metadata(probe(), resourceVersion="1")
    assert space.refused(lambda h: h.update(PROBES, body)).summary == NOT_FOUND
    assert space.refused(lambda h: h.update(SECRETS, {"metadata": {"name": "a"}})).summary == NOT_FOUND


def test_a_lease_is_created_by_an_update(space: Space) -> None:
    created = space.update(LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    assert created["spec"] == {"holderIdentity": "me"}


def test_an_object_cannot_be_moved_onto_a_recreated_one(space: Space, created: Json) -> None:
    space.delete(PROBES)
    recreated = space.probe(text="new")
    assert space.refused(lambda h: h.update(PROBES, created)).summary == CONFLICT
    assert space.get(PROBES) == recreated

"""Paths, methods, media types and queries: what a request is answered before any object is looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster.answers import Answer, Stream
from devcluster.requests import BODY_LIMIT, Request, Target, parse_target
from devcluster.store import Store
from devcluster.tables import find
from kube.cluster import Json
from tests.unit.devcluster.factories import (
    COMPOSITION_PATH,
    JSON_PATCH,
    MERGE_PATCH,
    SECRET_PATH,
    Clock,
    composition,
    decoded,
    new_store,
    secret,
    send,
    send_any,
)

WEB = f"{COMPOSITION_PATH}/web"
ENO = "/apis/eno.azure.io/v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest.fixture
def store() -> Store:
    store = new_store()
    send(store, "POST", COMPOSITION_PATH, composition())
    send(store, "POST", SECRET_PATH, secret())
    return store


TARGETS: dict[str, Target] = {
    "/api/v1/namespaces": Target("", "v1", None, "namespaces"),
    "/api/v1/namespaces/a": Target("", "v1", None, "namespaces", "a"),
    "/api/v1/namespaces/a/finalize": Target("", "v1", None, "namespaces", "a", "finalize"),
    "/api/v1/namespaces/a/secrets": Target("", "v1", "a", "secrets"),
    "/api/v1/namespaces/a/secrets/b%2Fc": Target("", "v1", "a", "secrets", "b/c"),
    "/api/v1/secrets/": Target("", "v1", None, "secrets"),
    "/apis/g/v1/namespaces/a/things/b/status": Target("g", "v1", "a", "things", "b", "status"),
    "/apis/g/v1": Target("g", "v1"),
    "/apis/g": Target(None, rest="/apis/g"),
    "/": Target(None, rest="/"),
    "/api/v1//namespaces": Target(None, rest="/api/v1//namespaces"),
}


@pytest.mark.parametrize(("url", "target"), TARGETS.items(), ids=list(TARGETS))
def test_a_path_names_a_target(url: str, target: Target) -> None:
    assert parse_target(f"{url}?a=b&c=") == (target, {"a": "b", "c": ""})


VERBS: dict[str, tuple[str, str]] = {
    "create": ("POST", SECRET_PATH),
    "get": ("GET", f"{SECRET_PATH}/a"),
    "list": ("GET", SECRET_PATH),
    "watch": ("GET", f"{SECRET_PATH}?watch=true"),
    "update": ("PUT", f"{SECRET_PATH}/a"),
    "patch": ("PATCH", f"{SECRET_PATH}/a"),
    "delete": ("DELETE", f"{SECRET_PATH}/a"),
    "deletecollection": ("DELETE", SECRET_PATH),
    "head": ("HEAD", "/version"),
}


@pytest.mark.parametrize(("verb", "request_"), VERBS.items(), ids=list(VERBS))
def test_a_method_and_a_path_make_a_verb(verb: str, request_: tuple[str, str]) -> None:
    method, url = request_
    assert Request(method, *parse_target(url)).verb == verb


PLAIN_404 = [
    ("GET", "/nonsense"),
    ("GET", "/apis/nope.example/v1/things"),
    ("GET", "/apis/eno.azure.io/v9/compositions"),
    ("GET", f"{ENO}/namespaces/default/nonsense"),
    ("POST", f"{ENO}/namespaces/default/nonsense"),
    ("GET", f"{ENO}/compositions/web"),
    ("POST", f"{ENO}/compositions"),
]


@pytest.mark.parametrize(("method", "url"), PLAIN_404)
def test_a_path_that_is_not_served_is_answered_in_plain_text(store: Store, method: str, url: str) -> None:
    result = send(store, method, url, composition() if method == "POST" else None)
    assert (result.code, result.body, result.content_type) == (
        404,
        b"404 page not found\n",
        "text/plain; charset=utf-8",
    )


STATUSES: dict[str, tuple[str, str, int, str]] = {
    "an unknown core resource": ("GET", "/api/v1/namespaces/default/things", 404, "NotFound"),
    "an unknown subresource of a Secret": ("GET", f"{SECRET_PATH}/inventory/status", 404, "NotFound"),
    "an unknown subresource of a composition": ("GET", f"{WEB}/scale", 404, "NotFound"),
    "PUT of all Secrets": ("PUT", SECRET_PATH, 405, "MethodNotAllowed"),
    "POST of one Secret": ("POST", f"{SECRET_PATH}/x", 405, "MethodNotAllowed"),
    "POST of a Secret without a namespace": ("POST", "/api/v1/secrets", 405, "MethodNotAllowed"),
    "PUT of all compositions": ("PUT", COMPOSITION_PATH, 400, "BadRequest"),
    "PATCH of all compositions": ("PATCH", COMPOSITION_PATH, 400, "BadRequest"),
    "POST of a status": ("POST", f"{WEB}/status", 405, "MethodNotAllowed"),
    "DELETE of a status": ("DELETE", f"{WEB}/status", 405, "MethodNotAllowed"),
    "an unknown method": ("OPTIONS", SECRET_PATH, 405, "MethodNotAllowed"),
    "POST to discovery": ("POST", "/version", 405, "MethodNotAllowed"),
    "GET of an access review": (
        "GET",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        405,
        "MethodNotAllowed",
    ),
    "a resourceVersion that is a word": ("GET", f"{WEB}?resourceVersion=abc", 500, ""),
    "a resourceVersion from the future": ("GET", f"{WEB}?resourceVersion=9999", 504, "Timeout"),
    "a limit that is a word": ("GET", f"{SECRET_PATH}?limit=abc", 400, "BadRequest"),
    "a watch with a timeout that is a word": (
        "GET",
        f"{SECRET_PATH}?watch=1&timeoutSeconds=abc",
        400,
        "BadRequest",
    ),
    "a watch from a word": ("GET", f"{SECRET_PATH}?watch=1&resourceVersion=abc", 500, ""),
    "a watch of a malformed selector": ("GET", f"{SECRET_PATH}?watch=1&labelSelector=a+b", 400, "BadRequest"),
    "a watch with a continue token": ("GET", f"{SECRET_PATH}?watch=1&continue=x", 422, "Invalid"),
    "an unknown field validation": ("POST", f"{COMPOSITION_PATH}?fieldValidation=Bogus", 422, "Invalid"),
    "an unknown dry run": ("POST", f"{COMPOSITION_PATH}?dryRun=Some", 422, "Invalid"),
    "an unknown propagation policy": ("DELETE", f"{WEB}?propagationPolicy=Sideways", 422, "Invalid"),
}


@pytest.mark.parametrize(("method", "url", "code", "reason"), STATUSES.values(), ids=STATUSES)
def test_a_request_that_does_not_fit_is_answered_with_a_status(
    store: Store, method: str, url: str, code: int, reason: str
) -> None:
    before = store.version
    body = composition("new") if method in ("POST", "PUT", "PATCH") else None
    result = send(store, method, url, body, content_type=MERGE_PATCH if method == "PATCH" else "application/json")
    status = decoded(result)
    assert (result.code, status.get("reason", ""), status["code"]) == (code, reason, code)
    assert store.version == before


def test_an_answer_that_asks_for_patience_says_how_long(store: Store) -> None:
    assert send(store, "GET", f"{WEB}?resourceVersion=9999").retry_after == 1


class TestMediaTypes:
    """Accept and Content-Type."""

    @pytest.mark.parametrize("accept", ["", "*/*", "application/*", "text/html, application/json;q=0.5"])
    def test_json_is_what_everybody_gets(self, store: Store, accept: str) -> None:
        assert decoded(send(store, "GET", WEB, accept=accept))["kind"] == "Composition"

    @pytest.mark.parametrize("accept", ["text/html", "application/yaml", f"{PARTIAL[:-2]}v9"])
    def test_what_is_not_served_is_not_acceptable(self, store: Store, accept: str) -> None:
        assert send(store, "GET", WEB, accept=accept).code == 406

    def test_the_first_form_that_is_served_is_taken(self, store: Store) -> None:
        accept = f"{PARTIAL[:-2]}v9,application/json"
        assert decoded(send(store, "GET", WEB, accept=accept))["kind"] == "Composition"

    def test_metadata_alone(self, store: Store) -> None:
        assert decoded(send(store, "GET", WEB, accept=PARTIAL)).keys() == {"kind", "apiVersion", "metadata"}
        page = decoded(send(store, "GET", COMPOSITION_PATH, accept=PARTIAL_LIST))
        assert page["kind"] == "PartialObjectMetadataList"
        assert [item["kind"] for item in page["items"]] == ["PartialObjectMetadata"]

    def test_metadata_of_one_is_not_metadata_of_many(self, store: Store) -> None:
        assert send(store, "GET", COMPOSITION_PATH, accept=PARTIAL).code == 406
        assert send(store, "GET", WEB, accept=PARTIAL_LIST).code == 500

    @pytest.mark.parametrize("media", ["application/json", "text/plain", "application/apply-patch+yaml"])
    def test_a_patch_of_another_type_is_unsupported(self, store: Store, media: str) -> None:
        assert send(store, "PATCH", WEB, {}, content_type=media).code == 415

    def test_custom_resources_take_no_strategic_patch(self, store: Store) -> None:
        media = "application/strategic-merge-patch+json"
        assert send(store, "PATCH", WEB, {}, content_type=media).code == 415
        patch = {"metadata": {"labels": {"a": "b"}}}
        assert send(store, "PATCH", f"{SECRET_PATH}/inventory", patch, content_type=media).code == 200

    def test_a_strategic_patch_with_directives_is_refused(self, store: Store) -> None:
        patch = {"metadata": {"$patch": "replace"}}
        media = "application/strategic-merge-patch+json"
        assert send(store, "PATCH", f"{SECRET_PATH}/inventory", patch, content_type=media).code == 400

    def test_a_character_set_is_no_other_type(self, store: Store) -> None:
        assert send(store, "PATCH", WEB, {}, content_type=f"{MERGE_PATCH}; charset=utf-8").code == 200

    def test_an_object_may_come_as_yaml(self, store: Store) -> None:
        body = b"apiVersion: v1\nkind: Secret\nmetadata: {name: yaml}\n"
        assert send(store, "POST", SECRET_PATH, body, content_type="application/yaml").code == 201
        assert send(store, "POST", SECRET_PATH, b"a: [", content_type="application/yaml").code == 400

    def test_protobuf_is_not_taken(self, store: Store) -> None:
        media = "application/vnd.kubernetes.protobuf"
        assert send(store, "POST", SECRET_PATH, b"k8s\0", content_type=media).code == 415


MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"a":',
    "a list": b"[]",
    "a string": b'"x"',
    "bytes": b"\xff\xfe",
    "an abyss": b'{"a":' * 5000 + b"1" + b"}" * 5000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize(
    ("method", "url", "media"),
    [
        ("POST", COMPOSITION_PATH, "application/json"),
        ("PUT", WEB, "application/json"),
        ("PATCH", WEB, MERGE_PATCH),
        ("POST", SECRET_PATH, "application/json"),
    ],
)
def test_a_malformed_body_is_a_bad_request(store: Store, method: str, url: str, media: str, body: bytes) -> None:
    before = store.version
    assert send(store, method, url, body, content_type=media).code == 400
    assert store.version == before


@pytest.mark.parametrize(("size", "code"), [(BODY_LIMIT, 400), (BODY_LIMIT + 1, 413)])
def test_a_body_above_the_limit_is_not_looked_at(store: Store, size: int, code: int) -> None:
    assert send(store, "POST", SECRET_PATH, b"x" * size).code == code


def test_strictly_no_member_may_come_twice(store: Store) -> None:
    body = msgspec.json.encode(composition("twice")).replace(b'"spec":{', b'"spec":{"synthesizer":{},')
    assert send(store, "POST", COMPOSITION_PATH, body).code == 201
    result = send(store, "POST", f"{COMPOSITION_PATH}?fieldValidation=Strict", body)
    assert result.code == 400
    assert decoded(result)["message"].endswith('strict decoding error: duplicate field "spec.synthesizer"')


def test_unknown_fields_are_told_in_warnings(store: Store) -> None:
    result = send(store, "POST", COMPOSITION_PATH, composition("warned", extra=1))
    assert (result.code, result.warnings) == (201, ('unknown field "extra"',))


DELETE_BODIES: dict[str, tuple[Any, int]] = {
    "none": (None, 200),
    "empty options": ({}, 200),
    "options with their kind": ({"apiVersion": "v1", "kind": "DeleteOptions"}, 200),
    "a dry run": ({"dryRun": ["All"]}, 200),
    "an unmet uid": ({"preconditions": {"uid": "x"}}, 409),
    "an unmet resourceVersion": ({"preconditions": {"resourceVersion": "1"}}, 409),
    "another kind": ({"apiVersion": "v1", "kind": "Pod"}, 400),
    "no JSON": (b"{", 400),
    "a list": (b"[]", 400),
    "preconditions that are a string": ({"preconditions": "x"}, 400),
    "an unknown policy": ({"propagationPolicy": "Sideways"}, 422),
}


@pytest.mark.parametrize(("body", "code"), DELETE_BODIES.values(), ids=DELETE_BODIES)
def test_a_delete_takes_its_options_from_the_body(store: Store, body: Any, code: int) -> None:
    assert send(store, "DELETE", WEB, body).code == code


def test_a_delete_answers_success_or_the_marked_object(store: Store) -> None:
    uid = decoded(send(store, "GET", WEB))["metadata"]["uid"]
    patch = {"metadata": {"finalizers": ["a.b/c"]}}
    send(store, "PATCH", WEB, patch, content_type=MERGE_PATCH)
    assert decoded(send(store, "DELETE", WEB))["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": []}}
    send(store, "PATCH", WEB, patch, content_type=MERGE_PATCH)
    status = decoded(send(store, "DELETE", f"{SECRET_PATH}/inventory"))
    assert status["status"] == "Success"
    assert status["details"]["kind"] == "secrets"
    assert uid


def test_a_collection_is_deleted_by_selector(store: Store) -> None:
    for name in ("a", "b"):
        send(store, "POST", SECRET_PATH, secret(name, meta={"labels": {"n": name}}))
    page = decoded(send(store, "DELETE", f"{SECRET_PATH}?labelSelector=n%3Da"))
    assert [item["metadata"]["name"] for item in page["items"]] == ["a"]
    left = decoded(send(store, "GET", SECRET_PATH))["items"]
    assert [item["metadata"]["name"] for item in left] == ["b", "inventory"]


def test_a_list_shows_its_version_and_what_remains(store: Store) -> None:
    send(store, "POST", SECRET_PATH, secret("second"))
    page = decoded(send(store, "GET", f"{SECRET_PATH}?limit=1"))
    assert page["metadata"].pop("continue")
    assert page["metadata"] == {"resourceVersion": str(store.version), "remainingItemCount": 1}
    assert (page["kind"], page["apiVersion"], len(page["items"])) == ("SecretList", "v1", 1)


def test_an_access_review_allows_everything(store: Store) -> None:
    url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    before = store.version
    result = send(store, "POST", url, {"spec": {"resourceAttributes": {"verb": "get"}}})
    assert (result.code, decoded(result)["status"]) == (201, {"allowed": True})
    assert store.version == before


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(store: Store, path: str) -> None:
    assert send(store, "GET", path).body == b"ok"


def test_discovery_follows_the_definitions(store: Store) -> None:
    assert decoded(send(store, "GET", "/api"))["versions"] == ["v1"]
    groups = [group["name"] for group in decoded(send(store, "GET", "/apis"))["groups"]]
    assert "eno.azure.io" in groups
    resources = decoded(send(store, "GET", ENO))["resources"]
    names = [resource["name"] for resource in resources]
    assert names[:3] == ["compositions", "compositions/status", "resourceslices"]
    url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for name in ("compositions", "resourceslices", "symphonies", "synthesizers"):
        assert send(store, "DELETE", f"{url}/{name}.eno.azure.io").code == 200
    assert send(store, "GET", "/apis/eno.azure.io").code == 404
    assert send(store, "GET", ENO).code == 404


def test_every_served_path_is_found_in_the_openapi_documents(store: Store) -> None:
    index = decoded(send(store, "GET", "/openapi/v3"))["paths"]
    for entry in index.values():
        assert send(store, "GET", entry["serverRelativeURL"]).code == 200
    document = decoded(send(store, "GET", index["apis/eno.azure.io/v1"]["serverRelativeURL"]))
    path = document["paths"][f"{ENO}/namespaces/{{namespace}}/compositions/{{name}}"]
    assert path["patch"]["parameters"][0]["name"] == "fieldValidation"


class TestTables:
    """What `kubectl get` asks for."""

    def test_columns_and_cells(self, store: Store) -> None:
        decision = {"status": True, "reason": "NotNeeded", "synthesisUUID": "u"}
        ready = "2026-01-31T11:55:30Z"
        status = {"currentSynthesis": {"uuid": "u", "ready": ready, "tombstoneRecoveryStatus": decision}}
        operations = [{"op": "add", "path": "/status", "value": status}]
        send(store, "PATCH", f"{WEB}/status", operations, content_type=JSON_PATCH)
        result = decoded(send(store, "GET", COMPOSITION_PATH, accept=TABLE))
        names = [column["name"] for column in result["columnDefinitions"] if not column["priority"]]
        assert names == ["Name", "Synthesizer", "Status", "Recovery", "Ready", "Age"]
        (row,) = result["rows"]
        assert row["cells"][:6] == ["web", "helm", None, "NotNeeded", "4m30s", "0s"]
        assert row["object"]["kind"] == "PartialObjectMetadata"

    @pytest.mark.parametrize(("include", "kind"), [("Object", "Composition"), ("None", None)])
    def test_how_much_of_the_object_goes_along(self, store: Store, include: str, kind: str | None) -> None:
        result = decoded(send(store, "GET", f"{WEB}?includeObject={include}", accept=TABLE))
        assert result["rows"][0].get("object", {}).get("kind") == kind

    AGES: dict[float, str] = {  # noqa: RUF012
        0: "0s",
        119: "119s",
        120: "2m",
        599: "9m59s",
        600: "10m",
        3 * 3600: "3h",
        7 * 3600 + 60: "7h1m",
        47 * 3600: "47h",
        3 * 86_400 + 3600: "3d1h",
        30 * 86_400: "30d",
    }

    @pytest.mark.parametrize(("seconds", "expected"), AGES.items())
    def test_ages(self, store: Store, seconds: float, expected: str) -> None:
        assert isinstance(store.clock, Clock)
        store.clock.now = store.clock.now.replace(microsecond=0) + timedelta(seconds=seconds)
        assert decoded(send(store, "GET", WEB, accept=TABLE))["rows"][0]["cells"][5] == expected

    PATHS: dict[str, Any] = {  # noqa: RUF012
        ".a.b": 1,
        ".list[1].x": 2,
        ".list[5].x": None,
        '.list[?(@.type=="B")].x': 2,
        '.list[?(@.type=="C")].x': None,
        r".labels.eno\.azure\.io/x": "y",
        ".missing.deeper": None,
    }

    @pytest.mark.parametrize(("path", "expected"), PATHS.items(), ids=list(PATHS))
    def test_paths(self, path: str, expected: Any) -> None:
        body: Json = {
            "a": {"b": 1},
            "list": [{"type": "A", "x": 1}, {"type": "B", "x": 2}],
            "labels": {"eno.azure.io/x": "y"},
        }
        assert find(body, path) == expected


class TestStreams:
    """A watch as it goes out, without the waiting."""

    def stream(self, store: Store, query: str, accept: str = "application/json") -> Stream:
        result = send_any(store, "GET", f"{COMPOSITION_PATH}?watch=1&{query}", accept=accept)
        assert isinstance(result, Stream)
        return result

    def lines(self, store: Store, stream: Stream) -> list[Json]:
        return [msgspec.json.decode(stream.line(store, event, "")) for event in stream.watch.poll()]

    def test_lines_are_events(self, store: Store) -> None:
        stream = self.stream(store, "timeoutSeconds=7&allowWatchBookmarks=true")
        (line,) = self.lines(store, stream)
        assert (line["type"], line["object"]["metadata"]["name"]) == ("ADDED", "web")
        assert (stream.timeout, stream.bookmarks) == (7, True)

    def test_bookmarks_have_the_kind_of_the_stream(self, store: Store) -> None:
        for accept, kind in (("application/json", "Composition"), (PARTIAL, "PartialObjectMetadata")):
            stream = self.stream(store, "", accept)
            line = msgspec.json.decode(stream.bookmark())
            assert (line["type"], line["object"]["kind"]) == ("BOOKMARK", kind)

    def test_initial_events_end_with_a_marked_bookmark(self, store: Store) -> None:
        query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        stream = self.stream(store, query)
        assert stream.initial_bookmark
        assert len(self.lines(store, stream)) == 1
        line = msgspec.json.decode(stream.bookmark(initial=True))
        assert line["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    CONTRADICTIONS = (
        "watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan",
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&continue=x",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1",
    )

    @pytest.mark.parametrize("query", CONTRADICTIONS)
    def test_options_that_contradict_each_other_are_refused(self, store: Store, query: str) -> None:
        assert send(store, "GET", f"{COMPOSITION_PATH}?{query}").code == 422

    @pytest.mark.parametrize(("query", "watching"), [("watch", True), ("watch=yes", True), ("watch=0", False)])
    def test_a_flag_is_set_by_anything_but_zero_and_false(self, store: Store, query: str, watching: bool) -> None:
        result = send_any(store, "GET", f"{COMPOSITION_PATH}?{query}")
        assert isinstance(result, Stream) is watching


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
MEMBERS = (
    *("apiVersion", "kind", "metadata", "name", "namespace", "labels", "finalizers", "ownerReferences", "uid"),
    *("spec", "status", "data", "stringData", "type", "versions", "schema", "group", "names", "plural"),
    *("synthesizer", "resources", "manifest", "involvedObject", "resourceVersion"),
)
names = st.sampled_from(MEMBERS)
bodies = st.recursive(
    scalars | st.sampled_from(["v1", "Secret", "Composition", "eno.azure.io/v1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=12,
)
URLS = [
    COMPOSITION_PATH,
    WEB,
    f"{WEB}/status",
    SECRET_PATH,
    f"{SECRET_PATH}/inventory",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/finalize",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
]
FUZZED = new_store()
send(FUZZED, "POST", COMPOSITION_PATH, composition())
send(FUZZED, "POST", SECRET_PATH, secret())


@settings(deadline=None)
@given(
    body=bodies,
    shell=st.booleans(),
    url=st.sampled_from(URLS),
    method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
    media=st.sampled_from(["application/json", MERGE_PATCH, JSON_PATCH]),
)
def test_any_body_is_answered(body: Any, shell: bool, url: str, method: str, media: str) -> None:
    if shell and isinstance(body, dict):
        known = decoded(send(FUZZED, "GET", WEB if "compositions" in url else f"{SECRET_PATH}/inventory"))
        body = {**known, **body}
    store = FUZZED.copy()
    result = send(store, method, url, msgspec.json.encode(body), content_type=media)
    assert isinstance(result, Answer)
    if result.code >= 400:
        assert store.version == FUZZED.version

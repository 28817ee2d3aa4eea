"""Which error an answer becomes, and that nothing volatile is in its summary."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno import errors
from kube.resources import COMPOSITIONS, NAMESPACES, RESOURCE_SLICES, SECRETS
from kube.statuses import MESSAGE_LIMIT, RETRY_AFTER_LIMIT, error_from_event, error_from_status, operation

TITLE = "get secrets ns/a"


def status(reason: str = "", message: str = "", **details: Any) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "details": details}).encode()


TERMINATING = {"causes": [{"reason": "NamespaceTerminating", "message": "namespace ns is being terminated"}]}
TOO_LARGE = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}

CLASSES: dict[str, tuple[int, bytes | None, type[errors.ApiError]]] = {
    "400 is refused": (400, status("BadRequest"), errors.Refused),
    "401 is unauthorized": (401, status("Unauthorized"), errors.Unauthorized),
    "403 is forbidden": (403, status("Forbidden", "no RBAC"), errors.Forbidden),
    "403 in a terminating namespace, by cause": (
        403,
        status("Forbidden", **TERMINATING),
        errors.NamespaceTerminating,
    ),
    "403 in a terminating namespace, by message": (
        403,
        status("Forbidden", "cannot create in namespace ns because it is being terminated"),
        errors.NamespaceTerminating,
    ),
    "404 that names the object": (404, status("NotFound", name="a"), errors.NotFound),
    "404 that names nothing": (404, status("NotFound"), errors.NotServed),
    "404 of a kind that is not served": (404, b"404 page not found\n", errors.NotServed),
    "404 of a proxy": (404, b"<html>no such route</html>", errors.NotServed),
    "405 is refused": (405, status("MethodNotAllowed"), errors.Refused),
    "406 is refused": (406, status("NotAcceptable"), errors.Refused),
    "408 is a server error": (408, None, errors.ServerError),
    "409 is a conflict": (409, status("Conflict"), errors.Conflict),
    "409 without a reason is a conflict": (409, b"", errors.Conflict),
    "409 with AlreadyExists": (409, status("AlreadyExists"), errors.AlreadyExists),
    "410 is expired": (410, status("Expired"), errors.Expired),
    "410 with the older reason": (410, status("Gone"), errors.Expired),
    "413 is refused": (413, status("RequestEntityTooLarge"), errors.Refused),
    "415 is refused": (415, status("UnsupportedMediaType"), errors.Refused),
    "418 is a server error": (418, b"", errors.ServerError),
    "422 is invalid": (422, status("Invalid"), errors.Invalid),
    "429 is throttled": (429, status("TooManyRequests"), errors.Throttled),
    "500 is a server error": (500, status("InternalError"), errors.ServerError),
    "500 of a failed test operation on older servers": (
        500,
        status("InternalError", "testing value /metadata/uid failed"),
        errors.ServerError,
    ),
    "502 from a proxy, in HTML": (502, b"<html>Bad Gateway", errors.ServerError),
    "503 is a server error": (503, None, errors.ServerError),
    "503 that says when to come back": (503, status(retryAfterSeconds=2), errors.Throttled),
    "504 is a server error": (504, status("Timeout"), errors.ServerError),
    "504 for a version from before a restore": (504, status("Timeout", **TOO_LARGE), errors.Expired),
    "a status outside of HTTP": (999, b"", errors.ServerError),
}


@pytest.mark.parametrize(("code", "body", "expected"), CLASSES.values(), ids=CLASSES)
def test_the_class_follows_status_and_reason(code: int, body: bytes | None, expected: type[errors.ApiError]) -> None:
    error = error_from_status(TITLE, code, body)
    assert type(error) is expected
    assert error.status == code


@pytest.mark.parametrize("code", range(400, 600))
def test_every_status_has_a_class_that_is_retryable_or_terminal(code: int) -> None:
    assert isinstance(error_from_status(TITLE, code, None), errors.Retryable | errors.Terminal)


BODIES = {
    "none": None,
    "empty": b"",
    "plain text": b"404 page not found",
    "HTML": b"<html><body>Bad gateway",
    "not UTF-8": b"\xff\xfe{",
    "a list": b"[1]",
    "null": b"null",
    "cut off": b'{"kind":"Status","reason":"Conf',
    "far too deep": b'{"a":' * 5000,
    "reason of another type": b'{"reason":{"a":1}}',
    "details of another type": b'{"details":[1]}',
    "causes of another type": b'{"details":{"causes":"x"}}',
    "causes of other types": b'{"details":{"causes":[1,null,{"reason":{}}]}}',
    "message of another type": b'{"message":["x"]}',
    "a pause of another type": b'{"details":{"retryAfterSeconds":"soon"}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_status_changes_nothing_but_the_detail(body: bytes | None) -> None:
    error = error_from_status(TITLE, 409, body)
    assert type(error) is errors.Conflict
    assert error.summary == f"{TITLE}: 409"
    assert "\n" not in str(error)


@given(st.integers(400, 599), st.binary(max_size=200))
def test_no_body_is_a_traceback(code: int, body: bytes) -> None:
    assert isinstance(error_from_status(TITLE, code, body), errors.ApiError)


def test_the_summary_holds_operation_status_and_reason_but_not_the_message() -> None:
    error = error_from_status(TITLE, 500, status("InternalError", "dial tcp 10.0.0.1:34567: refused"))
    assert error.summary == f"{TITLE}: 500 InternalError"
    assert "34567" in str(error)


def test_a_reason_that_is_no_reason_stays_out_of_the_summary() -> None:
    assert error_from_status(TITLE, 500, status("request 0x7f12 failed")).summary == f"{TITLE}: 500"


def test_a_long_message_is_cut() -> None:
    assert len(error_from_status(TITLE, 500, b"x" * 10_000).detail) == MESSAGE_LIMIT


@pytest.mark.parametrize("end", ['"', "", '": unknown field "spec.x"'])
def test_a_refused_object_that_the_server_quotes_is_left_out(end: str) -> None:
    quoted = json.dumps(json.dumps({"data": {"inventory.json": "c2VjcmV0" * 100}}))[1:-1]
    error = error_from_status(TITLE, 422, status("Invalid", f'"a" is invalid: patch: Invalid value: "{quoted}{end}'))
    assert "c2VjcmV0" not in str(error)
    assert error.detail.startswith('"a" is invalid: patch: Invalid value: "…"')


def test_a_name_of_full_length_is_kept() -> None:
    name = "n" * 253
    assert name in str(error_from_status(TITLE, 404, status("NotFound", f'secrets "{name}" not found')))


PAUSES: dict[str, tuple[float | None, Any, float | None]] = {
    "none": (None, None, None),
    "the header": (3.5, None, 3.5),
    "the header before the body": (3.5, 7, 3.5),
    "the body": (None, 7, 7.0),
    "zero is no pause": (None, 0, None),
    "negative is no pause": (None, -1, None),
    "absurd is capped": (None, 10**400, RETRY_AFTER_LIMIT),
}


@pytest.mark.parametrize(("header", "seconds", "expected"), PAUSES.values(), ids=PAUSES)
@pytest.mark.parametrize("code", [403, 409, 422, 429, 503])
def test_the_pause_is_kept_whatever_the_class(
    code: int, header: float | None, seconds: Any, expected: float | None
) -> None:
    body = {"details": {"retryAfterSeconds": seconds}}
    assert error_from_status(TITLE, code, body, retry_after=header).retry_after == expected


EVENTS: dict[str, tuple[dict[str, Any], type[errors.ApiError]]] = {
    "expired by code": ({"code": 410, "reason": "Expired"}, errors.Expired),
    "gone by code alone": ({"code": 410}, errors.Expired),
    "expired by reason alone": ({"reason": "Expired"}, errors.Expired),
    "gone with a code that is none": ({"code": "410", "reason": "Gone"}, errors.Expired),
    "a failure with a success code": ({"code": 200, "reason": "Expired"}, errors.Expired),
    "internal error": ({"code": 500, "reason": "InternalError"}, errors.ServerError),
    "throttled": ({"code": 429, "details": {"retryAfterSeconds": 1}}, errors.Throttled),
    "nothing at all": ({}, errors.ServerError),
}


@pytest.mark.parametrize(("obj", "expected"), EVENTS.values(), ids=EVENTS)
def test_an_error_line_in_a_watch_becomes_the_error_its_status_describes(
    obj: dict[str, Any], expected: type[errors.ApiError]
) -> None:
    assert type(error_from_event(TITLE, obj)) is expected


OPERATIONS = {
    "a subresource": (
        ("patch", COMPOSITIONS, "ns", "a", "status"),
        "patch compositions.eno.azure.io/status ns/a",
    ),
    "an object": (("get", RESOURCE_SLICES, "ns", "a"), "get resourceslices.eno.azure.io ns/a"),
    "a namespace": (("list", SECRETS, "kube-system"), "list secrets kube-system"),
    "all namespaces": (
        ("list", COMPOSITIONS, None),
        "list compositions.eno.azure.io (all namespaces)",
    ),
    "a cluster-scoped object": (("get", NAMESPACES, None, "a"), "get namespaces a"),
    "cluster-scoped objects": (("list", NAMESPACES, None), "list namespaces"),
}


@pytest.mark.parametrize(("arguments", "expected"), OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_reads_as_verb_resource_and_object(arguments: Any, expected: str) -> None:
    assert operation(*arguments) == expected

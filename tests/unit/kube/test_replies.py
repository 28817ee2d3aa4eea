"""What passes for an answer and what does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import ApiError, BadResponse
from kube import replies, requests
from kube.cluster import Json, Query
from kube.requests import Request
from kube.resources import SECRETS
from kube.statuses import RETRY_AFTER_LIMIT

LIST = requests.list_page(Query(SECRETS, "ns"), limit=500, continue_token="")
METADATA_LIST = requests.list_page(Query(SECRETS, "ns", metadata_only=True), limit=500, continue_token="")
GET = requests.get(SECRETS, "ns", "a", metadata_only=False)
METADATA_GET = requests.get(SECRETS, "ns", "a", metadata_only=True)
DELETE = requests.delete(SECRETS, "ns", "a", uid="u", resource_version=None)
NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)


def page(kind: str = "SecretList", *, items: Any = (), version: Any = "7", token: Any = None) -> Json:
    metadata = {"resourceVersion": version} | ({} if token is None else {"continue": token})
    return {"kind": kind, "metadata": metadata, "items": list(items) if items == () else items}


def parse(answer: Any, request: Request = LIST) -> Any:
    return replies.page_from(request, msgspec.json.encode(answer), NOW)


def test_a_page_carries_the_lists_own_version_its_token_and_the_servers_date() -> None:
    got = parse(page(items=[{"metadata": {"resourceVersion": "3"}}], token="more"))
    assert (got.resource_version, got.continue_token, got.date, len(got.items)) == ("7", "more", NOW, 1)


@pytest.mark.parametrize("token", [None, ""])
def test_the_last_page_has_no_token(token: Any) -> None:
    assert parse(page(token=token)).continue_token == ""


BAD_PAGES = {
    "no items": {"kind": "SecretList", "metadata": {"resourceVersion": "7"}},
    "null items": page(items=None),
    "items that are no list": page(items={}),
    "an item that is no object": page(items=[{}, None]),
    "no metadata": {"kind": "SecretList", "items": []},
    "metadata of another type": {"kind": "SecretList", "metadata": [], "items": []},
    "no version": page(version=None),
    "an empty version": page(version=""),
    "a version that is a number": page(version=7),
    "a token of another type": page(token=7),
    "another kind": page("ConfigMapList"),
    "a status": {"kind": "Status", "status": "Failure"},
}


@pytest.mark.parametrize("answer", BAD_PAGES.values(), ids=BAD_PAGES)
def test_a_list_that_is_not_all_there_is_not_an_empty_list(answer: Json) -> None:
    with pytest.raises(BadResponse):
        parse(answer)


def test_an_empty_list_of_metadata_may_say_null_but_must_say_so() -> None:
    assert parse(page("PartialObjectMetadataList", items=None), METADATA_LIST).items == []
    with pytest.raises(BadResponse):
        parse({"kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "7"}}, METADATA_LIST)


def test_whole_objects_instead_of_metadata_are_refused() -> None:
    assert parse(page("PartialObjectMetadataList"), METADATA_LIST).items == []
    with pytest.raises(BadResponse, match="expected PartialObjectMetadataList, got SecretList"):
        parse(page("SecretList"), METADATA_LIST)
    with pytest.raises(BadResponse, match="expected PartialObjectMetadata, got Secret"):
        replies.object_from(METADATA_GET, b'{"kind":"Secret"}')


NO_OBJECTS = {
    "nothing": b"",
    "a login page": b"<html>please log in",
    "a list": b"[]",
    "null": b"null",
    "a string": b'"x"',
    "cut off": b'{"kind":"Sec',
    "two documents": b'{"kind":"Secret"}{"kind":"Secret"}',
    "not UTF-8": b'{"kind":"\xff"}',
    "another kind": b'{"kind":"ConfigMap"}',
    "no kind": b"{}",
}


@pytest.mark.parametrize("body", NO_OBJECTS.values(), ids=NO_OBJECTS)
def test_a_success_without_the_promised_object_is_a_bad_response(body: bytes) -> None:
    with pytest.raises(BadResponse):
        replies.object_from(GET, body)


def test_a_delete_may_answer_with_any_object_but_not_with_a_page() -> None:
    assert replies.object_from(DELETE, b'{"kind":"Status"}') == {"kind": "Status"}
    assert replies.object_from(DELETE, b'{"kind":"Secret"}') == {"kind": "Secret"}
    with pytest.raises(BadResponse):
        replies.object_from(DELETE, b"<html>")


@given(st.binary(max_size=300))
def test_no_body_is_a_traceback(body: bytes) -> None:
    for request in (LIST, GET, DELETE):
        try:
            replies.page_from(request, body, None)
        except ApiError:
            continue


DATES = {
    "the usual form": ("Wed, 01 May 2024 12:00:00 GMT", NOW),
    "another zone": ("Wed, 01 May 2024 14:00:00 +0200", NOW),
    "an unknown zone counts as UTC": ("Wed, 01 May 2024 12:00:00 -0000", NOW),
    "absent": (None, None),
    "empty": ("", None),
    "garbage": ("yesterday", None),
    "no such day": ("Wed, 99 May 2024 12:00:00 GMT", None),
    "past the end of the calendar": ("Fri, 31 Dec 9999 23:59:59 -2359", None),
}


@pytest.mark.parametrize(("header", "expected"), DATES.values(), ids=DATES)
def test_a_date_header_is_an_instant_in_utc_or_nothing(header: str | None, expected: Any) -> None:
    got = replies.date_from(header)
    assert got == expected
    assert got is None or got.utcoffset() == timedelta(0)


@given(st.text(max_size=60))
def test_no_header_is_a_traceback(header: str) -> None:
    replies.date_from(header)
    replies.retry_after_from(header, NOW)


PAUSES = {
    "seconds": ("5", 5.0),
    "with spaces": (" 5 ", 5.0),
    "a date": ("Wed, 01 May 2024 12:00:30 GMT", 30.0),
    "a date that is over": ("Wed, 01 May 2024 11:00:00 GMT", None),
    "zero": ("0", None),
    "negative": ("-5", None),
    "a fraction": ("1.5", None),
    "digits that are not ASCII": ("٣", None),
    "absurd": ("9" * 5000, RETRY_AFTER_LIMIT),
    "absent": (None, None),
    "garbage": ("soon", None),
}


@pytest.mark.parametrize(("header", "expected"), PAUSES.values(), ids=PAUSES)
def test_retry_after_holds_seconds_or_a_date(header: str | None, expected: float | None) -> None:
    assert replies.retry_after_from(header, NOW) == expected

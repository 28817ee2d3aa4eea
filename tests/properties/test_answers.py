"""What a server, or a proxy in front of it, may answer with."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import ApiError, BadResponse
from kube.cluster import Query
from kube.replies import date_from, object_from, page_from, retry_after_from
from kube.requests import list_page
from kube.resources import COMPOSITIONS, SECRETS
from kube.statuses import RETRY_AFTER_LIMIT, error_from_event, error_from_status
from tests.properties.strategies import INSTANTS, JSON, NUMBERS, TEXTS, distorted, json_values, repeatable, tried

Json = dict[str, Any]

STATUS: Json = {
    "kind": "Status",
    "code": 409,
    "reason": "AlreadyExists",
    "message": 'secrets "a" already exists',
    "details": {"name": "a", "causes": [{"reason": "FieldValueInvalid", "message": "x"}], "retryAfterSeconds": 3},
}
PAGE: Json = {
    "kind": "CompositionList",
    "metadata": {"resourceVersion": "7", "continue": "token", "remainingItemCount": 3},
    "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
}
FIELDS = st.sampled_from(["kind", "code", "reason", "message", "details", "causes", "retryAfterSeconds", "name"])
REQUEST = list_page(Query(COMPOSITIONS, "apps"), limit=2, continue_token="")
METADATA = list_page(Query(SECRETS, "apps", metadata_only=True), limit=2, continue_token="")
DATES = st.text(alphabet="SunMoFeb0123456789:+- GMT,", max_size=32)


def check(error: ApiError) -> None:
    assert "\n" not in str(error)
    assert error.retry_after is None or 0 < error.retry_after <= RETRY_AFTER_LIMIT


@repeatable(300)
@given(
    st.integers(0, 999), distorted(STATUS) | st.dictionaries(FIELDS, json_values(FIELDS)), st.none() | st.floats(1, 9)
)
def test_any_status_is_an_error_of_one_line(code: int, body: Json, pause: float | None) -> None:
    check(error_from_status("get x", code, body, retry_after=pause))
    check(error_from_status("get x", code, json.dumps(body).encode(), retry_after=pause))


@repeatable()
@given(NUMBERS | JSON)
def test_a_status_asks_for_a_pause_within_the_limit_or_none(seconds: Any) -> None:
    check(error_from_status("get x", 503, {**STATUS, "details": {"retryAfterSeconds": seconds}}))


@repeatable()
@given(distorted(STATUS) | st.dictionaries(FIELDS | TEXTS, json_values(FIELDS)))
def test_any_error_line_of_a_watch_is_an_error_of_one_line(status: Json) -> None:
    check(error_from_event("watch x", status))


@repeatable()
@given(distorted(STATUS, JSON), st.sampled_from([400, 403, 409, 422, 500, 503]))
def test_what_is_published_of_an_error_does_not_vary_with_the_message(body: Json, code: int) -> None:
    told = error_from_status("get x", code, {**body, "message": "one"})
    assert told.summary == error_from_status("get x", code, {**body, "message": "two"}).summary


@repeatable(300)
@given(distorted(PAGE) | st.dictionaries(st.sampled_from(["kind", "items", "metadata"]), JSON))
def test_any_answer_to_a_list_is_a_whole_page_or_refused(answer: Json) -> None:
    for request in (REQUEST, METADATA):
        page = tried(partial(page_from, request, json.dumps(answer).encode(), None), BadResponse)
        if isinstance(page, BadResponse):
            continue
        assert page.items == (answer["items"] or [])
        assert page.resource_version == answer["metadata"]["resourceVersion"]
        assert page.continue_token == (answer["metadata"].get("continue") or "")


@repeatable()
@given(st.integers(0, 200))
def test_an_answer_that_is_cut_off_is_refused(left: int) -> None:
    body = json.dumps(PAGE).encode()
    cut = body[: min(left, len(body) - 1)]
    with pytest.raises(BadResponse):
        object_from(REQUEST, cut)
    with pytest.raises(BadResponse):
        page_from(REQUEST, cut, None)


@repeatable(400)
@given(TEXTS | DATES | st.integers().map(str) | st.just("9" * 5000), INSTANTS)
def test_any_header_is_a_pause_within_the_limit_or_none(text: str, now: datetime) -> None:
    pause = retry_after_from(text, now)
    assert pause is None or 0 < pause <= RETRY_AFTER_LIMIT
    date = date_from(text)
    assert date is None or date.utcoffset() is not None

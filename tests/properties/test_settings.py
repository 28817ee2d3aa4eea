"""Settings from an environment in which anything may stand."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eno.errors import UsageError
from eno.scope import Scope
from eno.times import LATEST
from runtime.settings import Settings, variable
from tests.properties.strategies import INSTANTS, TEXTS, repeatable, tried

SECRET = "hunter2correcthorse"
VARIABLES = sorted(variable(name) for name in Settings.model_fields)
BYTES = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
VALUES = (
    (TEXTS | BYTES).filter(lambda text: "\x00" not in text)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.text(alphabet="PTDHMSW0123456789.:-,d ", max_size=14)
    | st.sampled_from(
        ["true", "redis://h/0", "rediss://u:p@h", "INFO", "text", "off", "1e308", "9" * 5000, "P999999999D"]
    )
)
URL_PARTS = st.text(alphabet="a0:/@[]%?#\\ ℀²٣é", max_size=8)


def load(environment: dict[str, str]) -> Settings | str:
    """The settings, or the line that says what is wrong with them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            return Settings.load()
        except UsageError as error:
            return str(error)


@pytest.mark.parametrize(
    "rest", ["@ho℀st/0", "@host/0]", "[@host/0", "@[::1/0", "@[host]/0", "@host:port/0", "@host/x"]
)
def test_a_url_that_cannot_be_split_is_refused_without_its_password(rest: str) -> None:
    found = load({"SEXTON_BROKER_URL": f"redis://me:{SECRET}{rest}"})
    assert isinstance(found, str)
    assert found.startswith("settings: SEXTON_BROKER_URL: must ")
    assert SECRET not in found


def test_a_grace_beyond_a_hundred_years_is_refused() -> None:
    assert isinstance(load({"SEXTON_RETIREMENT_GRACE": "P36500D"}), Settings)
    assert "SEXTON_RETIREMENT_GRACE" in str(load({"SEXTON_RETIREMENT_GRACE": "P36501D"}))


@repeatable(300)
@given(st.dictionaries(st.sampled_from(VARIABLES), VALUES, max_size=6))
def test_any_environment_is_a_configuration_or_one_line_that_names_the_variable(environment: dict[str, str]) -> None:
    found = load(environment)
    if isinstance(found, str):
        assert "\n" not in found
        assert any(name in found for name in VARIABLES)
        return
    assert isinstance(tried(lambda: found.scope, UsageError), Scope | UsageError)
    assert found.broker_host


@repeatable(400)
@given(
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["redis://", "rediss://me:", "http://", ""]),
        URL_PARTS,
        st.just(SECRET),
        URL_PARTS,
    ),
    st.dictionaries(st.sampled_from(VARIABLES), VALUES, max_size=2),
)
@example(f"redis://me:{SECRET}@ho℀st/0", {})
@example(f"redis://me:p[{SECRET}]@host/0", {})
def test_no_refusal_holds_anything_of_the_url_of_the_broker(url: str, others: dict[str, str]) -> None:
    found = load({**others, "SEXTON_BROKER_URL": url})
    if isinstance(found, str):
        assert SECRET not in found
    else:
        assert SECRET not in repr(found)


@repeatable()
@given(VALUES | st.sampled_from(["P36500D", "P999999D", "9" * 12]), INSTANTS)
@example("P999999999D", LATEST)
@example("P36500D", LATEST)
def test_a_grace_that_is_taken_can_be_added_to_any_time(text: str, now: datetime) -> None:
    found = load({"SEXTON_RETIREMENT_GRACE": text})
    if not isinstance(found, str):
        assert now + found.retirement_grace >= now


@repeatable()
@given(VALUES)
def test_every_duration_that_is_taken_is_finite(text: str) -> None:
    for name in ("SEXTON_RESYNC_SECONDS", "SEXTON_LEASE_DURATION", "SEXTON_VISIBILITY_TIMEOUT"):
        found = load({name: text})
        if not isinstance(found, str):
            assert timedelta(seconds=found.resync_seconds + found.lease_duration + found.visibility_timeout)

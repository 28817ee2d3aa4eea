from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eno.errors import UsageError
from eno.scope import Scope
from runtime.settings import Settings, reference, variable


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(variable(name), raising=False)


def test_the_defaults_recover_nothing() -> None:
    settings = Settings.load()
    assert not settings.enable_tombstone_recovery
    assert settings.retirement_grace == timedelta(days=7)


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_KUBECONFIG", "/etc/up")
    monkeypatch.setenv("SEXTON_ENABLE_TOMBSTONE_RECOVERY", "true")
    monkeypatch.setenv("POD_NAMESPACE", "apps")
    settings = Settings.load()
    assert settings.kubeconfig == Path("/etc/up")
    assert settings.enable_tombstone_recovery
    assert settings.pod_namespace == "apps"


def test_a_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_INSTANCE", "from-environment")
    assert Settings.load(instance="from-flag").instance == "from-flag"
    assert Settings.load(instance=None).instance == "from-environment"


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_COMPOSITION_NAMESPACE", "")
    monkeypatch.setenv("POD_NAMESPACE", "apps")
    assert Settings.load().scope.composition_namespace == "apps"


def test_variables_that_kubernetes_adds_for_a_service_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("SEXTON_SERVICE_HOST", "10.0.0.1")
    Settings.load()


def test_settings_cannot_be_changed_later() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings.load().burst = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("overrides", "scope"),
    [
        pytest.param(
            {"pod_namespace": "apps"},
            Scope(composition_namespace="apps", recovery_namespace="apps"),
            id="the namespace of the pod, where nothing else was said",
        ),
        pytest.param(
            {"pod_namespace": "apps", "composition_namespace": "other"},
            Scope(composition_namespace="other", recovery_namespace="apps"),
            id="another namespace is watched, and recovery stays where the pod is",
        ),
        pytest.param(
            {"pod_namespace": "apps", "all_namespaces": True, "enable_tombstone_recovery": True},
            Scope(composition_namespace="", recovery_namespace="apps", recovery_enabled=True),
            id="all namespaces only when asked for",
        ),
        pytest.param(
            {"composition_namespace": "apps", "composition_label_selector": "tier=web"},
            Scope(composition_namespace="apps", label_selector="tier=web"),
            id="outside a pod",
        ),
    ],
)
def test_scopes(overrides: dict[str, object], scope: Scope) -> None:
    assert Settings.load(**overrides).scope == scope


def test_without_any_namespace_there_is_no_scope() -> None:
    with pytest.raises(UsageError, match="no namespace to look after; set POD_NAMESPACE"):
        _ = Settings.load().scope


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        pytest.param({"enable_tombstone_recovery": True}, "needs POD_NAMESPACE", id="recovery without a namespace"),
        pytest.param(
            {"all_namespaces": True, "composition_namespace": "a"}, "exclude each other", id="all and one namespace"
        ),
        pytest.param(
            {"task_time_limit": 900.0, "visibility_timeout": 900.0},
            "SEXTON_VISIBILITY_TIMEOUT must be more than SEXTON_TASK_TIME_LIMIT",
            id="a message would be delivered again while it is worked on",
        ),
        pytest.param(
            {"lease_renew_deadline": 15.0},
            "SEXTON_LEASE_RENEW_DEADLINE must be less than SEXTON_LEASE_DURATION",
            id="a leader would lead while others take over",
        ),
        pytest.param({"task_soft_time_limit": 300.0}, "SEXTON_TASK_SOFT_TIME_LIMIT must be less", id="soft over hard"),
        pytest.param(
            {"task_time_limit": float("nan")},
            "SEXTON_TASK_TIME_LIMIT='nan': write a number above 0",
            id="a limit that is no number",
        ),
        pytest.param(
            {"requests_per_second": 0},
            "SEXTON_REQUESTS_PER_SECOND='0': write a number above 0, up to",
            id="a rate of nothing",
        ),
        pytest.param(
            {"pod_namespace": "No_Label"}, "POD_NAMESPACE='No_Label': write", id="a namespace that cannot exist"
        ),
        pytest.param(
            {"instance": "a.b"}, "SEXTON_INSTANCE='a.b': write", id="an instance that would not fit into names"
        ),
        pytest.param({"composition_label_selector": "a in"}, "SEXTON_COMPOSITION_LABEL_SELECTOR: ", id="a selector"),
        pytest.param(
            {"retirement_grace": "-1d"}, "SEXTON_RETIREMENT_GRACE='-1d': write seconds", id="a grace in the past"
        ),
        pytest.param({"broker_url": "amqp://host"}, "SEXTON_BROKER_URL: must look like redis://", id="another broker"),
        pytest.param({"broker_url": "redis://host/db"}, "SEXTON_BROKER_URL: must end with", id="a database by name"),
        pytest.param({"burst": "many", "max_attempts": 0}, "SEXTON_BURST=.*; SEXTON_MAX_ATTEMPTS=", id="two at once"),
    ],
)
def test_settings_that_are_refused_with_one_line(overrides: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        Settings.load(**overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("burst", "abc", "SEXTON_BURST='abc': write a whole number from 1 to 100000"),
        ("lease_duration", "900", "SEXTON_LEASE_DURATION='900': write a number above 0, up to 600"),
        ("health_port", "-1", "SEXTON_HEALTH_PORT='-1': write a whole number from 0 to 65535"),
        ("infer_required", "maybe", "SEXTON_INFER_REQUIRED='maybe': write true or false"),
        ("aggregation", "some", "SEXTON_AGGREGATION='some': write opted-in, all or off"),
        ("log_level", "loud", "SEXTON_LOG_LEVEL='loud': write DEBUG, INFO, WARNING or ERROR"),
        (
            "retirement_grace",
            "7x",
            "SEXTON_RETIREMENT_GRACE='7x': write seconds, or a duration such as 7d or PT12H, up to 36500d",
        ),
        ("instance", "a" * 99, f"SEXTON_INSTANCE='{'a' * 40}…': write up to 63 lower-case letters, digits, and dashes"),
        ("instance", "redis://:hunter2@h", "SEXTON_INSTANCE: write up to 63 lower-case letters"),
    ],
)
def test_what_is_wrong_is_shown_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str
) -> None:
    monkeypatch.setenv(variable(name), value)
    with pytest.raises(UsageError) as caught:
        Settings.load()
    assert str(caught.value).startswith(f"settings: {line}")
    assert "hunter2" not in str(caught.value)


def test_what_a_refusal_offers_is_taken() -> None:
    for grace in ("7d", "PT12H"):
        assert Settings.load(retirement_grace=grace).retirement_grace > timedelta(0)


def test_a_flag_is_blamed_only_where_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {"all_namespaces": "--all-namespaces", "composition_namespace": "--namespace"}
    monkeypatch.setenv("SEXTON_COMPOSITION_NAMESPACE", "apps")
    with pytest.raises(UsageError, match="--all-namespaces and SEXTON_COMPOSITION_NAMESPACE exclude each other"):
        Settings.load(flags, all_namespaces=True)


@pytest.mark.parametrize("url", ["redis://me:hunter2@h:bad/0", "http://me:hunter2@h", "redis://me:hunter2@h/x"])
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.load(broker_url=url)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(Settings.load(broker_url="redis://me:hunter2@h/0"))


def test_the_broker_is_named_without_credentials() -> None:
    assert Settings.load(broker_url="rediss://me:hunter2@h").broker_host == "h:6379/0"


@pytest.mark.parametrize(
    ("text", "grace"),
    [
        ("0", timedelta(0)),
        ("3600", timedelta(hours=1)),
        ("7d", timedelta(days=7)),
        ("P1D", timedelta(days=1)),
    ],
)
def test_a_grace_is_seconds_or_a_duration(text: str, grace: timedelta) -> None:
    assert Settings.load(retirement_grace=text).retirement_grace == grace


@given(st.sampled_from(sorted(set(Settings.model_fields) - {"kubeconfig", "downstream_kubeconfig"})), st.text())
def test_whatever_a_setting_holds_it_is_taken_or_refused(name: str, text: str) -> None:
    complaint = ""
    try:
        Settings.load(**{name: text})
    except UsageError as error:
        complaint = str(error)
    assert "\n" not in complaint


def test_the_reference_has_every_variable() -> None:
    table = reference()
    assert all(f"| `{variable(name)}` |" in table for name in Settings.model_fields)
    assert "None" not in table


def test_the_reference_tells_what_a_number_may_be() -> None:
    (line,) = (each for each in reference().splitlines() if "SEXTON_MAX_ATTEMPTS" in each)
    assert "| a whole number from 1 to 1000 |" in line

"""Connections out of kubeconfigs and service accounts, good, bad and hostile."""

from __future__ import annotations

import base64
import binascii
import contextlib
import inspect
import ssl
import sys
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from eno.errors import UsageError
from kube import config
from kube.config import Connection, load_connection
from tests.support.wire import TLS

NOWHERE = Path("/nonexistent/serviceaccount")
PROXY_VARIABLES = [
    name + suffix
    for name in ("http", "https", "all", "no", "HTTP", "HTTPS", "ALL", "NO")
    for suffix in ("_proxy", "_PROXY")
]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def kubeconfig(*, cluster: Any = None, user: Any = None, **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001"} | (cluster or {})}],
        "users": [{"name": "u", "user": {} if user is None else user}],
    } | changes


def write(directory: Path, content: Any, name: str = "config") -> str:
    path = directory / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def load(path: str | None, **changes: Any) -> Connection:
    arguments: dict[str, Any] = {"environ": {}, "service_account": NOWHERE} | changes
    return load_connection(path, **arguments)


def one_line(error: UsageError, path: str) -> bool:
    text = str(error)
    return "\n" not in text and path in text


# Kubeconfig files


def test_an_explicit_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, kubeconfig(user={"token": "secret"}))
    connection = load(path)
    assert connection.server == "http://127.0.0.1:8001"
    assert connection.authorization() == "Bearer secret"
    assert connection.source == f"kubeconfig {path}"
    assert connection.tls is None
    assert connection.proxy == ""


def test_an_explicit_file_comes_before_the_service_account_and_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path, kubeconfig())
    other = write(tmp_path, kubeconfig(cluster={"server": "http://other"}), "other")
    environ = {"KUBECONFIG": other, "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    connection = load(path, environ=environ, service_account=service_account(tmp_path))
    assert connection.server == "http://127.0.0.1:8001"


def test_the_environment_names_a_file_outside_of_a_cluster(tmp_path: Path) -> None:
    path = write(tmp_path, kubeconfig())
    assert load(None, environ={"KUBECONFIG": path}).source == f"kubeconfig {path}"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first = write(tmp_path, kubeconfig(cluster={"server": "http://first"}), "first")
    extra = kubeconfig(cluster={"server": "http://second"})
    extra["contexts"].append({"name": "there", "context": {"cluster": "c"}})
    second = write(tmp_path, extra, "second")
    missing = str(tmp_path / "missing")
    assert load(f"{missing}:{first}:{second}", context="there").server == "http://first"


def test_the_default_file_is_looked_for_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", kubeconfig())
    assert load(None).server == "http://127.0.0.1:8001"


def test_a_context_can_be_chosen(tmp_path: Path) -> None:
    content = kubeconfig()
    content["contexts"].append({"name": "there", "context": {"cluster": "d"}})
    content["clusters"].append({"name": "d", "cluster": {"server": "http://there"}})
    assert load(write(tmp_path, content), context="there").server == "http://there"


def test_a_token_file_is_read_relative_to_the_kubeconfig_and_stripped(tmp_path: Path) -> None:
    write(tmp_path, "from-file\n", "token")
    connection = load(write(tmp_path, kubeconfig(user={"tokenFile": "token"})))
    assert connection.authorization() == "Bearer from-file"


def test_a_reload_reads_a_rotated_token_file(tmp_path: Path) -> None:
    write(tmp_path, "old", "token")
    connection = load(write(tmp_path, kubeconfig(user={"tokenFile": "token"})))
    write(tmp_path, "new", "token")
    assert connection.reload is not None
    assert connection.reload().authorization() == "Bearer new"


def test_a_password_becomes_basic_authentication(tmp_path: Path) -> None:
    connection = load(write(tmp_path, kubeconfig(user={"username": "u", "password": "p"})))
    assert connection.authorization() == "Basic " + base64.b64encode(b"u:p").decode()


def exec_user(script: str) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", script],
            "interactiveMode": "Never",
        }
    }


def exec_plugin(path: Path, expiry: str) -> dict[str, Any]:
    """A plugin that hands out the content of `path`, valid until `expiry`."""
    return exec_user(
        "import json; print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', "
        "'kind': 'ExecCredential', 'status': "
        f"{{'token': open({str(path)!r}).read(), 'expirationTimestamp': {expiry!r}}}}}))"
    )


@pytest.mark.parametrize(("expiry", "then"), [("2020-01-01T00:00:00Z", "new"), ("2999-01-01T00:00:00Z", "old")])
def test_an_exec_plugin_is_run_again_when_its_token_has_expired(tmp_path: Path, expiry: str, then: str) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    connection = load(write(tmp_path, kubeconfig(user=exec_plugin(token, expiry))))
    assert connection.authorization() == "Bearer old"
    token.write_text("new")
    assert connection.authorization() == f"Bearer {then}"


def test_nothing_global_is_changed_and_the_file_is_not_written(tmp_path: Path) -> None:
    before = Configuration.get_default_copy().host
    path = write(tmp_path, kubeconfig(user={"token": "t"}))
    content = Path(path).read_bytes()
    load(path).authorization()
    assert Configuration.get_default_copy().host == before
    assert Path(path).read_bytes() == content


USER_ERRORS: dict[str, Any] = {
    "an exec plugin that fails": exec_user("import sys; sys.exit('no login')"),
    "an exec plugin that talks nonsense": exec_user("print('hello')"),
    "an exec plugin that is not installed": {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin-anywhere"}
    },
    "an auth provider that nobody knows": {"auth-provider": {"name": "azure", "config": {}}},
    "a token file that is missing": {"tokenFile": "missing"},
    "an empty token": {"token": ""},
    "a token with a line break in the middle": {"token": "a\nb"},
    "a token that is no ASCII": {"token": "tökén"},
    "impersonation": {"token": "t", "as": "admin"},
    "impersonation of groups": {"token": "t", "as-groups": ["system:masters"]},
    "a user that is a string": "admin",
    "a password that is a number": {"username": "u", "password": 7},
}


@pytest.mark.parametrize("user", USER_ERRORS.values(), ids=USER_ERRORS)
def test_credentials_that_cannot_be_used_are_refused_instead_of_being_nobody(tmp_path: Path, user: Any) -> None:
    path = write(tmp_path, kubeconfig(user=user))
    with pytest.raises(UsageError) as caught:
        load(path)
    assert one_line(caught.value, path)


def test_a_user_without_settings_is_meant_to_be_anonymous(tmp_path: Path) -> None:
    assert load(write(tmp_path, kubeconfig(user={}))).authorization() is None


BOMB = "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nusers: [*b]\n"

FILE_ERRORS: dict[str, Any] = {
    "empty": "",
    "only a comment": "# nothing",
    "a list": "[1, 2]",
    "a string": "kubeconfig",
    "no YAML": "a: [",
    "tabs": "\t\tx: y",
    "two documents": "a: 1\n---\nb: 2\n",
    "not UTF-8": b"\xff\xfe\x00",
    "binary": bytes(range(256)),
    "Python objects": "!!python/object/apply:os.system ['true']",
    "an alias bomb": BOMB,
    "deep nesting": "[" * 3000,
    "no current context": kubeconfig(**{"current-context": None}),
    "an empty current context": kubeconfig(**{"current-context": ""}),
    "an unknown current context": kubeconfig(**{"current-context": "there"}),
    "a context of another type": kubeconfig(contexts={"here": {}}),
    "contexts without names": kubeconfig(contexts=[{"context": {}}]),
    "a context without a cluster": kubeconfig(contexts=[{"name": "here", "context": {"user": "u"}}]),
    "an unknown cluster": kubeconfig(clusters=[]),
    "an unknown user": kubeconfig(users=[]),
    "null entries": kubeconfig(clusters=[None]),
    "a cluster that is a string": kubeconfig(clusters=[{"name": "c", "cluster": "x"}]),
    "a cluster without a server": kubeconfig(clusters=[{"name": "c", "cluster": {}}]),
    "a server that is a number": kubeconfig(cluster={"server": 7}),
    "a server that is null": kubeconfig(cluster={"server": None}),
    "a server without a scheme": kubeconfig(cluster={"server": "api.example"}),
    "a server with another scheme": kubeconfig(cluster={"server": "ftp://api.example"}),
    "a server with a query": kubeconfig(cluster={"server": "http://api.example/?a=b"}),
    "a server without a host": kubeconfig(cluster={"server": "https://"}),
    "a server with a bad port": kubeconfig(cluster={"server": "https://api:99999"}),
    "a TLS switch that is text": kubeconfig(cluster={"insecure-skip-tls-verify": "false"}),
    "a CA file that is missing": kubeconfig(cluster={"server": "https://api", "certificate-authority": "missing.crt"}),
    "a CA that is no certificate": kubeconfig(
        cluster={"server": "https://api", "certificate-authority-data": "aGVsbG8="}
    ),
    "a CA that is no base64": kubeconfig(cluster={"server": "https://api", "certificate-authority-data": "%%%"}),
    "a CA of another type": kubeconfig(cluster={"server": "https://api", "certificate-authority-data": [1]}),
    "a proxy that is none": kubeconfig(cluster={"proxy-url": "socks5://127.0.0.1:1080"}),
    "a proxy without a host": kubeconfig(cluster={"proxy-url": "http://"}),
}


@pytest.mark.parametrize("content", FILE_ERRORS.values(), ids=FILE_ERRORS)
def test_a_file_that_cannot_be_used_is_named_in_one_line(tmp_path: Path, content: Any) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UsageError) as caught:
        load(path)
    assert one_line(caught.value, path)
    assert caught.value.exit_code == 2


REASONS: dict[str, tuple[Any, str]] = {
    "an alias in a file that is fine otherwise": (
        yaml.safe_dump(kubeconfig()) + "extra: [&a x, *a]\n",
        "holds YAML aliases",
    ),
    "an alias bomb": (BOMB, "holds YAML aliases"),
    "nesting in a file that is fine otherwise": (
        yaml.safe_dump(kubeconfig()) + f"extra: {'[' * 60}{']' * 60}\n",
        "nested too deeply",
    ),
    "a cluster without a server": (FILE_ERRORS["a cluster without a server"], "the cluster has no server"),
    "an unknown user": (FILE_ERRORS["an unknown user"], "Expected object with name u"),
    "a TLS switch that is text": (FILE_ERRORS["a TLS switch that is text"], "must be true or false"),
}


@pytest.mark.parametrize(("content", "reason"), REASONS.values(), ids=REASONS)
def test_a_file_is_refused_for_the_right_reason(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        load(write(tmp_path, content))


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "missing")
    with pytest.raises(UsageError, match="no such file; give --kubeconfig") as caught:
        load(path)
    assert one_line(caught.value, path)


def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(str(tmp_path))


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "FILE_LIMIT", 10)
    with pytest.raises(UsageError, match="larger than 10 bytes"):
        load(write(tmp_path, kubeconfig()))


def test_the_clients_own_error_is_chained(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(write(tmp_path, kubeconfig(**{"current-context": "there"})))
    assert isinstance(caught.value.__cause__, ConfigException)


def exception_classes(*modules: Any) -> list[type[Exception]]:
    found = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    return sorted((kind for kind in found if issubclass(kind, Exception)), key=lambda kind: kind.__name__)


VENDOR_CLASSES = exception_classes(kubernetes.config, kubernetes.client.exceptions, yaml, binascii)


@pytest.mark.parametrize("kind", VENDOR_CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("where", ["load_and_set", "__init__"])
def test_every_class_of_the_client_is_translated_and_chained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], where: str
) -> None:
    error = kind("x")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(config.KubeConfigLoader, where, fail)
    path = write(tmp_path, kubeconfig())
    with pytest.raises(UsageError) as caught:
        load(path)
    assert caught.value.__cause__ is error
    assert one_line(caught.value, path)


@pytest.mark.parametrize("kind", VENDOR_CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_while_credentials_are_read_again_is_translated_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    connection = load(write(tmp_path, kubeconfig(user={"token": "t"})))
    error = kind("x")

    def fail(_: Any) -> None:
        raise error

    monkeypatch.setattr(Configuration, "auth_settings", fail)
    with pytest.raises(UsageError) as caught:
        connection.authorization()
    assert caught.value.__cause__ is error


def test_the_enumeration_saw_the_clients_classes() -> None:
    assert {"ConfigException", "ApiException", "ServiceException", "YAMLError"} <= {k.__name__ for k in VENDOR_CLASSES}


YAML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PLACES = ["current-context", "contexts", "clusters", "users"]


@given(st.sampled_from(PLACES), YAML_VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
def test_no_section_is_a_traceback(tmp_path: Path, place: str, value: Any) -> None:
    path = write(tmp_path, kubeconfig(**{place: value}))
    with pytest.raises(UsageError):
        load(path)


@given(st.sampled_from(["server", "certificate-authority-data", "insecure-skip-tls-verify", "proxy-url"]), YAML_VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
def test_no_cluster_field_is_a_traceback(tmp_path: Path, place: str, value: Any) -> None:
    path = write(tmp_path, kubeconfig(cluster={place: value}))
    with contextlib.suppress(UsageError):
        load(path)


# TLS


def data(name: str) -> str:
    return base64.b64encode((TLS / name).read_bytes()).decode()


def https(**fields: Any) -> dict[str, Any]:
    return {"server": "https://127.0.0.1:6443", **fields}


def test_certificates_are_read_from_data_and_from_files(tmp_path: Path) -> None:
    as_data = kubeconfig(
        cluster=https(**{"certificate-authority-data": data("ca.crt"), "tls-server-name": "api.test"}),
        user={"client-certificate-data": data("client.crt"), "client-key-data": data("client.key")},
    )
    as_files = kubeconfig(
        cluster=https(**{"certificate-authority": str(TLS / "ca.crt")}),
        user={"client-certificate": str(TLS / "client.crt"), "client-key": str(TLS / "client.key")},
    )
    for content in (as_data, as_files):
        connection = load(write(tmp_path, content))
        assert connection.tls is not None
        assert connection.tls.verify_mode == ssl.CERT_REQUIRED
        assert connection.tls.check_hostname
        assert not connection.tls.verify_flags & ssl.VERIFY_X509_STRICT
        assert [entry["serialNumber"] for entry in connection.tls.get_ca_certs()] == ["01"]
    assert load(write(tmp_path, as_data)).tls_server_name == "api.test"


def test_verification_is_off_only_where_the_file_says_so(tmp_path: Path) -> None:
    off = load(write(tmp_path, kubeconfig(cluster=https(**{"insecure-skip-tls-verify": True})))).tls
    on = load(write(tmp_path, kubeconfig(cluster=https(**{"insecure-skip-tls-verify": False})))).tls
    assert off is not None
    assert on is not None
    assert (off.verify_mode, on.verify_mode) == (ssl.CERT_NONE, ssl.CERT_REQUIRED)


TLS_ERRORS: dict[str, dict[str, Any]] = {
    "a key that does not fit": {"client-certificate-data": data("client.crt"), "client-key-data": data("server.key")},
    "a certificate without a key": {"client-certificate-data": data("client.crt")},
    "a key with a passphrase": {
        "client-certificate-data": data("client.crt"),
        "client-key-data": data("encrypted.key"),
    },
    "a key that is none": {"client-certificate-data": data("client.crt"), "client-key-data": "aGVsbG8="},
}


@pytest.mark.parametrize("user", TLS_ERRORS.values(), ids=TLS_ERRORS)
def test_a_client_certificate_that_cannot_be_used_is_found_at_once(tmp_path: Path, user: dict[str, Any]) -> None:
    path = write(tmp_path, kubeconfig(cluster=https(), user=user))
    with pytest.raises(UsageError, match="certificates cannot be used") as caught:
        load(path)
    assert one_line(caught.value, path)


# Service accounts


IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def service_account(directory: Path, *, content: str = "from-pod\n") -> Path:
    account = directory / "serviceaccount"
    account.mkdir(exist_ok=True)
    (account / "token").write_text(content)
    (account / "ca.crt").write_bytes((TLS / "ca.crt").read_bytes())
    return account


@pytest.mark.parametrize("unset", [None, ""])
def test_a_pod_uses_its_service_account(tmp_path: Path, unset: str | None) -> None:
    connection = load(unset, environ=IN_CLUSTER, service_account=service_account(tmp_path))
    assert connection.server == "https://10.0.0.1:443"
    assert connection.authorization() == "bearer from-pod"
    assert connection.tls is not None


def test_an_ipv6_service_is_bracketed(tmp_path: Path) -> None:
    environ = IN_CLUSTER | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert load(None, environ=environ, service_account=service_account(tmp_path)).server == "https://[fd00::1]:443"


def test_a_reload_reads_a_rotated_service_account_token(tmp_path: Path) -> None:
    account = service_account(tmp_path)
    connection = load(None, environ=IN_CLUSTER, service_account=account)
    service_account(tmp_path, content="rotated")
    assert connection.authorization() == "bearer from-pod"
    assert connection.reload is not None
    assert connection.reload().authorization() == "bearer rotated"


def test_a_pod_without_a_token_goes_by_its_kubeconfig(tmp_path: Path) -> None:
    path = write(tmp_path, kubeconfig())
    assert load(None, environ=IN_CLUSTER | {"KUBECONFIG": path}).source == f"kubeconfig {path}"


def break_account(account: Path, name: str, content: bytes | None) -> None:
    (account / name).unlink()
    if content is not None:
        (account / name).write_bytes(content)


POD_ERRORS: dict[str, tuple[str, bytes | None]] = {
    "an empty token": ("token", b""),
    "a token that is no text": ("token", b"\xff\xfe"),
    "no CA": ("ca.crt", None),
    "an empty CA": ("ca.crt", b""),
    "a CA that is none": ("ca.crt", b"hello"),
}


@pytest.mark.parametrize(("name", "content"), POD_ERRORS.values(), ids=POD_ERRORS)
def test_a_service_account_that_cannot_be_used_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    account = service_account(tmp_path)
    break_account(account, name, content)
    with pytest.raises(UsageError) as caught:
        load(None, environ=IN_CLUSTER, service_account=account)
    assert one_line(caught.value, str(account))


# Proxies


PROXIES: dict[str, tuple[dict[str, str], str, bool]] = {
    "none": ({}, "https://api.example:6443", False),
    "for https": ({"HTTPS_PROXY": "http://proxy:3128"}, "https://api.example:6443", True),
    "for http only": ({"http_proxy": "http://proxy:3128"}, "https://api.example:6443", False),
    "bypassed by name": (
        {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "api.example"},
        "https://api.example:6443",
        False,
    ),
    "bypassed by suffix": (
        {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "x, .example"},
        "https://api.example:6443",
        False,
    ),
    "bypassed by lower-case variable": (
        {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "api.example"},
        "https://api.example:6443",
        False,
    ),
    "bypassed by network": (
        {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8"},
        "https://10.96.0.1:443",
        False,
    ),
    "bypassed by star": (
        {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*"},
        "https://api.example:6443",
        False,
    ),
    "not bypassed by another name": (
        {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "pi.example,10.0.0.0/8"},
        "https://api.example:6443",
        True,
    ),
}


@pytest.mark.parametrize(("environ", "url", "used"), PROXIES.values(), ids=PROXIES)
def test_no_proxy_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], url: str, used: bool
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    connection = load(write(tmp_path, kubeconfig(cluster={"server": url})))
    assert connection.proxy == ("http://proxy:3128" if used else "")


def test_no_proxy_also_exempts_from_the_files_own_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, kubeconfig(cluster=https(**{"proxy-url": "http://proxy:3128"})))
    assert load(path).proxy == "http://proxy:3128"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert load(path).proxy == ""

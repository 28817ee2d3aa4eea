"""Where an API server is and who to be there, from what the official client reads out of its sources.

The client's loaders know kubeconfig files, contexts, exec plugins, token files and service accounts. What
they let pass in silence is refused here, since each of it would be a process that runs as somebody else than
was meant: a failed exec plugin or an unknown user (anonymous), impersonation (ignored), a cluster without a
server (localhost), a TLS switch that is no boolean (verification off).
"""

# mypy: untyped-calls-exclude="kubernetes"

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger
from urllib3.exceptions import LocationValueError
from urllib3.util import parse_url

from eno.errors import UsageError

DEFAULT_KUBECONFIG = "~/.kube/config"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FILE_LIMIT = 4 * 1024 * 1024
"""Bytes: a larger kubeconfig is some other file."""

DEPTH_LIMIT = 50
"""Levels of nesting; real files have some ten."""

_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")


def anonymous() -> str | None:
    """No credentials at all."""
    return None


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one API server.

    `server` is its URL, possibly with a path prefix; `source` says for people where all of this was read.
    `tls` is None for http. `proxy` is the proxy's URL, `""` for none: NO_PROXY has been taken into account.
    `authorization` returns the `Authorization` header for the next request; it re-reads tokens that expired
    and raises UsageError when that fails. `reload` reads everything anew, which a refused token asks for.
    """

    server: str
    source: str = "an address"
    tls: ssl.SSLContext | None = None
    tls_server_name: str = ""
    proxy: str = field(default="", repr=False)
    authorization: Callable[[], str | None] = anonymous
    reload: Callable[[], Connection] | None = None


def load_connection(
    kubeconfig: str | None = None,
    *,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection from `kubeconfig`, else from the pod's service account, else KUBECONFIG or its default.

    `kubeconfig` is one path, or several joined by `:` as in KUBECONFIG. `environ` is the environment (default:
    this process'), `service_account` the directory where a pod finds its token. Nothing global is changed,
    no kubeconfig is ever written. Call it in the process that uses the connection, after a fork.

    Raises UsageError when a source is missing, unreadable or malformed, or asks for what is not supported.
    """
    environ = os.environ if environ is None else environ

    def load() -> Connection:
        if not kubeconfig and not context and _in_cluster(environ, service_account):
            return _from_service_account(environ, service_account, load)
        paths = kubeconfig or environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG
        return _from_kubeconfig(paths, context, load)

    return load()


def _in_cluster(environ: Mapping[str, str], service_account: Path) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


def _from_service_account(
    environ: Mapping[str, str], service_account: Path, reload: Callable[[], Connection]
) -> Connection:
    source = f"service account {service_account}"
    configuration = Configuration()
    with _readable(source, "mount a service account token, or set SEXTON_KUBECONFIG"):
        loader = InClusterConfigLoader(str(service_account / "token"), str(service_account / "ca.crt"), environ=environ)
        loader.load_and_set(configuration)
    return _connection(source, configuration, reload)


def _from_kubeconfig(paths: str, context: str | None, reload: Callable[[], Connection]) -> Connection:
    source = f"kubeconfig {paths}"
    configuration = Configuration()
    with _readable(source, "check the file, or point SEXTON_KUBECONFIG at another"):
        _refuse_hostile_files(source, paths)
        config = KubeConfigMerger(paths).config
        loader = KubeConfigLoader(config_dict=config, active_context=context, config_base_path=None)
        user = _refuse_unsupported(source, config, loader.current_context)
        loader.load_and_set(configuration)
    connection = _connection(source, configuration, reload)
    if user and not configuration.cert_file and connection.authorization() is None:
        raise UsageError(
            "the user's credentials cannot be used",
            where=source,
            hint="run the command of its exec section by hand, or use a token or client certificate",
        )
    return connection


def _connection(source: str, configuration: Any, reload: Callable[[], Connection]) -> Connection:
    server = str(configuration.host)
    _refuse_bad_url(source, "server", server)
    proxy = str(configuration.proxy or "")
    if proxy and should_bypass_proxies(server, configuration.no_proxy or ""):
        proxy = ""
    if proxy:
        _refuse_bad_url(source, "proxy", proxy)
    return Connection(
        server=server.rstrip("/"),
        source=source,
        tls=_tls_context(source, configuration) if server.startswith("https:") else None,
        tls_server_name=configuration.tls_server_name or "",
        proxy=proxy,
        authorization=_Credentials(source, configuration).authorization,
        reload=reload,
    )


class _Credentials:
    """The Authorization header out of a Configuration, whose hooks re-read or re-run what expired."""

    def __init__(self, source: str, configuration: Any) -> None:
        self._source = source
        self._configuration = configuration
        self._lock = threading.Lock()  # the client's hooks change the Configuration

    def authorization(self) -> str | None:
        """Raises UsageError when the credentials cannot be read any more."""
        with self._lock, _readable(self._source, "check the token file or the exec plugin"):
            settings = self._configuration.auth_settings()
        values = [str(setting["value"]).strip() for setting in settings.values() if setting["value"]]
        if not values:
            return None
        if not _HEADER_VALUE.fullmatch(values[0]):
            raise UsageError("the token holds characters that no header can", where=self._source)
        return values[0]


@contextmanager
def _readable(source: str, hint: str) -> Iterator[None]:
    """Translate whatever the client's loaders raise.

    On a malformed file that is anything: besides ConfigException and the YAML parser's errors also what
    Python raises when a string is used as a mapping, a list as a path or text as base64.
    """
    try:
        yield
    except UsageError:
        raise
    except ConfigException as error:
        raise UsageError("cannot be used", where=source, detail=_one_line(error), hint=hint) from error
    except OSError as error:
        what = f"cannot be read: {error.strerror or type(error).__name__}"
        raise UsageError(what, where=source, detail=_one_line(error), hint=hint) from error
    except Exception as error:
        detail = f"{type(error).__name__}: {_one_line(error)}"
        raise UsageError("is malformed", where=source, detail=detail, hint=hint) from error


def _refuse_hostile_files(source: str, paths: str) -> None:
    """Raises UsageError unless there is a file, and every file is a YAML mapping that can be read safely."""
    files = [path for name in paths.split(os.pathsep) if name and (path := Path(name).expanduser()).exists()]
    if not files:
        raise UsageError(
            "no such file",
            where=source,
            hint="give --kubeconfig or set SEXTON_KUBECONFIG or KUBECONFIG to an existing file",
        )
    for path in files:
        if path.stat().st_size > FILE_LIMIT:
            raise UsageError(f"larger than {FILE_LIMIT} bytes", where=source, hint="is it a kubeconfig?")
        text = path.read_text(encoding="utf-8")
        _refuse_bombs(source, text)
        if not isinstance(yaml.safe_load(text), dict):
            raise UsageError("is not a YAML mapping", where=source, hint="is it a kubeconfig?")


def _refuse_bombs(source: str, text: str) -> None:
    """Raises UsageError for YAML that is small and costs a lot.

    The client formats entries into strings, where a few nested aliases become gigabytes; the parser takes
    quadratic time for nesting.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise UsageError("holds YAML aliases", where=source, hint="write the values out")
        if depth > DEPTH_LIMIT:
            raise UsageError("is nested too deeply", where=source, hint="is it a kubeconfig?")


def _refuse_unsupported(source: str, config: Any, context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises UsageError for what the client would ignore or guess. Returns the user's settings."""
    names = context["context"]
    cluster = config["clusters"].get_with_name(names["cluster"])["cluster"].value
    if not isinstance(cluster.get("server"), str):
        raise UsageError("the cluster has no server", where=source, hint="set its server to a URL")
    if not isinstance(cluster.get("insecure-skip-tls-verify", False), bool):
        raise UsageError("insecure-skip-tls-verify must be true or false", where=source)
    if not names.get("user"):
        return {}
    user = config["users"].get_with_name(names["user"]).value.get("user") or {}
    if any(key == "as" or key.startswith("as-") for key in user):
        raise UsageError("impersonation is not supported", where=source, hint="use the credentials of the user itself")
    return dict(user)


def _refuse_bad_url(source: str, what: str, url: str) -> None:
    """Raises UsageError, without the URL: that of a proxy may hold a password."""
    try:
        parsed = parse_url(url)
    except LocationValueError as error:
        raise UsageError(f"the {what} is not a URL", where=source) from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise UsageError(f"the {what} must be an http or https URL", where=source)


def _tls_context(source: str, configuration: Any) -> ssl.SSLContext:
    """Trust and client certificate, read once, so that bad files are found now and not at each request."""
    try:
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        # Cluster CAs made by older tools lack extensions that newer Pythons insist on and Go does not.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            # An empty passphrase, because OpenSSL would ask for one on the terminal.
            tls.load_cert_chain(configuration.cert_file, configuration.key_file or None, password="")
    except (OSError, ValueError) as error:
        raise UsageError(
            "its certificates cannot be used",
            where=source,
            detail=_one_line(error),
            hint="check the CA, the client certificate and its key (PEM, without a passphrase)",
        ) from error
    return tls


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]

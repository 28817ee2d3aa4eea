"""A real kube-apiserver with its own etcd, for tests.

What a fake server gets wrong is what Sexton depends on: RBAC refusals, list
paging, watch and resourceVersion semantics, finalizers, preconditions on
delete. These tests therefore run against the real program, built by
``tests/kube-apiserver/build.sh``.

There is no controller-manager, so nothing acts on what is written: no garbage
collection by owner reference, no namespace deletion past ``Terminating``, no
``default`` ServiceAccount, no token Secrets. A test that needs such an effect
makes it itself.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

__all__ = ["ApiServer", "ApiServerError", "running_apiserver"]

_HOST = "127.0.0.1"
_BINARIES = ("etcd", "kube-apiserver", "kubectl")
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_ADMIN_USER = "sexton-test-admin"

# Endpoints may not hold a loopback address, so advertising 127.0.0.1 would
# leave the `kubernetes` Service without the Endpoints every cluster has. This
# address is reserved for documentation; nothing listens there or connects.
_ADVERTISE = "192.0.2.1"

# ServiceAccount: refuses every Pod whose ServiceAccount is missing, and it is
# the controller-manager that would create `default` in each namespace. It only
# looks at Pods; ServiceAccounts themselves and their tokens do not need it.
_DISABLED_ADMISSION = ("ServiceAccount",)

_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0
_TAIL_LINES = 30
_PORT_TAKEN = "address already in use"

# A test run that is killed cannot clean up after itself. This shell reads the
# servers' process ids from a pipe and sees its end when the run is gone,
# however it went.
_WATCHDOG = """
pids=
while read -r pid; do pids="$pids $pid"; done
kill -TERM $pids
sleep 5
kill -KILL $pids
rm -rf -- "$1"
"""


class ApiServerError(RuntimeError):
    """The server cannot be started, died, or refused a request of this module.

    The message of a failed start ends with the tail of the failing log, as the
    log itself goes away with the data directory.
    """


class _PortTakenError(ApiServerError):
    """Someone took a port between choosing and binding it."""


@dataclass(frozen=True)
class ApiServer:
    """A running server; valid inside ``running_apiserver`` only.

    ``kubeconfig``   file for an admin in ``system:masters``
    ``url``          ``https://127.0.0.1:<port>``
    ``version``      the server's gitVersion, such as ``v1.35.4``
    ``log``          kube-apiserver's log; ``etcd_log`` is its neighbour
    ``admin_token``  bearer token of that admin
    ``ca_pem``       certificate that signed the server's own
    ``assets``       directory of the executables, ``kubectl`` among them
    ``directory``    scratch space, removed with the server
    ``etcd_url``     ``http://127.0.0.1:<port>`` of the etcd below, its gRPC gateway included
    """

    kubeconfig: Path
    url: str
    version: str
    log: Path
    etcd_log: Path
    admin_token: str = field(repr=False)
    ca_pem: str = field(repr=False)
    assets: Path
    directory: Path
    etcd_url: str

    def kubeconfig_for(self, token: str, path: Path) -> Path:
        """Write a kubeconfig that authenticates with ``token`` and return ``path``.

        The file is created or replaced with mode 0600. Raises ``OSError`` when
        it cannot be written.
        """
        _write_kubeconfig(path, self.url, self.ca_pem, token)
        return path

    def service_account_token(self, namespace: str, name: str, expiration_seconds: int = 3600) -> str:
        """Return a token for an existing ServiceAccount, through TokenRequest.

        The server takes no expiration below 600 seconds. Raises
        ``ApiServerError`` when it refuses, for instance because the
        ServiceAccount does not exist, and ``OSError`` when it is unreachable.
        """
        path = f"/api/v1/namespaces/{quote(namespace)}/serviceaccounts/{quote(name)}/token"
        status, answer = _request(
            self.url,
            path,
            ca_pem=self.ca_pem,
            token=self.admin_token,
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": expiration_seconds},
            },
        )
        if status != 201:
            raise ApiServerError(f"TokenRequest for {namespace}/{name}: {status} {answer}")
        return _string_at(answer, "status", "token")


@contextmanager
def running_apiserver(assets: Path, *, extra_flags: Sequence[str] = (), deadline: float = 120.0) -> Iterator[ApiServer]:
    """Run etcd and kube-apiserver, and yield once the server is usable.

    ``assets`` is the directory ``build.sh`` prints. ``extra_flags`` go last on
    kube-apiserver's command line, so that a flag given twice takes its value
    from here (list-valued ones add up instead). ``deadline`` bounds one start
    in seconds. RBAC is on. Usable means that ``/readyz`` passes and that the
    namespaces ``default`` and ``kube-system`` exist.

    Both processes are gone and the data is removed when the block is left.
    Raises ``ApiServerError`` when an executable or ``openssl`` is missing, on a
    failed or late start, and on leaving the block if a server died in it; if
    the block itself raised, the log's tail becomes a note on that exception.
    A port lost to another process is tried again once with new ports.
    """
    for name in _BINARIES:
        if not os.access(assets / name, os.X_OK):
            raise ApiServerError(f"{assets} has no executable {name}")
    try:
        started = _start(assets, extra_flags, deadline)
    except _PortTakenError:
        started = _start(assets, extra_flags, deadline)
    server, processes, stack = started
    with stack:
        try:
            yield server
        except BaseException as error:
            for process in processes:
                if process.died():
                    error.add_note(process.obituary())
            raise
        for process in processes:
            process.check()


class _Process:
    """A server, its log, and the one way to stop it."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        # A session of its own keeps Ctrl-C in the terminal from ending etcd
        # under a kube-apiserver that is still shutting down.
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def died(self) -> bool:
        return self._popen.poll() is not None

    def tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def obituary(self) -> str:
        return f"{self.name} ended with status {self._popen.returncode}; its log ends:\n{self.tail()}"

    def check(self) -> None:
        if self.died():
            kind = _PortTakenError if _PORT_TAKEN in self.tail() else ApiServerError
            raise kind(self.obituary())

    def stop(self) -> None:
        self._popen.terminate()
        try:
            self._popen.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


class _Watchdog:
    """Ends the servers if this process dies before it could."""

    def __init__(self, directory: Path) -> None:
        self._popen = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch(self, process: _Process) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(f"{process.pid}\n".encode())

    def dismiss(self) -> None:
        # Killed before its pipe closes: by now the ids may belong to others.
        self._popen.kill()
        self._popen.wait()
        assert self._popen.stdin is not None
        self._popen.stdin.close()


def _start(
    assets: Path, extra_flags: Sequence[str], deadline: float
) -> tuple[ApiServer, tuple[_Process, ...], ExitStack]:
    until = time.monotonic() + deadline
    client_port, peer_port, secure_port = _free_ports(3)
    etcd_url = f"http://{_HOST}:{client_port}"
    url = f"https://{_HOST}:{secure_port}"
    token = secrets.token_urlsafe(24)

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sexton-apiserver-")))
        key = _service_account_key(directory)
        tokens = directory / "tokens.csv"
        tokens.write_text(f'{token},{_ADMIN_USER},{_ADMIN_USER},"system:masters"\n', encoding="utf-8")
        watchdog = _Watchdog(directory)
        stack.callback(watchdog.dismiss)

        def spawn(command: Sequence[str | Path], log: str) -> _Process:
            process = _Process(command, directory / log)
            stack.callback(process.stop)
            watchdog.watch(process)
            return process

        etcd = spawn(_etcd_command(assets, directory, etcd_url, peer_port), "etcd.log")
        _wait_for(partial(_is_ok, etcd_url, "/health"), "etcd", (etcd,), until)

        certificates = directory / "certificates"
        apiserver = spawn(
            [
                assets / "kube-apiserver",
                f"--etcd-servers={etcd_url}",
                f"--bind-address={_HOST}",
                f"--advertise-address={_ADVERTISE}",
                f"--secure-port={secure_port}",
                f"--cert-dir={certificates}",
                "--authorization-mode=RBAC",
                f"--token-auth-file={tokens}",
                f"--service-account-issuer={_ISSUER}",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.0.0.0/24",
                # The default of 0 leaves open watches alone, and with them the process.
                "--shutdown-watch-termination-grace-period=1s",
                f"--disable-admission-plugins={','.join(_DISABLED_ADMISSION)}",
                *extra_flags,
            ],
            "kube-apiserver.log",
        )
        processes = (etcd, apiserver)

        certificate = certificates / "apiserver.crt"

        def answers(path: str) -> bool:
            return _is_ok(url, path, ca_pem=_signer(certificate), token=token)

        # /readyz covers the RBAC bootstrap; the namespaces come from a loop
        # that it does not wait for.
        for path in (
            "/readyz",
            "/api/v1/namespaces/kube-system",
            "/api/v1/namespaces/default",
        ):
            _wait_for(partial(answers, path), path, processes, until)

        ca_pem = _signer(certificate)
        kubeconfig = directory / "kubeconfig"
        _write_kubeconfig(kubeconfig, url, ca_pem, token)
        _, version = _request(url, "/version", ca_pem=ca_pem, token=token)
        server = ApiServer(
            kubeconfig=kubeconfig,
            url=url,
            version=_string_at(version, "gitVersion"),
            log=apiserver.log,
            etcd_log=etcd.log,
            admin_token=token,
            ca_pem=ca_pem,
            assets=assets,
            directory=directory,
            etcd_url=etcd_url,
        )
        return server, processes, stack.pop_all()


def _etcd_command(assets: Path, directory: Path, client_url: str, peer_port: int) -> list[str | Path]:
    peer_url = f"http://{_HOST}:{peer_port}"
    return [
        assets / "etcd",
        "--name=test",
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=test={peer_url}",
        "--unsafe-no-fsync",
    ]


def _free_ports(count: int) -> list[int]:
    """Return distinct free ports: all are held until the last is chosen."""
    with ExitStack() as stack:
        ports = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind((_HOST, 0))
            ports.append(int(listener.getsockname()[1]))
        return ports


def _service_account_key(directory: Path) -> Path:
    path = directory / "service-account.key"
    try:
        subprocess.run(
            ["openssl", "genrsa", "-out", str(path), "2048"],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise ApiServerError("openssl is not on PATH") from None
    except subprocess.CalledProcessError as error:
        raise ApiServerError(f"openssl genrsa failed: {error.stderr}") from error
    return path


def _signer(certificate: Path) -> str:
    """Return the CA of the self-signed pair, which follows the server's own.

    Raises ``OSError`` while the server has not written the whole file.
    """
    begin, end = (f"-----{word} CERTIFICATE-----" for word in ("BEGIN", "END"))
    before, _, last = certificate.read_text(encoding="ascii").rpartition(begin)
    if end not in before or end not in last:
        raise OSError(f"{certificate} is not complete")
    return begin + last


def _wait_for(passes: Callable[[], bool], what: str, processes: Sequence[_Process], until: float) -> None:
    """Poll ``passes``, whose connection errors mean no, until it says yes."""
    while True:
        try:
            done = passes()
        except (OSError, http.client.HTTPException):
            done = False
        # After the answer, because whoever took the port may have given it.
        for process in processes:
            process.check()
        if done:
            return
        if time.monotonic() >= until:
            last = processes[-1]
            raise ApiServerError(f"{what} not ready in time; {last.name}'s log ends:\n{last.tail()}")
        time.sleep(_POLL_SECONDS)


def _is_ok(url: str, path: str, *, ca_pem: str = "", token: str = "") -> bool:
    status, _ = _request(url, path, ca_pem=ca_pem, token=token)
    return status == 200


def _request(
    url: str,
    path: str,
    *,
    ca_pem: str = "",
    token: str = "",
    body: Mapping[str, object] | None = None,
) -> tuple[int, object]:
    """GET, or POST ``body``; return the status and the answer, decoded if JSON.

    ``http.client`` rather than ``urllib``, which would go through a proxy from
    the environment.
    """
    scheme, _, address = url.partition("://")
    connection = (
        http.client.HTTPSConnection(address, timeout=5, context=ssl.create_default_context(cadata=ca_pem))
        if scheme == "https"
        else http.client.HTTPConnection(address, timeout=5)
    )
    headers = {"Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    payload = None
    if body is not None:
        payload = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    try:
        connection.request("GET" if body is None else "POST", path, payload, headers)
        response = connection.getresponse()
        raw = response.read().decode("utf-8", errors="replace")
    finally:
        connection.close()
    try:
        return response.status, json.loads(raw)
    except ValueError:
        return response.status, raw


def _string_at(value: object, *path: str) -> str:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise ApiServerError(f"the answer has no string at {'.'.join(path)}")
    return value


def _write_kubeconfig(path: Path, url: str, ca_pem: str, token: str) -> None:
    ca_data = base64.b64encode(ca_pem.encode("ascii")).decode("ascii")
    text = f"""\
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: {url}
    certificate-authority-data: {ca_data}
users:
- name: test
  user:
    token: {json.dumps(token)}
contexts:
- name: test
  context:
    cluster: test
    user: test
current-context: test
"""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)

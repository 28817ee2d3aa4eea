"""Where the executables of a real kube-apiserver are; nothing is ever built from here."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

HINT = "no kube-apiserver on this machine: `make kube-apiserver` builds one, KUBEBUILDER_ASSETS names another"

_BINARIES = ("etcd", "kube-apiserver", "kubectl")
_SOURCE = Path(__file__).parents[1] / "kube-apiserver"
_VERSION = re.compile(r"^\s*k8s\.io/kubernetes (v\S+)", re.MULTILINE)


def find_assets(environ: Mapping[str, str]) -> Path | None:
    """KUBEBUILDER_ASSETS, else what `tests/kube-apiserver/build.sh` has built; None where either is incomplete."""
    given = environ.get("KUBEBUILDER_ASSETS")
    found = Path(given) if given else _built(environ)
    return found if found and all(os.access(found / name, os.X_OK) for name in _BINARIES) else None


def _built(environ: Mapping[str, str]) -> Path | None:
    """The directory that `build.sh` would print, named after what it is built from."""
    sources = [(_SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "build.sh")]
    version = _VERSION.search(sources[0].decode())
    if version is None:
        return None
    cache = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(b"".join(sources)).hexdigest()[:12]
    return Path(cache) / "sexton" / "kube-apiserver" / f"{version[1]}-{digest}"

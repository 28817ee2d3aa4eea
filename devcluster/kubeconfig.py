"""A kubeconfig file for a server without authentication."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import yaml

from eno.errors import UsageError
from kube.cluster import Json


def write_kubeconfig(path: Path, url: str) -> None:
    """Create or replace `path`, readable by its owner only; a reader sees all of it or none.

    Raises UsageError when it cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yaml.safe_dump(_kubeconfig(url), file)
        Path(temporary).replace(path)
    except OSError as error:
        raise UsageError("cannot write the kubeconfig", where=str(path), detail=str(error)) from error


def _kubeconfig(url: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": {"server": url}}],
        "users": [{"name": "devcluster", "user": {}}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": "devcluster"}}],
        "current-context": "devcluster",
    }

"""A fresh namespace for every test of the contract."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kube.resources import NAMESPACES
from tests.contract.kinds import PREFIX
from tests.contract.servers import Server
from tests.contract.space import Space

_numbers = itertools.count(1)


@pytest.fixture
def space(server: Server) -> Iterator[Space]:
    """A namespace that no other test knows. A real cluster's controllers empty it in the end."""
    name = f"{PREFIX}-{next(_numbers)}"
    server.cluster.create(NAMESPACES, None, {"metadata": {"name": name}})
    yield Space(server.cluster, name, server)
    server.cluster.delete(NAMESPACES, None, name)

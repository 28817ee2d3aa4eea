"""`kubectl describe` tells the story of a composition, by a real kubectl on both kinds of server."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from devcluster.kubeconfig import write_kubeconfig
from eno.errors import SextonError, Unreachable
from tests.support.apiserver import ApiServer
from tests.support.assets import find_assets
from tests.support.factories import NAMESPACE, entry, manifest, synthesis
from tests.support.tap import fail
from tests.support.world import World, recover_message
from workers.handlers.recover import recover

ATTEMPTS = 3


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> list[str]:
    """The command, with the kubeconfig of the world's server."""
    assets = find_assets(os.environ)
    program = str(assets / "kubectl") if assets else shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl on this machine")
    if "kube-apiserver" in request.node.name:
        server: ApiServer = request.getfixturevalue("apiserver")
        path = server.kubeconfig
    else:
        path = tmp_path / "kubeconfig"
        write_kubeconfig(path, world.up.server)  # type: ignore[attr-defined]
    return [program, f"--kubeconfig={path}", f"--cache-dir={tmp_path}", f"--namespace={NAMESPACE}"]


def described(kubectl: list[str]) -> list[tuple[str, str, str]]:
    """Type, reason and message of each Event below the description of `shop`."""
    command = [*kubectl, "describe", "compositions.eno.azure.io", "shop"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.partition("\nEvents:\n")[2].splitlines()[2:]
    # Type, reason, age, from, message.
    parts = [line.split(maxsplit=4) for line in lines]
    assert all(part[3] == "sexton" for part in parts), lines
    return [(part[0], part[1], part[4]) for part in parts]


def test_a_recovery_and_what_went_wrong_before_it(world: World, kubectl: list[str]) -> None:
    world.add_composition(current=synthesis(slices=["slice-0"]))
    world.add_slice("slice-0", [manifest(name="kept")])
    world.remember([entry(name=name) for name in ("kept", *(f"n{index:02}" for index in range(20)))])
    world.downstream.before = fail(
        Unreachable("list secrets", reason="NoConnection"), on="list secrets", times=ATTEMPTS
    )
    for _ in range(ATTEMPTS + 2):
        with suppress(SextonError):
            recover(recover_message(world.composition()), world.context)
    assert sorted(described(kubectl)) == [
        ("Normal", "FinishedTombstoneRecovery", "20 tombstones written."),
        ("Warning", "InventoryGetError", "list secrets: NoConnection"),
        ("Warning", "MassBurial", "20 of 21 recorded resources are to be buried."),
    ]

"""The options that several commands share, and the settings that come out of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from console.render import Output
from runtime.settings import Settings

Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the upstream cluster.", show_default=False)
]
DownstreamKubeconfig = Annotated[
    Path | None,
    typer.Option("--downstream-kubeconfig", help="Kubeconfig of the downstream cluster.", show_default="upstream"),
]
BrokerUrl = Annotated[str | None, typer.Option("--broker-url", help="Redis, as redis:// URL.", show_default=False)]
Instance = Annotated[
    str | None, typer.Option("--instance", help="Which of several Sextons on one Redis.", show_default=False)
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the compositions.", show_default=False)
]
AllNamespaces = Annotated[
    bool | None, typer.Option("--all-namespaces", "-A", help="Every namespace.", show_default=False)
]
Selector = Annotated[
    str | None, typer.Option("--selector", "-l", help="Only compositions with these labels.", show_default=False)
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="A table for people, JSON for machines.")]
FLAGS: Mapping[str, str] = {
    "kubeconfig": "--kubeconfig",
    "downstream_kubeconfig": "--downstream-kubeconfig",
    "broker_url": "--broker-url",
    "instance": "--instance",
    "composition_namespace": "--namespace",
    "all_namespaces": "--all-namespaces",
    "composition_label_selector": "--selector",
}
"""By which flag each setting is given."""

Target = Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The composition.")]


def settings(context: typer.Context, **flags: Any) -> Settings:
    """The environment's settings with the given flags on top. Raises UsageError."""
    return Settings.load(FLAGS, **context.obj, **flags)


def scoped_settings(
    context: typer.Context, namespace: str | None, all_namespaces: bool | None, selector: str | None
) -> Settings:
    """The settings for a command that looks at all compositions in scope. Raises UsageError."""
    return settings(
        context,
        composition_namespace=namespace,
        # A namespace that was asked for wins over SEXTON_ALL_NAMESPACES.
        all_namespaces=False if namespace and all_namespaces is None else all_namespaces,
        composition_label_selector=selector,
    )

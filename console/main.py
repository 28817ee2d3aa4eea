"""The `sexton` command: what a person asks, and how it is answered.

Every error is one line on stderr and an exit code; a traceback is a bug in Sexton.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from console import clusters, inventory_app, operating, render
from console.demo import DEFAULT_TIMEOUT, run_demo
from console.explain import explain_with
from console.options import (
    AllNamespaces,
    BrokerUrl,
    DownstreamKubeconfig,
    Instance,
    Kubeconfig,
    Namespace,
    OutputOption,
    Selector,
    Target,
    scoped_settings,
    settings,
)
from console.plan import parse_target, preview
from console.render import Output
from console.status import collect
from console.story import tell
from eno.errors import SextonError, UsageError

INTERRUPTED = 130
EXIT_CODES = {
    0: "done",
    1: "it failed, and trying again changes nothing",
    2: "wrong usage, setting or file",
    69: "Redis or an API server cannot be reached",
    75: "it failed, try again later",
    77: "permission denied",
    124: "not in time",
    INTERRUPTED: "interrupted",
}


app = typer.Typer(
    name="sexton",
    no_args_is_help=True,
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(version("sexton") + "\n")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.", show_default=False)
]


@app.callback()
def connections(
    context: typer.Context,
    kubeconfig: Kubeconfig = None,
    downstream_kubeconfig: DownstreamKubeconfig = None,
    broker_url: BrokerUrl = None,
    instance: Instance = None,
    _version: Version = False,
) -> None:
    """Looks after the graves of Eno compositions.

    Settings come from SEXTON_* variables; flags win over them.
    """
    context.obj = {
        "kubeconfig": kubeconfig,
        "downstream_kubeconfig": downstream_kubeconfig,
        "broker_url": broker_url,
        "instance": instance,
    }


@app.command()
def demo(
    manifests: Annotated[
        Path | None,
        typer.Option("--manifests", help="History: one JSON manifest a line.", show_default="a small shop"),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(
            "--without",
            metavar="KEY=VALUE",
            help="Label of what the recreated composition lacks.",
            show_default="the shop's newsletter",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds until it is given up.")] = DEFAULT_TIMEOUT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Lose a composition's history and watch Sexton recover it, on an embedded cluster pair."""
    run_demo(tell(manifests, without), timeout=timeout, output=output)


@app.command()
def plan(
    context: typer.Context,
    composition: Target,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show exactly what recover would bury and where, and write nothing."""
    target = parse_target(composition)
    found = preview(clusters.context(settings(context)), target.namespace, target.name)
    if output is Output.JSON:
        render.print_json(found.to_json())
    else:
        render.terminal().print(render.plan(found))
    if found.cause is not None:
        raise found.cause


@app.command()
def explain(
    context: typer.Context,
    composition: Target,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show why a composition is not ready, and why each of its slices is kept or would go."""
    target = parse_target(composition)
    configuration = settings(context)
    found = explain_with(configuration, clusters.context(configuration), target.namespace, target.name)
    if output is Output.JSON:
        render.print_json(found.to_json())
    else:
        console = render.terminal()
        for part in render.explanation(found):
            console.print(part)
    if found.unavailable is not None:
        raise found.unavailable


@app.command()
def status(
    context: typer.Context,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = None,
    selector: Selector = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the compositions in scope with their decisions, and what waits in Redis."""
    configuration = scoped_settings(context, namespace, all_namespaces, selector)
    report = collect(clusters.context(configuration).upstream, configuration)
    now = clusters.utc_now()
    if output is Output.JSON:
        render.print_json(report.to_json(now))
    else:
        console = render.terminal()
        for part in render.status(report, now):
            console.print(part)
    if report.queues.unavailable is not None:
        raise report.queues.unavailable


@app.command("version")
def show_version(output: OutputOption = Output.TABLE) -> None:
    """Show the version."""
    if output is Output.JSON:
        render.print_json({"version": version("sexton")})
    else:
        sys.stdout.write(version("sexton") + "\n")


app.add_typer(inventory_app.app)
operating.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    command = typer.main.get_command(app)
    valued = {name for each in command.params if not getattr(each, "is_flag", False) for name in each.opts}
    try:
        words = global_options_first(sys.argv[1:] if arguments is None else arguments, valued)
        result = command.main(args=words, prog_name="sexton", standalone_mode=False)
    except typer.TyperException as error:
        return _misused(error)
    except SextonError as error:
        return _fail(error)
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    # Typer makes a result of most interruptions.
    if result == INTERRUPTED:
        sys.stderr.write("sexton: interrupted\n")
    return result if isinstance(result, int) else 0


def global_options_first(words: Sequence[str], options: Collection[str]) -> list[str]:
    """The command line with the command's own options in front, where they are parsed: people write them anywhere.

    `options` are their names; each takes one value. Raises UsageError when the last one has none.
    """
    front, rest = [], []
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            rest += [word, *remaining]
        elif word.partition("=")[0] not in options:
            rest.append(word)
        elif "=" in word:
            front.append(word)
        else:
            value = next(remaining, None)
            if value is None:
                raise UsageError(f"option {word!r} requires an argument", hint="see sexton --help")
            front += [word, value]
    return [*front, *rest]


def _misused(error: typer.TyperException) -> int:
    message = error.format_message().removesuffix(".").replace("Value error, ", "")
    if not message:
        # A group without a command: its help is on stdout by now.
        return UsageError.exit_code
    context: typer.Context | None = getattr(error, "ctx", None)
    return _fail(UsageError(message, hint=f"see {context.command_path if context else 'sexton'} --help"))


def _fail(error: SextonError) -> int:
    sys.stderr.write(f"sexton: {error}\n")
    return error.exit_code

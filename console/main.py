"""The `sexton` command: what a person asks, and how it is answered.

Every error is one line on stderr and an exit code; a traceback is a bug in Sexton.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from copy import copy
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

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
from console.streams import ReaderGone, guarded_streams
from eno.errors import SextonError, UsageError
from runtime.constraints import complaint, number

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
UNCONNECTED = frozenset({"demo", "version"})
"""The commands that talk to no cluster and no Redis of a person's choice."""

app = typer.Typer(
    name="sexton",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    now = clusters.utc_now()
    report = collect(clusters.context(configuration).upstream, configuration, now)
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
    with guarded_streams():
        try:
            code = _run(sys.argv[1:] if arguments is None else arguments)
            # Now, as it can still be told whether that succeeds.
            sys.stdout.flush()
        except ReaderGone:
            return SextonError.exit_code
        except SextonError as error:
            return _fail(error)
        return code


def _run(arguments: Sequence[str]) -> int:
    """Raises ReaderGone when nobody reads on."""
    command = typer.main.get_command(app)
    everywhere = [each for each in command.params if not getattr(each, "is_flag", False)]
    _tell_everywhere(command, everywhere)
    try:
        words = global_options_first(arguments, {name for each in everywhere for name in each.opts})
        result = command.main(args=words, prog_name="sexton", standalone_mode=False)
    except typer.TyperException as error:
        return _misused(error)
    except SextonError as error:
        return _fail(error)
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    # Typer makes a result of most interruptions.
    if result == INTERRUPTED:
        sys.stderr.write("sexton: interrupted\n")
    return result if isinstance(result, int) else 0


def _tell_everywhere(command: Any, options: Sequence[Any]) -> None:
    """Let the help and the completion of each command know the options that work everywhere.

    They are told only: `global_options_first` takes their values away before the command is parsed.
    """
    for each in getattr(command, "commands", {}).values():
        if not hasattr(each, "commands") and each.name not in UNCONNECTED:
            for option in options:
                told = copy(option)
                told.expose_value, told.rich_help_panel = False, "Options of every command"
                each.params.append(told)
        _tell_everywhere(each, options)


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
    message = _wrong_number(error) or error.format_message().removesuffix(".").replace("Value error, ", "")
    if not message:
        # A group without a command: its help is on stdout by now.
        return UsageError.exit_code
    context: typer.Context | None = getattr(error, "ctx", None)
    return _fail(UsageError(message, hint=f"see {context.command_path if context else 'sexton'} --help"))


def _wrong_number(error: typer.TyperException) -> str:
    """The complaint about a number, of which the message tells neither the value nor what it has to be."""
    cause, option = error.__cause__, getattr(error, "param", None)
    if not isinstance(cause, ValidationError) or option is None:
        return ""
    detail = cause.errors()[0]
    if detail["type"] == "value_error":
        return ""
    return complaint(option.opts[0], detail["input"], number(whole=False, ge=option.min, le=option.max))


def _fail(error: SextonError) -> int:
    sys.stderr.write(f"sexton: {error}\n")
    return error.exit_code

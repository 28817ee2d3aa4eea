"""The commands that operate a running Sexton: wait, enqueue, backfill, doctor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from console import backfill as filling
from console import clusters, render
from console.derivation import by_hand
from console.doctor import page
from console.doctor.examination import examine
from console.enqueue import Wish, enqueue, messages, require_task
from console.interrupts import Interrupts
from console.leading import leaderless
from console.options import AllNamespaces, Namespace, OutputOption, Selector, Target, scoped_settings, settings
from console.permissions import Process
from console.plan import parse_target
from console.render import Output
from console.status import scope_title
from console.waiting import Goal, Wait
from eno.errors import BrokerUnavailable, Terminal
from eno.wording import counted
from kube.limits import TokenBucket
from runtime.dispatch import Dispatcher
from runtime.messages import TaskName

TaskShort = StrEnum("Task", {task.name: task.short for task in TaskName})  # type: ignore[misc]
"""The tasks, as they are named on the command line."""

TaskArgument = Annotated[
    TaskShort,
    # Its column would break them in the middle.
    typer.Argument(metavar="TASK", show_choices=False, help=f"{', '.join(task.short for task in TaskName)}."),
]


def wait(
    context: typer.Context,
    composition: Target,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Seconds until it is given up.", show_default="never")
    ] = None,
    goal: Annotated[Goal, typer.Option("--for", help="What has to come.")] = Goal.DECISION,
    output: OutputOption = Output.TABLE,
) -> None:
    """Wait until a terminal decision about the current synthesis, or until it is ready.

    Ends at once when that can never come. Exit code 124: not in time.
    """
    target = parse_target(composition)
    configuration = settings(context)
    connect = clusters.waiting(configuration)

    def suspect() -> str:
        with connect(1.0) as cluster:
            return leaderless(cluster, configuration, clusters.utc_now())

    with _status_line(quiet=output is Output.JSON) as tell:
        found = Wait(
            connect,
            target.namespace,
            target.name,
            goal,
            timeout=timeout,
            tell=tell,
            suspect=suspect,
        ).run()
    if output is Output.JSON:
        render.print_json(found.to_json())
    elif found.error is None:
        render.terminal().print(render.awaited(found))
    if found.error is not None:
        raise found.error


def enqueue_task(
    context: typer.Context,
    task: TaskArgument,
    composition: Target,
    synthesis: Annotated[
        str, typer.Option("--synthesis", metavar="UUID", help="Only if this is the current one.", show_default=False)
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Also when nothing calls for it, or when it is held back or parked.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Enqueue one task for one composition, as the watcher would.

    A worker still does no more than the composition calls for.
    """
    name = TaskName[task.name]
    require_task(name, synthesis)
    wish = Wish(name, parse_target(composition), synthesis, force)
    configuration = settings(context)
    due = messages(clusters.context(configuration), wish)
    with closing(Dispatcher.connect(configuration)) as dispatcher:
        answers = enqueue(dispatcher, wish, due)
    errors = [each.error for each in answers if each.error is not None]
    if output is Output.JSON:
        render.print_json({"answers": [each.to_json() for each in answers]})
    else:
        for each in answers:
            if each.error is None:
                render.terminal().print(each.line)
    if errors:
        raise errors[0]


def backfill(
    context: typer.Context,
    task: TaskArgument,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = None,
    selector: Selector = None,
    rate: Annotated[float, typer.Option("--rate", min=0.01, max=10_000, help="Messages per second.")] = 10.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be enqueued, and enqueue nothing.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Enqueue one task for everything in scope that calls for it.

    Interrupted, the same command goes on with the rest.
    """
    name = TaskName[task.name]
    configuration = scoped_settings(context, namespace, all_namespaces, selector)
    scope = by_hand(configuration, name)
    title = scope_title(scope)
    quiet = output is Output.JSON
    with render.terminal(sys.stderr).status(render.line(f"reading {title}")):
        work = filling.workload(clusters.context(configuration), name, scope)
    tally, away = filling.Tally(), None
    try:
        if not dry_run:
            with closing(Dispatcher.connect(configuration)) as dispatcher, progress(work, quiet=quiet) as advance:
                _send(dispatcher, work, tally, rate, advance)
    except BrokerUnavailable as error:
        away = error
    finally:
        # Also when it was interrupted: what was done stays done.
        if quiet:
            render.print_json(filling.summary(work, tally, scope=title, dry_run=dry_run))
        else:
            for part in render.backfilled(work, tally, title, dry_run=dry_run):
                render.terminal().print(part)
    failure = away or tally.error(name)
    if failure is not None:
        raise failure


def _send(
    dispatcher: Dispatcher, work: filling.Workload, tally: filling.Tally, rate: float, advance: Callable[[], None]
) -> None:
    pace = TokenBucket(rate, 1).acquire
    with Interrupts() as interrupts:
        for answer in filling.send(dispatcher, work.due, pace, interrupts.undivided):
            tally.note(answer)
            advance()


def doctor(
    context: typer.Context,
    process: Annotated[
        Process | None,
        typer.Option("--process", help="Whose permissions are checked.", show_default="all together"),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check everything that Sexton needs, and show the line that mends what is wrong.

    Permissions are those of the identity that runs the command.
    """
    processes = [process] if process else list(Process)
    found = examine(os.environ, context.obj, processes, clusters.utc_now)
    if output is Output.JSON:
        render.print_json(found.to_json())
    else:
        page.show(found, render.terminal())
    if found.failed:
        failures = f"{counted(len(found.failed), 'check')} of {len(found.checks)} failed"
        raise Terminal(failures, where="doctor", hint="each is shown with the line that mends it")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(wait)
    app.command("enqueue")(enqueue_task)
    app.command()(backfill)
    app.command()(doctor)


@contextmanager
def _status_line(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Where to tell what is waited for: one line that changes on a terminal, else a line each, on stderr."""
    console = render.terminal(sys.stderr)
    if quiet:
        yield lambda _: None
    elif not console.is_terminal:
        yield lambda text: console.print(f"waiting: {text}")
    else:
        with console.status("waiting") as status:
            yield lambda text: status.update(render.line(f"waiting: {text}"))


class _Rate(ProgressColumn):
    """Messages per second, as they really went."""

    def render(self, task: Task) -> Text:
        """See ProgressColumn."""
        return Text(f"{task.speed:.1f}/s" if task.speed else "")


@contextmanager
def progress(work: filling.Workload, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar with rate and remaining time, on stderr where that is a terminal."""
    console = render.terminal(sys.stderr)
    if quiet or not work.due or not console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        bar = shown.add_task(work.task.short, total=len(work.due))
        yield lambda: shown.advance(bar)

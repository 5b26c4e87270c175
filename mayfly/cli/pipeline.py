"""``mayfly pipeline``: run the pipeline of a TOML file, check and explain it, and say how it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from mayfly.cli.outcomes import CommandFailed, ExitCode, group, wrong_values
from mayfly.cli.progress_line import progress_line
from mayfly.cli.run_notes import RunKind, RunState, noted
from mayfly.cli.run_outputs import MetricsFileOption, MetricsListenOption, metrics_targets
from mayfly.cli.show import JsonOption, print_json, quiet_stderr
from mayfly.cli.values import local_path
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.parts import PipelineFileError

if TYPE_CHECKING:
    from mayfly.pipeline.check import ConfigProblem
    from mayfly.pipeline.parts import PipelineConfig
    from mayfly.pipeline.progress import Progress
    from mayfly.pipeline.supervise import RunResult

pipeline = group()

File = Annotated[
    Path, typer.Argument(parser=local_path, metavar="FILE", help="The pipeline, as TOML.")
]
Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE|LAKE]...", help="Files of pipelines, and lakes of ledger runs."),
]
MasterOption = Annotated[str, typer.Option("--master", help="Where Spark runs.")]
OnceOption = Annotated[
    bool, typer.Option("--once", help="End when all that is there now has gone through.")
]
WithoutSparkOption = Annotated[
    bool,
    typer.Option("--without-spark", help="Leave out what only Spark can tell: expressions."),
]


@pipeline.command()
def run(
    file: File,
    *,
    master: MasterOption = "local[*]",
    once: OnceOption = False,
    metrics_file: MetricsFileOption = None,
    metrics_listen: MetricsListenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline until it is interrupted or, with --once, has nothing left to do.

    It continues where an earlier run ended. When its query fails, it is started again after a
    while; a failure that no restart can repair ends the command. SIGINT or SIGTERM lets the running
    batch finish; a second one does not wait. --json prints a line for each batch in which a row
    came or left. At the end it prints one more line when rows are still held.

    \b
    Examples:
      mayfly pipeline run calls.toml
      mayfly pipeline run calls.toml --master 'local[2]' --metrics-listen 127.0.0.1:9415
      mayfly pipeline run calls.toml --once --json
    """
    with _errors():
        from mayfly.pipeline.progress import Progress
        from mayfly.pipeline.run import problems_before
        from mayfly.pipeline.run import run as run_pipeline

        config = _load(file)
        for problem in problems_before(config):
            raise CommandFailed(ExitCode.PIPELINE, _line(problem, file))
        with contextlib.ExitStack() as stack:
            begun = Progress(config.name)
            metrics = metrics_targets(begun, metrics_file, metrics_listen)
            targets, url = stack.enter_context(metrics)
            terminal = stack.enter_context(quiet_stderr())
            watcher = stack.enter_context(watching(terminal, config.name, as_json=as_json))
            if url is not None:
                watcher.say(f"metrics at {url}")
            place = str(file.absolute())
            note = stack.enter_context(noted(RunKind.PIPELINE, place, watcher.say))
            shown = targets if note is None else [*targets, note]
            result = run_pipeline(config, watcher, master=master, is_once=once, shown=shown)
            if note is not None:
                note.end(RunState(result.end.value), result.text)
    end_of_run(result, as_json=as_json)


@pipeline.command("status")
def show_status(places: Places = None, *, as_json: JsonOption = False) -> None:
    """Say of pipelines and ledger runs whether they run, how far they are, and what they hold.

    Of all that have run on this machine under this MAYFLY_HOME, or of those named. No Spark is
    started. Exit code 1 when something needs a look: a run was killed, has failed or waits for a
    restart, or a server does not answer; also when there is nothing to tell of. A run that was
    stopped or is done needs none.

    \b
    Examples:
      mayfly pipeline status
      mayfly pipeline status calls.toml s3://bucket/lake --json
    """
    from mayfly.cli.pipeline_status import lines_of, report_of, statuses

    with wrong_values():
        found = statuses(places or [])
    if as_json:
        print_json([report_of(each) for each in found])
    else:
        for each in found:
            print("\n".join(lines_of(each)))
    if not found:
        raise CommandFailed(ExitCode.NOTHING, "no pipeline and no ledger run is known here")
    wrong = [each for each in found if each.problems]
    if wrong:
        counted = "1 run needs" if len(wrong) == 1 else f"{len(wrong)} runs need"
        raise CommandFailed(ExitCode.NOTHING, f"{counted} a look")


@pipeline.command()
def check(
    file: File, *, without_spark: WithoutSparkOption = False, as_json: JsonOption = False
) -> None:
    """Find what would keep a pipeline from running.

    Checks the file, its servers and queues, the checkpoint and, with Spark, the expressions. Exit
    code 1 when something is wrong; warnings alone do not count.

    \b
    Examples:
      mayfly pipeline check calls.toml
      mayfly pipeline check calls.toml --without-spark
    """
    with _errors():
        problems = _problems(file, without_spark=without_spark)
    wrong = [problem for problem in problems if not problem.is_warning]
    if as_json:
        print_json({"ok": not wrong, "problems": [problem._asdict() for problem in problems]})
    else:
        for problem in problems:
            print(_line(problem))
        if not wrong:
            print(f"{file} can be run")
    if wrong:
        counted = "1 problem" if len(wrong) == 1 else f"{len(wrong)} problems"
        raise CommandFailed(ExitCode.NOTHING, f"{counted} in {file}")


@pipeline.command()
def explain(file: File) -> None:
    """Say in plain words what a pipeline does, and what of it happens exactly once.

    \b
    Example:
      mayfly pipeline explain calls.toml
    """
    with _errors():
        from mayfly.pipeline.explain import explain as explained

        print(explained(_load(file)).rstrip("\n"))


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Return a context that turns errors of a pipeline and its file into CommandFailed: code 5."""
    from mayfly.cli.lake_engine import pipeline_errors

    with pipeline_errors():
        try:
            yield
        except PipelineFileError as error:
            raise CommandFailed(ExitCode.PIPELINE, str(error)) from error


def _load(file: Path) -> PipelineConfig:
    """Return the pipeline in a TOML file; raises PipelineFileError for a mistake in the file."""
    from mayfly.pipeline.config import load

    return load(file)


def _problems(file: Path, *, without_spark: bool) -> list[ConfigProblem]:
    """Return the problems of a pipeline's file, [] if it can be run.

    Spark checks the expressions, unless ``without_spark`` or the rest has mistakes.
    """
    from mayfly.pipeline.check import ConfigProblem
    from mayfly.pipeline.check import check as find_problems

    try:
        config = _load(file)
    except PipelineFileError as error:
        return [ConfigProblem(error.where or str(file), error.text)]
    # Mistakes in the file itself are found first, before Java starts.
    found = find_problems(config, None)
    if without_spark or any(not problem.is_warning for problem in found):
        return found
    from mayfly.pipeline.build import session_settings
    from mayfly.pipeline.spark.session import create_session

    with quiet_stderr():
        spark = create_session("local[1]", "mayfly pipeline check", session_settings(config))
        try:
            return find_problems(config, spark)
        finally:
            spark.stop()


def _line(problem: ConfigProblem, file: Path | None = None) -> str:
    """Return a problem as one line, after the name of the file if it is not None."""
    kind = "warning: " if problem.is_warning else ""
    place = f"{file}: " if file else ""
    return f"{place}{kind}{problem.where}: {problem.text}"


def end_of_run(result: RunResult, *, as_json: bool) -> None:
    """Print the result of a pipeline's run; raises CommandFailed if it failed or was interrupted.

    With ``as_json`` it prints a line only if rows are still held or not released.
    """
    from mayfly.pipeline.supervise import Termination

    if result.end is Termination.FAILED:
        raise CommandFailed(ExitCode.PIPELINE, result.text)
    if result.end is Termination.INTERRUPTED:
        raise CommandFailed(ExitCode.INTERRUPTED, "interrupted")
    progress = result.progress
    if as_json:
        if progress.held != 0 or progress.releasing:
            print_json({"end": result.end.value, **progress._asdict()}, indent=None)
        return
    print(f"{result.end.value}: {progress_line(progress)}")
    if progress.held:
        print(f"{progress.held:,} rows are not due yet: the checkpoint holds them for a later run")
    elif progress.held is None:
        print("the checkpoint may hold rows that are not due yet for a later run")


class Watcher:
    """Shows progress: to people on a line that changes, to programs as a line for each batch."""

    def __init__(self, console: Console, spinner: Spinner, *, as_json: bool) -> None:
        """Keep the console for lines and the spinner for the counts that change."""
        self._console = console
        self._spinner = spinner
        self._as_json = as_json
        self._before: Progress | None = None

    def started(self, progress: Progress) -> None:
        """Show that the query has started, or started again."""
        self._before = progress
        self._spinner.update(text=f"{progress.pipeline}  started, the first batch takes a while")

    def batch(self, progress: Progress) -> None:
        """Show the counts after a batch; with --json print them if a row came or left."""
        speed = f"  {progress.rows_per_second:,.0f} rows/s" if progress.rows_per_second else ""
        self._spinner.update(text=f"{progress_line(progress)}  batch {progress.batch}{speed}")
        if self._as_json and self._before and progress.has_moved_since(self._before):
            print_json(progress._asdict(), indent=None)
        self._before = progress

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        """Print the failure, and show that the query waits to start again."""
        self.say(f"{failure}; starting again in {wait_ms / SECOND_MS:g} s")
        self._spinner.update(text=f"{progress.pipeline}  waiting to start again")

    def say(self, text: str) -> None:
        """Print a line for the user on the terminal, also in a pipe."""
        self._console.print(f"mayfly: {text}", markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def watching(terminal: TextIO, name: str, *, as_json: bool) -> Iterator[Watcher]:
    """Return a context with a watcher that draws on a terminal; ``name`` is the pipeline's.

    In a pipe, or with ``as_json``, it draws nothing. Failures are printed in any case. With
    ``as_json`` the watcher prints a line for each batch in which a row came or left.
    """
    console = Console(file=terminal)
    spinner = Spinner("dots", text=f"{name}  starting Spark")
    live = Live(spinner, console=console, refresh_per_second=10, transient=True)
    with live if console.is_terminal and not as_json else contextlib.nullcontext():
        yield Watcher(console, spinner, as_json=as_json)

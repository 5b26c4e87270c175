"""``mayfly pipeline``: run the pipeline of a TOML file, check and explain it, and say how it is.

The status of a run needs no Spark. Four places are asked: the note of the run (cli/run_notes.py),
the checkpoint of its query, the lake, and the queue managers for claims and the end of a ledger.
A place that does not answer is a problem of the status; the answers of the others are shown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from mayfly.cli.outcomes import CommandFailed, ExitCode, group, wrong_values
from mayfly.cli.run_notes import (
    CopiedLedger,
    RunKind,
    RunNote,
    RunState,
    all_notes,
    lake_key,
    noted,
    notes_at,
)
from mayfly.cli.run_notes import as_json as note_as_json
from mayfly.cli.run_outputs import MetricsFileOption, MetricsListenOption, metrics_targets
from mayfly.cli.show import JsonOption, moment, print_json, quiet_stderr
from mayfly.cli.values import local_path
from mayfly.lifetime.times import SECOND_MS, spelled_duration
from mayfly.pipeline.bulk.batch_log import CheckpointState, checkpoint_state
from mayfly.pipeline.config import ClaimedSource, PipelineConfig, PipelineFileError
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.progress import NO_BATCH, LedgerProgress, Progress, path_here
from mayfly.runtime import SystemClock
from mayfly.verbs.contracts import config_files
from mayfly.verbs.contracts.config_files import is_url

if TYPE_CHECKING:
    from mayfly.pipeline.check import ConfigProblem
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
#: A server that takes longer does not answer.
_ANSWER_SECONDS = 3.0
_FILE_SUFFIX = ".toml"
#: States that need no look of an operator.
_IN_ORDER = (RunState.STARTING, RunState.RUNNING, RunState.DONE, RunState.STOPPED)


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
        from mayfly.pipeline.check import explain as explained

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


class HeldClaims(NamedTuple):
    """The claims of a pipeline's consumer at its queue manager.

    ``oldest_age_ms`` is the age of its oldest claim, None without an open one.
    """

    url: str
    queue: str
    consumer: str
    claim_count: int
    message_count: int
    oldest_age_ms: int | None


class RunStatus(NamedTuple):
    """How a run is: its note, and what checkpoint, lake and queue managers say.

    ``name`` is that of the pipeline, or of the queue manager whose ledger is copied. ``batches`` is
    None for a checkpoint that is not on this machine, and for a Delta lake. ``position`` and
    ``end_position`` are of ledger runs: the last position of the lake and of the ledger, None if
    unknown. ``problems`` are sentences about what needs a look, one line each.
    """

    note: RunNote
    name: str
    problems: tuple[str, ...]
    now_ms: int
    batches: CheckpointState | None = None
    claims: tuple[HeldClaims, ...] = ()
    position: int | None = None
    end_position: int | None = None

    @property
    def batch_ended_ms(self) -> int | None:
        """When the last batch or commit was finished, ms since 1970; None if unknown."""
        if self.batches is not None and self.batches.committed_ms is not None:
            return self.batches.committed_ms
        progress = self.note.progress
        if isinstance(progress, LedgerProgress):
            return progress.committed_ms
        return None if progress is None else progress.batch_ended_ms


def statuses(places: Sequence[str]) -> list[RunStatus]:
    """Return the status of the runs at these places, which are files of pipelines or lakes.

    Without places it is of all runs whose notes are on this machine; [] if there are none. Raises
    CommandFailed for a file in ``places`` that describes no pipeline, OSError for one that cannot
    be read, ValueError for the URL of a file on another machine.
    """
    notes = [note for place in places for note in _notes_at(place)] if places else all_notes()
    for note in notes if places else ():
        if note.kind is RunKind.PIPELINE:
            try:
                _config(note)
            except PipelineFileError as error:
                raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    # Servers are asked side by side, so that those that do not answer are waited for once.
    with ThreadPoolExecutor(max(1, len(notes)), "mayfly-status") as threads:
        return list(threads.map(_status, notes))


def report_of(status: RunStatus) -> dict[str, Any]:
    """Return a status as a dict for JSON; times are ms since 1970, ages and lags ms.

    The keys are name, those of the note, batches, batch_ended_ms, claims, position, end_position,
    lag_rows and problems.
    """
    return {
        "name": status.name,
        **note_as_json(status.note),
        "batches": None if status.batches is None else status.batches._asdict(),
        "batch_ended_ms": status.batch_ended_ms,
        "claims": [claims._asdict() for claims in status.claims],
        "position": status.position,
        "end_position": status.end_position,
        "lag_rows": _lag_rows(status),
        "problems": list(status.problems),
    }


def lines_of(status: RunStatus) -> Iterator[str]:
    """Yield a status as lines for people: one about the run, then indented what is known of it."""
    note = status.note
    title = status.name if note.kind is RunKind.PIPELINE else f"ledger of {status.name}"
    yield f"{title}: {_state_text(note)}  ({note.place})"
    yield from (f"  {line}" for line in _facts(status))
    yield from (f"  problem: {problem}" for problem in status.problems)


def _facts(status: RunStatus) -> Iterator[str]:
    """Yield what is known of a run, a line for each subject."""
    batch_line = _batch_line(status)
    if batch_line:
        yield batch_line
    if isinstance(status.note.progress, Progress):
        yield progress_line(status.note.progress)
    yield from map(_claims_line, status.claims)
    if status.note.kind is RunKind.LEDGER:
        known = ["?" if p is None else f"{p:,}" for p in (status.position, status.end_position)]
        lag_rows = _lag_rows(status)
        behind = "" if lag_rows is None else f": {lag_rows:,} rows behind"
        yield f"position {known[0]} of {known[1]}{behind}"


def _claims_line(held: HeldClaims) -> str:
    """Return the line about what a consumer has claimed."""
    if not held.claim_count:
        return f"{held.consumer} holds no messages of {held.queue}  ({held.url})"
    claims = "1 claim" if held.claim_count == 1 else f"{held.claim_count:,} claims"
    age = "" if held.oldest_age_ms is None else f", the oldest {_age(held.oldest_age_ms)} old"
    messages = f"{held.message_count:,} messages of {held.queue}"
    return f"{held.consumer} holds {messages} in {claims}{age}  ({held.url})"


def _batch_line(status: RunStatus) -> str:
    """Return the line about the last batch or commit, "" if there is none."""
    progress, batches, parts = status.note.progress, status.batches, []
    ended_ms = status.batch_ended_ms
    number = batches.committed if batches is not None else None
    if number is None and isinstance(progress, Progress) and progress.batch != NO_BATCH:
        number = progress.batch
    if ended_ms is not None:
        last = "last commit" if number is None else f"last batch {number}"
        age = _age(status.now_ms - ended_ms)
        parts.append(f"{last}: {moment(ended_ms)} UTC, {age} ago")
        # A run that goes on knows the number of the last batch, and not its rows.
        if isinstance(progress, Progress) and progress.batches and progress.batch == number:
            parts.append(f"{progress.batch_rows:,} rows")
    if batches is not None and batches.unfinished is not None:
        parts.append(f"batch {batches.unfinished} is not finished")
    return ", ".join(parts)


def _status(note: RunNote) -> RunStatus:
    """Return the status of one run; a question that cannot be answered becomes a problem in it."""
    asked = _Asked()
    status = _of_pipeline if note.kind is RunKind.PIPELINE else _of_ledger
    found = status(note, asked)
    return found._replace(problems=(*_state_problems(note), *asked.problems))


class _Asked:
    """Collects the problems of questions that cannot be answered."""

    def __init__(self) -> None:
        """Begin without a problem, at the present time."""
        self.problems: list[str] = []
        self.now_ms = SystemClock().now_ms()

    def ask(self, question: Callable[[], Any]) -> Any:
        """Return what ``question()`` returns, None if it fails: the reason is then a problem."""
        from mayfly.pipeline.bulk.errors import BulkError

        try:
            return question()
        except OSError as error:
            self.problems.append(f"{error.filename}: {error.strerror}")
        except (BulkError, LakeError, ValueError, ModuleNotFoundError) as error:
            self.problems.append(" ".join(str(error).split()))
        return None


def _of_pipeline(note: RunNote, asked: _Asked) -> RunStatus:
    """Return the status of a pipeline; ``asked`` collects the problems of failed questions."""
    config: PipelineConfig | None = asked.ask(lambda: _config(note))
    if config is None:
        name = Path(note.place).stem if note.progress is None else note.progress[0]
        return RunStatus(note, str(name), (), asked.now_ms)
    folder = path_here(config.checkpoint)
    batches = None if folder is None else asked.ask(lambda: checkpoint_state(folder))
    claims: list[HeldClaims] = []
    for source in config.sources:
        if isinstance(source, ClaimedSource):
            held = asked.ask(partial(_claims_of, source, asked.now_ms))
            claims += [] if held is None else [held]
    return RunStatus(note, config.name, (), asked.now_ms, batches, tuple(claims))


def _claims_of(source: ClaimedSource, now_ms: int) -> HeldClaims:
    """Return what the consumer of a source holds at its queue manager.

    The counts are 0 if the consumer is unknown there. Raises BulkError, or ValueError for a wrong
    url.
    """
    from mayfly.pipeline.bulk.queue_client import QueueClient

    with QueueClient(
        source.url,
        token_file=source.token_file,
        manager=source.manager,
        timeout_seconds=_ANSWER_SECONDS,
    ) as client:
        states = [each for each in client.standings() if each.consumer == source.consumer]
    for state in states:
        since_ms = state.oldest_claimed_ms
        return HeldClaims(
            source.url,
            source.queue,
            source.consumer,
            state.last - state.closed,
            state.message_count,
            None if since_ms is None else max(now_ms - since_ms, 0),
        )
    return HeldClaims(source.url, source.queue, source.consumer, 0, 0, None)


def _of_ledger(note: RunNote, asked: _Asked) -> RunStatus:
    """Return the status of a ledger run; ``asked`` collects the problems of failed questions."""
    ledger, progress = note.ledger, note.progress
    if ledger is None:
        return RunStatus(note, "?", (), asked.now_ms)
    position = progress.position if isinstance(progress, LedgerProgress) else None
    # A lake in an object store is not asked: it may take minutes to say that it is away.
    if not is_url(note.place):
        found = asked.ask(lambda: _lake_position(note.place, ledger))
        position = position if found is None else found
    end_position = asked.ask(lambda: _end_position(ledger))
    return RunStatus(
        note,
        ledger.manager,
        (),
        asked.now_ms,
        position=position,
        end_position=end_position,
    )


def _lake_position(lake: str, ledger: CopiedLedger) -> int:
    """Return the last position that a lake has of a ledger, 0 for none; raises LakeError."""
    if is_delta(lake):
        from mayfly.pipeline.lake.delta import position_of
    else:
        from mayfly.pipeline.lake.parquet import position_of
    return position_of(lake, ledger.instance_id)


def _end_position(ledger: CopiedLedger) -> int:
    """Return the last position of a ledger; raises BulkError if its server does not answer."""
    from mayfly.pipeline.bulk.client import LedgerClient

    with LedgerClient(
        ledger.url,
        token_file=ledger.token_file,
        manager=ledger.manager,
        timeout_seconds=_ANSWER_SECONDS,
    ) as client:
        return client.info().last_position


def _notes_at(place: str) -> list[RunNote]:
    """Return the notes of the runs of a pipeline's file or of a lake.

    If no run is known here, it is one note with state NEW. Raises ValueError for the URL of a file
    on another machine.
    """
    if place.endswith(_FILE_SUFFIX):
        return notes_at(RunKind.PIPELINE, str(config_files.local_path(place).absolute()))
    return notes_at(RunKind.LEDGER, lake_key(place))


def _config(note: RunNote) -> PipelineConfig:
    """Return the pipeline of a note; raises PipelineFileError, OSError for its file."""
    from mayfly.pipeline.config import load

    return load(Path(note.place))


def _state_problems(note: RunNote) -> Iterator[str]:
    """Yield a sentence if the state of a run needs a look."""
    if note.state is RunState.NEW:
        yield f"no run of {note.place} is known on this machine"
    elif note.state is RunState.KILLED:
        yield f"process {note.process} has died in the midst of its work: start it again"
    elif note.state not in _IN_ORDER:
        yield note.text or f"it was {note.state}"


def _state_text(note: RunNote) -> str:
    """Return the state of a run in words, with its time and process."""
    since = "" if note.since_ms is None else f" since {moment(note.since_ms)} UTC"
    match note.state:
        case RunState.NEW:
            return "not known here"
        case RunState.KILLED:
            return f"killed; had run{since}"
        case RunState.RESTARTING:
            return f"waits for a restart{since}, process {note.process}"
        case RunState.STARTING | RunState.RUNNING:
            return f"{note.state}{since}, process {note.process}"
    return f"{note.state}{since}"


def _lag_rows(status: RunStatus) -> int | None:
    """Return how many rows of its ledger a lake lacks, None if unknown or of a pipeline."""
    if status.position is None or status.end_position is None:
        return None
    return max(status.end_position - status.position, 0)


def _age(age_ms: int) -> str:
    """Return an age in words, to the second."""
    return spelled_duration(max(age_ms, 0) // SECOND_MS * SECOND_MS)


def progress_line(progress: Progress) -> str:
    """Return the counts of a pipeline on one line; a number of held rows that is None is "?"."""
    held = "?" if progress.held is None else f"{progress.held:,}"
    cells = [
        f"{progress.pipeline}",
        f"in {progress.rows_in:,}",
        f"held {held}",
        f"released {progress.released:,}",
        f"expired {progress.expired:,}",
        f"refused {progress.dead_lettered:,}",
        f"reports {progress.reports:,}",
    ]
    if progress.releasing:
        cells.append(f"releasing {progress.releasing:,}")
    if progress.lag_ms is not None:
        cells.append(f"lag {progress.lag_ms / SECOND_MS:,.1f} s")
    if progress.restarts:
        cells.append(f"restarts {progress.restarts}")
    return "  ".join(cells)

"""How pipelines and ledger runs of this machine are: ``mayfly pipeline status``, without Spark.

Four places are asked: the note of the run (cli/run_notes.py), the checkpoint of its query, the
lake, and the queue managers for claims and the end of a ledger. What cannot be asked is a problem
of the status, and what the others say is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.progress_line import progress_line
from mayfly.cli.run_notes import (
    Ledger,
    RunKind,
    RunNote,
    RunState,
    all_notes,
    lake_key,
    notes_at,
)
from mayfly.cli.run_notes import as_json as note_as_json
from mayfly.cli.show import moment
from mayfly.lifetime.times import SECOND_MS, spelled_duration
from mayfly.pipeline.checkpoint_state import CheckpointState, checkpoint_state
from mayfly.pipeline.lake.errors import LakeError
from mayfly.pipeline.lake.files import is_delta
from mayfly.pipeline.ledger_progress import LedgerProgress
from mayfly.pipeline.parts import ClaimedSource, PipelineConfig, PipelineFileError
from mayfly.pipeline.progress import NO_BATCH, Progress, path_here
from mayfly.runtime import SystemClock
from mayfly.verbs.contracts.files import is_url, local_path

#: A server that takes longer does not answer.
_ANSWER_SECONDS = 3.0
_FILE_SUFFIX = ".toml"
#: States that need no look of an operator.
_IN_ORDER = (RunState.STARTING, RunState.RUNNING, RunState.DONE, RunState.STOPPED)


class HeldClaims(NamedTuple):
    """What a consumer of a pipeline has claimed at its queue manager.

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


def _lake_position(lake: str, ledger: Ledger) -> int:
    """Return the last position that a lake has of a ledger, 0 for none; raises LakeError."""
    if is_delta(lake):
        from mayfly.pipeline.lake.delta import position_of
    else:
        from mayfly.pipeline.lake.parquet import position_of
    return position_of(lake, ledger.instance_id)


def _end_position(ledger: Ledger) -> int:
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
        return notes_at(RunKind.PIPELINE, str(local_path(place).absolute()))
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

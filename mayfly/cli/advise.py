"""``mayfly advise``: which receive timeout and transaction lifetime are safe for a listener."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from mayfly.cli.lake_engine import lake_errors, no_lives
from mayfly.cli.managers import connected
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.show import JsonOption, moment, print_json
from mayfly.cli.values import duration_ms, local_path
from mayfly.client.connection import Administration
from mayfly.lifetime.life import KIND_LIFE
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.advise.settings import ListenSettings, duration_text, read_config
from mayfly.store.database import DATABASE_FILE
from mayfly.verbs.contracts.ledger import PositionTrimmed

if TYPE_CHECKING:
    import pyarrow as pa

    from mayfly.client.connection.operating import ClientLedger
    from mayfly.pipeline.advise.advice import Advice, Outlook
    from mayfly.pipeline.advise.simulate import ArrivalSummary, Durations, QueueArrivals

#: Parameters of the advice besides a setting.
_LIMITS = ("margin_ms", "idle_per_hour", "seed")
_ASKED = (
    "how long does the longest on_message take? Say it with --longest, as in --longest 15s, with "
    "--on-message, or as longest_on_message_ms in the --config file"
)
_PAGE_COUNT = 50_000
_PROCESS = "1 is independent arrivals, more are bursts"
_TITLES = {
    "messages": "messages",
    "taken": "transactions with a message",
    "committed": "  committed",
    "needless": "  rolled back needlessly",
    "overlong": "  on_message as long as the lifetime",
    "messages_hit": "messages rolled back needlessly",
    "redeliveries": "redeliveries",
    "backouts_max": "most rollbacks of one message",
    "requeued": "messages past BOTHRESH",
    "expired": "messages that expired first",
    "left": "messages rolled back to the end",
    "idle_rollbacks": "idle rollbacks",
}


def lifetime_seconds(text: str) -> int:
    """Return a duration such as ``2min`` in seconds.

    Raises BadParameter unless it is a duration of whole seconds.
    """
    lifetime_ms = duration_ms(text)
    if lifetime_ms % SECOND_MS:
        raise typer.BadParameter(f"{text!r} is not a whole number of seconds")
    return lifetime_ms // SECOND_MS


Source = Annotated[
    Path | None,
    typer.Argument(
        parser=local_path,
        metavar="TRACE|LAKE|FOLDER",
        help="What was recorded: a trace (CSV, Parquet, Arrow), a lake, or the folder of a queue "
        "manager. Without it, only the setting is judged.",
    ),
]
QueueOption = Annotated[
    str | None, typer.Option("--queue", metavar="QUEUE", help="Which queue, where there are more.")
]
TimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--receive-timeout",
        parser=duration_ms,
        metavar="TIME",
        help="NON.ASF.RECEIVE.TIMEOUT as it is set.",
    ),
]
LifetimeOption = Annotated[
    int | None,
    typer.Option(
        "--lifetime",
        parser=lifetime_seconds,
        metavar="TIME",
        help="Total transaction lifetime; 0 for none, else whole seconds. [default: 120s]",
    ),
]
LongestOption = Annotated[
    int | None,
    typer.Option(
        "--longest", parser=duration_ms, metavar="TIME", help="How long the longest on_message is."
    ),
]
OnMessageOption = Annotated[
    str | None,
    typer.Option(
        "--on-message",
        metavar="TIMES",
        help="How long on_message takes: one time, percentiles as p50=2s,p99=9s,max=15s, or a CSV "
        "file with a column on_message_ms. [default: always the longest]",
    ),
]
SessionsOption = Annotated[
    int | None, typer.Option("--sessions", metavar="N", help="Maximum sessions. [default: 1]")
]
BothreshOption = Annotated[
    int | None,
    typer.Option("--bothresh", metavar="N", help="BOTHRESH of the queue. [default: its own, or 0]"),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        parser=local_path,
        metavar="FILE",
        help="Read these settings: .toml, or properties.",
    ),
]
ManagerOption = Annotated[
    str | None,
    typer.Option(
        "--qmgr", metavar="QMGR", help="Queue manager: whose lives of a lake, or whose own ledger."
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The server of --qmgr, mq://HOST:PORT?channel=CHANNEL, mqs:// with TLS. The password "
        "is in MAYFLY_PASSWORD.",
    ),
]
MarginOption = Annotated[
    int | None,
    typer.Option(
        "--margin",
        parser=duration_ms,
        metavar="TIME",
        help="What is to be left of the lifetime after the longest on_message. [default: 1s]",
    ),
]
IdleOption = Annotated[
    int | None,
    typer.Option(
        "--idle-per-hour",
        metavar="N",
        help="Idle rollbacks an hour that a session may cost. [default: 60]",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="Deals on_message times out to messages.")
]


def advise(
    source: Source = None,
    *,
    queue: QueueOption = None,
    receive_timeout_ms: TimeoutOption = None,
    total_tran_lifetime_timeout_s: LifetimeOption = None,
    longest_on_message_ms: LongestOption = None,
    on_message: OnMessageOption = None,
    max_sessions: SessionsOption = None,
    bothresh: BothreshOption = None,
    config: ConfigOption = None,
    qmgr: ManagerOption = None,
    url: UrlOption = None,
    margin_ms: MarginOption = None,
    idle_per_hour: IdleOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Say which receive timeout and transaction lifetime are safe for a non-ASF listener.

    A transaction begins before the receive, so a message that comes late leaves little of it. A
    simulation of recorded arrivals shows what the present setting has cost, and what another would
    cost. Exit code 1 when the present setting is not safe.

    \b
    Examples:
      mayfly advise --receive-timeout 110s --lifetime 120s --longest 15s
      mayfly advise lake --queue ORDERS --config port.properties --sessions 2 --longest 15s
      mayfly advise --qmgr QM1 --queue ORDERS --on-message p50=2s,p99=9s,max=15s
    """
    # Options are named as what they say to the advice.
    text = {name: value for name, value in locals().items() if value is not None}
    with wrong_values():
        answer = _answer(text)
    if as_json:
        print_json(advice_as_json(answer))
    else:
        print_advice(answer)
    if answer.problems:
        raise CommandFailed(ExitCode.NOTHING, "the present setting is not safe")


def _answer(text: dict[str, Any]) -> Advice:
    """Return the advice for the options and the --config file; an option overrides the file.

    ``text`` maps the name of each option to its value; options not used are left out. Raises
    ValueError or CommandFailed.
    """
    from mayfly.pipeline.advise import advice

    values = (read_config(text["config"]) if "config" in text else {}) | text
    longest_ms = values.get("longest_on_message_ms")
    durations = _durations(values.get("on_message"), longest_ms)
    with Console(stderr=True).status("reading what was recorded"):
        record = recorded(*(values.get(name) for name in ("source", "qmgr", "queue", "url")))
    if record is not None and record.bothresh is not None:
        values.setdefault("bothresh", record.bothresh)
    with Console(stderr=True).status("trying the settings"):
        return advice.advise(
            ListenSettings(**_named(ListenSettings._fields, values)),
            durations,
            None if record is None else record.arrivals,
            longest_on_message_ms=longest_ms,
            **_named(_LIMITS, values),
        )


def _named(names: Iterable[str], values: dict[str, Any]) -> dict[str, Any]:
    """Return those entries of ``values`` whose key is one of the names."""
    return {name: values[name] for name in names if name in values}


def _durations(on_message: str | None, longest_ms: int | None) -> Durations:
    """Return how long the listener's onMessage takes for each message, as --on-message says it.

    ``on_message`` is a text such as ``p50=2s,p99=9s,max=15s``, or the name of a CSV file of
    measured times; None means ``longest_ms`` for each message. Raises ValueError if both are None,
    or if the text or the file is wrong.
    """
    from mayfly.pipeline.advise.simulate import always, from_file, from_text

    if on_message is None:
        if longest_ms is None:
            raise ValueError(_ASKED)
        return always(longest_ms)
    if on_message.lower().endswith(".csv"):
        return from_file(local_path(on_message))
    try:
        return from_text(on_message, duration_ms)
    except (ValueError, typer.BadParameter) as error:
        raise ValueError(f"--on-message: {error}") from error


class Recorded(NamedTuple):
    """The recorded arrivals on a queue, and its BOTHRESH; None if a file or lake was read."""

    arrivals: QueueArrivals
    bothresh: int | None


def recorded(
    source: Path | None, qmgr: str | None, queue: str | None, url: str | None
) -> Recorded | None:
    """Return the recorded arrivals of a queue; None if neither ``source`` nor ``qmgr`` is set.

    ``source`` is a file of recorded messages, a lake, or the folder of a queue manager. ``qmgr`` is
    the name of a queue manager to read from, or of one in the lake; ``url`` is the server of the
    former. ``queue`` None is the only queue that has messages. Raises CommandFailed if ``source``
    does not exist or has no message. Raises ValueError if the options contradict each other, or if
    ``queue`` is unknown or missing.
    """
    if url is not None and (qmgr is None or source is not None):
        raise ValueError(f"--url {url} is the server of a queue manager: name that by --qmgr alone")
    if source is None and qmgr is None:
        if queue is not None:
            raise ValueError(f"--queue {queue} of what? Name a trace, a lake or --qmgr")
        return None
    if source is not None and not source.exists():
        raise CommandFailed(ExitCode.FILE, f"there is no trace, lake or queue manager at {source}")
    if source is None or (source / DATABASE_FILE).exists():
        folder = None if source is None else str(source)
        return _of_manager(qmgr or Path(str(source)).resolve().name, url or folder, queue)
    return Recorded(_arrivals(_trace(source, qmgr), queue, str(source)), None)


def _trace(source: Path, qmgr: str | None) -> pa.Table:
    """Return the recorded messages in a file or a lake as a table, a row for each message.

    ``source`` is that file or lake; ``qmgr`` chooses a queue manager of a lake. Raises ValueError
    for a wrong file or option, CommandFailed for a lake without messages.
    """
    from mayfly.pipeline.replay.trace import is_lake, read_trace, trace_of_lives

    if not is_lake(source):
        if qmgr is not None:
            raise ValueError(f"--qmgr is for a lake or its own folder; {source} is neither")
        return read_trace(source)
    with lake_errors(), no_lives():
        from mayfly.pipeline.spark.replay import lives_in_lake

        return trace_of_lives(lives_in_lake(source, qmgr))


def _of_manager(name: str, place: str | None, queue: str | None) -> Recorded:
    """Return arrivals and BOTHRESH of a queue, read from a queue manager's folder or server.

    ``place`` is a folder or URL, None the usual folder. ``queue`` None is the only queue that has
    messages. BOTHRESH is None if the queue does not exist any more. Raises CommandFailed without
    messages, ValueError for a wrong ``queue``.
    """
    from mayfly.pipeline.replay.trace import trace_of_lives

    with connected(name, place, program="mayfly advise") as connection:
        admin = Administration(connection.call)
        lives = _lives(admin.ledger, name)
        arrivals = _arrivals(trace_of_lives(lives), queue, f"the ledger of {name}")
        rows = admin.mqsc(f"DISPLAY QLOCAL('{arrivals.queue}') BOTHRESH").rows
    # The queue may be gone; its lives are still there.
    return Recorded(arrivals, int(rows[0]["BOTHRESH"]) if rows else None)


def _lives(ledger: ClientLedger, name: str) -> pa.Table:
    """Return the ledger's records of messages that were got, transmitted or expired, as a table.

    ``name`` is the queue manager; the records are read page by page.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from mayfly.pipeline.bulk.schema import LEDGER, ledger_batch
    from mayfly.pipeline.replay.trace import LIFE_COLUMNS, REPLAYED

    batches = [ledger_batch(rows, name, "") for rows in _pages(ledger)]
    table = pa.Table.from_batches(batches, schema=LEDGER)
    is_life = (pc.field("kind") == KIND_LIFE) & pc.field("outcome").isin(REPLAYED)
    return table.filter(is_life).select(list(LIFE_COLUMNS))


def _pages(ledger: ClientLedger) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a ledger in pages; rows that retention removes meanwhile are left out."""
    position = ledger.first_position() - 1
    while True:
        try:
            rows = ledger.page(position, _PAGE_COUNT)
        except PositionTrimmed as trimmed:
            position = trimmed.first_position - 1
            continue
        if not rows:
            return
        yield rows
        position = rows[-1][0]


def _arrivals(trace: pa.Table, queue: str | None, name: str) -> QueueArrivals:
    """Return the arrivals on a queue of a table of recorded messages.

    ``name`` says in errors where the table is from. Raises CommandFailed for an empty table. Raises
    ValueError if the queue is unknown, or is None and the table has several queues.
    """
    from mayfly.pipeline.advise.simulate import arrivals_of

    if not len(trace):
        raise CommandFailed(ExitCode.NOTHING, f"no message in {name}")
    try:
        return arrivals_of(trace, queue)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def print_advice(advice: Advice) -> None:
    """Print problems and recommendation; for recorded arrivals also their gaps and a comparison."""
    console = Console(highlight=False)
    for line in _lines(advice):
        console.print(line, markup=False, soft_wrap=True)
    if advice.arrivals is not None and advice.after is not None:
        for line in _arrival_lines(advice.arrivals):
            console.print(line, markup=False, soft_wrap=True)
        console.print()
        console.print(_table(advice.before, advice.after))


def advice_as_json(advice: Advice) -> dict[str, Any]:
    """Return the advice as a dict for JSON.

    The keys are present, longest_on_message_ms, is_safe, problems, recommended, reasons, arrivals,
    before and after. ``is_safe`` is None if no timeout is set at present. ``arrivals`` and
    ``before`` are None where nothing is known.
    """
    is_decided = advice.present.receive_timeout_ms is not None
    return {
        "present": advice.present._asdict(),
        "longest_on_message_ms": advice.longest_on_message_ms,
        "is_safe": not advice.problems if is_decided else None,
        "problems": advice.problems,
        "recommended": advice.recommended._asdict(),
        "reasons": advice.reasons,
        "arrivals": None if advice.arrivals is None else advice.arrivals._asdict(),
        "before": _outlook_as_json(advice.before),
        "after": _outlook_as_json(advice.after),
    }


def _lines(advice: Advice) -> Iterator[str]:
    """Yield the present setting, its problems and the recommendation as lines."""
    present, longest_ms = advice.present, advice.longest_on_message_ms
    yield f"present:     {_setting(present)}; longest on_message {duration_text(longest_ms)}"
    for problem in advice.problems:
        yield f"  not safe: {problem}"
    if advice.problems:
        timeout_ms = present.timeout_ms
        yield (
            f"  a message at the very end of a receive: {duration_text(timeout_ms)} + "
            f"{duration_text(longest_ms)} = {duration_text(timeout_ms + longest_ms)}, and at "
            f"{duration_text(present.lifetime_ms)} the transaction is marked for rollback"
        )
    yield f"recommended: {_setting(advice.recommended)}"
    for reason in advice.reasons:
        yield f"  {reason}"


def _setting(setting: ListenSettings) -> str:
    """Return a setting as text; a timeout that is None is "not said", a lifetime of 0 "none"."""
    timeout, lifetime = "not said", "none"
    if setting.receive_timeout_ms is not None:
        timeout = duration_text(setting.receive_timeout_ms)
    if setting.lifetime_ms:
        lifetime = duration_text(setting.lifetime_ms)
    return (
        f"receive timeout {timeout}, transaction lifetime {lifetime}, sessions "
        f"{setting.max_sessions}, BOTHRESH {setting.bothresh}"
    )


def _arrival_lines(arrivals: ArrivalSummary) -> Iterator[str]:
    """Yield a summary of the recorded arrivals as lines.

    Without gaps it is only their number and their time.
    """
    yield ""
    yield (
        f"arrivals on {arrivals.queue}: {arrivals.messages:,} messages from "
        f"{moment(arrivals.first_ms)} to {moment(arrivals.last_ms)} UTC"
    )
    if arrivals.per_hour is None:
        return
    gaps = [
        f"{name} {gap_ms / SECOND_MS:,.3f}"
        for name, gap_ms in (
            ("mean", arrivals.gap_mean_ms),
            ("p50", arrivals.gap_p50_ms),
            ("p95", arrivals.gap_p95_ms),
            ("p99", arrivals.gap_p99_ms),
            ("longest", arrivals.gap_max_ms),
        )
        if gap_ms is not None
    ]
    yield f"  {arrivals.per_hour:,.1f} an hour; gaps in s: {', '.join(gaps)}"
    yield f"  gaps vary by {arrivals.gap_variation:.2f} of their mean ({_PROCESS})"


def _table(before: Outlook | None, after: Outlook) -> Table:
    """Return a table that compares the effects of the present setting and the recommended one.

    ``before`` are those of the present setting; None leaves out their column. ``after`` are those
    of the recommended one.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    columns = [_cells(after)]
    if before is not None:
        table.add_column("present", justify="right")
        columns.insert(0, _cells(before))
    table.add_column("recommended", justify="right")
    for title in columns[0]:
        table.add_row(title, *(column[title] for column in columns))
    return table


def _cells(outlook: Outlook) -> dict[str, str]:
    """Return one column of the table of effects, as texts by the title of their row.

    The numbers of the simulation come first, then those that a formula estimates.
    """
    simulated, expected = outlook.simulated, outlook.estimate
    cells = {title: f"{getattr(simulated, name):,}" for name, title in _TITLES.items()}
    cells["needless share of transactions"] = f"{simulated.needless_share:.3%}"
    cells["idle rollbacks an hour"] = f"{simulated.idle_rollbacks_per_hour:,.1f}"
    cells["expected: messages hit"] = f"{expected.hit_share:.3%}"
    cells["expected: idle rollbacks an hour"] = f"{expected.idle_rollbacks_per_hour:,.1f}"
    cells["sessions busy"] = f"{expected.busy_share:.1%}"
    return cells


def _outlook_as_json(outlook: Outlook | None) -> dict[str, Any] | None:
    """Return the effects of a setting as a dict with "estimate" and "simulated"; None for None."""
    if outlook is None:
        return None
    simulated = outlook.simulated
    return {
        "estimate": outlook.estimate._asdict(),
        "simulated": simulated._asdict() | {"needless_share": simulated.needless_share},
    }

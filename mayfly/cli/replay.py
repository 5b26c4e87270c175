"""``mayfly replay``: replays recorded messages with other settings, and shows what changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mayfly.cli.lake_engine import LateOption, lake_errors, no_lives, spark_session
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.show import JsonOption, aligned, moment, note, print_json
from mayfly.cli.values import duration_ms, local_path
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.replay.settings import (
    EVERY_OTHER,
    EngineChoice,
    ReplayEngine,
    Settings,
    WhatIf,
    check_settings,
    choose_engine,
    usable_bytes,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from mayfly.pipeline.replay.compare import Comparison

_MESSAGES = 10
_TTL_RULES = {"send": False, "release": True}
_HEAD = (
    "queue",
    "messages",
    "got",
    "expired",
    "refused",
    "left",
    "late",
    "p50 s",
    "p99 s",
    "depth",
    "empty receives",
)
_COUNTS_BEFORE = ("got", "expired", "refused", "left", "late")
_COUNTS_AFTER = ("depth_max", "receives_empty")


def _option(name: str, metavar: str, text: str) -> Any:
    """Return a typer option that takes texts ``[QUEUE=]VALUE``; ``metavar`` describes VALUE."""
    return typer.Option(name, metavar=f"[Q=]{metavar}", help=text)


CapOption = Annotated[
    list[str] | None, _option("--cap", "TIME", "Cap each lifetime, as CAPEXPRY does.")
]
DelayOption = Annotated[
    list[str] | None, _option("--delay", "TIME", "Delay each message by this instead.")
]
LifeOption = Annotated[
    list[str] | None, _option("--life", "TIME", "Give each message this lifetime instead.")
]
TtlFromOption = Annotated[
    list[str] | None,
    _option(
        "--ttl-from", "RULE", "Lifetimes begin at the put (send) or after the delay (release)."
    ),
]
SequenceOption = Annotated[
    list[str] | None, _option("--sequence", "ORDER", "Take by priority or fifo, as MSGDLVSQ says.")
]
ConsumersOption = Annotated[
    list[str] | None,
    _option("--consumers", "N", "The number of consumers; each takes whatever comes."),
]
ServiceOption = Annotated[
    list[str] | None, _option("--service", "TIME", "How long a message keeps a consumer busy.")
]
ReceiveTimeoutOption = Annotated[
    list[str] | None,
    _option("--receive-timeout", "TIME", "How long a get, or a consumer's receive, waits."),
]
Source = Annotated[
    Path,
    typer.Argument(
        parser=local_path, metavar="TRACE|LAKE", help="A trace (CSV, Parquet, Arrow) or a lake."
    ),
]
CorrelIdOption = Annotated[
    bool,
    typer.Option(
        "--by-correl-id",
        help="Gets of a lake want the correlation id they got; else whatever comes first.",
    ),
]
ManagerOption = Annotated[
    str | None,
    typer.Option("--qmgr", metavar="QMGR", help="Whose lives, where a lake has several."),
]
MessagesOption = Annotated[
    int,
    typer.Option("--messages", min=0, metavar="N", help="List at most so many messages."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        parser=local_path,
        metavar="FILE",
        help="Write all of them: .csv, .parquet or .arrow.",
    ),
]
EngineOption = Annotated[
    ReplayEngine | None,
    typer.Option(
        "--engine",
        help="What computes: this process, or Spark, a task a queue. [default: this process, "
        "unless the messages need more than half of the memory]",
    ),
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Where Spark runs. [default: local[*]]")
]


def replay(
    source: Source,
    *,
    cap: CapOption = None,
    delay: DelayOption = None,
    life: LifeOption = None,
    ttl_from: TtlFromOption = None,
    sequence: SequenceOption = None,
    consumers: ConsumersOption = None,
    service: ServiceOption = None,
    receive_timeout: ReceiveTimeoutOption = None,
    late_after_ms: LateOption = None,
    by_correl_id: CorrelIdOption = False,
    qmgr: ManagerOption = None,
    messages: MessagesOption = _MESSAGES,
    out: OutOption = None,
    engine: EngineOption = None,
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay what happened under other settings, and say what would have changed.

    A setting is QUEUE=VALUE, or VALUE alone for every queue that is not named; repeat the option
    for several queues. Times are durations with a unit, as in 5s.

    \b
    Examples:
      mayfly replay lake --cap Q1=60s --consumers Q1=4 --service Q1=200ms
      mayfly replay trace.csv --delay 5s --ttl-from release --out changed.csv
    """
    with wrong_values():
        from mayfly.pipeline.replay.compare import LATE_AFTER_MS

        wanted = settings_from(
            {
                "cap": cap,
                "delay": delay,
                "life": life,
                "ttl_from": ttl_from,
                "sequence": sequence,
                "consumers": consumers,
                "service": service,
                "receive_timeout": receive_timeout,
            }
        )
        if not source.exists():
            raise CommandFailed(ExitCode.FILE, f"there is no trace or lake at {source}")
        trace_of = _trace_of_lives(source, qmgr, is_by_correl_id=by_correl_id)
        choice = _choice(source, engine, is_lake=trace_of is not None)
        if master is not None and choice.engine is not ReplayEngine.SPARK:
            raise ValueError(f"--master is for Spark; this replay is in one {choice.engine}")
        if sys.stderr.isatty():
            place = "one process" if choice.engine is ReplayEngine.PROCESS else "Spark"
            note(f"replay in {place}: {choice.reason}")
        limit_ms = LATE_AFTER_MS if late_after_ms is None else late_after_ms
        if choice.engine is ReplayEngine.SPARK:
            compared = _in_spark(source, qmgr, trace_of, wanted, limit_ms, master or "local[*]")
        else:
            compared = _in_process(source, qmgr, trace_of, wanted, limit_ms)
        if out is not None:
            write_changed(compared.changed, out)
    if as_json:
        print_json(comparison_as_json(compared, wanted, messages))
    else:
        print(*comparison_lines(compared, messages), sep="\n")
    if not len(compared.before):
        raise CommandFailed(ExitCode.NOTHING, f"no message in {source}")


def _choice(source: Path, asked: ReplayEngine | None, *, is_lake: bool) -> EngineChoice:
    """Return the engine for the messages in a lake or a trace, by their number; ``asked`` wins.

    Raises CommandFailed if a lake cannot be read, ReplayError for a trace that cannot be counted.
    """
    from mayfly.pipeline.replay.trace import trace_row_count

    message_count = None
    if asked is None and is_lake:
        with lake_errors():
            from mayfly.pipeline.spark.replay import lives_row_count

            message_count = lives_row_count(source)
    elif asked is None:
        message_count = trace_row_count(source)
    has_spark = find_spec("pyspark") is not None
    return choose_engine(message_count, usable_bytes(), has_spark=has_spark, asked=asked)


def _trace_of_lives(
    source: Path, manager: str | None, *, is_by_correl_id: bool
) -> Callable[[pa.Table], pa.Table] | None:
    """Return a function that turns a lake's rows into a trace; None if ``source`` is a trace.

    A trace has a row for each recorded message. Each get in it takes the first message, or with
    ``is_by_correl_id`` the one with the same correlation id. Raises ValueError for options that
    apply only to a lake.
    """
    from mayfly.pipeline.replay.trace import is_lake, trace_of_lives

    if is_lake(source):
        return partial(trace_of_lives, is_by_correl_id=is_by_correl_id)
    if is_by_correl_id or manager is not None:
        option = "--by-correl-id" if is_by_correl_id else "--qmgr"
        raise ValueError(f"{option} is for a lake; {source} is none")
    return None


def _in_process(
    source: Path,
    manager: str | None,
    trace_of: Callable[[pa.Table], pa.Table] | None,
    settings: Settings,
    late_after_ms: int,
) -> Comparison:
    """Replay recorded messages as they were and with ``settings``; return the comparison.

    It runs in this process, without Spark. ``source`` is a lake, whose rows ``trace_of`` converts;
    with ``trace_of`` None it is a file or folder of recorded messages. ``manager`` None is the only
    queue manager of the lake. A message that is got more than ``late_after_ms`` after its delivery
    time counts as late. Raises CommandFailed if a lake cannot be read, has no messages, or has
    those of several queue managers and ``manager`` is None. Raises ReplayError for wrong recorded
    messages.
    """
    from mayfly.pipeline.replay.compare import compare

    if trace_of is None:
        from mayfly.pipeline.replay.trace import read_trace

        rows = read_trace(source)
    else:
        with lake_errors(), no_lives():
            from mayfly.pipeline.spark.replay import lives_in_lake

            rows = trace_of(lives_in_lake(source, manager))
    return compare(rows, settings, late_after_ms=late_after_ms)


def _in_spark(
    source: Path,
    manager: str | None,
    trace_of: Callable[[pa.Table], pa.Table] | None,
    settings: Settings,
    late_after_ms: int,
    master: str,
) -> Comparison:
    """Replay recorded messages as they were and with ``settings`` in Spark; return the comparison.

    ``source`` is a lake, whose rows ``trace_of`` converts; with ``trace_of`` None it is a file or
    folder of recorded messages. ``manager`` None is the only queue manager of the lake. A message
    that is got more than ``late_after_ms`` after its delivery time counts as late. ``master`` is
    the Spark master. Raises CommandFailed for errors of Spark or the lake, and for a lake of
    several queue managers if ``manager`` is None. Raises ReplayError for wrong recorded messages.
    """
    from mayfly.pipeline.spark.replay import (
        compare_in_spark,
        compare_trace_in_spark,
        lives_to_replay,
    )

    with spark_session("mayfly replay", master=master) as spark, no_lives():
        if trace_of is None:
            return compare_trace_in_spark(spark, source, settings, late_after_ms=late_after_ms)
        rows = lives_to_replay(spark, source, manager)
        return compare_in_spark(rows, settings, prepare=trace_of, late_after_ms=late_after_ms)


def settings_from(texts_by_option: Mapping[str, list[str] | None]) -> Settings:
    """Return the settings by queue, from texts ``[QUEUE=]VALUE`` by option name as in _FIELDS.

    Settings for all other queues are under "*". Raises ValueError with the option and the value
    that is wrong.
    """
    typed = {
        name: dict(_parse_pair(name, text) for text in _once(name, texts))
        for name, texts in texts_by_option.items()
        if texts is not None
    }
    queues = {EVERY_OTHER: None} | {queue: None for values in typed.values() for queue in values}
    settings = {}
    for queue in queues:
        fields: dict[str, Any] = {
            _FIELDS[name][0]: values.get(queue, values.get(EVERY_OTHER))
            for name, values in typed.items()
            if queue in values or EVERY_OTHER in values
        }
        # Said of every queue, it is meant for those that have consumers, if any has.
        is_own = queue != EVERY_OTHER and queue in typed.get("service", {})
        if "consumers" in typed and "consumers" not in fields and not is_own:
            fields.pop("service_ms", None)
        settings[queue] = WhatIf(**fields)
    check_settings(settings)
    return settings


def _parse_pair(name: str, text: str) -> tuple[str, Any]:
    """Return (queue, parsed value) of ``[QUEUE=]VALUE``; without a queue it is "*".

    ``name`` is the option. Raises ValueError, which names the option, for a wrong value.
    """
    queue, _, value = text.rpartition("=")
    option = f"--{name.replace('_', '-')}"
    try:
        return (EVERY_OTHER if queue == "" else queue), _FIELDS[name][1](value)
    except (ValueError, typer.BadParameter) as error:
        raise ValueError(f"{option} {text}: {error}") from error


def _once(name: str, texts: list[str]) -> list[str]:
    """Return the texts ``[QUEUE=]VALUE`` unchanged; raises ValueError if two are for one queue.

    ``name`` is the option, for the error text.
    """
    queues = [text.rpartition("=")[0] or EVERY_OTHER for text in texts]
    for queue in queues:
        if queues.count(queue) > 1:
            whose = "every queue" if queue == EVERY_OTHER else queue
            raise ValueError(f"--{name.replace('_', '-')} is given twice for {whose}")
    return texts


def _count(text: str) -> int:
    """Return a text as a whole number; raises ValueError for another text."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _ttl_rule(text: str) -> bool:
    """Return True for "release", False for "send"; raises ValueError for another word."""
    if text.lower() not in _TTL_RULES:
        raise ValueError(f"{text!r} is not {' or '.join(_TTL_RULES)}")
    return _TTL_RULES[text.lower()]


#: Each option by its name: the setting it is, and how its value is read.
_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cap": ("cap_ms", duration_ms),
    "delay": ("delay_ms", duration_ms),
    "life": ("life_ms", duration_ms),
    "ttl_from": ("from_release", _ttl_rule),
    "sequence": ("sequence", str.lower),
    "consumers": ("consumers", _count),
    "service": ("service_ms", duration_ms),
    "receive_timeout": ("receive_timeout_ms", duration_ms),
}


def comparison_lines(compared: Comparison, messages: int) -> Iterator[str]:
    """Yield lines that compare two replays: by queue, by change of outcome, and messages.

    At most ``messages`` messages are listed.
    """
    from mayfly.pipeline.replay.compare import turned

    befores, afters = compared.before.to_pylist(), compared.after.to_pylist()
    rows = [_cells(*pair) for pair in zip(befores, afters, strict=True)]
    yield from aligned([_HEAD, *rows])
    recorded = [row["as_recorded"] for row in befores]
    if befores and None not in recorded:
        count = sum(row["messages"] for row in befores)
        yield f"as it was, {sum(recorded):,} of {count:,} messages end as recorded"
    yield ""
    yield f"{len(compared.changed):,} messages end otherwise"
    for (outcome, new_outcome), count in turned(compared.changed).items():
        is_other = outcome != new_outcome
        what = f"{outcome} -> {new_outcome}" if is_other else f"{outcome}, at another time"
        yield f"  {what}: {count:,}"
    yield from _message_lines(foremost(compared.changed, messages))


def comparison_as_json(compared: Comparison, settings: Settings, messages: int) -> dict[str, Any]:
    """Return a comparison as a dict for JSON, with the keys settings, queues and changed.

    ``queues`` has for each queue its numbers before and after. ``changed`` has the count of
    messages that would end differently, counts by outcome (``turned``), and at most ``messages`` of
    them.
    """
    from mayfly.pipeline.replay.compare import turned

    by_queue = {"*": settings} if isinstance(settings, WhatIf) else settings
    befores, afters = compared.before.to_pylist(), compared.after.to_pylist()
    return {
        "settings": {queue: what_if._asdict() for queue, what_if in by_queue.items()},
        "queues": [
            {"queue": before.pop("queue"), "before": before, "after": _without_queue(after)}
            for before, after in zip(befores, afters, strict=True)
        ],
        "changed": {
            "count": len(compared.changed),
            "turned": [
                {"outcome": outcome, "new_outcome": new_outcome, "count": count}
                for (outcome, new_outcome), count in turned(compared.changed).items()
            ],
            "messages": [
                row | {"correl_id": row["correl_id"].hex()}
                for row in foremost(compared.changed, messages)
            ],
        },
    }


def foremost(changed: pa.Table, count: int) -> list[dict[str, Any]]:
    """Return the first ``count`` changed messages, those with another outcome first.

    The others end in the same way at another time.
    """
    import pyarrow.compute as pc

    is_other = pc.not_equal(changed["outcome"], changed["new_outcome"])
    rows: list[dict[str, Any]] = changed.filter(is_other).slice(0, count).to_pylist()
    rest = changed.filter(pc.invert(is_other)).slice(0, count - len(rows))
    return [*rows, *rest.to_pylist()]


def write_changed(changed: pa.Table, out: Path) -> None:
    """Write all changed messages to a .csv, .parquet or .arrow file, replacing it.

    In a CSV file the correlation id is in hexadecimal. Raises ValueError for another suffix.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    suffix = out.suffix.lower()
    if suffix == ".parquet":
        pq.write_table(changed, out)
    elif suffix == ".arrow":
        with pa.OSFile(str(out), "wb") as sink, pa.ipc.new_file(sink, changed.schema) as writer:
            writer.write_table(changed)
    elif suffix == ".csv":
        digits = pa.array([value.hex() for value in changed["correl_id"].to_pylist()], pa.string())
        place = changed.column_names.index("correl_id")
        pyarrow.csv.write_csv(changed.set_column(place, "correl_id", digits), out)
    else:
        raise ValueError(f"--out {out}: the suffix is not .csv, .parquet or .arrow")


def _cells(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one queue's line: name, messages, counts by outcome, and waits.

    A number that changed is written "before -> after". ``before`` and ``after`` are the queue's
    numbers by name.
    """
    cells = [before["queue"], f"{before['messages']:,}"]
    cells += [_before_after(before[name], after[name]) for name in _COUNTS_BEFORE]
    cells += [
        _waits_before_after(before[name], after[name])
        for name in ("waited_p50_ms", "waited_p99_ms")
    ]
    cells += [_before_after(before[name], after[name]) for name in _COUNTS_AFTER]
    return tuple(cells)


def _before_after(before: int, after: int) -> str:
    """Return two numbers as "before -> after", or once if they are equal."""
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def _waits_before_after(before_ms: float | None, after_ms: float | None) -> str:
    """Return two waits in seconds as "before -> after", or once if they are equal."""
    cells = [
        "-" if waited_ms is None else f"{waited_ms / SECOND_MS:,.1f}"
        for waited_ms in (before_ms, after_ms)
    ]
    return cells[0] if cells[0] == cells[1] else " -> ".join(cells)


def _message_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a heading and a line for each changed message; nothing for an empty list."""
    if not rows:
        return
    yield ""
    cells = [("queue", "seq", "put (UTC)", "was", "at s", "would be", "at s")]
    for row in rows:
        ends = []
        for name in ("", "new_"):
            ended_ms = row[f"{name}ended_ms"]
            # Counted from the put: that is what delays, lifetimes and caps are compared with.
            after = "-" if ended_ms is None else f"{(ended_ms - row['put_ms']) / SECOND_MS:,.3f}"
            ends += [row[f"{name}outcome"], after]
        cells.append((row["queue"], str(row["seq"]), moment(row["put_ms"]), *ends))
    yield from aligned(cells)


def _without_queue(row: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the dict without the key "queue"."""
    return {name: value for name, value in row.items() if name != "queue"}

"""The configuration of a pipeline: its sources, limits, routes and sinks, read from a TOML file.

This module checks what can be seen in the file alone. "Fails" here means: raises PipelineFileError,
with file, line, table and key. Options and checkpoints that do not fit have errors of their own,
in errors.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from mayfly.lifetime.life import State
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.verbs.contracts.config_files import ConfigurationError, Table, read_tables, suggestion

AVAILABLE_NOW = "available now"


class PipelineFileError(ConfigurationError):
    """A key of a pipeline's TOML file is unknown or missing, or has a value that cannot be used."""


@dataclass(frozen=True)
class QueueSource:
    """A queue whose messages a consumer claims: reserves until their batch is written.

    ``columns`` are SQL expressions over a message that replace its columns or add others.
    """

    url: str
    queue: str
    consumer: str
    columns: Mapping[str, str] = field(default_factory=dict)
    token_file: str | None = None
    manager: str | None = None
    rows_per_batch: int | None = None
    bytes_per_batch: int | None = None
    partitions: int | None = None
    bytes_per_task: int | None = None
    #: Set once the consumer is attached, never in a file.
    epoch: int | None = None


@dataclass(frozen=True)
class StagingSource:
    """The delayed messages of a queue manager whose delivery time has come.

    Their queue manager puts them on their target queues when the batch is done.
    """

    url: str
    consumer: str
    token_file: str | None = None
    manager: str | None = None
    rows_per_batch: int | None = None
    bytes_per_batch: int | None = None
    partitions: int | None = None
    bytes_per_task: int | None = None
    queue: str = STAGING_QUEUE
    epoch: int | None = None


@dataclass(frozen=True)
class FileSource:
    """Files that arrive in a folder; ``columns`` are SQL expressions by message column."""

    format: str
    path: str
    schema: str
    columns: Mapping[str, str]
    files_per_batch: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KafkaSource:
    """Records of a topic; ``columns`` are SQL expressions by message column."""

    bootstrap_servers: str
    topic: str
    columns: Mapping[str, str]
    starting_offsets: str = "earliest"
    rows_per_batch: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueLimit:
    """The longest lifetime in ms for messages of a queue, or of all queues as ``DEV.*``."""

    name: str
    cap_ms: int


@dataclass(frozen=True)
class Limit:
    """The longest lifetimes in ms: ``cap_ms`` for all queues, ``queues`` by name.

    The lowest limit that applies counts; None and () are no limit.
    """

    cap_ms: int | None = None
    queues: tuple[QueueLimit, ...] = ()


@dataclass(frozen=True)
class DelayLine:
    """Settings for the delays of rows that are not from a queue.

    ``ttl_rule``, ``slot_ms`` and ``shards`` are those of ``spark.delay_line.lifetime``. A row
    for a queue is put before it is due, as a delayed message of the queue manager; with
    ``holds_all`` it waits in Spark, as rows for files and topics do.
    """

    ttl_rule: str = "send"
    slot_ms: int = 250
    shards: int | None = None
    holds_all: bool = False


@dataclass(frozen=True)
class Route:
    """A rule that sends rows of an ``outcome`` to sink ``to``, if SQL expression ``when`` is true.

    ``outcome`` is "released", "expired" or "dead_lettered"; ``when`` None selects all of them.
    """

    to: str
    when: str | None = None
    outcome: str = "released"


@dataclass(frozen=True)
class QueueSink:
    """Queues of a queue manager as a sink; ``queue`` None means the queue that each row names."""

    name: str
    url: str
    token_file: str | None = None
    manager: str | None = None
    queue: str | None = None
    dead_letter_queue: str | None = None
    persistence: str = "persistent"


@dataclass(frozen=True)
class FileSink:
    """A folder of files, with one subfolder for each batch."""

    name: str
    format: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KafkaSink:
    """A Kafka topic; ``key`` and ``value`` are SQL expressions."""

    name: str
    bootstrap_servers: str
    topic: str
    key: str = "correl_id"
    value: str = "payload"
    options: Mapping[str, str] = field(default_factory=dict)


ClaimedSource: TypeAlias = QueueSource | StagingSource
Source: TypeAlias = ClaimedSource | FileSource | KafkaSource
Sink: TypeAlias = QueueSink | FileSink | KafkaSink


@dataclass(frozen=True)
class PipelineConfig:
    """A pipeline; all paths are absolute, or URLs.

    ``trigger`` is AVAILABLE_NOW or an interval such as "1 second". ``dead_letter`` names the sink
    of refused rows that no route selects; None if no row can be refused. ``reports`` names the sink
    of owed reports; None counts them without sending them.
    """

    path: Path
    name: str
    checkpoint: str
    trigger: str
    sources: tuple[Source, ...]
    sinks: tuple[Sink, ...]
    spark: Mapping[str, str] = field(default_factory=dict)
    limit: Limit = field(default_factory=Limit)
    delay_line: DelayLine = field(default_factory=DelayLine)
    routes: tuple[Route, ...] = ()
    dead_letter: str | None = None
    reports: str | None = None

    @property
    def is_available_now(self) -> bool:
        """Whether the pipeline ends after the rows that were present at its start."""
        return self.trigger == AVAILABLE_NOW

    @property
    def has_foreign_rows(self) -> bool:
        """Whether a source is not a queue: its rows get their window here, and may be refused."""
        return not all(isinstance(source, ClaimedSource) for source in self.sources)

    @property
    def puts_delayed(self) -> bool:
        """Whether rows for a queue are put before they are due, as delayed messages.

        False by the setting of the delay line, or if a route takes expired rows: the queue manager
        would discard them.
        """
        takes_expired = any(route.outcome == State.EXPIRED.value for route in self.routes)
        return not self.delay_line.holds_all and not takes_expired

    @property
    def has_delay_line(self) -> bool:
        """Whether rows may wait in Spark until they are due: foreign rows, unless all are put."""
        routed = [route.to for route in self.routes if route.outcome == State.RELEASED.value]
        targets = [self.sinks[0], *map(self.sink, routed)] if self.sinks else []
        all_put = self.puts_delayed and all(isinstance(sink, QueueSink) for sink in targets)
        return self.has_foreign_rows and not all_put

    def sink(self, name: str) -> Sink:
        """Return the sink with this name; raises ValueError if no sink has it."""
        [found] = [sink for sink in self.sinks if sink.name == name]
        return found


#: Outcomes of rows that leave the delay line; a route takes those of one of them.
OUTCOMES = (State.RELEASED.value, State.EXPIRED.value, State.DEAD_LETTERED.value)
#: Columns that a pipeline adds to the rows of its sources.
ADDED_COLUMNS = ("reason", "outcome", "ended_ms", "report_owed", "refusal", "refused_row")
SOURCE_FORMATS = ("json", "csv", "text", "parquet", "orc")
#: Of Spark's formats, those that hold a payload, which is binary.
SINK_FORMATS = ("parquet", "orc", "json")
PERSISTENCES = ("persistent", "non_persistent", "as_queue")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_INTERVAL = re.compile(r"\d+ (milliseconds?|seconds?|minutes?|hours?)")
_TEXT_SCHEMA = "value string"
_QUEUE_NAME_LENGTH = 48
_SLOT_MS_MAX, _SHARDS_MAX = 3_600_000, 1_000
_Part = TypeVar("_Part")


def load(path: Path) -> PipelineConfig:
    """Return the pipeline in a TOML file, after the checks that need no server and no Spark.

    Raises PipelineFileError, which names file, table, key and value, and OSError when the file
    cannot be read.
    """
    top = read_tables(path, PipelineFileError)
    sources = _parts(top, "source", SOURCES)
    # Messages of a staging source go to no sink.
    needs_sink = not all(isinstance(source, StagingSource) for source in sources)
    sinks = _parts(top, "sink", SINKS, is_needed=needs_sink)
    config = PipelineConfig(
        path=path,
        name=_name(top, "name"),
        checkpoint=_place(top, "checkpoint"),
        trigger=_trigger(top),
        sources=sources,
        sinks=sinks,
        spark=top.texts("spark"),
        limit=_limit(top.table("limit")),
        delay_line=_delay_line(top.table("delay_line")),
        routes=tuple(_route(table, sinks) for table in top.tables("route")),
        dead_letter=_dead_letter(top, sources, sinks),
        reports=_reports(top, sinks),
    )
    top.refuse_unknown_keys()
    _check_consumers(top, config)
    _check_routes(top, config)
    _check_sinks(top, config)
    return config


def _parts(
    top: Table, key: str, kinds: dict[str, Callable[[Table], _Part]], *, is_needed: bool = True
) -> tuple[_Part, ...]:
    """Return the sources or sinks in the tables ``[[key]]`` of the file ``top``.

    ``kinds`` has for each ``kind`` of a table the function that reads it. Raises PipelineFileError
    for an unknown kind or key, and for no table at all if ``is_needed``.
    """
    tables = top.tables(key)
    if is_needed and not tables:
        raise top.error(f"[[{key}]]", f"is missing: a pipeline has at least one {key}")
    parts = []
    for table in tables:
        kind = table.one_of("kind", kinds)
        parts.append(kinds[kind](table))
        table.refuse_unknown_keys()
    return tuple(parts)


# Sources


def _queue_source(table: Table) -> QueueSource:
    """Return the source in a ``[[source]]`` table of kind "queue".

    Raises PipelineFileError for a missing or wrong value. The staging queue is refused: it has a
    kind of source for itself.
    """
    queue = _queue_name(table, "queue")
    if queue == STAGING_QUEUE:
        raise table.error(
            "queue", f'{queue} is read by kind = "staging": what is there has a target'
        )
    return QueueSource(
        url=_url(table),
        queue=queue,
        consumer=table.text("consumer"),
        columns=_columns_of_queue(table),
        token_file=_token_file(table),
        manager=table.plain_text("manager"),
        rows_per_batch=table.number("rows_per_batch"),
        bytes_per_batch=table.number("bytes_per_batch", most=2**63 - 1),
        partitions=table.number("partitions", most=1_000),
        bytes_per_task=table.number("bytes_per_task", most=2**63 - 1),
    )


def _file_source(table: Table) -> FileSource:
    """Return the source in a ``[[source]]`` table of kind "files".

    Raises PipelineFileError for a missing or wrong value. Only text files need no schema.
    """
    file_format = table.one_of("format", SOURCE_FORMATS)
    return FileSource(
        format=file_format,
        path=_place(table, "path"),
        schema=table.text("schema", _TEXT_SCHEMA if file_format == "text" else None),
        columns=_columns(table),
        files_per_batch=table.number("files_per_batch"),
        options=table.texts("options"),
    )


def _kafka_source(table: Table) -> KafkaSource:
    """Return the source in a ``[[source]]`` table of kind "kafka".

    Raises PipelineFileError for a missing or wrong value.
    """
    return KafkaSource(
        bootstrap_servers=table.text("bootstrap_servers"),
        topic=table.text("topic"),
        columns=_columns(table),
        starting_offsets=table.text("starting_offsets", "earliest"),
        rows_per_batch=table.number("rows_per_batch"),
        options=table.texts("options"),
    )


def _staging_source(table: Table) -> StagingSource:
    """Return the source in a ``[[source]]`` table of kind "staging".

    Raises PipelineFileError for a missing or wrong value.
    """
    return StagingSource(
        url=_url(table),
        consumer=table.text("consumer"),
        token_file=_token_file(table),
        manager=table.plain_text("manager"),
        rows_per_batch=table.number("rows_per_batch"),
        bytes_per_batch=table.number("bytes_per_batch", most=2**63 - 1),
        partitions=table.number("partitions", most=1_000),
        bytes_per_task=table.number("bytes_per_task", most=2**63 - 1),
    )


def _columns(table: Table) -> dict[str, str]:
    """Return the SQL expressions of ``[source.columns]`` by column name in lower case.

    Returns {} without that table. Raises PipelineFileError for a name that the pipeline itself
    adds, or that is no identifier.
    """
    columns = {name.lower(): expression for name, expression in table.texts("columns").items()}
    for name in columns:
        if name in ADDED_COLUMNS or name.startswith("_mayfly"):
            raise table.error(f"columns.{name}", "is a column that the pipeline adds")
        if name == "time_to_live_ms":
            raise table.error(f"columns.{name}", "is called life_ms here, did you mean 'life_ms'?")
        if not re.fullmatch(r"\w+", name):
            raise table.error(f"columns.{name}", "is not a name of letters, digits and underscores")
    return columns


def _columns_of_queue(table: Table) -> dict[str, str]:
    """Return the SQL expressions of a queue source by column name in lower case; {} without any.

    Raises PipelineFileError for a wrong name, and for an interval: the moments of a message that
    was put before are fixed.
    """
    columns = _columns(table)
    for name in ("life_ms", "delay_ms", "cap_ms"):
        if name in columns:
            raise table.error(
                f"columns.{name}", "is for rows that are no message yet: change expire_at_ms"
            )
    return columns


# Sinks


def _queue_sink(table: Table) -> QueueSink:
    """Return the sink in a ``[[sink]]`` table of kind "queue".

    Raises PipelineFileError for a missing or wrong value.
    """
    return QueueSink(
        name=_name(table, "name"),
        url=_url(table),
        token_file=_token_file(table),
        manager=table.plain_text("manager"),
        queue=_optional_queue_name(table, "queue"),
        dead_letter_queue=_optional_queue_name(table, "dead_letter_queue"),
        persistence=table.one_of("persistence", PERSISTENCES, "persistent"),
    )


def _file_sink(table: Table) -> FileSink:
    """Return the sink in a ``[[sink]]`` table of kind "files".

    Raises PipelineFileError for a missing or wrong value.
    """
    return FileSink(
        name=_name(table, "name"),
        format=table.one_of("format", SINK_FORMATS, "parquet"),
        path=_place(table, "path"),
        options=table.texts("options"),
    )


def _kafka_sink(table: Table) -> KafkaSink:
    """Return the sink in a ``[[sink]]`` table of kind "kafka", with defaults for key and value.

    Raises PipelineFileError for a missing or wrong value.
    """
    key, value = table.optional_text("key"), table.optional_text("value")
    return KafkaSink(
        name=_name(table, "name"),
        bootstrap_servers=table.text("bootstrap_servers"),
        topic=table.text("topic"),
        key=KafkaSink.key if key is None else key,
        value=KafkaSink.value if value is None else value,
        options=table.texts("options"),
    )


SOURCES: dict[str, Callable[[Table], Source]] = {
    "queue": _queue_source,
    "files": _file_source,
    "kafka": _kafka_source,
    "staging": _staging_source,
}
SINKS: dict[str, Callable[[Table], Sink]] = {
    "queue": _queue_sink,
    "files": _file_sink,
    "kafka": _kafka_sink,
}


# Limit, delay line and routes


def _limit(table: Table) -> Limit:
    """Return the lifetime limits in table ``[limit]``, in milliseconds; empty without it.

    Raises PipelineFileError for a queue limit without ``cap_ms``, or an asterisk inside the name.
    """
    queues = []
    for one in table.tables("queue"):
        name, cap_ms = one.text("name"), one.number("cap_ms", most=LONGEST_LIFE_MS)
        if "*" in name[:-1] or len(name) > _QUEUE_NAME_LENGTH:
            raise one.error(
                "name", f"{name!r} is no name of a queue; an asterisk may stand at its end"
            )
        if cap_ms is None:
            raise one.error("cap_ms", "is missing")
        one.refuse_unknown_keys()
        queues.append(QueueLimit(name, cap_ms))
    limit = Limit(table.number("cap_ms", most=LONGEST_LIFE_MS), tuple(queues))
    table.refuse_unknown_keys()
    return limit


def _delay_line(table: Table) -> DelayLine:
    """Return the settings of the delay line in the ``[delay_line]`` table; defaults without it.

    Raises PipelineFileError for a wrong value or an unknown key.
    """
    slot_ms = table.number("slot_ms", most=_SLOT_MS_MAX)
    line = DelayLine(
        holds_all=table.boolean("holds_all"),
        ttl_rule=table.one_of("ttl_rule", ("send", "release"), DelayLine.ttl_rule),
        slot_ms=DelayLine.slot_ms if slot_ms is None else slot_ms,
        shards=table.number("shards", most=_SHARDS_MAX),
    )
    table.refuse_unknown_keys()
    return line


def _route(table: Table, sinks: Iterable[Sink]) -> Route:
    """Return the route in a ``[[route]]`` table.

    Raises PipelineFileError if its sink does not exist, or if its SQL condition uses ``outcome``.
    """
    route = Route(
        to=_sink_name(table, "to", table.text("to"), sinks),
        when=table.optional_text("when"),
        outcome=table.one_of("outcome", OUTCOMES, Route.outcome),
    )
    if route.when is not None and re.search(r"\boutcome\b", route.when):
        raise table.error(
            "when", f'{route.when!r}: outcome is a key of its own, outcome = "expired"'
        )
    table.refuse_unknown_keys()
    return route


def _dead_letter(top: Table, sources: Iterable[Source], sinks: tuple[Sink, ...]) -> str | None:
    """Return the name of the sink that gets refused rows.

    It is that in the key ``dead_letter``, else the first queue sink. Returns None if there is no
    queue sink and all sources are queues, so that no row can be refused. Raises PipelineFileError
    if rows can be refused and no sink is known for them.
    """
    name = top.plain_text("dead_letter")
    if name is not None:
        return _sink_name(top, "dead_letter", name, sinks)
    for sink in sinks:
        if isinstance(sink, QueueSink):
            return sink.name
    if all(isinstance(source, ClaimedSource) for source in sources):
        return None
    raise top.error(
        "dead_letter", "is missing: it names the sink of refused rows, where none is a queue"
    )


def _reports(top: Table, sinks: tuple[Sink, ...]) -> str | None:
    """Return the name of the sink for report messages that rows owe.

    It is that in the key ``reports``, else the first queue sink. Returns None without a queue sink.
    Raises PipelineFileError if the key names a sink of another kind.
    """
    queues = [sink for sink in sinks if isinstance(sink, QueueSink)]
    name = top.plain_text("reports")
    if name is not None:
        _sink_name(top, "reports", name, sinks)
        if name not in [sink.name for sink in queues]:
            raise top.error("reports", f"{name!r} is no sink of kind queue")
        return name
    return queues[0].name if queues else None


# Checks of several parts together


def _check_consumers(top: Table, config: PipelineConfig) -> None:
    """Raise PipelineFileError if two sources on one queue manager have the same consumer name."""
    queues = [source for source in config.sources if isinstance(source, ClaimedSource)]
    seen = {(source.url, source.manager, source.consumer) for source in queues}
    if len(seen) < len(queues):
        raise top.error(
            "[[source]]", "two sources have the same consumer: each needs a name of its own"
        )


def _check_routes(top: Table, config: PipelineConfig) -> None:
    """Raise PipelineFileError if a route selects an outcome that messages of queues do not have."""
    for number, route in enumerate(config.routes, 1):
        if route.outcome != State.RELEASED.value and not config.has_foreign_rows:
            raise top.error(
                f"[[route]] {number}, outcome",
                f"{route.outcome!r} is none that messages of queues have here: all are released",
            )


def _check_sinks(top: Table, config: PipelineConfig) -> None:
    """Raise PipelineFileError if two sinks share a name, or if a sink's folder is used twice."""
    names = [sink.name for sink in config.sinks]
    if len(set(names)) < len(names):
        raise top.error("[[sink]]", f"two have the same name: {', '.join(names)}")
    folders = [part.path for part in config.sinks if isinstance(part, FileSink)]
    inputs = [part.path for part in config.sources if isinstance(part, FileSource)]
    if len(set(folders)) < len(folders) or set(folders) & set(inputs):
        raise top.error("[[sink]]", "writes to a folder that another part reads or writes, too")


# Values


def _name(table: Table, key: str) -> str:
    """Return the required value of ``key``; raises PipelineFileError unless [A-Za-z0-9._-] only.

    A name begins with a letter or a digit, and has at most 100 characters.
    """
    name = table.text(key)
    if not _NAME.fullmatch(name):
        raise table.error(key, f"{name!r} is not a name of letters, digits, '.', '_' and '-'")
    return name


def _sink_name(table: Table, key: str, name: str, sinks: Iterable[Sink]) -> str:
    """Return ``name`` if a sink has it; raises PipelineFileError with a suggestion if none has."""
    names = [sink.name for sink in sinks]
    if name not in names:
        raise table.error(key, f"no sink is named {name!r}{suggestion(name, names)}")
    return name


def _trigger(top: Table) -> str:
    """Return the value of ``trigger``: "available now", or an interval, by default "1 second".

    Raises PipelineFileError for another text.
    """
    trigger = top.text("trigger", "1 second")
    if trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(trigger):
        raise top.error("trigger", f"{trigger!r} is neither {AVAILABLE_NOW!r} nor like '1 second'")
    return trigger


def _place(table: Table, key: str) -> str:
    """Return the path or URL in ``key``, made absolute; raises PipelineFileError if missing."""
    place = table.place(key)
    if place is None:
        raise table.error(key, "is missing")
    return place


def _token_file(table: Table) -> str | None:
    """Return the absolute path in ``token_file``, None if the key is missing."""
    file = table.local_place("token_file")
    return None if file is None else str(file)


def _url(table: Table) -> str:
    """Return the Flight server's URL in ``url``; raises PipelineFileError if missing or invalid."""
    from mayfly.pipeline.bulk.client import check_url

    try:
        return check_url(table.text("url"))
    except PipelineFileError:
        raise
    except ValueError as error:
        raise table.error("url", str(error)) from error


def _queue_name(table: Table, key: str) -> str:
    """Return the required queue name in ``key``.

    Raises PipelineFileError if it is missing or has more than 48 characters.
    """
    name = _optional_queue_name(table, key)
    if name is None:
        raise table.error(key, "is missing")
    return name


def _optional_queue_name(table: Table, key: str) -> str | None:
    """Return the queue name in ``key``, None if missing.

    Raises PipelineFileError for more than 48 characters.
    """
    name = table.plain_text(key)
    if name is not None and len(name) > _QUEUE_NAME_LENGTH:
        raise table.error(key, f"{name!r} is longer than {_QUEUE_NAME_LENGTH} characters")
    return name

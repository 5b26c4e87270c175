"""The parts of a pipeline (sources, limits, routes, sinks), as config.py reads them from TOML.

And the error about a part that the file gets wrong. Options and checkpoints that do not fit have
errors of their own, in errors.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from mayfly.lifetime.life import State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.verbs.contracts.files import ConfigurationError

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

"""Checks a pipeline before it runs, and explains it in plain words, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import SparkSession

from mayfly.lifetime.life import State
from mayfly.mqi.reasons import MQRC_UNKNOWN_OBJECT_NAME
from mayfly.pipeline.build import MARK, check_mark, check_places, prepare, session_settings
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import QueueClient, QueueManagerRefused
from mayfly.pipeline.config import (
    ClaimedSource,
    FileSink,
    FileSource,
    KafkaSink,
    PipelineConfig,
    PipelineFileError,
    QueueSink,
    QueueSource,
    Sink,
    Source,
    StagingSource,
)
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.progress import path_here
from mayfly.pipeline.rows import routed_rows
from mayfly.pipeline.sinks import DEAD_LETTER_QUEUE, check_sinks
from mayfly.pipeline.spark.checkpoints import SPARKS_OWN


class ConfigProblem(NamedTuple):
    """A mistake in a pipeline's file, at table and key ``where``; a warning prevents no run."""

    where: str
    text: str
    is_warning: bool = False


def check(config: PipelineConfig, spark: SparkSession | None) -> list[ConfigProblem]:
    """Return the problems of a pipeline, an empty list if it can run; changes nothing anywhere.

    Checks that queues exist on their queue managers, and folders if they are on this machine. SQL
    expressions and column types are checked only if ``spark`` is not None.
    """
    found = [
        *_sources(config),
        *_sinks(config),
        *_loops(config),
        *_checkpoint(config),
    ]
    if spark is not None:
        found += _planned(config, spark)
    return found


def _sources(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Yield a problem for each queue or local folder of the sources that does not exist."""
    for number, source in enumerate(config.sources, 1):
        where = f"[[source]] {number}"
        if isinstance(source, ClaimedSource):
            yield from _queues(source, where, [("queue", source.queue)])
        elif isinstance(source, FileSource) and not _is_there(source.path):
            yield ConfigProblem(f"{where}, path", f"{source.path} is no folder")


def _sinks(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Yield a problem for each (dead-letter) queue of the queue sinks that does not exist."""
    for number, sink in enumerate(config.sinks, 1):
        if not isinstance(sink, QueueSink):
            continue
        named = [("queue", sink.queue), ("dead_letter_queue", sink.dead_letter_queue)]
        gets_refused = config.has_foreign_rows and config.dead_letter == sink.name
        if gets_refused and sink.dead_letter_queue is None:
            named.append(("dead_letter_queue", DEAD_LETTER_QUEUE))
        queues = [(key, queue) for key, queue in named if queue is not None]
        yield from _queues(sink, f"[[sink]] {number}", queues)


def _is_there(path: str) -> bool:
    """Return True if a folder exists, or if it is not on this machine and cannot be checked."""
    folder = path_here(path)
    return folder is None or folder.is_dir()


def _queues(
    part: ClaimedSource | QueueSink, where: str, queues: list[tuple[str, str]]
) -> Iterator[ConfigProblem]:
    """Yield a problem for each (key, queue name) whose queue cannot be used by ``part``.

    The key is the one in the pipeline's file, ``where`` the table with it. A source needs a queue
    that can be browsed; a sink's queue must only exist. Yields one problem for ``where`` and no
    others if the server cannot be reached.
    """
    try:
        with QueueClient(part.url, token_file=part.token_file, manager=part.manager) as client:
            client.info()
            for key, queue in queues:
                try:
                    client.ranges(queue, 1)
                except QueueManagerRefused as error:
                    is_unknown = str(MQRC_UNKNOWN_OBJECT_NAME) in error.text
                    if is_unknown or isinstance(part, ClaimedSource):
                        yield ConfigProblem(f"{where}, {key}", f"{queue!r}: {error.text}")
    except (BulkError, ValueError) as error:
        yield ConfigProblem(where, str(error))


def _loops(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Yield a warning for each sink that puts to a queue that the pipeline reads: a loop."""
    read = {
        (source.url, source.manager, source.queue)
        for source in config.sources
        if isinstance(source, QueueSource)
    }
    for number, sink in enumerate(config.sinks, 1):
        if isinstance(sink, QueueSink) and (sink.url, sink.manager, sink.queue) in read:
            text = f"{sink.queue!r} is a source as well: what is put there is read again"
            yield ConfigProblem(f"[[sink]] {number}, queue", text, is_warning=True)


def _checkpoint(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Yield a problem if the local checkpoint folder belongs to another query or to other sources.

    Yields nothing if the folder does not exist yet, or is not on this machine.
    """
    folder = path_here(config.checkpoint)
    if folder is None or not folder.is_dir():
        return
    if (folder / MARK).is_file():
        try:
            check_mark((folder / MARK).read_text("utf-8"), config)
        except CheckpointError as error:
            yield ConfigProblem("checkpoint", str(error))
    elif any((folder / name).exists() for name in SPARKS_OWN):
        yield ConfigProblem("checkpoint", f"{folder} is that of another query")


def _planned(config: PipelineConfig, spark: SparkSession) -> Iterator[ConfigProblem]:
    """Let Spark plan the query without a start, and yield the first mistake that Spark finds.

    The settings of the session are restored at the end.
    """
    before = {name: spark.conf.get(name, None) for name in session_settings(config)}
    prepare(config, spark)
    try:
        check_places(config, spark)
        check_sinks(config, routed_rows(config, spark))
    except PipelineFileError as error:
        yield ConfigProblem(error.where, error.text)
    finally:
        for name, value in before.items():
            if spark.conf.isModifiable(name):
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def explain(config: PipelineConfig) -> str:
    """Return the description: a heading, and lines for sources, limits, routes and sinks."""
    lines = [f"Pipeline {config.name}: {_pace(config)}; its checkpoint is {config.checkpoint}."]
    for title, section in (
        ("Reads", map(_source, config.sources)),
        ("Limits", _limits(config)),
        ("Holds", _holds(config)),
        ("Routes", _routes(config)),
        ("Writes", (_sink(sink, config) for sink in config.sinks)),
        ("Exactly once", _once(config)),
    ):
        found = [f"  {line}" for line in section]
        lines += ["", title, *found] if found else []
    return "\n".join(lines) + "\n"


def _pace(config: PipelineConfig) -> str:
    """Return in words when batches run, such as "a batch every 1 second, until it is stopped"."""
    if config.is_available_now:
        return "takes what is there now, and ends"
    return f"a batch every {config.trigger}, until it is stopped"


def _source(source: Source) -> str:
    """Return the line that describes a source and how its messages are taken."""
    if isinstance(source, QueueSource):
        where = f"{source.manager} at {source.url}" if source.manager else source.url
        return (
            f"queue {source.queue} of {where}, claimed for {source.consumer}: a claim ends when "
            "the batch is written"
        )
    if isinstance(source, StagingSource):
        where = f"{source.manager} at {source.url}" if source.manager else source.url
        return (
            f"delayed messages of {where} that are due, claimed for {source.consumer}: the queue "
            "manager puts them where they belong when the batch is done; they go to no sink"
        )
    if isinstance(source, FileSource):
        return f"{source.format} files that come into {source.path}, each once"
    return f"topic {source.topic} of Kafka at {source.bootstrap_servers}"


def _limits(config: PipelineConfig) -> Iterator[str]:
    """Yield the lines about lifetime limits; one line that says so if the pipeline has no limit."""
    limit = config.limit
    if limit.cap_ms is not None:
        yield f"no message lives longer than {limit.cap_ms} ms from its put"
    for one in limit.queues:
        yield f"messages for {one.name}: no longer than {one.cap_ms} ms; the lowest limit wins"
    if limit.cap_ms is None and not limit.queues:
        yield "nothing: each message lives as long as it asks for"


def _holds(config: PipelineConfig) -> Iterator[str]:
    """Yield lines of text for people: which rows the pipeline holds back, where, until when."""
    if any(isinstance(source, QueueSource) for source in config.sources):
        yield "messages of queues: not at all; their lifetimes go on, up to where they are put"
    if not config.has_foreign_rows:
        return
    line, lines = config.delay_line, []
    if config.puts_delayed and any(isinstance(sink, QueueSink) for sink in config.sinks):
        lines.append(
            "other rows for queues: not at all; each is put at once, and its queue manager delays "
            "it until its delivery time"
        )
    if config.has_delay_line:
        rows = "other rows for files and topics" if config.puts_delayed else "other rows"
        lines.append(
            f"{rows}: until their delivery time, in slots of {line.slot_ms} ms; what expires "
            "first leaves as expired"
        )
    begin = "the delivery time" if line.ttl_rule == "release" else "the put"
    yield from lines[:-1]
    yield f"{lines[-1]}. A life begins at {begin}"


def _routes(config: PipelineConfig) -> Iterator[str]:
    """Yield a line for each route, then lines for the rows that no route selects."""
    for route in config.routes:
        rows = f"{route.outcome} rows"
        yield (
            f"{rows} where {route.when} go to {route.to}"
            if route.when
            else (f"all {rows} go to {route.to}")
        )
    if config.sinks:
        yield from _rest(config, State.RELEASED, f"released rows go to {config.sinks[0].name}")
    else:
        yield "nothing: there is no sink"
    if config.has_foreign_rows:
        refused = f"refused rows (malformed, or delayed for too long) go to {config.dead_letter}"
        yield from _rest(config, State.DEAD_LETTERED, refused)
        yield from _rest(config, State.EXPIRED, "expired rows go nowhere; they are counted")
        if config.reports is None:
            yield "reports owed are counted and go nowhere: there is no sink of kind queue"
        else:
            yield f"reports owed go to the reply-to queues of {config.reports}"


def _rest(config: PipelineConfig, outcome: State, text: str) -> Iterator[str]:
    """Yield the line ``text`` about the rows of an outcome that no route selects.

    Yields nothing if a route without a condition selects all of them.
    """
    routes = [route for route in config.routes if route.outcome == outcome.value]
    if all(route.when is not None for route in routes):
        yield f"the rest of the {text}" if routes else text


def _sink(sink: Sink, config: PipelineConfig) -> str:
    """Return the line that describes a sink, and for a queue sink its dead-letter queue."""
    if isinstance(sink, FileSink):
        return f"{sink.name}: {sink.format} files in {sink.path}, a folder for each batch"
    if isinstance(sink, KafkaSink):
        return f"{sink.name}: topic {sink.topic} of Kafka at {sink.bootstrap_servers}"
    where = f"{sink.manager} at {sink.url}" if sink.manager else sink.url
    queue = "the queue that each row names" if sink.queue is None else f"queue {sink.queue}"
    dead = "its dead-letter queue" if sink.dead_letter_queue is None else sink.dead_letter_queue
    text = f"{sink.name}: {queue} of {where}; what it refuses goes to {dead}"
    if config.has_foreign_rows and sink.dead_letter_queue is None:
        text += f", rows refused before to {DEAD_LETTER_QUEUE}"
    return text


def _once(config: PipelineConfig) -> Iterator[str]:
    """Yield a line for each guarantee that rows are written exactly once; Kafka sinks have none."""
    yield "a batch that is repeated after a crash has the same rows, under the same number"
    if any(isinstance(source, StagingSource) for source in config.sources):
        yield "delayed messages: each is released once, with the end of its claim"
    for sink in config.sinks:
        if isinstance(sink, QueueSink):
            yield f"{sink.name}: the queue manager knows which batches it has put"
        elif isinstance(sink, FileSink):
            yield f"{sink.name}: a repeat replaces the folder of its batch"
        else:
            yield f"{sink.name}: NOT: Kafka may get the rows of a repeated batch again"

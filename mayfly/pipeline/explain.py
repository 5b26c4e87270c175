"""Explains a pipeline in plain words, stage by stage, for ``mayfly pipeline explain``."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.lifetime.life import State
from mayfly.pipeline.dead_letters import DEAD_LETTER_QUEUE
from mayfly.pipeline.parts import (
    FileSink,
    FileSource,
    KafkaSink,
    PipelineConfig,
    QueueSink,
    QueueSource,
    Sink,
    Source,
    StagingSource,
)


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
    """Yield the lines that say which rows wait in the pipeline before they go on."""
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

"""Checks a pipeline before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from mayfly.mqi.reasons import MQRC_UNKNOWN_OBJECT_NAME
from mayfly.pipeline.build import check_places, prepare, session_settings
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import QueueClient, QueueManagerRefused
from mayfly.pipeline.dead_letters import DEAD_LETTER_QUEUE
from mayfly.pipeline.errors import PipelineError
from mayfly.pipeline.marks import MARK, SPARKS_OWN, check_mark
from mayfly.pipeline.parts import (
    ClaimedSource,
    FileSource,
    PipelineConfig,
    QueueSink,
    QueueSource,
)
from mayfly.pipeline.progress import local_path
from mayfly.pipeline.rows import routed_rows
from mayfly.pipeline.sinks import check_sinks
from mayfly.pipeline.spark.errors import CheckpointError


class ConfigProblem(NamedTuple):
    """A mistake and its place in the file; a warning does not prevent a run."""

    where: str
    text: str
    is_warning: bool = False


def check(config: PipelineConfig, spark: SparkSession | None) -> list[ConfigProblem]:
    """Return the problems of a pipeline; without a session, those that need no Spark.

    Queue managers are asked for their queues and nothing is changed there. Folders are checked if
    they are on this machine. Expressions and types are checked only with a session.
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
    """Yield the problems of sources: queues and folders that do not exist."""
    for number, source in enumerate(config.sources, 1):
        where = f"[[source]] {number}"
        if isinstance(source, ClaimedSource):
            yield from _queues(source, where, [("queue", source.queue)])
        elif isinstance(source, FileSource) and not _is_there(source.path):
            yield ConfigProblem(f"{where}, path", f"{source.path} is no folder")


def _sinks(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Yield the problems of queue sinks: queues that do not exist."""
    for number, sink in enumerate(config.sinks, 1):
        if not isinstance(sink, QueueSink):
            continue
        named = [("queue", sink.queue), ("dead_letter_queue", sink.dead_letter_queue)]
        gets_refused = config.has_delay_line and config.dead_letter == sink.name
        if gets_refused and sink.dead_letter_queue is None:
            named.append(("dead_letter_queue", DEAD_LETTER_QUEUE))
        queues = [(key, queue) for key, queue in named if queue is not None]
        yield from _queues(sink, f"[[sink]] {number}", queues)


def _is_there(path: str) -> bool:
    """Return True if a folder exists, or is on another file system."""
    local = local_path(path)
    return local is None or Path(local).is_dir()


def _queues(
    part: ClaimedSource | QueueSink, where: str, queues: list[tuple[str, str]]
) -> Iterator[ConfigProblem]:
    """Yield a problem for each queue that does not exist.

    One that may not be browsed is accepted.
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
    """Yield a warning for a queue that is read and written: its messages would circulate."""
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
    """Yield a problem if a local checkpoint belongs to another query or other sources."""
    local = local_path(config.checkpoint)
    if local is None or not Path(local).is_dir():
        return
    folder = Path(local)
    if (folder / MARK).is_file():
        try:
            check_mark((folder / MARK).read_text("utf-8"), config)
        except CheckpointError as error:
            yield ConfigProblem("checkpoint", str(error))
    elif any((folder / name).exists() for name in SPARKS_OWN):
        yield ConfigProblem("checkpoint", f"{folder} is that of another query")


def _planned(config: PipelineConfig, spark: SparkSession) -> Iterator[ConfigProblem]:
    """Plan the query with its settings, and yield the first mistake."""
    before = {name: spark.conf.get(name, None) for name in session_settings(config)}
    prepare(config, spark)
    try:
        check_places(config, spark)
        check_sinks(config, routed_rows(config, spark))
    except PipelineError as error:
        yield ConfigProblem(error.where, error.text)
    finally:
        for name, value in before.items():
            if spark.conf.isModifiable(name):
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)

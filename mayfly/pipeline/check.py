"""Checks a pipeline before it runs, for ``mayfly pipeline check`` and at the start of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import SparkSession

from mayfly.mqi.reasons import MQRC_UNKNOWN_OBJECT_NAME
from mayfly.pipeline.build import MARK, check_mark, check_places, prepare, session_settings
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import QueueClient, QueueManagerRefused
from mayfly.pipeline.dead_letters import DEAD_LETTER_QUEUE
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.parts import (
    ClaimedSource,
    FileSource,
    PipelineConfig,
    PipelineFileError,
    QueueSink,
    QueueSource,
)
from mayfly.pipeline.progress import path_here
from mayfly.pipeline.rows import routed_rows
from mayfly.pipeline.sinks import check_sinks
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

"""The consumers of a pipeline's queue sources: attaching them, and ending their claims.

Spark asks for the next batch only at its next trigger, and not at all after the query is stopped.
So the pipeline itself ends the claims that the checkpoint records as written, after each batch and
at its end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from mayfly.pipeline.bulk.batch_log import LocalFiles, LogFiles, WrittenClaims, written_claims
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import QueueClient
from mayfly.pipeline.failures import JAVA_ENDED
from mayfly.pipeline.parts import ClaimedSource, PipelineConfig, Source
from mayfly.pipeline.progress import local_path
from mayfly.pipeline.spark.checkpoints import Folder
from mayfly.verbs.contracts.claims import Attached

#: Errors when a checkpoint or a queue manager does not answer; the next start ends the claims.
_AWAY = (BulkError, OSError, *JAVA_ENDED)


class Readers:
    """The consumers of a pipeline, each with the epoch of its latest start."""

    def __init__(
        self, checkpoint: str, spark: SparkSession | None, say: Callable[[str], None]
    ) -> None:
        """Begin with none attached; without a session the checkpoint must be on this machine.

        ``say`` is called with the text of each failure at the end.
        """
        local = local_path(checkpoint)
        self._files: LogFiles | None = None
        if local is not None:
            self._files = LocalFiles(Path(local))
        elif spark is not None:
            self._files = Folder(spark, checkpoint)
        self._say = say
        self._attached: list[tuple[ClaimedSource, Attached]] = []

    def attach(self, config: PipelineConfig) -> PipelineConfig:
        """Attach the consumers, fencing off earlier readers; return the pipeline with their epochs.

        Raises BulkError.
        """
        self._attached = []
        sources: list[Source] = []
        for source in config.sources:
            if isinstance(source, ClaimedSource):
                with _connected(source) as client:
                    attached = client.attach(source.consumer, source.queue)
                self._attached.append((source, attached))
                sources.append(replace(source, epoch=attached.epoch))
            else:
                sources.append(source)
        return replace(config, sources=tuple(sources))

    def end_written(self) -> bool:
        """End the claims that the checkpoint records as written; return True if all are ended."""
        try:
            for source, attached, written in self._written():
                with _connected(source) as client:
                    client.end_written(
                        attached.consumer, attached.instance_id, written.offset.claim
                    )
        except _AWAY:
            # The query gets the same error and reports it, or continues and ends the claims.
            return False
        return True

    def quiesce(self) -> None:
        """Stop further claims, so that the batch in work is the last one."""
        for source, attached in self._attached:
            # A server that is away claims nothing either.
            with contextlib.suppress(*_AWAY), _connected(source) as client:
                client.quiesce(attached)

    def give_back(self) -> None:
        """Release claimed messages that are in no batch.

        Those of an unfinished batch stay claimed.
        """
        try:
            for source, attached, written in self._written():
                with _connected(source) as client:
                    if written.unfinished_batch is not None:
                        self._say(_unfinished(client, attached, written.unfinished_batch))
                    elif _held_count(client, attached):
                        client.release(attached.consumer, epoch=attached.epoch)
        except _AWAY as error:
            self._say(f"what it has claimed could not be looked after: {error}")

    def _written(self) -> Iterator[tuple[ClaimedSource, Attached, WrittenClaims]]:
        """Yield each attached source with the claims that the checkpoint records as written."""
        if self._files is None or not self._attached:
            return
        found = written_claims(self._files)
        for source, attached in self._attached:
            whose = (attached.consumer, attached.queue, attached.instance_id)
            for written in found:
                if written.offset[:3] == whose:
                    yield source, attached, written


def _connected(source: ClaimedSource) -> QueueClient:
    """Return a connection to the queue manager of a source."""
    return QueueClient(source.url, token_file=source.token_file, manager=source.manager)


def _held_count(client: QueueClient, attached: Attached) -> int:
    """Return the number of messages that a reader has claimed."""
    return sum(
        standing.message_count
        for standing in client.standings()
        if (standing.consumer, standing.epoch) == (attached.consumer, attached.epoch)
    )


def _unfinished(client: QueueClient, attached: Attached, batch: int) -> str:
    """Return the text about the claimed messages of an unfinished batch."""
    return (
        f"batch {batch} is not finished: its {_held_count(client, attached):,} messages of "
        f"{attached.queue} stay claimed by {attached.consumer} until the next start"
    )

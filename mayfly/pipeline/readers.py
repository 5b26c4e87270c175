"""The readers of a pipeline's queue sources: they attach the consumers and end their claims.

A claim is a set of messages that a queue manager reserves for a consumer until their batch is
written. Spark asks for the next batch only at its next trigger, and not at all after the query is
stopped. So the pipeline itself ends the claims that the checkpoint records as written, after each
batch and at its end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark.sql import SparkSession

from mayfly.pipeline.bulk.batch_log import LocalFiles, LogFiles, WrittenClaims, written_claims
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import QueueClient
from mayfly.pipeline.failures import JAVA_ENDED
from mayfly.pipeline.parts import ClaimedSource, PipelineConfig, Source
from mayfly.pipeline.progress import path_here
from mayfly.pipeline.spark.checkpoints import Folder
from mayfly.verbs.contracts.claims import Attached

#: Errors when a checkpoint or a queue manager does not answer; the next start ends the claims.
_AWAY = (BulkError, OSError, *JAVA_ENDED)


class Readers:
    """The attached consumers of a pipeline's queue sources, with their present epochs.

    A claim is a set of messages that a queue manager reserves for a consumer. An epoch is a number
    that a later reader of the same consumer makes invalid.
    """

    def __init__(
        self, checkpoint: str, spark: SparkSession | None, say: Callable[[str], None]
    ) -> None:
        """Begin without attached consumers; no server is called yet.

        Without a Spark session only a checkpoint on this machine is read. ``say`` is called with a
        text about each message or failure that is left at the end.
        """
        folder = path_here(checkpoint)
        self._files: LogFiles | None = None
        if folder is not None:
            self._files = LocalFiles(folder)
        elif spark is not None:
            self._files = Folder(spark, checkpoint)
        self._say = say
        self._attached: list[tuple[ClaimedSource, Attached]] = []

    def attach(self, config: PipelineConfig) -> PipelineConfig:
        """Attach the consumer of each queue source; return the pipeline with their epochs.

        An epoch numbers the attaches of a consumer: readers with an earlier one can no longer claim
        messages. Raises BulkError if a server cannot be reached or refuses.
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
        """End the claims that the checkpoint records as written: their messages leave the queues.

        A claim is a set of messages reserved for a consumer. Returns True if all are ended, False
        if a server or the checkpoint could not be reached.
        """
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
        """Tell each queue manager to reserve no more messages: the running batch is the last one.

        A server that cannot be reached is passed over.
        """
        for source, attached in self._attached:
            # A server that is away claims nothing either.
            with contextlib.suppress(*_AWAY), _connected(source) as client:
                client.quiesce(attached)

    def give_back(self) -> None:
        """Return reserved messages that are in no batch to their queues; for the end of a run.

        The messages of an unfinished batch stay reserved for the next start. A failure is reported
        through ``say``, not raised.
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
        """Yield each attached source with the last claim that the checkpoint records as written.

        A claim is a set of messages reserved for a consumer. Yields nothing if the checkpoint
        cannot be read from here or no consumer is attached.
        """
        if self._files is None or not self._attached:
            return
        found = written_claims(self._files)
        for source, attached in self._attached:
            whose = (attached.consumer, attached.queue, attached.instance_id)
            for written in found:
                if written.offset[:3] == whose:
                    yield source, attached, written


def _connected(source: ClaimedSource) -> QueueClient:
    """Return a new client of the queue manager of a source; the caller closes it."""
    return QueueClient(source.url, token_file=source.token_file, manager=source.manager)


def _held_count(client: QueueClient, attached: Attached) -> int:
    """Return the number of messages that are reserved for this reader, 0 if none."""
    return sum(
        standing.message_count
        for standing in client.standings()
        if (standing.consumer, standing.epoch) == (attached.consumer, attached.epoch)
    )


def _unfinished(client: QueueClient, attached: Attached, batch: int) -> str:
    """Return a sentence for the user: how many messages of a batch stay reserved."""
    return (
        f"batch {batch} is not finished: its {_held_count(client, attached):,} messages of "
        f"{attached.queue} stay claimed by {attached.consumer} until the next start"
    )

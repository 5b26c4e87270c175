"""``mayfly claims``: show what consumers of queues have claimed, and return it to its queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.managers import Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode, group
from mayfly.cli.show import JsonOption, aligned, moment, print_json
from mayfly.cli.values import local_path
from mayfly.client.connection import ClientClaims
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.pipeline.bulk.batch_log import (
    COMMITS,
    OFFSETS,
    LocalFiles,
    WrittenClaims,
    written_claims,
)
from mayfly.verbs.contracts.claims import ConsumerState

#: The claims are others than the command is about; the detail says how.
_REFUSALS = (rc.MQRC_UNKNOWN_OBJECT_NAME, rc.MQRC_OBJECT_CHANGED)
_COLUMNS = ("consumer", "queue", "claims", "messages", "since (UTC)", "epoch")

claims = group()

Consumer = Annotated[str, typer.Argument(metavar="CONSUMER", help="Name of the consumer.")]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        parser=local_path,
        metavar="DIR",
        help="The checkpoint of its query, a folder here: what that has written is ended.",
    ),
]
EvenIfWrittenOption = Annotated[
    bool,
    typer.Option(
        "--even-if-written",
        help="Give back also what its query may have written: it may come a second time.",
    ),
]


@claims.command("list")
def list_(name: Name, *, path: PlaceOption = None, as_json: JsonOption = False) -> None:
    """List the consumers of a queue manager and what they have claimed.

    Claims end when the pipeline has committed what it has read. Claims of a pipeline that is gone
    stay until it comes back, or until they are released. Exit code 1 when there is no consumer.

    \b
    Example:
      mayfly claims list QM1
    """
    with _claims(name, path) as found:
        consumers = found.standings()
    if as_json:
        print_json([consumer._asdict() for consumer in consumers])
    elif consumers:
        print("\n".join(aligned([_COLUMNS, *(_cells(consumer) for consumer in consumers)])))
    if not consumers:
        raise CommandFailed(ExitCode.NOTHING, f"{name} has no consumers")


@claims.command()
def release(
    name: Name,
    consumer: Consumer,
    *,
    checkpoint: CheckpointOption = None,
    even_if_written: EvenIfWrittenOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give the claimed messages of a consumer back to their queue, backout counts one higher.

    Messages that its query has already written must not come again: with --checkpoint these are
    found and ended as if they had been got. A pipeline that still reads under this name fails. An
    unfinished batch is only given back with --even-if-written. The pipeline can continue from its
    checkpoint, and gets in a later batch what was given back.

    \b
    Examples:
      mayfly claims release QM1 billing --checkpoint /data/checkpoints/calls
      mayfly claims release QM1 billing --even-if-written
    """
    log = [] if checkpoint is None else _written(checkpoint, consumer)
    with _claims(name, path) as found:
        [held] = [s.message_count for s in found.standings() if s.consumer == consumer] or [0]
        ended = 0
        if checkpoint is not None:
            written = _of_store(log, found.instance_id, checkpoint, consumer)
            if written.unfinished_batch is not None and not even_if_written:
                raise CommandFailed(
                    ExitCode.PIPELINE,
                    f"batch {written.unfinished_batch} of {checkpoint} was begun and not finished, "
                    "so it may be written in part: start the query once more, which finishes it, "
                    "or give it back with --even-if-written",
                )
            ended = found.end_written(consumer, written.offset.claim)
        elif held and not even_if_written:
            raise CommandFailed(
                ExitCode.USAGE,
                f"the {held:,} messages that {consumer} has claimed may be written already: name "
                "its query's checkpoint with --checkpoint DIR, or give all of them back with "
                "--even-if-written",
            )
        released = found.release(consumer)
    if as_json:
        print_json({"consumer": consumer, "ended": ended, "released": released})
    else:
        was_written = f"{ended:,} messages were written and are ended, " if ended else ""
        print(f"{was_written}{released:,} messages of {consumer} given back")


def _written(checkpoint: Path, consumer: str) -> list[WrittenClaims]:
    """Return what a checkpoint records as written of a consumer's claims; [] if nothing.

    A claim is a set of messages that the queue manager has reserved for a consumer. The list has an
    entry for each queue manager's store. Raises CommandFailed if the checkpoint is not a folder or
    cannot be read.
    """
    if not checkpoint.is_dir():
        raise CommandFailed(
            ExitCode.USAGE,
            f"--checkpoint: {checkpoint} is no folder here; of a checkpoint elsewhere copy the "
            f"folders {OFFSETS} and {COMMITS}",
        )
    try:
        found = written_claims(LocalFiles(checkpoint))
    except OSError as error:
        text = f"--checkpoint: {error.filename}: {error.strerror}"
        raise CommandFailed(ExitCode.PIPELINE, text) from error
    return [written for written in found if written.offset.consumer == consumer]


def _of_store(
    log: list[WrittenClaims], instance_id: str, checkpoint: Path, consumer: str
) -> WrittenClaims:
    """Return the entry of ``log`` for the queue manager's store ``instance_id``.

    ``log`` has the claims that the checkpoint records as written. ``checkpoint`` and ``consumer``
    are for the error. Raises CommandFailed if it has no entry for this store.
    """
    for written in log:
        if written.offset.instance_id == instance_id:
            return written
    other = f", only of another queue manager, store {log[0].offset.instance_id}" if log else ""
    raise CommandFailed(
        ExitCode.PIPELINE, f"{checkpoint} has no batch of consumer {consumer}{other}"
    )


def _cells(consumer: ConsumerState) -> tuple[str, ...]:
    """Return the cells of a consumer's line in the list.

    They are consumer, queue, number of open claims, number of claimed messages, time of the oldest
    claim ("" if nothing is claimed) and epoch (the number of the present reader).
    """
    since_ms = consumer.oldest_claimed_ms
    return (
        consumer.consumer,
        consumer.queue,
        f"{consumer.last - consumer.closed:,}",
        f"{consumer.message_count:,}",
        "" if since_ms is None else moment(since_ms),
        str(consumer.epoch),
    )


@contextmanager
def _claims(name: str, path: str | None) -> Iterator[ClientClaims]:
    """Return a context with access to the claims (reserved messages) of a queue manager.

    The connection is closed at its end. Raises CommandFailed (exit code 5) if the consumer is
    unknown or its claims have changed.
    """
    with connected(name, path, program="mayfly claims") as connection:
        try:
            yield ClientClaims(connection.call)
        except MQError as error:
            if error.reason not in _REFUSALS:
                raise
            raise CommandFailed(ExitCode.PIPELINE, error.detail) from error

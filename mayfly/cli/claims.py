"""``mayfly claims``: see what consumers have claimed, and give it back to its queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from mayfly.cli.managers import JsonOption, Name, PlaceOption, operated
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import aligned, moment, print_json
from mayfly.engine.bulk.consumers import ClaimError, Standing
from mayfly.queue_manager import QueueManager

if TYPE_CHECKING:
    from mayfly.bulk.claims import Standing as ServedStanding

_COLUMNS = ("consumer", "queue", "claims", "messages", "since (UTC)", "epoch")

claims = typer.Typer(
    name="claims",
    help="See what consumers of queues have claimed, and give it back.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Consumer = Annotated[str, typer.Argument(metavar="CONSUMER", help="Name of the consumer.")]


class _Claims(Protocol):
    """What a command needs: of a queue manager in this process, or of one that is served."""

    def standings(self) -> Sequence[Standing | ServedStanding]:
        """Return how all consumers stand."""

    def release(self, name: str, /) -> int:
        """Give back what a consumer has claimed."""


@claims.command("list")
def list_(name: Name, *, path: PlaceOption = None, as_json: JsonOption = False) -> None:
    """List the consumers of a queue manager and what they have claimed.

    Claims end when the pipeline has committed what it read; those of one that is gone stay until
    it comes back, or until they are released. Exit code 1 when there is no consumer.

    \b
    Example:
      mayfly claims list QM1
    """
    with _claims(name, path) as found:
        standings = found.standings()
    if as_json:
        print_json([standing._asdict() for standing in standings])
    elif standings:
        print("\n".join(aligned([_COLUMNS, *(_cells(standing) for standing in standings)])))
    if not standings:
        raise CommandFailed(ExitCode.NOTHING, f"{name} has no consumers")


@claims.command()
def release(
    name: Name, consumer: Consumer, *, path: PlaceOption = None, as_json: JsonOption = False
) -> None:
    """Give all that a consumer has claimed back to its queue, backout counts one higher.

    A pipeline that still reads under this name fails, and its checkpoint cannot be continued: what
    it has read and not ended comes again.

    \b
    Example:
      mayfly claims release QM1 billing
    """
    with _claims(name, path) as found:
        message_count = found.release(consumer)
    if as_json:
        print_json({"consumer": consumer, "released": message_count})
    else:
        print(f"{message_count:,} messages of {consumer} given back")


def _cells(standing: Standing | ServedStanding) -> tuple[str, ...]:
    since_ms = standing.oldest_claimed_ms
    return (
        standing.consumer,
        standing.queue,
        f"{standing.last - standing.closed:,}",
        f"{standing.message_count:,}",
        "" if since_ms is None else moment(since_ms),
        str(standing.epoch),
    )


@contextmanager
def _claims(name: str, path: str | None) -> Iterator[_Claims]:
    try:
        with operated(name, path) as manager:
            yield manager.claims if isinstance(manager, QueueManager) else manager
    except ClaimError as error:
        raise CommandFailed(ExitCode.PIPELINE, error.text) from error

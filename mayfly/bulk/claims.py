"""Read a queue over Arrow Flight: by durable claims, or by a browse that leaves it as it is.

A consumer is attached, claims messages, reads them, and ends the claim when they are safe
elsewhere. engine/bulk/claims.py says what each step does to the messages. Ids in a request are hex.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.bulk.client import LedgerClient
from mayfly.bulk.errors import BulkError, ServerFailed, ServerNotReachable, from_flight
from mayfly.bulk.patience import Retries
from mayfly.bulk.schema import MESSAGE

ATTACH, CLAIM, END, EDGES = "attach", "claim", "end-claims", "claim-edges"
END_WRITTEN, QUIESCE, RENEW = "end-written-claims", "quiesce-claims", "renew-claims"
MARK, RELEASE, CONSUMERS, RANGES = "claim-mark", "release-claims", "consumers", "browse-ranges"
#: The verbs of tickets.
CLAIMED_VERB, BROWSE_VERB = "claimed", "browse"


class QueueManagerRefused(BulkError):
    """The queue manager refuses; the text begins with its reason code."""

    reason = "mq-error"


class ConsumerUnknown(BulkError):
    """No consumer of this name has ever been attached."""

    reason = "consumer-unknown"


class ConsumerOfOtherQueue(BulkError):
    """The consumer belongs to another queue."""

    reason = "consumer-queue"


class ConsumerFenced(BulkError):
    """Another reader has the name of this consumer, or its claims were released."""

    reason = "consumer-fenced"


class ClaimsClosed(BulkError):
    """The claims asked for were ended; their messages are gone."""

    reason = "claims-closed"


class ClaimsReleased(BulkError):
    """The claims asked for were released; their messages are back on the queue."""

    reason = "claims-released"


class ClaimsAhead(BulkError):
    """The queue manager knows no such claim: it was restored from an older copy."""

    reason = "claims-ahead"


class ClaimsLapsed(BulkError):
    """The claims asked for were not renewed in time: their messages are due again."""

    reason = "claims-lapsed"


_BY_REASON: dict[str, type[BulkError]] = {
    kind.reason: kind
    for kind in (
        QueueManagerRefused,
        ConsumerUnknown,
        ConsumerOfOtherQueue,
        ConsumerFenced,
        ClaimsClosed,
        ClaimsReleased,
        ClaimsAhead,
        ClaimsLapsed,
    )
}


class Standing(NamedTuple):
    """The state of a consumer: claims after ``closed`` up to ``last`` are open."""

    consumer: str
    queue: str
    epoch: int
    closed: int
    last: int
    message_count: int
    oldest_claimed_ms: int | None


class Attached(NamedTuple):
    """An attached reader: its consumer, epoch, queue and store."""

    manager: str
    instance_id: str
    consumer: str
    queue: str
    epoch: int
    closed: int


class Filters(NamedTuple):
    """Values that messages of a browse must have; None is any."""

    msg_id: bytes | None = None
    correl_id: bytes | None = None
    priority: int | None = None


class QueueClient(LedgerClient):
    """A connection to the queues of one queue manager, and to its ledger."""

    def __enter__(self) -> QueueClient:
        """Return itself."""
        return self

    def __repr__(self) -> str:
        """Show where it leads, never the token."""
        return f"QueueClient({self.url!r})"

    def attach(self, consumer: str, queue: str) -> Attached:
        """Begin to read as a consumer; an earlier reader of that name is refused from now on.

        Raises ConsumerOfOtherQueue, QueueManagerRefused.
        """
        return Attached(**self._call(ATTACH, consumer=consumer, queue=queue))

    def claim(
        self,
        consumer: Attached,
        after: int,
        *,
        max_rows: int,
        max_bytes: int,
        up_to: int | None = None,
    ) -> tuple[int, int]:
        """Claim the next messages; return the last claim there is to read, and its messages.

        Claims behind ``after`` that are there already come first. ``up_to`` is a :meth:`mark`.
        Raises ConsumerFenced and what checks a checkpoint: ClaimsAhead, -Closed, -Released.
        """
        answer = self._call(
            CLAIM,
            consumer=consumer.consumer,
            epoch=consumer.epoch,
            after=after,
            max_rows=max_rows,
            max_data_bytes=max_bytes,
            up_to=up_to,
        )
        return answer["until"], answer["messages"]

    def mark(self) -> int:
        """Return a mark that separates messages put by now from later ones."""
        return int(self._call(MARK)["mark"])

    def end(self, consumer: Attached, until: int) -> int:
        """End the lives of the messages of claims up to ``until``; return their number."""
        answer = self._call(END, consumer=consumer.consumer, epoch=consumer.epoch, until=until)
        return int(answer["messages"])

    def end_written(self, consumer: str, instance_id: str, until: int) -> int:
        """End claims that a checkpoint says are written; return the number of messages ended now.

        Raises ConsumerUnknown, OtherInstance, ClaimsAhead.
        """
        answer = self._call(END_WRITTEN, consumer=consumer, instance_id=instance_id, until=until)
        return int(answer["messages"])

    def quiesce(self, consumer: Attached) -> None:
        """Stop further claims for a reader, so that it can end; raises ConsumerFenced."""
        self._call(QUIESCE, consumer=consumer.consumer, epoch=consumer.epoch)

    def renew(self, consumer: Attached) -> None:
        """Renew the claims of a live reader; raises ConsumerFenced."""
        self._call(RENEW, consumer=consumer.consumer, epoch=consumer.epoch)

    def edges(self, consumer: Attached, after: int, until: int) -> tuple[int, int]:
        """Return the rows ``(after, until]`` that claims ``(after, until]`` hold."""
        answer = self._call(
            EDGES, consumer=consumer.consumer, epoch=consumer.epoch, after=after, until=until
        )
        return answer["after_row"], answer["until_row"]

    def claimed(
        self, consumer: str, epoch: int, after_row: int, until_row: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield claimed rows in batches of schema MESSAGE, each row once and in get order."""
        row, retries = after_row, Retries(self._retry_waits)
        while True:
            request = {
                "consumer": consumer,
                "epoch": epoch,
                "after_row": row,
                "until_row": until_row,
            }
            try:
                for batch in self._read(CLAIMED_VERB, request):
                    row += batch.num_rows
                    retries.has_gone_on()
                    yield batch
                break
            except ServerNotReachable:
                # The next try goes on behind the last row that has come.
                if not retries.wait():
                    raise
        if row != until_row:
            raise ServerFailed(f"the server {self.url} ended at row {row}, not {until_row}")

    def standings(self) -> list[Standing]:
        """Return the states of all consumers, by name."""
        return [Standing(**standing) for standing in self._call(CONSUMERS)["consumers"]]

    def release(self, consumer: str, *, epoch: int | None = None) -> int:
        """Give back the claimed messages of a consumer; return their number.

        With an epoch only for the reader that has it: raises ConsumerFenced.
        """
        return int(self._call(RELEASE, consumer=consumer, epoch=epoch)["messages"])

    def attached(self, consumer: str, epoch: int) -> Attached:
        """Return the reader of a consumer under an epoch that :meth:`attach` gave.

        Raises ConsumerUnknown. Later calls refuse an epoch that is no longer the newest.
        """
        info = self.info()
        for standing in self.standings():
            if standing.consumer == consumer:
                return Attached(
                    info.manager, info.instance_id, consumer, standing.queue, epoch, standing.closed
                )
        raise ConsumerUnknown(f"there is no consumer {consumer!r} (server {self.url})")

    def ranges(self, queue: str, count: int) -> list[tuple[int, int]]:
        """Return about ``count`` ranges of keys, which hold the messages on a queue now."""
        answer = self._call(RANGES, queue=queue, count=count)
        return [(low, high) for low, high in answer["ranges"]]

    def browse(
        self, queue: str, within: tuple[int, int], filters: Filters
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live messages of a range of keys in get order, in batches of schema MESSAGE."""
        request = {
            "queue": queue,
            "low": within[0],
            "high": within[1],
            "msg_id": _hex(filters.msg_id),
            "correl_id": _hex(filters.correl_id),
            "priority": filters.priority,
        }
        yield from self._read(BROWSE_VERB, request)

    def _read(self, verb: str, request: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches({verb: {"manager": self._manager, **request}})
        except flight.FlightError as error:
            raise self._error(error) from None

    def _call(self, verb: str, **request: Any) -> dict[str, Any]:
        try:
            return self._answer(verb, {"manager": self._manager, **request})
        except flight.FlightError as error:
            raise self._error(error) from None

    def _error(self, error: flight.FlightError) -> BulkError:
        try:
            detail = json.loads(error.extra_info)
            return _BY_REASON[detail["reason"]](f"{detail['text']} (server {self.url})")
        except (ValueError, KeyError, TypeError):
            return from_flight(error, self.url)


class MessageColumns(NamedTuple):
    """Messages on their way into a record batch, of one queue or each of its own.

    ``columns`` are msg_id, correl_id, put_ms, deliver_at_ms, expire_at_ms, backout_count,
    descriptor, payload; a descriptor is a key into ``descriptors``, which gives the DESCRIBED ones.
    """

    manager: str
    queue: str | Sequence[str]
    columns: Sequence[Sequence[Any]]
    descriptors: Mapping[bytes, tuple[Any, ...]]


#: The columns of MESSAGE that many messages have in common.
DESCRIBED = (
    "priority",
    "persistence",
    "report",
    "reply_to_q",
    "reply_to_q_mgr",
    "msg_type",
    "format",
    "encoding",
    "coded_char_set_id",
    "user_identifier",
)
_OWN = ("msg_id", "correl_id", "put_ms", "deliver_at_ms", "expire_at_ms", "backout_count")


def message_batch(messages: MessageColumns) -> pa.RecordBatch:
    """Return one or more messages as a record batch of schema MESSAGE."""
    *own, packed, payloads = messages.columns
    count = len(packed)
    columns = {
        "manager": pa.repeat(messages.manager, count),
        "queue": _queues(messages.queue, count),
        "payload": pa.array(payloads, type=pa.binary()),
    }
    for name, values in zip(_OWN, own, strict=True):
        columns[name] = pa.array(values, type=MESSAGE.field(name).type)
    places = {descriptor: n for n, descriptor in enumerate(messages.descriptors)}
    taken = pa.array([places[descriptor] for descriptor in packed], type=pa.int32())
    described = zip(*messages.descriptors.values(), strict=True)
    for name, values in zip(DESCRIBED, described, strict=True):
        columns[name] = pa.array(values, type=MESSAGE.field(name).type).take(taken)
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGE.names], schema=MESSAGE)


def _queues(queue: str | Sequence[str], count: int) -> pa.Array:
    return pa.repeat(queue, count) if isinstance(queue, str) else pa.array(queue, type=pa.string())


def _hex(identifier: bytes | None) -> str | None:
    return None if identifier is None else identifier.hex()

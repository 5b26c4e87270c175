"""Read a queue over Arrow Flight: by durable claims, or by a browse that leaves it as it is.

A consumer is attached, claims messages, reads them, and ends the claim when they are safe
elsewhere. engine/claims says what each step does to the messages. Ids in a request are hex.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.bulk.errors import BulkError, ServerFailed, ServerNotReachable, from_flight
from mayfly.pipeline.bulk.patience import Retries
from mayfly.pipeline.bulk.schema import MESSAGE
from mayfly.verbs.contracts import claims as contract
from mayfly.verbs.contracts import reasons
from mayfly.verbs.contracts.bulk import PROTOCOL
from mayfly.verbs.contracts.claims import Attached, BackedOut, ConsumerState
from mayfly.verbs.contracts.messages import DESCRIBED, OWN, MessageColumns


class QueueManagerRefused(BulkError):
    """The queue manager refuses; the text begins with its reason code."""

    reason = reasons.MQ_ERROR


class ConsumerUnknown(BulkError):
    """No consumer of this name has ever been attached."""

    reason = reasons.CONSUMER_UNKNOWN


class ConsumerOfOtherQueue(BulkError):
    """The consumer belongs to another queue."""

    reason = reasons.CONSUMER_QUEUE


class ConsumerFenced(BulkError):
    """Another reader has the name of this consumer, or its claims were released."""

    reason = reasons.CONSUMER_FENCED


class ClaimsClosed(BulkError):
    """The claims asked for were ended; their messages are gone."""

    reason = reasons.CLAIMS_CLOSED


class ClaimsAhead(BulkError):
    """The queue manager knows no such claim: it was restored from an older copy."""

    reason = reasons.CLAIMS_AHEAD


class LeaseExpired(BulkError):
    """The claims asked for were not renewed in time: their messages are due again."""

    reason = reasons.LEASE_EXPIRED


_BY_REASON: dict[str, type[BulkError]] = {
    kind.reason: kind
    for kind in (
        QueueManagerRefused,
        ConsumerUnknown,
        ConsumerOfOtherQueue,
        ConsumerFenced,
        ClaimsClosed,
        ClaimsAhead,
        LeaseExpired,
    )
}


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
        asked = contract.AttachRequest(consumer, queue)
        return Attached(**self._call(contract.ATTACH, asked))

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
        Raises ConsumerFenced and what checks a checkpoint: ClaimsAhead, -Closed.
        """
        name, epoch = consumer.consumer, consumer.epoch
        asked = contract.ClaimRequest(name, epoch, after, max_rows, max_bytes, up_to)
        claimed = contract.Claimed(**self._call(contract.CLAIM, asked))
        return claimed.until, claimed.messages

    def mark(self) -> int:
        """Return a mark that separates messages put by now from later ones."""
        return contract.Mark(**self._call(contract.MARK)).mark

    def end(self, consumer: Attached, until: int) -> int:
        """End the lives of the messages of claims up to ``until``; return their number."""
        asked = contract.EndRequest(consumer.consumer, consumer.epoch, until)
        return self._count(contract.END, asked)

    def end_written(self, consumer: str, instance_id: str, until: int) -> int:
        """End claims that a checkpoint says are written; return the number of messages ended now.

        Raises ConsumerUnknown, OtherInstance, ClaimsAhead.
        """
        asked = contract.EndWrittenRequest(consumer, instance_id, until)
        return self._count(contract.END_WRITTEN, asked)

    def quiesce(self, consumer: Attached) -> None:
        """Stop further claims for a reader, so that it can end; raises ConsumerFenced."""
        self._call(contract.QUIESCE, contract.Reader(consumer.consumer, consumer.epoch))

    def renew(self, consumer: Attached) -> None:
        """Renew the claims of a live reader; raises ConsumerFenced."""
        self._call(contract.HEARTBEAT, contract.Reader(consumer.consumer, consumer.epoch))

    def rows(self, consumer: Attached, after: int, until: int) -> list[tuple[int, int]]:
        """Return the rows that claims ``(after, until]`` hold, as ranges ``(after, until]``."""
        asked = contract.ClaimsRequest(consumer.consumer, consumer.epoch, after, until)
        found = contract.ClaimedRows(**self._call(contract.ROWS, asked))
        return [(after_row, until_row) for after_row, until_row in found.ranges]

    def back_out(self, consumer: Attached, rows: Sequence[int], reason: int) -> BackedOut:
        """Back out messages that the reader cannot use; rows no longer claimed stay as they are.

        Each goes back to its queue, or by BOTHRESH to BOQNAME or the dead-letter queue. Raises
        ConsumerFenced, and QueueManagerRefused when nobody takes one.
        """
        name, epoch = consumer.consumer, consumer.epoch
        asked = contract.BackOutRequest(name, epoch, list(rows), reason)
        return BackedOut(**self._call(contract.BACK_OUT, asked))

    def claimed(
        self, consumer: str, epoch: int, after_row: int, until_row: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield claimed rows in batches of schema MESSAGE, each row once and in get order."""
        row, retries = after_row, Retries(self._retry_waits)
        while True:
            asked = contract.ClaimedRequest(consumer, epoch, row, until_row)
            try:
                for batch in self._read(contract.CLAIMED_VERB, asked):
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

    def standings(self) -> list[ConsumerState]:
        """Return the states of all consumers, by name."""
        return [
            ConsumerState(**standing) for standing in self._call(contract.CONSUMERS)["consumers"]
        ]

    def release(self, consumer: str, *, epoch: int | None = None) -> int:
        """Give back the claimed messages of a consumer; return their number.

        With an epoch only for the reader that has it: raises ConsumerFenced.
        """
        return self._count(contract.RELEASE, contract.ReleaseRequest(consumer, epoch))

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
        answer = self._call(contract.RANGES, contract.RangesRequest(queue, count))
        return [(low, high) for low, high in answer["ranges"]]

    def browse(
        self, queue: str, within: tuple[int, int], filters: Filters
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live messages of a range of keys in get order, in batches of schema MESSAGE."""
        low, high = within
        ids = _hex(filters.msg_id), _hex(filters.correl_id)
        asked = contract.BrowseRequest(queue, low, high, *ids, filters.priority)
        yield from self._read(contract.BROWSE_VERB, asked)

    def _read(self, verb: str, asked: NamedTuple) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches({verb: self._request(asked)})
        except flight.FlightError as error:
            raise self._error(error) from None

    def _count(self, verb: str, asked: NamedTuple) -> int:
        return contract.Counted(**self._call(verb, asked)).messages

    def _request(self, asked: NamedTuple | None) -> dict[str, Any]:
        fields = {} if asked is None else asked._asdict()
        return {"manager": self._manager, PROTOCOL: contract.VERSION, **fields}

    def _call(self, verb: str, asked: NamedTuple | None = None) -> dict[str, Any]:
        try:
            return self._answer(verb, self._request(asked))
        except flight.FlightError as error:
            raise self._error(error) from None

    def _error(self, error: flight.FlightError) -> BulkError:
        try:
            detail = json.loads(error.extra_info)
            return _BY_REASON[detail["reason"]](f"{detail['text']} (server {self.url})")
        except (ValueError, KeyError, TypeError):
            return from_flight(error, self.url)


class MessagePage(NamedTuple):
    """Messages on their way into a record batch, of one queue or each of its own.

    ``described`` gives the values of DESCRIBED for each packed descriptor.
    """

    manager: str
    queue: str | Sequence[str]
    columns: MessageColumns
    described: Mapping[bytes, tuple[Any, ...]]


def message_batch(messages: MessagePage) -> pa.RecordBatch:
    """Return one or more messages as a record batch of schema MESSAGE."""
    *own, packed, payloads = messages.columns
    count = len(packed)
    columns = {
        "manager": pa.repeat(messages.manager, count),
        "queue": _queues(messages.queue, count),
        "payload": pa.array(payloads, type=pa.binary()),
    }
    for name, values in zip(OWN, own, strict=True):
        columns[name] = pa.array(values, type=MESSAGE.field(name).type)
    places = {descriptor: n for n, descriptor in enumerate(messages.described)}
    taken = pa.array([places[descriptor] for descriptor in packed], type=pa.int32())
    described = zip(*messages.described.values(), strict=True)
    for name, values in zip(DESCRIBED, described, strict=True):
        columns[name] = pa.array(values, type=MESSAGE.field(name).type).take(taken)
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGE.names], schema=MESSAGE)


def _queues(queue: str | Sequence[str], count: int) -> pa.Array:
    return pa.repeat(queue, count) if isinstance(queue, str) else pa.array(queue, type=pa.string())


def _hex(identifier: bytes | None) -> str | None:
    return None if identifier is None else identifier.hex()

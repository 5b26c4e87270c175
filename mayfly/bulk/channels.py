"""The calls between a sender channel and its receiver over Arrow Flight.

The answer to a call is ``{"answer": …}``, ``{"refused": reason code, "text": …}``, or
``{"down": text}`` from a receiver that has ended; the call may or may not have taken effect then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.bulk.client import DEFAULT_MAX_BYTES, LedgerClient
from mayfly.bulk.errors import from_flight
from mayfly.bulk.schema import pages

#: Version of the calls: the same at both ends; the first call holds it.
PROTOCOL_VERSION = 3
PING, BEGIN, GO_ON, CONFIRM, END = (
    f"channel-{verb}" for verb in ("ping", "begin", "go-on", "confirm", "end")
)
#: The upload of a batch.
SEND = "channel-send"
LINK, PROTOCOL, OPENING = "link", "protocol", "opening"
ANSWER, REFUSED, DOWN, TEXT = "answer", "refused", "down", "text"

#: A message on its way; ``descriptor`` as it is stored (mqi/descriptor.py), ``life_ms`` null
#: without end.
PARCEL = pa.schema(
    [
        pa.field("queue", pa.string(), nullable=False),
        pa.field("manager", pa.string(), nullable=False),
        pa.field("descriptor", pa.binary(), nullable=False),
        pa.field("msg_id", pa.binary(), nullable=False),
        pa.field("correl_id", pa.binary(), nullable=False),
        pa.field("life_ms", pa.int64()),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("is_fast", pa.bool_(), nullable=False),
    ]
)


class PackedParcel(NamedTuple):
    """One row of PARCEL."""

    queue: str
    manager: str
    descriptor: bytes
    msg_id: bytes
    correl_id: bytes
    life_ms: int | None
    body: bytes
    is_fast: bool


class ChannelClient(LedgerClient):
    """A connection to the queue manager that receives; each call raises BulkError."""

    def __repr__(self) -> str:
        """Show where it leads, never the token."""
        return f"ChannelClient({self.url!r})"

    def ask(self, verb: str, request: dict[str, Any], *, timeout_s: float | None) -> dict[str, Any]:
        """Make a call and return its answer; a timeout of None waits for ever."""
        asked = {"manager": self._manager, **request}
        action = flight.Action(verb, json.dumps(asked).encode())
        try:
            [answer] = self._flight.do_action(action, self._options(timeout_s))
        except flight.FlightError as error:
            raise from_flight(error, self.url) from None
        return _object(answer.body)

    def send(
        self,
        parcels: Sequence[PackedParcel],
        request: dict[str, Any],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """Hand over the messages of a batch; returns the answer, as :meth:`ask`."""
        asked = {
            SEND: {"manager": self._manager, **request, "parcel_count": len(parcels)},
        }
        descriptor = flight.FlightDescriptor.for_command(json.dumps(asked).encode())
        try:
            writer, answers = self._flight.do_put(descriptor, PARCEL, self._options(timeout_s))
            for page in pages(_batch(parcels), DEFAULT_MAX_BYTES):
                writer.write_batch(page)
            writer.done_writing()
            answer = answers.read()
            # A refusal of the server shows here at the latest.
            writer.close()
        except flight.FlightError as error:
            raise from_flight(error, self.url) from None
        return {DOWN: f"{self.url} has not answered"} if answer is None else _object(answer)

    def _options(self, timeout_s: float | None) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=timeout_s, headers=self._headers)


def packed_parcels(batch: pa.RecordBatch) -> list[PackedParcel]:
    """Return the rows of a batch of schema PARCEL."""
    columns = [column.to_pylist() for column in batch.columns]
    return [PackedParcel._make(row) for row in zip(*columns, strict=True)]


def _batch(parcels: Sequence[PackedParcel]) -> pa.RecordBatch:
    columns = zip(*parcels, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PARCEL, strict=True)]
    return pa.record_batch(arrays, schema=PARCEL)


def _object(body: pa.Buffer) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(body.to_pybytes())
    return value

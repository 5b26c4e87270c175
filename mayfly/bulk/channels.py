"""The sender's end of the calls of channels over Arrow Flight (contracts/channels.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.bulk.client import DEFAULT_MAX_BYTES, LedgerClient
from mayfly.bulk.errors import from_flight
from mayfly.bulk.schema import pages, schema_of
from mayfly.contracts.channels import COLUMNS, DOWN, SEND, PackedParcel

#: A message on its way (contracts/channels.py).
PARCEL = schema_of(COLUMNS)


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

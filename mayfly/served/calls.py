"""The client's end of a session with a served queue manager."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.bulk.errors import (
    BadRequest,
    BulkError,
    ServerFailed,
    ServerNotReachable,
    from_flight,
)
from mayfly.contracts.sessions import (
    ANSWER,
    END,
    REFUSED,
    TEXT,
    VERB,
    WRONG,
    packed,
    unpacked,
)
from mayfly.mqi.errors import mq_error

_WRITE_ERRORS = (flight.FlightError, pa.ArrowException, OSError)
_IN_DOUBT = "; whether the last call took effect is not known"


class Calls:
    """Calls over one exchange, by one thread; :meth:`close` ends it, :meth:`cancel` at any moment.

    A thread of their own writes calls and reads answers, so that whoever waits for an answer can be
    interrupted. It does both, for where a write fails Arrow reads the rest of the exchange: beside
    a read of another thread, gRPC ends the process.
    """

    def __init__(self, connection: Any, command: bytes, options: Any, url: str) -> None:
        """Open the exchange; raises BulkError when it cannot be, MQError when it is refused."""
        self._url = url
        self._failure: BulkError | None = None
        #: None ends the exchange.
        self._calls: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers: SimpleQueue[bytes | BaseException | None] = SimpleQueue()
        descriptor = flight.FlightDescriptor.for_command(command)
        try:
            self._writer, self._reader = connection.do_exchange(descriptor, options)
        except flight.FlightError as error:
            raise from_flight(error, url) from None
        self._thread = threading.Thread(target=self._converse, name="mayfly-calls", daemon=True)
        self._thread.start()
        try:
            self._answer()
        except BaseException:
            self.cancel()
            raise

    def call(self, verb: str, body: bytes = b"", /, **fields: object) -> tuple[Any, bytes]:
        """Return what a verb answers, and the body behind it.

        Raises MQError with the reason of the queue manager, BadRequest for what makes no sense to
        the server, ServerNotReachable or ServerFailed when the session has ended.
        """
        if self._failure is not None:
            raise self._failure
        self._calls.put(packed({VERB: verb, **fields}, body))
        try:
            return self._answer()
        except (ServerNotReachable, ServerFailed) as error:
            self._failure = type(error)(error.text + _IN_DOUBT)
            self.cancel()
            raise self._failure from None
        except KeyboardInterrupt:
            # The answer is still to come, and would be taken for that of the next call.
            self.cancel()
            raise

    def stream(self, verb: str, /, **fields: object) -> Iterator[tuple[Any, bytes]]:
        """Yield what a verb answers one after the other, each when it is asked for."""
        number, _ = self.call(verb, **fields)
        while True:
            value, body = self.call("next", stream=number)
            if value == END:
                return
            yield value, body

    def close(self) -> None:
        """End the session; uncommitted work has been backed out when it returns."""
        if self._failure is not None:
            return
        self._failure = ServerFailed(f"the session with {self._url} is closed")
        self._calls.put(None)
        self._thread.join()

    def cancel(self) -> None:
        """End the session without waiting for the server; it backs out what is not committed."""
        if self._failure is None:
            self._failure = ServerFailed(f"the session with {self._url} was given up")
        self._reader.cancel()
        self._calls.put(None)

    def _converse(self) -> None:
        """Pass on the answer to the opening, and to each call; the last is why no more comes."""
        try:
            self._answers.put(self._reader.read_chunk().app_metadata.to_pybytes())
            while (call := self._calls.get()) is not None:
                # Why it cannot be written, the read is told.
                with suppress(*_WRITE_ERRORS):
                    self._writer.write_metadata(call)
                self._answers.put(self._reader.read_chunk().app_metadata.to_pybytes())
            self._writer.done_writing()
            while True:
                self._reader.read_chunk()
        except StopIteration:
            self._answers.put(None)
        except _WRITE_ERRORS as error:
            self._answers.put(error)
        finally:
            # Unclosed, it would say so on stderr in the end.
            with suppress(*_WRITE_ERRORS):
                self._writer.close()

    def _answer(self) -> tuple[Any, bytes]:
        frame = self._answers.get()
        if isinstance(frame, flight.FlightError):
            raise from_flight(frame, self._url) from None
        if not isinstance(frame, bytes):
            raise ServerFailed(f"the server {self._url} has ended the session: {frame or 'no why'}")
        value, body = unpacked(frame)
        if REFUSED in value:
            raise mq_error(value[REFUSED], value[TEXT])
        if WRONG in value:
            raise BadRequest(f"{value[WRONG]} (server {self._url})")
        return value[ANSWER], body

"""Timeouts and retries for a client of the bulk plane whose server may be gone.

A call with one message as its answer has a deadline. A stream of rows has no deadline, because it
lasts as long as its rows do. It is cancelled when the server is silent for too long, or no longer
answers a ping.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pyarrow.flight as flight

_Result = TypeVar("_Result")

#: Deadline of a call: long enough to claim, end or put all messages of a batch.
CALL_SECONDS = 300.0
#: Longest wait for the next rows of a stream.
SILENCE_SECONDS = 120.0
#: The waits between the tries of a patient client: a server is back some seconds after its end.
RETRY_WAITS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
#: Silence during a call after which gRPC sends a ping, and the longest wait for its answer. The
#: first is above five minutes: a server takes more frequent pings for an attack. The second also
#: ends a call whose sent data are not acknowledged.
KEEPALIVE_MS, KEEPALIVE_ANSWER_MS = 330_000, 20_000
_LOOKS = 4


def channel_options(keepalive_ms: int = KEEPALIVE_MS) -> list[tuple[str, int]]:
    """Return the options of a gRPC channel: keepalive pings and quick reconnects."""
    return [
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", min(KEEPALIVE_ANSWER_MS, keepalive_ms)),
        # A patient client tries again sooner than gRPC would let it.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
    ]


class Retries:
    """The retries of one call, with a wait before each; an object serves one call or stream."""

    def __init__(self, waits_seconds: tuple[float, ...]) -> None:
        """Keep the waits in seconds, one for each retry; an empty tuple allows no retry."""
        self._all = waits_seconds
        self._left = list(waits_seconds)

    def run(self, call: Callable[[], _Result]) -> _Result:
        """Return the result of ``call``, which is repeated while no server answers.

        Raises the error of the last try. The call must be safe to repeat: its first try may have
        taken effect.
        """
        while True:
            try:
                return call()
            except flight.FlightUnavailableError:
                if not self.wait():
                    raise

    def wait(self) -> bool:
        """Wait before the next retry and return True; return False at once if none is left."""
        if not self._left:
            return False
        threading.Event().wait(self._left.pop(0))
        return True

    def reset(self) -> None:
        """Allow all retries again, because the server has answered."""
        self._left = list(self._all)


class SilenceWatch:
    """A thread that cancels a stream when its reader has waited too long for the server.

    ``is_cut`` is True after it has cancelled the stream.
    """

    def __init__(self, cut: Callable[[], None], limit_seconds: float = SILENCE_SECONDS) -> None:
        """Start the watching thread; ``cut`` cancels the stream and is called on that thread.

        ``cut`` is called once, after about ``limit_seconds`` of one wait for the server.
        """
        self._cut = cut
        self._look_seconds = limit_seconds / _LOOKS
        self._is_stopped = threading.Event()
        #: Number of the present wait, 0 while the reader does something else.
        self._wait, self._wait_count = 0, 0
        self.is_cut = False
        threading.Thread(target=self._run, name="mayfly-silence", daemon=True).start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Return a context for one wait for the server; only time inside it counts as silence."""
        self._wait_count += 1
        self._wait = self._wait_count
        try:
            yield
        finally:
            self._wait = 0

    def stop(self) -> None:
        """End the watching thread; later waits have no limit."""
        self._is_stopped.set()

    def _run(self) -> None:
        """Call ``cut`` once when one wait lasts too long, then return; the thread's function."""
        seen, looks = 0, 0
        while not self._is_stopped.wait(self._look_seconds):
            wait = self._wait
            looks = looks + 1 if wait and wait == seen else 0
            seen = wait
            if looks >= _LOOKS:
                self.is_cut = True
                self._cut()
                return

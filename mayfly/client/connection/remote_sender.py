"""The sending half of a client's connection: whole frames in their order, at once or gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mayfly.client.connection.remote_stream import NoStream, Stream
from mayfly.runtime import Runtime
from mayfly.verbs.contracts.wire import OURS

#: No frame is gathered for much longer than this.
_GATHER_SECONDS = 0.001
#: After so many such times without a frame the thread sleeps, and after a second it ends.
_QUIET_ROUNDS, _LINGER_SECONDS = 20, 1.0
#: Returns a frame, which is complete from now on; it is called while the sender is at work.
MakesFrame: TypeAlias = Callable[[], bytes]


class Sender:
    """Sends frames; any thread may. Gathered frames go out before a frame that is sent at once.

    A send costs the client as much as the rest of a put, and the server more. So puts that nobody
    can see before the commit are gathered. They go out when a frame is full of them, when another
    frame is sent, or after a millisecond: lives begin when the server has the put, so they must not
    wait long. A thread looks at the time; it exists only while frames are gathered.
    """

    def __init__(
        self, stream: Stream, runtime: Runtime, on_failure: Callable[[OSError | str], object]
    ) -> None:
        """Begin to speak: the server is told our versions with the first frame.

        ``on_failure`` is called with the error of a frame that no caller waits for.
        """
        self._stream, self._runtime, self._on_failure = stream, runtime, on_failure
        #: Nothing is sent, and nothing gathered, while a thread has it.
        self.lock = runtime.lock("wire-send")
        self._gathered: list[bytes | MakesFrame] = [OURS.packed()]
        #: Whether something was sent since this was last reset.
        self.has_sent = True
        self._changed = runtime.condition()
        self._has_thread = self._is_watched = self._is_over = False

    def send(self, frame: bytes) -> None:
        """Send a frame; raises OSError, after which nothing more may be sent."""
        with self.lock:
            if self._gathered:
                self._gathered.append(frame)
                self._send_gathered()
            else:
                self._stream.send(frame)
        self.has_sent = True

    def gather(self, frame: bytes | MakesFrame) -> None:
        """Send a frame soon: the caller has the lock, and calls :meth:`watch` without it."""
        self._gathered.append(frame)

    def watch(self) -> None:
        """See to it that what is gathered is sent in time."""
        if not self._is_watched:
            self._watch()

    def flush(self) -> None:
        """Send what is gathered."""
        try:
            with self.lock:
                self._send_gathered()
        except OSError as error:
            self._on_failure(error)
        except BaseException:
            # A part of a frame may be on its way.
            self._on_failure("sending was interrupted")
            raise

    def try_send(self, frame: bytes) -> None:
        """Send a sign of life, unless another thread is sending: its frame is one as well."""
        failure: OSError | None = None
        if self.lock.acquire(blocking=False):
            try:
                self._stream.send(frame)
            except OSError as error:
                failure = error
            finally:
                self.lock.release()
        if failure is not None:
            self._on_failure(failure)

    def close(self) -> None:
        """Give the socket back when nobody is sending any more; nobody is receiving."""
        with self.lock:
            self._gathered.clear()
            self._stream.close()

    def end(self) -> None:
        """Let the thread end; nothing more is sent."""
        self._is_over = True

    def leave_to_parent(self) -> None:
        """Be unusable in a forked child."""
        self._stream = NoStream()
        self.lock = self._runtime.lock("wire-send")
        self._gathered.clear()

    def _send_gathered(self) -> None:
        """Send it; the caller has the lock."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._stream.send(
                b"".join([each if isinstance(each, bytes) else each() for each in gathered])
            )
            self.has_sent = True

    def _watch(self) -> None:
        with self._changed:
            self._is_watched = True
            is_new, self._has_thread = not self._has_thread, True
            self._changed.notify_all()
        if is_new:
            self._runtime.thread(self._run, "mayfly-wire-send").start()

    def _run(self) -> None:
        """Send what is gathered in time; sleep between bursts."""
        quiet_rounds = 0
        while not self._is_over:
            with self._changed:
                if quiet_rounds >= _QUIET_ROUNDS:
                    if not self._rests():
                        return
                    quiet_rounds = 0
                self._changed.wait(_GATHER_SECONDS)
            quiet_rounds = 0 if self._gathered else quiet_rounds + 1
            if self._gathered and not self._is_over:
                self.flush()

    def _rests(self) -> bool:
        """Sleep until something is gathered; False when nothing was: the thread ends."""
        self._is_watched = False
        if not self._gathered:
            self._changed.wait(_LINGER_SECONDS)
        self._is_watched = self._has_thread = self._is_watched or bool(self._gathered)
        return self._is_watched

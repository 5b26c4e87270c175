"""Message listeners: a thread of the session hands them its messages, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from mayfly.engine import Message as QueueMessage
from mayfly.engine import Signal, definitions_version, wait_for
from mayfly.engine.face.jms import LocalQueue, Source
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.errors import IllegalStateException, JMSException, jms_error
from mayfly.jms.messages import Message
from mayfly.jms.roles import OwningSession
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError
from mayfly.runtime import Event


class Listener:
    """A message listener, and what stands in the way of the next message for it."""

    def __init__(
        self,
        consumer: MessageConsumer,
        call: Callable[[Message], object],
        source: Source,
        queue: LocalQueue,
    ) -> None:
        """Listen to a source, whose messages come to a queue."""
        self.consumer = consumer
        self.call = call
        self.source = source
        self.queue = queue
        #: Whether nothing was in the unit of work before the last message.
        self.begins_unit = False
        #: Whether its message is to come again, as recover() inside of it has asked.
        self.must_recover = False
        #: Whether it has closed its own consumer.
        self.must_close = False
        self._failure = rc.MQRC_NONE
        self._held_at_version: int | None = None
        #: The version of the definitions at which nothing was found last.
        self._idle_at_version: int | None = None

    def take(self, version: int, *, in_parts: bool) -> Found | None:
        """Take a message as the engine asks; an error that stays the same is found once."""
        if version == self._held_at_version:
            return None
        held = self.consumer.take_held()
        if held is None and version == self._idle_at_version and not self.queue.depth:
            # The one message that has come was for another session: hundreds may be told of it.
            return None
        self.begins_unit = self.consumer.is_unit_empty
        try:
            message = held or self.source.take(in_parts=in_parts)
        except MQError as error:
            is_known, self._failure = error.reason == self._failure, error.reason
            return None if is_known else Found(self, error=error)
        self._failure = rc.MQRC_NONE
        if message is None and not self.source.is_cut:
            self._idle_at_version = version
            return None
        return Found(self, message)

    def hold(self, version: int) -> None:
        """Take nothing more until the definitions have another version."""
        self._held_at_version = version

    def resume(self) -> None:
        """Take again."""
        self._held_at_version = None


class Found(NamedTuple):
    """What a listener is to have: a message, or an error instead; neither: the search goes on."""

    listener: Listener
    message: QueueMessage | None = None
    error: MQError | None = None


class _LookAgain:
    """Found in the place of a message when listeners have come or gone."""


_LOOK_AGAIN = _LookAgain()


class Listening:
    """The listeners of a session and the thread they run on, which waits without using time.

    A message is taken for a listener as for a waiting get: by the thread that brings it, at its
    moment, if no other listener of the session is at work. A close or stop waits until the listener
    at work has returned.
    """

    def __init__(self, session: OwningSession) -> None:
        """Begin without a listener, and without a thread."""
        self._session = session
        self._core = session.manager
        #: Sent when there is something else to wait for.
        self._signal = Signal(self._core)
        #: Guards what follows. It is taken inside of the engine's lock, by :meth:`_take`: nothing
        #: that takes the engine's lock is called with this one held, and no signal is sent.
        self._lock = self._core.runtime.lock("jms listening")
        #: The next to be asked first.
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        #: Who has a message that is not settled yet.
        self._current: Listener | None = None
        self._is_calling = False
        self._is_changed = False
        self._is_ending = False
        #: Set when no listener has a message any more, one for each thread that waits for that.
        self._settled: list[Event] = []

    @property
    def is_used(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    @property
    def is_calling_here(self) -> bool:
        """Whether the present thread is inside of one of the listeners."""
        return self._is_calling and self._is_own_thread()

    def listen(self, consumer: MessageConsumer, call: Callable[[Message], object]) -> None:
        """Let a listener have the messages of a consumer, in the place of the one it has."""
        self.leave(consumer)
        handle = consumer.open_handle()
        listener = Listener(consumer, call, handle.source(), handle.queue)
        with self._lock:
            self._listeners.append(listener)
            self._is_changed = True
            is_first = self._thread is None
            if is_first:
                self._thread = threading.Thread(target=self._run, name="mayfly-jms", daemon=True)
        self._signal.send()
        if is_first and self._thread is not None:
            self._thread.start()

    def leave(self, consumer: MessageConsumer) -> None:
        """Let a consumer have no listener; one at work on another thread is waited for."""
        with self._lock:
            left = [one for one in self._listeners if one.consumer is not consumer]
            is_left = len(left) < len(self._listeners)
            if is_left:
                self._listeners = left
                self._is_changed = True
        if is_left:
            self._signal.send()
        self._wait_while(lambda current: current.consumer is consumer)

    def leave_later(self, consumer: MessageConsumer) -> bool:
        """Let a consumer close that its own listener wants closed when that returns; else False."""
        current = self._current if self.is_calling_here else None
        if current is None or current.consumer is not consumer:
            return False
        current.must_close = True
        return True

    def recover(self) -> bool:
        """Let the message of the listener at work come again if it is acknowledged by its return.

        False when not called inside of such a listener.
        """
        current = self._current if self.is_calling_here else None
        if current is None or not current.consumer.is_automatic:
            return False
        current.must_recover = True
        return True

    def check_not_called_back(self, call: str) -> None:
        """Raise IllegalStateException inside of a listener, which the call would wait for."""
        if self.is_calling_here:
            raise IllegalStateException(f"{call}() inside of a message listener")

    def check_thread(self, call: str) -> None:
        """Raise IllegalStateException when the session is busy with its listeners elsewhere."""
        is_busy = self.is_used and self._session.connection.is_started
        if is_busy and not self._is_own_thread():
            raise IllegalStateException(
                f"{call}() belongs into the listeners of the session, or after stop()"
            )

    def resume(self) -> None:
        """Look for messages: the connection was started."""
        with self._lock:
            for listener in self._listeners:
                listener.resume()
        self._signal.send()
        self._core.committer.run_deferred()

    def wait_until_settled(self) -> None:
        """Wait until no listener has a message; new ones must be held back already."""
        self._wait_while(lambda _current: True)

    def end(self) -> None:
        """Hand nothing out any more, and wait for the listener at work."""
        with self._lock:
            self._is_ending = self._is_changed = True
        self._signal.send()
        if self._thread is not None and not self._is_own_thread():
            self._thread.join()

    def _wait_while(self, is_at_work: Callable[[Listener], bool]) -> None:
        """Wait while a listener has a message; not on the thread that would hand it over."""
        while not self._is_own_thread():
            with self._lock:
                if self._current is None or not is_at_work(self._current):
                    return
                settled = self._core.runtime.event()
                self._settled.append(settled)
            settled.wait()

    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        try:
            while (found := self._next()) is not None:
                self._deal_with(found)
        except MQError as error:
            # The queue manager has ended.
            self._session.connection.reports.report(jms_error(error))
        except StoreError as error:
            # It ends for it.
            failure = JMSException(str(error), rc.MQRC_CONNECTION_BROKEN)
            failure.__cause__ = error
            self._session.connection.reports.report(failure)
        finally:
            self._settle()

    def _next(self) -> Found | None:
        """Wait for what a listener is to have; None at the end."""
        while True:
            self._settle()
            with self._lock:
                if self._is_ending:
                    return None
                self._is_changed = False
                numbers = {self._signal.number}
                numbers.update(listener.queue.number for listener in self._listeners)
            found: Found | _LookAgain = wait_for(self._core, self._take, numbers)
            if isinstance(found, _LookAgain):
                continue
            if found.message is not None or found.error is not None:
                return found
            found.listener.source.go_on()

    def _take(self) -> Found | _LookAgain | None:
        """Take a message for one of the listeners; the engine asks, under its own lock.

        Under this lock as well from the look at what was changed or stopped until the message has
        its listener: a leave or stop comes before and nothing is taken, or after and waits for it.
        """
        with self._lock:
            if self._is_changed:
                return _LOOK_AGAIN
            if not self._session.connection.is_started:
                return None
            self._session.begin_work()
            version, in_parts = definitions_version(self._core), self._is_own_thread()
            for place, listener in enumerate(self._listeners):
                found = listener.take(version, in_parts=in_parts)
                if found is not None:
                    self._current = listener
                    self._listeners.append(self._listeners.pop(place))
                    return found
            return None

    def _settle(self) -> None:
        with self._lock:
            self._current = None
            waiting, self._settled = self._settled, []
        for settled in waiting:
            settled.set()

    def _deal_with(self, found: Found) -> None:
        listener = found.listener
        if found.message is None:
            assert found.error is not None
            self._session.connection.reports.report(jms_error(found.error))
            return
        try:
            message = listener.consumer.accept(found.message)
        except MQError as error:
            if listener.begins_unit:
                self._session.undo()
            self._hold(listener, error)
        else:
            # None was backed out too often and has been moved away.
            if message is not None:
                self._hand_over(listener, message)

    def _hand_over(self, listener: Listener, message: Message) -> None:
        failure = self._call(listener, message)
        try:
            listener.consumer.settle(is_done=failure is None and not listener.must_recover)
        except MQError as error:
            self._hold(listener, error)
        listener.must_recover = False
        if listener.must_close:
            listener.consumer.close()
        if failure is not None:
            self._session.connection.reports.report(failure)

    def _call(self, listener: Listener, message: Message) -> JMSException | None:
        """Return what the application has raised."""
        self._is_calling = True
        try:
            listener.call(message)
        except BaseException as error:  # noqa: BLE001 - the application's; nobody else would hear
            failure = JMSException(f"the message listener raised {error!r}")
            failure.__cause__ = error
            return failure
        finally:
            self._is_calling = False
        return None

    def _hold(self, listener: Listener, error: MQError) -> None:
        # Its message is on the queue again and would come at once, for ever.
        listener.hold(definitions_version(self._core))
        self._session.connection.reports.report(jms_error(error))

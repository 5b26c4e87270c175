"""The thread of a session that passes messages to its message listeners, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from mayfly.client.connection.instruments import instrumented_listener
from mayfly.jms.callbacks import CallingThread
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.errors import IllegalStateException, JMSException, jms_error
from mayfly.jms.messages import Message
from mayfly.jms.roles import OwningSession
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery


class ListenerState:
    """A message listener with its consumer, and actions to take before its next message."""

    def __init__(self, consumer: MessageConsumer, call: Callable[[Message], object]) -> None:
        """Open the consumer's queue; ``call`` is the program's listener function.

        Raises MQError with the reason codes of MQOPEN.
        """
        self.consumer = consumer
        self.call = call
        self.handle = consumer.open_handle()
        #: Whether nothing was in the unit of work before the last message.
        self.begins_unit = False
        #: Whether its message is to come again, as recover() inside of it has asked.
        self.must_recover = False
        #: Whether it has closed its own consumer.
        self.must_close = False
        #: Whether it gets nothing before definitions change or the connection is started again.
        self.is_held = False


class _ListenersChanged:
    """The outcome of a get that was cancelled because the listeners have changed."""


_LISTENERS_CHANGED = _ListenersChanged()
_Outcome = Delivery | MQError | _ListenersChanged


class ListenerThread(CallingThread):
    """The message listeners of a session and their thread, which waits without polling.

    While no listener runs, one get waits on the queues of all listeners. A message that arrives
    belongs to the session from that moment. A close or stop cancels the get. If a message came
    first, the close or stop waits until its listener returns.
    """

    what = "message"

    def __init__(self, session: OwningSession) -> None:
        """Begin without listeners and without a thread."""
        super().__init__(session.mq.runtime)
        self._session = session
        #: In the order in which they are served: the one that had the last message comes last.
        self._listeners: list[ListenerState] = []
        #: The listeners that the waiting get is for, and the outcome of the get.
        self._waiting_for: list[ListenerState] = []
        self._outcome: _Outcome | None = None
        #: Errors of queues that cannot be got from; they are still to be reported.
        self._refusals: deque[MQError] = deque()
        #: The listener whose message is not settled yet.
        self._current: ListenerState | None = None
        self._is_changed = False

    @property
    def is_used(self) -> bool:
        """True if any consumer of the session has a message listener."""
        return bool(self._listeners)

    def listen(self, consumer: MessageConsumer, call: Callable[[Message], object]) -> None:
        """Set the listener of a consumer, in place of an earlier one; starts the thread if needed.

        Raises MQError with the reason codes of MQOPEN if the queue must be opened for it.
        """
        self.leave(consumer)
        listener = ListenerState(consumer, instrumented_listener(self._session.mq, call))
        with self._changed:
            self._listeners.append(listener)
            new = self._new_thread(self._run, "mayfly-jms")
        self._signal_change()
        if new is not None:
            new.start()

    def leave(self, consumer: MessageConsumer) -> None:
        """Remove the listener of a consumer; does nothing for a consumer without one.

        Waits for the listener if it runs on another thread.
        """
        with self._changed:
            left = [one for one in self._listeners if one.consumer is not consumer]
            is_left = len(left) < len(self._listeners)
            self._listeners = left
        if is_left:
            self._signal_change()
        self._wait_while(lambda listener: listener.consumer is consumer)

    def leave_later(self, consumer: MessageConsumer) -> bool:
        """Let a consumer close after its running listener returns, and return True.

        Returns False, and changes nothing, unless this consumer's listener makes the call.
        """
        current = self._current if self.is_calling_here else None
        if current is None or current.consumer is not consumer:
            return False
        current.must_close = True
        return True

    def recover(self) -> bool:
        """Let the message of the running listener be delivered again after it returns; return True.

        Returns False outside a listener, and in a mode in which the return does not acknowledge.
        """
        current = self._current if self.is_calling_here else None
        if current is None or not current.consumer.is_automatic:
            return False
        current.must_recover = True
        return True

    def check_thread(self, call: str) -> None:
        """Raise IllegalStateException if another thread than the current one calls listeners.

        ``call`` is the method name for the text. A session without listeners, or stopped, passes.
        """
        is_busy = self.is_used and self._session.connection.is_started
        if is_busy and not self._is_own_thread():
            raise IllegalStateException(
                f"{call}() belongs into the listeners of the session, or after stop()"
            )

    def resume(self) -> None:
        """Let all listeners get messages, also those stopped by an error.

        Called when the connection has started.
        """
        with self._changed:
            for listener in self._listeners:
                listener.is_held = False
        self._signal_change()

    def wait_until_settled(self) -> None:
        """Wait until no listener has a message.

        The caller must have stopped the connection, so that no new message comes.
        """
        self._signal_change()
        self._wait_while(lambda _listener: True)

    def end(self) -> None:
        """Stop calling listeners and end the thread, after the listener that runs has returned.

        Does not wait if called on that thread.
        """
        with self._changed:
            self._is_ending = True
            thread = self._thread
        self._signal_change()
        if thread is not None and not self._is_own_thread():
            thread.join()

    def _signal_change(self) -> None:
        """Make the thread cancel its get and check the listeners again.

        A message that came before the cancel still goes to its listener.
        """
        with self._changed:
            self._is_changed = True
            self._changed.notify_all()

    def _wait_while(self, is_at_work: Callable[[ListenerState], bool]) -> None:
        """Wait while a listener for which ``is_at_work`` is True has a message or may get one.

        Returns at once on the thread that calls the listeners.
        """
        if self._is_own_thread():
            return
        with self._changed:
            while any(map(is_at_work, self._waiting_for)) or (
                self._current is not None and is_at_work(self._current)
            ):
                self._changed.wait()

    def _run(self) -> None:
        """Call listeners until the end; report the error that ends the connection or the store."""
        try:
            while self._next():
                pass
        except MQError as error:
            # The queue manager has ended.
            self._session.connection.reports.report(jms_error(error))
        except StoreError as error:
            # The store has failed, and the queue manager ends with it.
            failure = JMSException(str(error), rc.MQRC_CONNECTION_BROKEN)
            failure.__cause__ = error
            self._session.connection.reports.report(failure)
        finally:
            self._settle()

    def _next(self) -> bool:
        """Wait for a message and call its listener; return False when the thread must end.

        Raises MQError if the get fails for good. MQRC_BACKED_OUT, a lost unit of work, is only
        reported.
        """
        with self._changed:
            while not (self._is_ending or self._may_get()):
                self._is_changed = False
                self._changed.wait()
            if self._is_ending:
                return False
            self._is_changed = False
            waiting = self._waiting_for = [one for one in self._listeners if not one.is_held]
            for listener in waiting:
                held = listener.consumer.take_held()
                if held is not None:
                    self._take(listener, held)
                    break
        if self._current is not None and held is not None:
            self._process(self._current, held)
            return True
        outcome = self._get(waiting)
        if isinstance(outcome, MQError):
            if self._has_ended():
                return False
            if outcome.reason != rc.MQRC_BACKED_OUT:
                raise outcome
            # The unit of work was lost with its connection; its messages come again.
            self._session.undo()
            self._session.connection.reports.report(jms_error(outcome))
        if isinstance(outcome, Delivery) and self._current is not None:
            self._process(self._current, outcome)
        return True

    def _has_ended(self) -> bool:
        """Return ``_is_ending``, read again: another thread may have changed it."""
        return self._is_ending

    def _may_get(self) -> bool:
        """Return True if the connection is started and a listener may get a message."""
        is_started = self._session.connection.is_started
        return is_started and any(not listener.is_held for listener in self._listeners)

    def _get(self, waiting: list[ListenerState]) -> _Outcome:
        """Get a message from any queue of the listeners in ``waiting``; return the outcome.

        The outcome is a Delivery, the MQError of the get, or _LISTENERS_CHANGED. Errors of single
        queues are reported meanwhile.
        """
        options = c.MQGMO_WAIT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
        if not waiting[0].consumer.is_automatic:
            options |= c.MQGMO_SYNCPOINT
        under_way = self._session.mq.begin(
            ask.GetAny([listener.handle for listener in waiting], options, tells_refusals=True),
            self._on_outcome,
            self._refuse,
        )
        while True:
            with self._changed:
                while not (self._outcome or self._refusals or self._is_changed):
                    self._changed.wait()
                refusals, self._refusals = self._refusals, deque()
                is_changed, self._is_changed = self._is_changed, False
                outcome = None if refusals or is_changed else self._outcome
                if outcome is not None:
                    self._outcome = None
                    return outcome
            for error in refusals:
                self._session.connection.reports.report(jms_error(error))
            if is_changed and under_way.cancel():
                self._on_outcome(_LISTENERS_CHANGED)

    def _on_outcome(self, outcome: _Outcome) -> None:
        """Store the outcome of the waiting get and wake the thread.

        A message becomes that of its listener. The queue manager connection calls this.
        """
        with self._changed:
            self._outcome = outcome
            if isinstance(outcome, Delivery):
                for listener in self._waiting_for:
                    if listener.handle == outcome.handle:
                        self._take(listener, outcome)
                        break
            self._waiting_for = []
            self._changed.notify_all()

    def _take(self, listener: ListenerState, delivery: Delivery) -> None:
        """Make a delivery the message of a listener.

        The other listeners then take precedence over this one for the next message. The lock must
        be held.
        """
        self._current, self._waiting_for = listener, []
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._listeners.append(listener)
        listener.begins_unit = not self._session.has_work
        if not listener.consumer.is_automatic:
            self._session.begin_work(delivery.result.message.seen_ms)

    def _refuse(self, _handle: int, error: MQError) -> None:
        """Store the error of a queue that cannot be got from, for the thread to report."""
        with self._changed:
            self._refusals.append(error)
            self._changed.notify_all()

    def _settle(self) -> None:
        """Record that no listener has a message, and wake threads that wait for this."""
        with self._changed:
            self._current, self._waiting_for = None, []
            self._changed.notify_all()

    def _process(self, listener: ListenerState, delivery: Delivery) -> None:
        """Convert a delivery to a JMS message and call its listener.

        If the conversion fails, the error is reported, and the listener gets no message until an
        object definition changes or the connection is started.
        """
        try:
            message = listener.consumer.accept(delivery)
        except MQError as error:
            if listener.begins_unit:
                self._session.undo()
            self._hold(listener, error)
        except Exception as error:  # noqa: BLE001 - a message that cannot be read ends no thread
            if listener.begins_unit:
                self._session.undo()
            text = f"a message of {listener.consumer!r} cannot be read: {error!r}"
            failure = mq_error(rc.MQRC_UNEXPECTED_ERROR, text)
            failure.__cause__ = error
            self._hold(listener, failure)
        else:
            # None was backed out too often and has been moved away.
            if message is not None:
                self._call_listener(listener, delivery, message)
        self._settle()

    def _call_listener(self, listener: ListenerState, delivery: Delivery, message: Message) -> None:
        """Call a listener, then acknowledge its message or let it be delivered again.

        An exception of the listener is reported. If the listener has called ``close`` of its
        consumer, the consumer is closed now.
        """
        failure = self._failure_in(partial(listener.call, message))
        try:
            is_done = failure is None and not listener.must_recover
            listener.consumer.settle(delivery, is_done=is_done)
        except MQError as error:
            self._hold(listener, error)
        listener.must_recover = False
        if listener.must_close:
            listener.consumer.close()
        if failure is not None:
            self._session.connection.reports.report(failure)

    def _hold(self, listener: ListenerState, error: MQError) -> None:
        """Report an error, and stop giving messages to the listener.

        It gets messages again after an object definition has changed, or the connection is started.
        After MQRC_BACKED_OUT (connection lost) the error is only reported.
        """
        if error.reason == rc.MQRC_BACKED_OUT:
            # It was lost with its connection: the next one brings it, its backout count raised.
            self._session.connection.reports.report(jms_error(error))
            return
        # Its message is on the queue again and would come at once, for ever.
        listener.is_held = True

        def release(_outcome: MQError | None) -> None:
            listener.is_held = False
            self._signal_change()

        self._session.mq.begin(ask.AwaitDefinitions(), release)
        self._session.connection.reports.report(jms_error(error))

"""Callbacks of C programs for messages and events: MQCB registers them, MQCTL runs them.

One thread of the connection calls them, one after the other; while it runs, only they call verbs
of the connection. A consumer of a queue has one get under way at a time.
"""

from __future__ import annotations

from collections import deque
from ctypes import CFUNCTYPE, addressof, c_int32, c_void_p, create_string_buffer
from typing import Any, Final

from mayfly.client.connection import Connection
from mayfly.client.connection.interface import UnderWay
from mayfly.client.connection.waits import Wait
from mayfly.libmqm.memory import LAYOUTS
from mayfly.libmqm.structures import CBC
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi import CMQC
from mayfly.pymqi.errors import MQMIError
from mayfly.pymqi.structures import GMO, MD
from mayfly.pymqi.verbs import filled_in, get_request
from mayfly.runtime import Loop
from mayfly.verbs.messages import GetResult

#: void callback(MQHCONN, MQMD *, MQGMO *, void *buffer, MQCBC *).
_FUNCTION: Final = CFUNCTYPE(None, c_int32, c_void_p, c_void_p, c_void_p, c_void_p)
_BROWSES: Final = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT


class RegisteredCallback:
    """A registered callback: of a queue, or of events of the connection (``queue`` MQHO_NONE).

    ``hobj`` is the handle of the program, ``queue`` that of the connection. ``description`` are
    the fields of its MQCBD; ``md`` and ``gmo`` choose messages as in MQGET.
    """

    def __init__(self, hobj: int, queue: int, description: dict[str, Any], md: MD, gmo: GMO):
        """Take a callback that has not been called."""
        self.hobj, self.queue, self.md, self.gmo = hobj, queue, md, gmo
        self.function = _FUNCTION(description["CallbackFunction"])
        self.area, self.options = description["CallbackArea"], description["Options"]
        length = description["MaxMsgLength"]
        self.max_length = None if length < 0 else length
        self.is_suspended = False
        self.under_way: UnderWay | None = None


class ConnectionCallbacks:
    """The registered callbacks of one connection, and the thread that calls them."""

    def __init__(self, connection: Connection, hconn: int) -> None:
        """Begin without callbacks, stopped; ``hconn`` is handed to each callback."""
        self._connection, self._hconn = connection, hconn
        self._consumers: dict[int, RegisteredCallback] = {}
        #: Those that are deregistered while the message that they have taken is on its way.
        self._leaving: list[RegisteredCallback] = []
        self._done: deque[tuple[RegisteredCallback, GetResult | MQError]] = deque()
        self._wait = Wait(connection.runtime)
        #: Held while gets begin or a callback leaves: its queue must have no get left.
        self._beginning = connection.runtime.reentrant_lock("libmqm callbacks")
        self._loop: Loop | None = None
        self._is_stopping = self._is_lost = False
        self._area = 0

    @property
    def is_running(self) -> bool:
        """True from the start (MQCTL) until the thread has ended."""
        return self._loop is not None

    @property
    def thread(self) -> int | None:
        """The number of the thread that calls, None when stopped."""
        return None if self._loop is None else self._loop.ident

    def register(self, consumer: RegisteredCallback) -> None:
        """Register a callback, or replace that of its queue."""
        self.deregister(consumer.hobj)
        with self._beginning:
            self._consumers[consumer.hobj] = consumer
        self._tell(consumer, CMQC.MQCBDO_REGISTER_CALL, CMQC.MQCBCT_REGISTER_CALL)
        self._wait.wake()

    def deregister(self, hobj: int) -> bool:
        """End the callback of an object and return True; False without one."""
        with self._beginning:
            found = self._consumers.pop(hobj, None)
            if found is None:
                return False
            self._end_get(found)
            if found.under_way is not None:
                self._leaving.append(found)
        self._tell(found, CMQC.MQCBDO_DEREGISTER_CALL, CMQC.MQCBCT_DEREGISTER_CALL)
        return True

    def suspend(self, hobj: int, *, is_suspended: bool) -> None:
        """Suspend the callback of an object, or resume it.

        Raises MQRC_CALLBACK_NOT_REGISTERED without one.
        """
        with self._beginning:
            found = self._consumers.get(hobj)
            if found is None:
                raise mq_error(CMQC.MQRC_CALLBACK_NOT_REGISTERED, f"Hobj {hobj} has no callback")
            found.is_suspended = is_suspended
            if is_suspended:
                self._end_get(found)
        self._wait.wake()

    def suspend_all(self, *, is_suspended: bool) -> None:
        """Suspend all callbacks, or resume them."""
        for hobj in list(self._consumers):
            self.suspend(hobj, is_suspended=is_suspended)

    def start(self, area: int, *, waits: bool) -> None:
        """Start the thread; ``area`` is the ConnectionArea. ``waits`` returns when it has ended.

        Raises MQRC_HCONN_ASYNC_ACTIVE when it runs.
        """
        if self._loop is not None:
            raise mq_error(CMQC.MQRC_HCONN_ASYNC_ACTIVE, "the callbacks of the connection run")
        self._area, self._is_stopping = area, False
        loop = Loop(self._connection.runtime, self._turn, "libmqm-callbacks")
        self._loop = loop
        for each in list(self._consumers.values()):
            self._tell(each, CMQC.MQCBDO_START_CALL, CMQC.MQCBCT_START_CALL)
        loop.start()
        if waits:
            loop.join()

    def stop(self) -> None:
        """End the calls; a message that is got already is still handed over. Nothing if stopped.

        Returns when no callback runs, unless a callback calls it.
        """
        loop = self._loop
        if loop is None:
            return
        self._is_stopping = True
        self._wait.wake()
        if loop.ident != self._connection.runtime.thread_id():
            loop.join()

    def _turn(self) -> bool:
        """Begin the gets, wait, and call for one outcome; False at the end. Runs on the thread."""
        if self._is_stopping:
            self._finish()
            return False
        with self._beginning:
            for each in list(self._consumers.values()):
                if each.queue and each.under_way is None and not each.is_suspended:
                    self._begin(each)
        if not self._done:
            self._wait.for_change()
        if self._done:
            self._deliver(*self._done.popleft())
        return True

    def _begin(self, consumer: RegisteredCallback) -> None:
        """Begin the next get of a consumer, which waits for ever unless its MQGMO has a wait."""
        gmo = GMO(**consumer.gmo.get())
        if not gmo.Options & c.MQGMO_WAIT:
            gmo.Options, gmo.WaitInterval = gmo.Options | c.MQGMO_WAIT, c.MQWI_UNLIMITED

        def on_done(outcome: GetResult | MQError) -> None:
            self._done.append((consumer, outcome))
            self._wait.wake()

        try:
            request = get_request(consumer.queue, consumer.max_length, consumer.md, gmo)
        except MQError as error:
            self._done.append((consumer, error))
            return
        consumer.under_way = self._connection.begin(request, on_done)

    def _deliver(self, consumer: RegisteredCallback, outcome: GetResult | MQError) -> None:
        """Call a consumer with a message, or with the reason why there is none."""
        consumer.under_way = None
        if isinstance(outcome, MQError):
            self._fail(consumer, outcome)
            return
        md, gmo = MD(**consumer.md.get()), GMO(**consumer.gmo.get())
        comp, reason, length = c.MQCC_OK, rc.MQRC_NONE, None
        try:
            body = filled_in(outcome, md, gmo, consumer.max_length)
        except MQMIError as warning:
            body, comp, reason = warning.message, warning.comp, warning.reason
            length = warning.original_length
        is_browse = bool(consumer.gmo.Options & _BROWSES)
        if consumer.gmo.Options & c.MQGMO_BROWSE_FIRST:
            consumer.gmo.Options ^= _BROWSES
        call_type = CMQC.MQCBCT_MSG_NOT_REMOVED if is_browse else CMQC.MQCBCT_MSG_REMOVED
        self._call(consumer, call_type, comp, reason, md, gmo, body, length)

    def _fail(self, consumer: RegisteredCallback, error: MQError) -> None:
        """Tell a consumer why it has no message, and of a lost connection the event handler too.

        A consumer whose get fails for another reason than an empty queue is suspended. A lost
        connection ends all calls.
        """
        if error.reason != rc.MQRC_NO_MSG_AVAILABLE:
            consumer.is_suspended = True
        self._event(consumer, error)
        if error.reason == rc.MQRC_CONNECTION_BROKEN:
            handler = self._consumers.get(c.MQHO_NONE)
            if handler is not None and not self._is_lost:
                self._event(handler, error)
            self._is_lost = self._is_stopping = True

    def _event(self, consumer: RegisteredCallback, error: MQError) -> None:
        """Call a callback with an error in the place of a message."""
        self._call(consumer, CMQC.MQCBCT_EVENT_CALL, error.comp, error.reason, MD(), GMO())

    def _tell(self, consumer: RegisteredCallback, option: int, call_type: int) -> None:
        """Call a callback that wants to know of a register, start, stop or deregister."""
        if consumer.options & option:
            self._call(consumer, call_type, c.MQCC_OK, rc.MQRC_NONE, MD(), GMO())

    def _call(
        self,
        consumer: RegisteredCallback,
        call_type: int,
        comp: int,
        reason: int,
        md: MD,
        gmo: GMO,
        body: bytes | None = None,
        data_length: int | None = None,
    ) -> None:
        """Call a function of the program; ``data_length`` is that of a body that is cut."""
        returned = 0 if body is None else len(body)
        cbc = create_string_buffer(
            CBC.pack(
                CallType=call_type,
                Hobj=consumer.hobj,
                CallbackArea=consumer.area or 0,
                ConnectionArea=self._area or 0,
                CompCode=comp,
                Reason=reason,
                DataLength=returned if data_length is None else data_length,
                BufferLength=returned,
            )
        )
        data = None if body is None else create_string_buffer(body, len(body) + 1)
        structures = [
            create_string_buffer(each.pack()[: LAYOUTS[type(each)].length(each.Version)])
            for each in (md, gmo)
        ]
        consumer.function(
            self._hconn,
            addressof(structures[0]),
            addressof(structures[1]),
            None if data is None else addressof(data),
            addressof(cbc),
        )

    def _end_get(self, consumer: RegisteredCallback) -> None:
        """Cancel the get of a consumer; a message that it has taken is still delivered."""
        if consumer.under_way is not None and consumer.under_way.cancel():
            consumer.under_way = None

    def _finish(self) -> None:
        """Cancel all gets, deliver what they have taken, and tell those that want to know."""
        registered = list(self._consumers.values())
        for each in registered:
            self._end_get(each)
        for each in [*registered, *self._leaving]:
            while each.under_way is not None:
                if not self._done:
                    self._wait.for_change()
                if self._done:
                    self._deliver(*self._done.popleft())
        self._leaving.clear()
        for each in registered:
            self._tell(each, CMQC.MQCBDO_STOP_CALL, CMQC.MQCBCT_STOP_CALL)
        self._loop = None

"""Callbacks for messages and events, as in ibmmq: MQCB registers them, MQCTL runs them.

One thread of the connection calls them, one after the other. A callback of a queue has one get
under way at a time. Functions in Python are called as ibmmq calls them (CBD, CBC, CTLO), those of C
by ``libmqm.connections``. Source: IBM MQ 9.4, "MQCB" and "MQCTL".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mayfly.client.connection import Connection
from mayfly.client.connection.interface import UnderWay
from mayfly.client.connection.waits import Wait
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import byte, char, number
from mayfly.pymqi import CMQC
from mayfly.pymqi.errors import MQMIError
from mayfly.pymqi.structures import GMO, MD, MQOpts
from mayfly.pymqi.verbs import filled_in, get_request
from mayfly.runtime import Loop
from mayfly.verbs.messages import GetResult

_BROWSES: Final = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT


class RegisteredCallback:
    """A registered callback: of a queue, or of events of the connection (``handle`` MQHO_NONE).

    ``hobj`` is the handle that the program knows, ``handle`` that of the connection. ``function``
    and ``area`` are the program's. ``max_length`` is in bytes, None for messages of any length.
    ``md`` and ``gmo`` choose messages as in MQGET.
    """

    def __init__(
        self,
        hobj: int,
        handle: int,
        function: Callable[..., object],
        *,
        area: Any,
        options: int,
        max_length: int,
        md: MD,
        gmo: GMO,
    ) -> None:
        """Take a callback that has not been called; ``max_length`` below 0 is any length."""
        self.hobj, self.handle, self.function = hobj, handle, function
        self.area, self.options = area, options
        self.max_length = None if max_length < 0 else max_length
        self.md, self.gmo = MD(**md.get()), GMO(**gmo.get())
        self.is_suspended = False
        self.under_way: UnderWay | None = None


class Call(NamedTuple):
    """The context that a callback is given: why it is called (MQCBCT_*), and with which message.

    ``area`` is that of the connection (MQCTLO). ``body`` is None without a message; ``data_length``
    is that of the message in bytes, which is more than that of a body that is cut.
    """

    call_type: int
    comp: int
    reason: int
    md: MD
    gmo: GMO
    area: Any
    body: bytes | None = None
    data_length: int = 0


R = TypeVar("R", bound=RegisteredCallback)


class ConnectionCallbacks(Generic[R]):
    """The registered callbacks of one connection, and the thread that calls them."""

    def __init__(self, connection: Connection, call: Callable[[R, Call], object]) -> None:
        """Begin without callbacks, stopped; ``call`` calls the function of the program."""
        self._connection, self._call = connection, call
        self._consumers: dict[int, R] = {}
        #: Those that are deregistered while the message that they have taken is on its way.
        self._leaving: list[R] = []
        self._done: deque[tuple[R, GetResult | MQError]] = deque()
        self._wait = Wait(connection.runtime)
        #: Held while gets begin or a callback leaves: its queue must have no get left.
        self._beginning = connection.runtime.reentrant_lock("callbacks")
        self._loop: Loop | None = None
        self._is_stopping = self._is_lost = False
        self._area: object = 0

    @property
    def is_running(self) -> bool:
        """True from the start (MQCTL) until the thread has ended."""
        return self._loop is not None

    @property
    def thread(self) -> int | None:
        """The number of the thread that calls, None when stopped."""
        return None if self._loop is None else self._loop.ident

    def operate(self, operation: int, hobj: int, described: Callable[[], R]) -> None:
        """Register, deregister, suspend or resume the callback of an object (MQCB).

        ``described`` returns a new callback for the object, and may raise MQError. Raises MQError:
        MQRC_OPERATION_ERROR, MQRC_CALLBACK_NOT_REGISTERED.
        """
        pause = operation & (CMQC.MQOP_SUSPEND | CMQC.MQOP_RESUME)
        change = operation ^ pause
        is_both = pause == CMQC.MQOP_SUSPEND | CMQC.MQOP_RESUME
        if change not in (0, CMQC.MQOP_REGISTER, CMQC.MQOP_DEREGISTER) or is_both or not operation:
            raise mq_error(CMQC.MQRC_OPERATION_ERROR, f"MQCB operation {operation:#x}")
        if change == CMQC.MQOP_REGISTER:
            self.register(described())
        elif change == CMQC.MQOP_DEREGISTER:
            if not self.deregister(hobj):
                raise _not_registered(hobj)
            return
        if pause:
            self.suspend(hobj, is_suspended=pause == CMQC.MQOP_SUSPEND)

    def control(self, operation: int, area: object) -> None:
        """Start, stop, suspend or resume the calls (MQCTL); ``area`` is the ConnectionArea.

        Raises MQError: MQRC_OPERATION_ERROR, MQRC_HCONN_ASYNC_ACTIVE for a start while they run.
        """
        if operation in (CMQC.MQOP_START, CMQC.MQOP_START_WAIT):
            self.start(area, waits=operation == CMQC.MQOP_START_WAIT)
        elif operation == CMQC.MQOP_STOP:
            self.stop()
        elif operation in (CMQC.MQOP_SUSPEND, CMQC.MQOP_RESUME):
            for hobj in list(self._consumers):
                self.suspend(hobj, is_suspended=operation == CMQC.MQOP_SUSPEND)
        else:
            raise mq_error(CMQC.MQRC_OPERATION_ERROR, f"MQCTL operation {operation:#x}")

    def register(self, consumer: R) -> None:
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
        """Suspend the callback of an object, or with ``is_suspended`` False resume it.

        Raises MQRC_CALLBACK_NOT_REGISTERED if the object has none.
        """
        with self._beginning:
            found = self._consumers.get(hobj)
            if found is None:
                raise _not_registered(hobj)
            found.is_suspended = is_suspended
            if is_suspended:
                self._end_get(found)
        self._wait.wake()

    def start(self, area: object, *, waits: bool) -> None:
        """Start the thread; ``area`` is the ConnectionArea. ``waits`` returns when it has ended.

        Raises MQRC_HCONN_ASYNC_ACTIVE when it runs.
        """
        if self._loop is not None:
            raise mq_error(CMQC.MQRC_HCONN_ASYNC_ACTIVE, "the callbacks of the connection run")
        self._area, self._is_stopping = area, False
        loop = Loop(self._connection.runtime, self._turn, "mayfly-callbacks")
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

    def report(self, change: MQError) -> None:
        """Tell the event handler of a change of the connection, as MQRC_RECONNECTING.

        Any thread may call it; without a handler, or while no callbacks run, nothing happens.
        """
        handler = self._consumers.get(c.MQHO_NONE)
        if handler is not None and self.is_running:
            self._done.append((handler, change))
            self._wait.wake()

    def _turn(self) -> bool:
        """Begin the gets, wait, and call for one outcome; False at the end. Runs on the thread."""
        if self._is_stopping:
            self._finish()
            return False
        with self._beginning:
            for each in list(self._consumers.values()):
                if each.handle and each.under_way is None and not each.is_suspended:
                    self._begin(each)
        if not self._done:
            self._wait.for_change()
        if self._done:
            self._deliver(*self._done.popleft())
        return True

    def _begin(self, consumer: R) -> None:
        """Begin the next get of a consumer, which waits for ever unless its MQGMO has a wait."""
        gmo = GMO(**consumer.gmo.get())
        if not gmo.Options & c.MQGMO_WAIT:
            gmo.Options, gmo.WaitInterval = gmo.Options | c.MQGMO_WAIT, c.MQWI_UNLIMITED

        def on_done(outcome: GetResult | MQError) -> None:
            self._done.append((consumer, outcome))
            self._wait.wake()

        try:
            request = get_request(consumer.handle, consumer.max_length, consumer.md, gmo)
        except MQError as error:
            self._done.append((consumer, error))
            return
        consumer.under_way = self._connection.begin(request, on_done)

    def _deliver(self, consumer: R, outcome: GetResult | MQError) -> None:
        """Call a consumer with a message, or with the reason why there is none."""
        consumer.under_way = None
        if consumer in self._leaving:
            self._leaving.remove(consumer)
        if isinstance(outcome, MQError):
            if consumer.handle == c.MQHO_NONE:
                self._event(consumer, outcome)
            else:
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
        data_length = len(body) if length is None else length
        call = Call(call_type, comp, reason, md, gmo, self._area, body, data_length)
        self._call(consumer, call)

    def _fail(self, consumer: R, error: MQError) -> None:
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

    def _event(self, consumer: R, error: MQError) -> None:
        """Call a callback with an error in the place of a message."""
        told = Call(CMQC.MQCBCT_EVENT_CALL, error.comp, error.reason, MD(), GMO(), self._area)
        self._call(consumer, told)

    def _tell(self, consumer: R, option: int, call_type: int) -> None:
        """Call a callback that wants to know of a register, start, stop or deregister."""
        if consumer.options & option:
            told = Call(call_type, c.MQCC_OK, rc.MQRC_NONE, MD(), GMO(), self._area)
            self._call(consumer, told)

    def _end_get(self, consumer: R) -> None:
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


def _not_registered(hobj: int) -> MQError:
    """Return the error for an object without a callback."""
    return mq_error(CMQC.MQRC_CALLBACK_NOT_REGISTERED, f"object {hobj} has no callback")


# Callbacks for messages (MQCB, MQCTL), with the structures CBD, CBC and CTLO, as in ibmmq
#
# queue.cb(cbd=CBD(CallbackFunction=f), md=MD(), gmo=GMO()) registers a function, and
# qmgr.ctl(MQOP_START, CTLO()) starts the thread of the connection that calls it: with
# queue_manager, queue, md, gmo, msg and cbc. Callbacks of a connection come
# one after the other; meanwhile only they call its verbs. Source: IBM MQ 9.4, "MQCB" and "MQCTL".


class _WithObjects(MQOpts):
    """A structure some of whose fields are objects of the program, which C has as pointers."""

    _OBJECTS: tuple[str, ...] = ()

    def __init__(self, **kw: object) -> None:
        """Set initial values, the objects to 0, then the fields that ``kw`` names."""
        super().__init__()
        vars(self).update(dict.fromkeys(self._OBJECTS, 0))
        self.set(**kw)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._OBJECTS:
            vars(self)[name] = value
        else:
            super().__setattr__(name, value)

    def set(self, **kw: object) -> None:
        """Set fields by name, one after the other; a wrong one raises as in :class:`MQOpts`."""
        for name, value in kw.items():
            setattr(self, name, value)


class CBD(
    _WithObjects,
    fields=[
        char("StrucId", 4, "CBD "),
        number("Version", CMQC.MQCBD_VERSION_1),
        number("CallbackType", CMQC.MQCBT_MESSAGE_CONSUMER),
        number("Options", CMQC.MQCBDO_NONE),
        char("CallbackName", 128),
        number("MaxMsgLength", CMQC.MQCBD_FULL_MSG_LENGTH),
    ],
):
    """The descriptor of a callback, MQCBD: CallbackFunction, with CallbackArea for it."""

    _OBJECTS = ("CallbackFunction", "CallbackArea")


class CBC(
    _WithObjects,
    fields=[
        char("StrucId", 4, "CBC "),
        number("Version", CMQC.MQCBC_VERSION_2),
        number("CallType"),
        number("Hobj"),
        number("CompCode"),
        number("Reason"),
        number("State"),
        number("DataLength"),
        number("BufferLength"),
        number("Flags"),
        number("ReconnectDelay"),
    ],
):
    """Why a callback is called, MQCBC: CallType, Reason, and the areas of CBD and CTLO."""

    _OBJECTS = ("CallbackFunction", "CallbackArea", "ConnectionArea")


class CTLO(
    _WithObjects,
    fields=[
        char("StrucId", 4, "CTLO"),
        number("Version", CMQC.MQCTLO_VERSION_1),
        number("Options", CMQC.MQCTLO_NONE),
        byte("Reserved", 4),
    ],
):
    """The options of MQCTL, MQCTLO, with ConnectionArea for all callbacks of the connection."""

    _OBJECTS = ("ConnectionArea",)


class _PythonCallback(RegisteredCallback):
    """A registered function in Python; ``queue`` is None for that of events."""

    queue: object | None = None


class MessageConsumers:
    """The callbacks of one connection in the form of ibmmq."""

    def __init__(self, manager: object, connection: Connection) -> None:
        """Begin without callbacks, stopped; ``manager`` is handed to them, it is the connection."""
        self._manager = manager
        self._callbacks: ConnectionCallbacks[_PythonCallback] = ConnectionCallbacks(
            connection, self._call
        )

    def operate(
        self, operation: int, queue: object | None, handle: int, cbd: CBD, md: MD, gmo: GMO
    ) -> None:
        """Register, deregister, suspend or resume the callback of a queue (MQCB).

        ``queue`` None, with MQHO_NONE, is the event handler of the connection. A second callback
        of a queue replaces the first. Raises MQError: MQRC_OPERATION_ERROR,
        MQRC_CALLBACK_ROUTINE_ERROR for a CBD without a function, MQRC_CALLBACK_NOT_REGISTERED.
        """

        def described() -> _PythonCallback:
            if not callable(cbd.CallbackFunction):
                text = f"CBD.CallbackFunction {cbd.CallbackFunction!r}"
                raise mq_error(CMQC.MQRC_CALLBACK_ROUTINE_ERROR, text)
            made = _PythonCallback(
                handle,
                handle,
                cbd.CallbackFunction,
                area=cbd.CallbackArea,
                options=cbd.Options,
                max_length=cbd.MaxMsgLength,
                md=md,
                gmo=gmo,
            )
            made.queue = queue
            return made

        self._callbacks.operate(operation, handle, described)

    def control(self, operation: int, ctlo: CTLO) -> None:
        """Start, stop, suspend or resume the calls (MQCTL).

        A stop returns when no callback runs any more. Raises MQError: MQRC_OPERATION_ERROR,
        MQRC_HCONN_ASYNC_ACTIVE for a start while they run.
        """
        self._callbacks.control(operation, ctlo.ConnectionArea)

    def stop(self) -> None:
        """End the calls; a message that is got already is still handed over. Nothing if stopped."""
        self._callbacks.stop()

    def report(self, change: MQError) -> None:
        """Tell the event handler of a change of the connection; any thread may call it."""
        self._callbacks.report(change)

    def _call(self, consumer: _PythonCallback, call: Call) -> None:
        """Call the function of a consumer; an exception of it goes to the log."""
        cbc = CBC(
            CallType=call.call_type,
            Hobj=consumer.hobj,
            CompCode=call.comp,
            Reason=call.reason,
            DataLength=call.data_length,
            BufferLength=len(call.body or b""),
            CallbackFunction=consumer.function,
            CallbackArea=consumer.area,
            ConnectionArea=call.area,
        )
        consumer.function(
            queue_manager=self._manager,
            queue=consumer.queue,
            md=call.md,
            gmo=call.gmo,
            msg=call.body,
            cbc=cbc,
        )

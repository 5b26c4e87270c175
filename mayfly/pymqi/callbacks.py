"""Callbacks for messages (MQCB, MQCTL), with the structures CBD, CBC and CTLO, as in ibmmq.

``queue.cb(cbd=CBD(CallbackFunction=f), md=MD(), gmo=GMO())`` registers a function, and
``qmgr.ctl(MQOP_START, CTLO())`` starts the thread of the connection that calls it: with
``queue_manager``, ``queue``, ``md``, ``gmo``, ``msg`` and ``cbc``. Callbacks of a connection come
one after the other; meanwhile only they call its verbs. Source: IBM MQ 9.4, "MQCB" and "MQCTL".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

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

_OPERATIONS: Final = (CMQC.MQOP_REGISTER, CMQC.MQOP_DEREGISTER, CMQC.MQOP_SUSPEND, CMQC.MQOP_RESUME)
_BROWSES: Final = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT


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
    """What is called for which messages, MQCBD: CallbackFunction, with CallbackArea for it."""

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


class _RegisteredCallback:
    """One registered callback: of a queue, or without one of events of the connection."""

    def __init__(self, queue: object | None, handle: int, cbd: CBD, md: MD, gmo: GMO) -> None:
        """Take what is called, and copies of the structures of its gets."""
        self.queue, self.handle = queue, handle
        self.function: Callable[..., object] = cbd.CallbackFunction
        self.area = cbd.CallbackArea
        self.options = cbd.Options
        self.max_length = None if cbd.MaxMsgLength < 0 else cbd.MaxMsgLength
        self.md, self.gmo = MD(**md.get()), GMO(**gmo.get())
        self.is_suspended = False
        self.under_way: UnderWay | None = None


class MessageConsumers:
    """The registered callbacks of one connection, and the thread that calls them once started."""

    def __init__(self, manager: object, connection: Connection) -> None:
        """Begin without callbacks, stopped; ``manager`` is handed to them, it is the connection."""
        self._manager, self._connection = manager, connection
        self._by_handle: dict[int, _RegisteredCallback] = {}
        self._done: deque[tuple[_RegisteredCallback, GetResult | MQError]] = deque()
        self._wait = Wait(connection.runtime)
        #: Held while a get begins, or a callback leaves: its queue must have no get left.
        self._beginning = connection.runtime.lock("callbacks")
        self._loop: Loop | None = None
        self._is_stopping = False
        self._connection_area: object = 0

    def operate(
        self, operation: int, queue: object | None, handle: int, cbd: CBD, md: MD, gmo: GMO
    ) -> None:
        """Register, deregister, suspend or resume the callback of a queue (MQCB).

        ``queue`` None, with MQHO_NONE, is the event handler of the connection. Raises MQError:
        MQRC_OPERATION_ERROR, MQRC_CALLBACK_ROUTINE_ERROR for a CBD without a function,
        MQRC_CALLBACK_NOT_REGISTERED, MQRC_OBJECT_IN_USE for a second one of a queue.
        """
        if operation not in _OPERATIONS:
            raise mq_error(CMQC.MQRC_OPERATION_ERROR, f"MQCB operation {operation:#x}")
        found = self._by_handle.get(handle)
        if operation == CMQC.MQOP_REGISTER:
            if not callable(cbd.CallbackFunction):
                text = f"CBD.CallbackFunction {cbd.CallbackFunction!r}"
                raise mq_error(CMQC.MQRC_CALLBACK_ROUTINE_ERROR, text)
            if found is not None:
                raise mq_error(rc.MQRC_OBJECT_IN_USE, f"object {handle} has a callback")
            self._by_handle[handle] = made = _RegisteredCallback(queue, handle, cbd, md, gmo)
            self._tell(made, CMQC.MQCBDO_REGISTER_CALL, CMQC.MQCBCT_REGISTER_CALL)
        elif found is None:
            text = f"object {handle} has no callback"
            raise mq_error(CMQC.MQRC_CALLBACK_NOT_REGISTERED, text)
        elif operation == CMQC.MQOP_DEREGISTER:
            with self._beginning:
                del self._by_handle[handle]
                self._end_get(found)
            self._tell(found, CMQC.MQCBDO_DEREGISTER_CALL, CMQC.MQCBCT_DEREGISTER_CALL)
        else:
            with self._beginning:
                found.is_suspended = operation == CMQC.MQOP_SUSPEND
                if found.is_suspended:
                    self._end_get(found)
        self._wait.wake()

    def control(self, operation: int, ctlo: CTLO) -> None:
        """Start or stop calling (MQCTL); a stop returns when no callback runs any more.

        Raises MQError with MQRC_OPERATION_ERROR for another operation, as suspend.
        """
        if operation in (CMQC.MQOP_START, CMQC.MQOP_START_WAIT):
            self._connection_area = ctlo.ConnectionArea
            self._start()
            if operation == CMQC.MQOP_START_WAIT and self._loop is not None:
                self._loop.join()
        elif operation == CMQC.MQOP_STOP:
            self.stop()
        else:
            raise mq_error(CMQC.MQRC_OPERATION_ERROR, f"MQCTL operation {operation:#x}")

    def stop(self) -> None:
        """End the calls; a message that is got already is still handed over. Nothing if stopped."""
        loop = self._loop
        if loop is None:
            return
        self._is_stopping = True
        self._wait.wake()
        if loop.ident != self._connection.runtime.thread_id():
            loop.join()

    def _start(self) -> None:
        """Start the thread, unless it runs; tell those that want to know."""
        if self._loop is not None:
            return
        self._is_stopping = False
        for each in self._by_handle.values():
            self._tell(each, CMQC.MQCBDO_START_CALL, CMQC.MQCBCT_START_CALL)
        self._loop = Loop(self._connection.runtime, self._turn, "mayfly-callbacks")
        self._loop.start()

    def _turn(self) -> bool:
        """Begin what is to be got, wait, and call for one outcome; return False at the end."""
        if self._is_stopping:
            self._finish()
            return False
        with self._beginning:
            for each in self._by_handle.values():
                if each.queue is not None and each.under_way is None and not each.is_suspended:
                    self._begin(each)
        if not self._done:
            self._wait.for_change()
        if self._done:
            self._deliver(*self._done.popleft())
        return True

    def _begin(self, consumer: _RegisteredCallback) -> None:
        """Begin the next get of a consumer."""
        gmo = GMO(**consumer.gmo.get())
        if not gmo.Options & c.MQGMO_WAIT:
            gmo.Options, gmo.WaitInterval = gmo.Options | c.MQGMO_WAIT, c.MQWI_UNLIMITED
        request = get_request(consumer.handle, consumer.max_length, consumer.md, gmo)

        def on_done(outcome: GetResult | MQError) -> None:
            self._done.append((consumer, outcome))
            self._wait.wake()

        consumer.under_way = self._connection.begin(request, on_done)

    def _deliver(self, consumer: _RegisteredCallback, outcome: GetResult | MQError) -> None:
        """Call a consumer with a message, or with the reason why there is none."""
        consumer.under_way = None
        if isinstance(outcome, MQError):
            self._fail(consumer, outcome)
            return
        md, gmo = MD(**consumer.md.get()), GMO(**consumer.gmo.get())
        comp, reason = c.MQCC_OK, rc.MQRC_NONE
        try:
            body = filled_in(outcome, md, gmo, consumer.max_length)
        except MQMIError as warning:
            body, comp, reason = warning.message, warning.comp, warning.reason
        is_browse = bool(consumer.gmo.Options & _BROWSES)
        if consumer.gmo.Options & c.MQGMO_BROWSE_FIRST:
            consumer.gmo.Options ^= c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT
        call_type = CMQC.MQCBCT_MSG_NOT_REMOVED if is_browse else CMQC.MQCBCT_MSG_REMOVED
        self._call(consumer, call_type, comp, reason, partial(dict, md=md, gmo=gmo, msg=body))

    def _fail(self, consumer: _RegisteredCallback, error: MQError) -> None:
        """Tell a consumer why it has no message; the event handler, too, of a lost connection.

        A consumer whose get fails for another reason than an empty queue is suspended.
        """
        is_broken = error.reason == rc.MQRC_CONNECTION_BROKEN
        if error.reason != rc.MQRC_NO_MSG_AVAILABLE:
            consumer.is_suspended = True
        told = [consumer]
        if is_broken and c.MQHO_NONE in self._by_handle:
            told.append(self._by_handle[c.MQHO_NONE])
        for each in told:
            self._call(each, CMQC.MQCBCT_EVENT_CALL, error.comp, error.reason)
        if is_broken:
            self._is_stopping = True

    def _tell(self, consumer: _RegisteredCallback, option: int, call_type: int) -> None:
        """Call a consumer that wants to know of a register, start, stop or deregister."""
        if consumer.options & option:
            self._call(consumer, call_type, c.MQCC_OK, rc.MQRC_NONE)

    def _call(
        self,
        consumer: _RegisteredCallback,
        call_type: int,
        comp: int,
        reason: int,
        message: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Call the function of a consumer; an exception of it goes to the log."""
        given = {"md": MD(), "gmo": GMO(), "msg": None} if message is None else message()
        cbc = CBC(
            CallType=call_type,
            Hobj=consumer.handle,
            CompCode=comp,
            Reason=reason,
            DataLength=len(given["msg"] or b""),
            BufferLength=len(given["msg"] or b""),
            CallbackFunction=consumer.function,
            CallbackArea=consumer.area,
            ConnectionArea=self._connection_area,
        )
        consumer.function(queue_manager=self._manager, queue=consumer.queue, cbc=cbc, **given)

    def _end_get(self, consumer: _RegisteredCallback) -> None:
        """Cancel the get of a consumer; a message that it has taken already is still delivered."""
        if consumer.under_way is not None and consumer.under_way.cancel():
            consumer.under_way = None

    def _finish(self) -> None:
        """Cancel all gets, deliver what they have taken, and tell those that want to know."""
        for each in list(self._by_handle.values()):
            self._end_get(each)
            while each.under_way is not None:
                if not self._done:
                    self._wait.for_change()
                if self._done:
                    self._deliver(*self._done.popleft())
            self._tell(each, CMQC.MQCBDO_STOP_CALL, CMQC.MQCBCT_STOP_CALL)
        self._loop = None

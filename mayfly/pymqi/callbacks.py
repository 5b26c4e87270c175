"""Callbacks for messages (MQCB, MQCTL), with the structures CBD, CBC and CTLO, as in ibmmq.

``queue.cb(cbd=CBD(CallbackFunction=f), md=MD(), gmo=GMO())`` registers a function, and
``qmgr.ctl(MQOP_START, CTLO())`` starts the thread of the connection that calls it: with
``queue_manager``, ``queue``, ``md``, ``gmo``, ``msg`` and ``cbc``. Callbacks of a connection come
one after the other; meanwhile only they call its verbs. Source: IBM MQ 9.4, "MQCB" and "MQCTL".
"""

from __future__ import annotations

from mayfly.client.connection import Connection
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import byte, char, number
from mayfly.pymqi import CMQC
from mayfly.pymqi.consumers import Call, ConnectionCallbacks, RegisteredCallback
from mayfly.pymqi.structures import GMO, MD, MQOpts


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

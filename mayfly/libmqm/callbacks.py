"""Callbacks in C: a function of the program gets its message in structures of C.

While the callbacks of a connection run, only they call verbs of the connection.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, addressof, c_int32, c_void_p, create_string_buffer
from functools import partial
from typing import Any, Final, TypeAlias

from mayfly.client.connection import Connection
from mayfly.libmqm.memory import packed
from mayfly.libmqm.structures import CBC
from mayfly.pymqi.consumers import Call, ConnectionCallbacks, RegisteredCallback
from mayfly.pymqi.structures import GMO, MD

#: void callback(MQHCONN, MQMD *, MQGMO *, void *buffer, MQCBC *).
_FUNCTION: Final = CFUNCTYPE(None, c_int32, c_void_p, c_void_p, c_void_p, c_void_p)
#: The callbacks of a connection of a C program.
Callbacks: TypeAlias = ConnectionCallbacks[RegisteredCallback]


def callbacks_of(connection: Connection, hconn: int) -> Callbacks:
    """Return the callbacks of a new connection: none, stopped; ``hconn`` is handed to each."""
    return ConnectionCallbacks(connection, partial(_call, hconn))


def c_callback(
    hobj: int, handle: int, description: dict[str, Any], md: MD, gmo: GMO
) -> RegisteredCallback:
    """Return the callback that the fields of an MQCBD describe, for an object of the program.

    ``hobj`` is the handle that the program knows, ``handle`` that of the connection, MQHO_NONE for
    events. ``md`` and ``gmo`` choose messages.
    """
    return RegisteredCallback(
        hobj,
        handle,
        _FUNCTION(description["CallbackFunction"]),
        area=description["CallbackArea"],
        options=description["Options"],
        max_length=description["MaxMsgLength"],
        md=md,
        gmo=gmo,
    )


def _call(hconn: int, consumer: RegisteredCallback, call: Call) -> None:
    """Call a function of the program; what it is handed is there until it returns."""
    cbc = create_string_buffer(
        CBC.pack(
            CallType=call.call_type,
            Hobj=consumer.hobj,
            CallbackArea=consumer.area or 0,
            ConnectionArea=call.area or 0,
            CompCode=call.comp,
            Reason=call.reason,
            DataLength=call.data_length,
            BufferLength=len(call.body or b""),
        )
    )
    data = None if call.body is None else create_string_buffer(call.body, len(call.body) + 1)
    md, gmo = (create_string_buffer(packed(each)) for each in (call.md, call.gmo))
    consumer.function(
        hconn,
        addressof(md),
        addressof(gmo),
        None if data is None else addressof(data),
        addressof(cbc),
    )

"""pymqi's Queue: an open queue; it opens itself for the first verb that is called."""

from __future__ import annotations

import contextlib
from typing import Any

from mayfly.engine import text_length
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.pymqi.connection import QueueManager
from mayfly.pymqi.errors import MQMIError, PYIFError, mqmi_error, warning
from mayfly.pymqi.opening import body_and_options, od_of, open_object, text_of, two_of
from mayfly.pymqi.rfh2 import header_list, put_parts, take_headers
from mayfly.pymqi.structures import GMO, MD, OD
from mayfly.pymqi.verbs import get_message, put_message
from mayfly.verbs.requests import Opened


class Queue:
    """A queue of a connection, by name or OD; with open options it is opened at once.

    An OD may also name a process or the queue manager, to inquire about it.
    """

    _opened: Opened | None = None
    _od: OD | None = None

    def __init__(self, qMgr: QueueManager, *opts: Any) -> None:
        """Take a connection, then optionally a name or OD, then optionally MQOO options."""
        if len(opts) > 2:
            raise TypeError(f"a queue and open options may follow, not {len(opts)} arguments")
        self._connection = qMgr
        if opts:
            self.open(*opts)

    def open(self, qDesc: str | bytes | OD, *opts: int) -> None:
        """MQOPEN with options, else note what to open; raises PYIFError when open already."""
        if len(opts) > 1:
            raise TypeError(f"open options may follow, not {len(opts)} arguments")
        if self._opened is not None:
            raise PYIFError("The Queue is already open")
        self._od = od_of(qDesc)
        if opts:
            self._open_for(opts[0])

    def put(self, msg: str | bytes, *opts: Any) -> None:
        """MQPUT; ``opts`` are an MD and a PMO, updated in place.

        Raises MQMIError, for a warning as well: the message has been put then. TypeError for a body
        that is neither bytes nor str.
        """
        connection = self._connection
        mq = connection.get_handle()
        body, md, pmo = body_and_options(
            msg, opts, connection.bytes_encoding, connection.default_ccsid
        )
        opened = self._opened
        if opened is None:
            opened = self._open_for(c.MQOO_OUTPUT)
        put_message(mq, opened, body, md, pmo)

    def get(self, maxLength: int | None = None, *opts: Any) -> bytes:
        """MQGET; ``opts`` are an MD and a GMO, updated in place.

        Without a length the whole message is returned, but accepting truncation it is cut to
        nothing, as pymqi does. Raises MQMIError, for a warning as well: ``message`` then holds what
        was returned and ``original_length`` how long it is.
        """
        mq = self._connection.get_handle()
        if maxLength is not None and not isinstance(maxLength, int):
            raise TypeError(f"a length is an integer, not {type(maxLength).__name__}")
        md, gmo = two_of(opts, MD, GMO)
        if maxLength is None and gmo.Options & c.MQGMO_ACCEPT_TRUNCATED_MSG:
            maxLength = 0
        opened = self._opened
        if opened is None:
            opened = self._open_for(c.MQOO_INPUT_AS_Q_DEF)
        return get_message(mq, opened.handle, maxLength, md, gmo)

    def get_no_jms(self, max_length: int | None = None, *args: Any) -> bytes:
        """Get without the properties of the message."""
        md, gmo = two_of(args, MD, GMO)
        gmo.Options |= c.MQGMO_NO_PROPERTIES | c.MQGMO_FAIL_IF_QUIESCING
        return self.get(max_length, md, gmo)

    get_no_rfh2 = get_no_jms

    def put_rfh2(self, msg: str | bytes, *opts: Any) -> None:
        """Put behind the RFH2 headers that stand in a list after MD and PMO, as ``put``."""
        msg, opts = put_parts(msg, opts)
        self.put(msg, *opts)

    def get_rfh2(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get, and move RFH2 headers to the list that follows MD and GMO, as ``get``.

        Raises PYIFError for a header that cannot be read: the message has been got then.
        """
        headers = header_list(opts)
        md, gmo = two_of(opts[:2], MD, GMO)
        msg = self.get(max_length, md, gmo)
        return msg if headers is None else take_headers(msg, md, headers)

    def close(self, options: int = c.MQCO_NONE) -> None:
        """MQCLOSE with MQCO options; raises PYIFError when not open."""
        if self._opened is None:
            raise PYIFError("not open")
        mq = self._connection.get_handle()
        try:
            reason = mq.close_object(self._opened.handle, options)
        except MQError as error:
            raise mqmi_error(error) from error
        self._opened = self._od = None
        if reason:
            raise warning(reason)

    def inquire(self, attribute: int) -> int | bytes:
        """MQINQ: a number, or text blank padded to its length; opens for inquiry if need be."""
        mq = self._connection.get_handle()
        opened = self._opened
        if opened is None:
            opened = self._open_for(c.MQOO_INQUIRE)
        try:
            inquiry = mq.objects.inquire(opened.handle, [attribute])
        except MQError as error:
            raise mqmi_error(error) from error
        (value,) = inquiry.values
        if value is None:
            raise warning(inquiry.warning)
        return value if isinstance(value, int) else value.encode().ljust(text_length(attribute))

    def set(self, attribute: int, arg: int | str | bytes) -> None:
        """MQSET of one attribute, as ``set_attributes``; opens the queue for it if need be."""
        mq = self._connection.get_handle()
        opened = self._opened
        if opened is None:
            opened = self._open_for(c.MQOO_SET)
        try:
            value = arg if isinstance(arg, int) else text_of(arg)
            mq.objects.set(opened.handle, {attribute: value})
        except MQError as error:
            raise mqmi_error(error) from error

    def set_handle(self, queue_handle: int | None) -> None:
        """Use the handle of another Queue of this connection."""
        self._opened = None
        if queue_handle is not None:
            self._opened = Opened(queue_handle, c.MQOT_Q, "", "")

    def get_handle(self) -> int | None:
        """Return the handle, as PMO.Context takes it; None while the queue is not open."""
        return None if self._opened is None else self._opened.handle

    def __del__(self) -> None:
        """Close quietly."""
        if self._opened is not None:
            self._connection.end_dropped(self._close_quietly, self._opened.handle)

    def _close_quietly(self) -> None:
        with contextlib.suppress(MQMIError, PYIFError):
            self.close()

    def _open_for(self, options: int) -> Opened:
        if self._od is None:
            raise PYIFError("The Queue Descriptor has not been set.")
        self._opened = open_object(self._connection.get_handle(), self._od, options)
        return self._opened

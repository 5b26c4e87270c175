"""pymqi's Topic: a topic to publish to and to subscribe to; it opens itself for the first pub."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Self

from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.pymqi.connection import QueueManager
from mayfly.pymqi.errors import MQMIError, PYIFError, mqmi_error
from mayfly.pymqi.opening import body_and_options, open_object
from mayfly.pymqi.rfh2 import put_parts
from mayfly.pymqi.structures import OD, SD
from mayfly.pymqi.subscription import QueueGiven, Subscription
from mayfly.pymqi.verbs import put_message
from mayfly.verbs.requests import Opened


class Topic:
    """A topic of a connection: the string of a topic object, a topic string, or both in a row.

    With open options it is opened at once. In a ``with`` block it is closed at the end of it.
    """

    _opened: Opened | None = None

    def __init__(
        self,
        queue_manager: QueueManager,
        topic_name: str | bytes | None = None,
        topic_string: str | bytes | None = None,
        topic_desc: OD | None = None,
        open_opts: int | None = None,
    ) -> None:
        """Take a connection, and either names or an OD of version 4 for a topic."""
        self._connection = queue_manager
        self.topic_name = topic_name
        self.topic_string = topic_string
        self._desc: OD | None = None
        self._set_desc(topic_desc)
        if open_opts:
            self._open_for(open_opts)

    def open(
        self,
        topic_name: str | bytes | None = None,
        topic_string: str | bytes | None = None,
        topic_desc: OD | None = None,
        open_opts: int | None = None,
    ) -> Self:
        """MQOPEN with options, else note the topic to open; arguments left out stay as they were.

        Raises PYIFError when open already, MQMIError MQRC_TOPIC_STRING_ERROR,
        MQRC_UNKNOWN_OBJECT_NAME and the others of an open.
        """
        if self._opened is not None:
            raise PYIFError("The Topic is already open.")
        self.topic_name = topic_name or self.topic_name
        self.topic_string = topic_string or self.topic_string
        self._set_desc(topic_desc)
        if open_opts:
            self._open_for(open_opts)
        return self

    def pub(self, msg: str | bytes, *opts: Any) -> None:
        """Publish; ``opts`` are an MD and a PMO, updated in place.

        MD.Expiry is the life of each subscriber's copy, in tenths of a second. Raises MQMIError,
        for a warning as well: it has been published then.
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

    def pub_rfh2(self, msg: str | bytes, *opts: Any) -> None:
        """Publish behind the RFH2 headers that stand in a list after MD and PMO, as ``pub``."""
        msg, opts = put_parts(msg, opts)
        self.pub(msg, *opts)

    def sub(self, sub_desc: SD | None = None, sub_queue: QueueGiven | None = None) -> Subscription:
        """Subscribe to this topic; an SD says by itself to which."""
        subscription = Subscription(self._connection)
        return subscription.sub(
            sub_desc, sub_queue, topic_name=self.topic_name, topic_string=self.topic_string
        )

    def close(self, options: int = c.MQCO_NONE) -> None:
        """MQCLOSE; raises PYIFError when not open."""
        if self._opened is None:
            raise PYIFError("Topic not open.")
        mq = self._connection.get_handle()
        try:
            mq.close_object(self._opened.handle, options)
        except MQError as error:
            raise mqmi_error(error) from error
        self._opened = self._desc = None

    def __enter__(self) -> Self:
        """Return the topic."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it if it is open; an exception from inside stays the one to see."""
        if self._opened is None:
            return
        with contextlib.suppress(MQMIError) if kind is not None else contextlib.nullcontext():
            self.close()

    def __del__(self) -> None:
        """Close quietly."""
        if self._opened is not None:
            self._connection.end_dropped(self._close_quietly, self._opened.handle)

    def _close_quietly(self) -> None:
        with contextlib.suppress(MQMIError, PYIFError):
            self.close()

    def _set_desc(self, desc: OD | None) -> None:
        if desc is None:
            desc = OD(ObjectType=c.MQOT_TOPIC, Version=c.MQOD_VERSION_4)
            if self.topic_name:
                desc.ObjectName = self.topic_name
            if self.topic_string:
                desc.set_vs("ObjectString", self.topic_string)
        elif desc.ObjectType != c.MQOT_TOPIC:
            raise PYIFError("The Topic Descriptor ObjectType is not MQOT_TOPIC.")
        elif desc.Version != c.MQOD_VERSION_4:
            raise PYIFError("The Topic Descriptor Version is not MQOD_VERSION_4.")
        self._desc = desc

    def _open_for(self, options: int) -> Opened:
        if self._desc is None:
            raise PYIFError("The Topic Descriptor has not been set.")
        self._opened = open_object(self._connection.get_handle(), self._desc, options)
        return self._opened

"""pymqi's Subscription: a subscription of a connection, and the queue its publications come to."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Self, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi.connection import QueueManager
from mayfly.pymqi.errors import MQMIError, PYIFError, mqmi_error
from mayfly.pymqi.queue import Queue
from mayfly.pymqi.structures import SD, SRO
from mayfly.pymqi.subscribing import subscribe
from mayfly.verbs.requests import Subscribed

#: MQSR_ACTION_PUBLICATION, the only action there is.
_RETAINED = 1
#: A queue of a program's own: as an object, as what get_handle returned, or by its name.
QueueGiven: TypeAlias = Queue | int | str | bytes
_KEEP_OR_REMOVE = c.MQCO_KEEP_SUB | c.MQCO_REMOVE_SUB


class Subscription:
    """A subscription, made, resumed or altered by :meth:`sub`; with an SD, at once.

    In a ``with`` block it is closed at the end of it, and its queue as well.
    """

    _opened: Subscribed | None = None
    sub_queue: Queue | None = None

    def __init__(
        self,
        queue_manager: QueueManager,
        sub_desc: SD | None = None,
        sub_name: str | bytes | None = None,
        sub_queue: QueueGiven | None = None,
        sub_opts: int | None = None,
        topic_name: str | bytes | None = None,
        topic_string: str | bytes | None = None,
    ) -> None:
        """Take a connection, and what :meth:`sub` is to begin with."""
        self._connection = queue_manager
        self._given = sub_queue
        self.sub_name = sub_name
        self.sub_opts = sub_opts
        self.topic_name = topic_name
        self.topic_string = topic_string
        if sub_desc is not None:
            self.sub(sub_desc)

    def sub(
        self,
        sub_desc: SD | None = None,
        sub_queue: QueueGiven | None = None,
        sub_name: str | bytes | None = None,
        sub_opts: int | None = None,
        topic_name: str | bytes | None = None,
        topic_string: str | bytes | None = None,
    ) -> Self:
        """MQSUB; an SD says everything itself, else one is made of the names and options.

        Without options that is a new one, managed and not durable. A queue that is given as a name
        is opened for input. The SD is filled in: Options, SubCorrelId, SubExpiry, PubPriority, and
        SubUserData, SelectionString and ResObjectString where there is a buffer for them. One that
        is open already may be altered by its name, and nothing else. Raises MQMIError with the
        reasons of ``subscribing.subscribe``.
        """
        self.topic_name = topic_name or self.topic_name
        self.topic_string = topic_string or self.topic_string
        self.sub_name = sub_name or self.sub_name
        self.sub_opts = sub_opts or self.sub_opts
        if sub_desc is None:
            sub_desc = self._new_desc()
        elif not isinstance(sub_desc, SD):
            raise TypeError(f"sub_desc is an SD, not {type(sub_desc).__name__}")
        connection = self._connection
        mq = connection.get_handle()
        if self._opened is not None and not _alters(sub_desc, self._opened):
            raise PYIFError("Subscription is already open.")
        given = self._given if sub_queue is None else sub_queue
        if isinstance(given, (str, bytes)):
            given = Queue(connection, given, c.MQOO_INPUT_AS_Q_DEF)
        try:
            self._opened = opened = subscribe(
                mq,
                sub_desc,
                _handle_of(given),
                altered=self._opened,
                held=c.MQHO_NONE if given is not None else self._open_handle(),
            )
        except MQError as error:
            raise mqmi_error(error) from error
        for queue in (given, self.sub_queue):
            if isinstance(queue, Queue) and queue.get_handle() == opened.handle:
                self.sub_queue = queue
                return self
        self.sub_queue = Queue(connection)
        self.sub_queue.set_handle(opened.handle)
        return self

    def get_sub_queue(self) -> Queue | None:
        """Return the queue of the subscription, None while there is none."""
        return self.sub_queue

    def get(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get the next publication, as Queue.get does: ``opts`` are an MD and a GMO."""
        return self._queue().get(max_length, *opts)

    def get_no_jms(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get the next publication without its properties."""
        return self._queue().get_no_jms(max_length, *opts)

    get_no_rfh2 = get_no_jms

    def get_rfh2(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get the next publication; its RFH2 headers go to the list that follows MD and GMO."""
        return self._queue().get_rfh2(max_length, *opts)

    def subrq(self, sub_action: int = _RETAINED, sro: SRO | None = None) -> None:
        """MQSUBRQ, as ibmmq has it: ask for what is retained; ``sro.NumPubs`` says how many came.

        Raises PYIFError when not open, MQMIError MQRC_NO_RETAINED_MSG, MQRC_ACTION_ERROR,
        MQRC_SRO_ERROR, MQRC_OPTIONS_ERROR.
        """
        if self._opened is None:
            raise PYIFError("Subscription not open.")
        mq = self._connection.get_handle()
        sro = SRO() if sro is None else sro
        try:
            _check_request(sub_action, sro)
            sro.NumPubs = mq.topics.request_retained(self._opened.number)
        except MQError as error:
            raise mqmi_error(error) from error

    def close(
        self,
        sub_close_options: int = c.MQCO_NONE,
        close_sub_queue: bool = False,
        close_sub_queue_options: int = c.MQCO_NONE,
    ) -> None:
        """MQCLOSE of the subscription, and of its queue if that is wanted.

        A durable one stays, unless MQCO_REMOVE_SUB ends it. Its messages can be got as long as
        the queue is open. Raises PYIFError when not open, MQMIError MQRC_OPTIONS_ERROR,
        MQRC_OPTION_NOT_VALID_FOR_TYPE for MQCO_KEEP_SUB where nothing can be kept.
        """
        opened = self._opened
        if opened is None:
            raise PYIFError("Subscription not open.")
        mq = self._connection.get_handle()
        try:
            _check_close(opened, sub_close_options)
            remove = bool(sub_close_options & c.MQCO_REMOVE_SUB)
            mq.topics.close(opened.number, remove=remove)
        except MQError as error:
            raise mqmi_error(error) from error
        self._opened = None
        if close_sub_queue:
            self._queue().close(close_sub_queue_options)

    def __enter__(self) -> Self:
        """Return the subscription."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it and its queue if they are open; an exception from inside is the one to see."""
        with contextlib.suppress(MQMIError) if kind is not None else contextlib.nullcontext():
            if self._opened is not None:
                self.close()
            if self._open_handle():
                self._queue().close()

    def __del__(self) -> None:
        """Close quietly."""
        if self._opened is not None:
            self._connection.end_dropped(self._close_quietly)

    def _close_quietly(self) -> None:
        with contextlib.suppress(MQMIError, PYIFError):
            self.close()

    def _queue(self) -> Queue:
        if self.sub_queue is None:
            raise PYIFError("Subscription not open.")
        return self.sub_queue

    def _open_handle(self) -> int:
        """Return the handle of its queue, MQHO_NONE when that is not open."""
        handle = _handle_of(self.sub_queue)
        is_open = handle and self._connection.get_handle().has_open(handle)
        return handle if is_open else c.MQHO_NONE

    def _new_desc(self) -> SD:
        made = c.MQSO_CREATE | c.MQSO_NON_DURABLE | c.MQSO_MANAGED
        desc = SD(Options=self.sub_opts or made)
        if self.sub_name:
            desc.set_vs("SubName", self.sub_name)
        if self.topic_name:
            desc.ObjectName = self.topic_name
        if self.topic_string:
            desc.set_vs("ObjectString", self.topic_string)
        return desc


def _alters(sub_desc: SD, opened: Subscribed) -> bool:
    name = (sub_desc.get_vs("SubName") or b"").decode(errors="replace")
    return bool(sub_desc.Options & c.MQSO_ALTER) and name == opened.facts.name


def _handle_of(given: Queue | int | None) -> int:
    """Return the handle of a queue that is given as such or as its handle; MQHO_NONE for none."""
    handle = given.get_handle() if isinstance(given, Queue) else given
    return c.MQHO_NONE if handle is None else handle


def _check_request(action: int, sro: SRO) -> None:
    if action != _RETAINED:
        raise mq_error(rc.MQRC_ACTION_ERROR, f"sub_action {action}")
    if sro.StrucId != b"SRO " or sro.Version != 1:
        raise mq_error(rc.MQRC_SRO_ERROR, f"StrucId {sro.StrucId!r}, Version {sro.Version}")
    if sro.Options & ~c.MQSO_FAIL_IF_QUIESCING:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"SRO.Options {sro.Options:#x}")


def _check_close(opened: Subscribed, options: int) -> None:
    both = options & _KEEP_OR_REMOVE == _KEEP_OR_REMOVE
    if both or options & ~(_KEEP_OR_REMOVE | c.MQCO_QUIESCE):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"close options {options:#x} for a subscription")
    if options & c.MQCO_KEEP_SUB and not opened.facts.is_durable:
        said = "MQCO_KEEP_SUB: the subscription is not durable"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)

"""Objects of pymqi that a program opens on a connection: Queue, Topic and Subscription."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias, overload

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.pymqi import CMQC
from mayfly.pymqi.connection import QueueManager
from mayfly.pymqi.consumers import CBD
from mayfly.pymqi.errors import MQMIError, PYIFError, raises_mqmi, warning
from mayfly.pymqi.headers import header_list, put_parts, take_headers
from mayfly.pymqi.structures import GMO, MD, OD, SD, SRO, check_structure
from mayfly.pymqi.verbs import (
    body_and_options,
    get_message,
    md_and,
    od_of,
    open_object,
    padded_attribute,
    put_message,
    subscribe,
    text_of,
)
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Opened, Subscribed


class _Openable:
    """A queue or topic: an OD, and a handle, which the first verb that needs the handle opens."""

    _WHAT: ClassVar[str]
    _NOT_OPEN: ClassVar[str]
    _connection: QueueManager
    _opened: Opened | None = None
    _od: OD | None = None

    @raises_mqmi
    def close(self, options: int = c.MQCO_NONE) -> None:
        """Close the object (MQCLOSE) with MQCO options.

        Raises PYIFError when not open, MQMIError if the close fails. It raises MQMIError also for a
        warning; the object is then closed.
        """
        if self._opened is None:
            raise PYIFError(self._NOT_OPEN)
        reason = self._connection.connection().call(ask.CloseObject(self._opened.handle, options))
        self._opened = self._od = None
        if reason:
            raise warning(reason)

    def __del__(self) -> None:
        if self._opened is not None:
            self._connection.end_dropped(self._close_quietly, self._opened.handle)

    def _close_quietly(self) -> None:
        """Close the object, for garbage collection; errors are ignored."""
        with contextlib.suppress(MQMIError, PYIFError):
            self.close()

    def _put(self, msg: str | bytes, opts: tuple[Any, ...]) -> None:
        """Put or publish a message (MQPUT); ``opts`` are an MD and a PMO, updated in place.

        Opens the object for output if needed. Raises MQMIError, also for a warning, PYIFError
        without an OD, TypeError for wrong arguments.
        """
        connection = self._connection
        mq = connection.connection()
        body, md, pmo = body_and_options(
            msg, opts, connection.bytes_encoding, connection.default_ccsid
        )
        put_message(mq, self._opened or self._open_for(c.MQOO_OUTPUT), body, md, pmo)

    def _open_for(self, options: int) -> Opened:
        """Open the object with these MQOO options, remember the handle and return what was opened.

        Raises PYIFError without an OD, MQMIError with the reason codes of MQOPEN.
        """
        if self._od is None:
            raise PYIFError(f"The {self._WHAT} Descriptor has not been set.")
        self._opened = open_object(self._connection.connection(), self._od, options)
        return self._opened


class Queue(_Openable):
    """A queue of a connection, by name or OD; with open options it is opened at once.

    An OD may also name a process or the queue manager, for inquiries.
    """

    _WHAT, _NOT_OPEN = "Queue", "not open"

    def __init__(self, qMgr: QueueManager, *opts: Any) -> None:
        """Take a connection, optionally a queue name or OD, and optionally MQOO options.

        With options the queue is opened at once. Raises TypeError for more arguments, and the
        errors of :meth:`open`.
        """
        if len(opts) > 2:
            raise TypeError(f"a queue and open options may follow, not {len(opts)} arguments")
        self._connection = qMgr
        if opts:
            self.open(*opts)

    def open(self, qDesc: str | bytes | OD, *opts: int) -> None:
        """Open (MQOPEN) with MQOO options; without options the first verb that needs it opens.

        Raises PYIFError if already open, TypeError for wrong arguments, MQMIError with the reason
        codes of MQOPEN.
        """
        if len(opts) > 1:
            raise TypeError(f"open options may follow, not {len(opts)} arguments")
        if self._opened is not None:
            raise PYIFError("The Queue is already open")
        self._od = od_of(qDesc)
        if opts:
            self._open_for(opts[0])

    def put(self, msg: str | bytes, *opts: Any) -> None:
        """Put a message (MQPUT); ``opts`` are an MD and a PMO, updated in place.

        Opens the queue for output if needed. Raises MQMIError, also for a warning: the message is
        then put. Raises TypeError for a body that is neither bytes nor str.
        """
        self._put(msg, opts)

    def get(self, maxLength: int | None = None, *opts: Any) -> bytes:
        """Get a message (MQGET) and return its body.

        ``opts`` are an MD and a GMO, updated in place. Opens the queue for input if needed.
        WaitInterval of the GMO says how long the call may block. ``maxLength`` is in bytes; None
        returns the complete message. With MQGMO_ACCEPT_TRUNCATED_MSG, None means 0, as in pymqi.
        Raises MQMIError, with MQRC_NO_MSG_AVAILABLE without a message. It is raised also for a
        warning: its ``message`` is then the returned body and ``original_length`` the full length.
        """
        mq = self._connection.connection()
        if maxLength is not None and not isinstance(maxLength, int):
            raise TypeError(f"a length is an integer, not {type(maxLength).__name__}")
        md, gmo = md_and(GMO, opts)
        if maxLength is None and gmo.Options & c.MQGMO_ACCEPT_TRUNCATED_MSG:
            maxLength = 0
        opened = self._opened or self._open_for(c.MQOO_INPUT_AS_Q_DEF)
        return get_message(mq, opened.handle, maxLength, md, gmo)

    def get_no_jms(self, max_length: int | None = None, *args: Any) -> bytes:
        """Get a message as :meth:`get` does, without its properties (MQGMO_NO_PROPERTIES).

        Adds this option and MQGMO_FAIL_IF_QUIESCING to the GMO.
        """
        md, gmo = md_and(GMO, args)
        gmo.Options |= c.MQGMO_NO_PROPERTIES | c.MQGMO_FAIL_IF_QUIESCING
        return self.get(max_length, md, gmo)

    get_no_rfh2 = get_no_jms

    def put_rfh2(self, msg: str | bytes, *opts: Any) -> None:
        """Put a message as :meth:`put` does, after RFH2 headers.

        ``opts`` are MD, PMO and the list of headers. Raises TypeError if the third is no list of
        RFH2.
        """
        msg, opts = put_parts(msg, opts)
        self.put(msg, *opts)

    def get_rfh2(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get a message as :meth:`get` does; return the data after its RFH2 headers.

        ``opts`` are MD, GMO and a list to which the headers are moved; without the list the body
        stays complete. Raises PYIFError for a damaged header: the message has been got then.
        """
        headers = header_list(opts)
        md, gmo = md_and(GMO, opts[:2])
        msg = self.get(max_length, md, gmo)
        return msg if headers is None else take_headers(msg, md, headers)

    @overload
    def inquire(self, attribute: int) -> int | bytes: ...
    @overload
    def inquire(self, attribute: list[int]) -> dict[int, int | bytes]: ...
    @raises_mqmi
    def inquire(self, attribute: int | list[int]) -> int | bytes | dict[int, int | bytes]:
        """Return an attribute (MQINQ): a number, or text padded with blanks; for a list, several.

        Several are by their numbers, as in ibmmq. Opens the queue if needed. Raises MQMIError, as a
        warning with MQRC_SELECTOR_NOT_FOR_TYPE if this type of queue has no such attribute.
        """
        mq = self._connection.connection()
        opened = self._opened or self._open_for(c.MQOO_INQUIRE)
        wanted = attribute if isinstance(attribute, list) else [attribute]
        inquiry = mq.call(ask.Inquire(opened.handle, wanted))
        found = {}
        for each, value in zip(wanted, inquiry.values, strict=True):
            if value is None:
                raise warning(inquiry.warning)
            found[each] = padded_attribute(each, value)
        return found if isinstance(attribute, list) else found[attribute]

    inq = inquire

    @raises_mqmi
    def set(
        self, attribute: int | dict[int, int | str | bytes], arg: int | str | bytes = 0
    ) -> None:
        """Set one attribute (MQSET) to a number or text, or several by a dictionary, as in ibmmq.

        Opens the queue for this if needed. Raises MQMIError, such as MQRC_SELECTOR_ERROR for an
        unknown attribute; none is set then.
        """
        mq = self._connection.connection()
        opened = self._opened or self._open_for(c.MQOO_SET)
        given = attribute if isinstance(attribute, dict) else {attribute: arg}
        values = {k: v if isinstance(v, int) else text_of(v) for k, v in given.items()}
        mq.call(ask.Set.of(opened.handle, values))

    @raises_mqmi
    def cb(
        self,
        *,
        operation: int = CMQC.MQOP_REGISTER,
        cbd: CBD | None = None,
        md: MD | None = None,
        gmo: GMO | None = None,
    ) -> None:
        """Register a callback for messages of the queue (MQCB), or end it; as in ibmmq.

        ``md`` and ``gmo`` choose messages as in a get. Opens the queue for input if needed. Raises
        MQMIError with the reason codes of ``MessageConsumers.operate``.
        """
        opened = self._opened or self._open_for(c.MQOO_INPUT_AS_Q_DEF)
        structures = (cbd or CBD(), md or MD(), gmo or GMO())
        self._connection.consumers().operate(operation, self, opened.handle, *structures)

    def get_name(self) -> str:
        """Return the name of the queue, as in ibmmq; empty without an OD."""
        return "" if self._od is None else text_of(self._od.ObjectName)

    def get_queue_manager(self) -> QueueManager:
        """Return the connection that the queue belongs to, as in ibmmq."""
        return self._connection

    def set_handle(self, queue_handle: int | None) -> None:
        """Use the handle of another Queue of this connection; None forgets the handle unclosed."""
        self._opened = None
        if queue_handle is not None:
            self._opened = Opened(queue_handle, c.MQOT_Q, "", "")

    def get_handle(self) -> int | None:
        """Return the handle, as PMO.Context needs it; None while the queue is not open."""
        return None if self._opened is None else self._opened.handle


#: MQSR_ACTION_PUBLICATION, the only action there is.
_RETAINED = 1
#: A queue of a program's own: as an object, as what get_handle returned, or by its name.
QueueGiven: TypeAlias = Queue | int | str | bytes
_KEEP_OR_REMOVE = c.MQCO_KEEP_SUB | c.MQCO_REMOVE_SUB


class Subscription:
    """A subscription, which :meth:`sub` makes, resumes or alters; with an SD this happens at once.

    The end of a ``with`` block closes it and its queue.
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
        """Take a connection and the default arguments of :meth:`sub`.

        ``sub_desc`` is an SD, ``sub_opts`` are MQSO options, ``topic_name`` is a topic object and
        ``topic_string`` the string after its own. With an SD it calls :meth:`sub` at once, and
        raises its errors.
        """
        self._connection = queue_manager
        self._given = sub_queue
        self.sub_name = sub_name
        self.sub_opts = sub_opts
        self.topic_name = topic_name
        self.topic_string = topic_string
        if sub_desc is not None:
            self.sub(sub_desc)

    @raises_mqmi
    def sub(
        self,
        sub_desc: SD | None = None,
        sub_queue: QueueGiven | None = None,
        sub_name: str | bytes | None = None,
        sub_opts: int | None = None,
        topic_name: str | bytes | None = None,
        topic_string: str | bytes | None = None,
    ) -> Self:
        """Make, resume or alter a subscription (MQSUB), by an SD or by names and options.

        Returns the Subscription itself. ``sub_opts`` are MQSO options, ``topic_name`` is a topic
        object, ``topic_string`` the string after its own. Names and options left out keep their
        earlier values; an SD takes precedence over them. Without options the subscription is new,
        managed and not durable. ``sub_queue`` as a name is opened for input. The SD is updated:
        Options, SubCorrelId, SubExpiry, PubPriority, and those of SubUserData, SelectionString and
        ResObjectString that have a buffer. An open subscription can only be altered, by its name.
        Raises PYIFError if it is already open, TypeError for a wrong SD, and MQMIError with the
        reason codes of MQSUB.
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
        mq = connection.connection()
        if self._opened is not None and not _alters(sub_desc, self._opened):
            raise PYIFError("Subscription is already open.")
        given = self._given if sub_queue is None else sub_queue
        if isinstance(given, (str, bytes)):
            given = Queue(connection, given, c.MQOO_INPUT_AS_Q_DEF)
        self._opened = opened = subscribe(
            mq,
            sub_desc,
            _handle_of(given),
            altered=self._opened,
            held=c.MQHO_NONE if given is not None else self._open_handle(),
        )
        for queue in (given, self.sub_queue):
            if isinstance(queue, Queue) and queue.get_handle() == opened.handle:
                self.sub_queue = queue
                return self
        self.sub_queue = Queue(connection)
        self.sub_queue.set_handle(opened.handle)
        return self

    def get_sub_queue(self) -> Queue | None:
        """Return the queue of the subscription, None before :meth:`sub`."""
        return self.sub_queue

    def get(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get the next publication as ``Queue.get``; ``opts`` are an MD and a GMO.

        Raises PYIFError before :meth:`sub`.
        """
        return self._queue().get(max_length, *opts)

    def get_no_jms(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get the next publication as ``Queue.get_no_jms``, without its properties.

        Raises PYIFError before :meth:`sub`.
        """
        return self._queue().get_no_jms(max_length, *opts)

    get_no_rfh2 = get_no_jms

    def get_rfh2(self, max_length: int | None = None, *opts: Any) -> bytes:
        """Get the next publication as ``Queue.get_rfh2``; return the data after its RFH2 headers.

        They are moved to the list that follows MD and GMO in ``opts``. Raises PYIFError before
        :meth:`sub`.
        """
        return self._queue().get_rfh2(max_length, *opts)

    @raises_mqmi
    def subrq(self, sub_action: int = _RETAINED, sro: SRO | None = None) -> None:
        """Request retained publications (MQSUBRQ, as in ibmmq), to be got from the queue.

        ``sub_action`` can only be MQSR_ACTION_PUBLICATION. Sets ``sro.NumPubs`` to the number of
        publications. Raises PYIFError when not open, MQMIError with MQRC_NO_RETAINED_MSG,
        MQRC_ACTION_ERROR, MQRC_SRO_ERROR or MQRC_OPTIONS_ERROR.
        """
        if self._opened is None:
            raise PYIFError("Subscription not open.")
        mq = self._connection.connection()
        sro = SRO() if sro is None else sro
        _check_request(sub_action, sro)
        sro.NumPubs = mq.call(ask.RequestRetained(self._opened.number))

    @raises_mqmi
    def close(
        self,
        sub_close_options: int = c.MQCO_NONE,
        close_sub_queue: bool = False,
        close_sub_queue_options: int = c.MQCO_NONE,
    ) -> None:
        """Close the subscription (MQCLOSE), and its queue if ``close_sub_queue`` is True.

        A durable subscription remains, unless MQCO_REMOVE_SUB removes it. Messages can be got while
        the queue is open. ``close_sub_queue_options`` are the MQCO options for the queue. Raises
        PYIFError when not open, MQMIError with MQRC_OPTIONS_ERROR, and with
        MQRC_OPTION_NOT_VALID_FOR_TYPE for MQCO_KEEP_SUB if it is not durable.
        """
        opened = self._opened
        if opened is None:
            raise PYIFError("Subscription not open.")
        mq = self._connection.connection()
        _check_close(opened, sub_close_options)
        remove = bool(sub_close_options & c.MQCO_REMOVE_SUB)
        mq.call(ask.CloseSubscription(opened.number, remove=remove))
        self._opened = None
        if close_sub_queue:
            self._queue().close(close_sub_queue_options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the subscription and its queue, as far as they are open.

        An exception from the block is not replaced by an MQMIError of the close.
        """
        with contextlib.suppress(MQMIError) if kind is not None else contextlib.nullcontext():
            if self._opened is not None:
                self.close()
            if self._open_handle():
                self._queue().close()

    def __del__(self) -> None:
        if self._opened is not None:
            self._connection.end_dropped(self._close_quietly)

    def _close_quietly(self) -> None:
        """Close the subscription, for garbage collection; errors are ignored."""
        with contextlib.suppress(MQMIError, PYIFError):
            self.close()

    def _queue(self) -> Queue:
        """Return the queue of the subscription; raises PYIFError before :meth:`sub`."""
        if self.sub_queue is None:
            raise PYIFError("Subscription not open.")
        return self.sub_queue

    def _open_handle(self) -> int:
        """Return the handle of the subscription's queue, MQHO_NONE if that is not open."""
        handle = _handle_of(self.sub_queue)
        is_open = handle and self._connection.connection().has_open(handle)
        return handle if is_open else c.MQHO_NONE

    def _new_desc(self) -> SD:
        """Return an SD for the names and options of this subscription.

        Without options it makes a new subscription, managed and not durable.
        """
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
    """Return True if an SD has MQSO_ALTER and the name of the open subscription."""
    name = (sub_desc.get_vs("SubName") or b"").decode(errors="replace")
    return bool(sub_desc.Options & c.MQSO_ALTER) and name == opened.facts.name


def _handle_of(given: Queue | int | None) -> int:
    """Return the handle of a Queue, or a handle unchanged; MQHO_NONE for None or not open."""
    handle = given.get_handle() if isinstance(given, Queue) else given
    return c.MQHO_NONE if handle is None else handle


def _check_request(action: int, sro: SRO) -> None:
    """Raise an error for wrong arguments of MQSUBRQ.

    MQRC_ACTION_ERROR for another action than MQSR_ACTION_PUBLICATION, MQRC_SRO_ERROR or
    MQRC_OPTIONS_ERROR for a wrong SRO.
    """
    if action != _RETAINED:
        raise mq_error(rc.MQRC_ACTION_ERROR, f"sub_action {action}")
    check_structure(vars(sro), b"SRO ", (1,), rc.MQRC_SRO_ERROR)
    if sro.Options & ~c.MQSO_FAIL_IF_QUIESCING:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"SRO.Options {sro.Options:#x}")


def _check_close(opened: Subscribed, options: int) -> None:
    """Raise an error for MQCO options that do not fit a subscription.

    MQRC_OPTIONS_ERROR for other options or for keep and remove together,
    MQRC_OPTION_NOT_VALID_FOR_TYPE to keep one that is not durable.
    """
    both = options & _KEEP_OR_REMOVE == _KEEP_OR_REMOVE
    if both or options & ~(_KEEP_OR_REMOVE | c.MQCO_QUIESCE):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"close options {options:#x} for a subscription")
    if options & c.MQCO_KEEP_SUB and not opened.facts.is_durable:
        text = "MQCO_KEEP_SUB: the subscription is not durable"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)


class Topic(_Openable):
    """A topic of a connection: the string of a topic object, a topic string, or both joined.

    With open options it is opened at once. The end of a ``with`` block closes it.
    """

    _WHAT, _NOT_OPEN = "Topic", "Topic not open."

    def __init__(
        self,
        queue_manager: QueueManager,
        topic_name: str | bytes | None = None,
        topic_string: str | bytes | None = None,
        topic_desc: OD | None = None,
        open_opts: int | None = None,
    ) -> None:
        """Take a connection, and either names or an OD of version 4 for a topic.

        ``topic_name`` is a topic object, ``topic_string`` the string after its own. With MQOO
        options (``open_opts``) it is opened at once. Raises PYIFError for another OD, and the
        errors of :meth:`open`.
        """
        self._connection = queue_manager
        self.topic_name = topic_name
        self.topic_string = topic_string
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
        """Open (MQOPEN) with MQOO options; without options the first publication opens.

        Returns the Topic itself. ``topic_name`` is a topic object, ``topic_string`` the string
        after its own. A name or topic string left out keeps its earlier value. Without an OD, one
        is made of these two. Raises PYIFError if already open or for an OD that is not a topic's,
        MQMIError with MQRC_TOPIC_STRING_ERROR, MQRC_UNKNOWN_OBJECT_NAME and the other reason codes
        of MQOPEN.
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
        """Publish a message; ``opts`` are an MD and a PMO, updated in place.

        Opens the topic for output if needed. MD.Expiry is the time to expiry of each subscriber's
        copy, in tenths of a second. Raises MQMIError, also for a warning: the message is then
        published.
        """
        self._put(msg, opts)

    def pub_rfh2(self, msg: str | bytes, *opts: Any) -> None:
        """Publish a message as :meth:`pub` does, after RFH2 headers.

        ``opts`` are MD, PMO and the list of headers. Raises TypeError if the third is no list of
        RFH2.
        """
        msg, opts = put_parts(msg, opts)
        self.pub(msg, *opts)

    def sub(self, sub_desc: SD | None = None, sub_queue: QueueGiven | None = None) -> Subscription:
        """Subscribe to this topic, and return the new Subscription.

        An SD must name its topic: that of this object counts only without an SD. ``sub_queue`` is
        the queue for a subscription that is not managed. Raises the errors of ``Subscription.sub``.
        """
        subscription = Subscription(self._connection)
        return subscription.sub(
            sub_desc, sub_queue, topic_name=self.topic_name, topic_string=self.topic_string
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the topic if it is open.

        An exception from the block is not replaced by an MQMIError of the close.
        """
        if self._opened is None:
            return
        with contextlib.suppress(MQMIError) if kind is not None else contextlib.nullcontext():
            self.close()

    def _set_desc(self, desc: OD | None) -> None:
        """Store the OD of the topic; None makes one of the topic's names.

        Raises PYIFError for an OD that is not a topic's, or not of version 4.
        """
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
        self._od = desc

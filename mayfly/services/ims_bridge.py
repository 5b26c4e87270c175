"""The IMS bridge: a program answers the requests on a queue, as an IMS transaction would.

`mayfly.ims_bridge` has the public names. A request and its reply are one unit of work, in which a
refused request goes to the dead-letter queue. Rule E30 (docs/LIFETIME.md) is about the expiry of
replies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Final, NamedTuple

from mayfly.client.connection import Administration, Connection, LocalConnection
from mayfly.client.connection.interface import OnDone, UnderWay
from mayfly.client.connection.waits import Wait
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi import structures
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage, StoreError, mq_error
from mayfly.mqi.layout import Value, is_big_endian
from mayfly.pymqi.headers import IIH
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Thread
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import packed_descriptor
from mayfly.verbs.messages import Delivery, Message, token_of
from mayfly.verbs.properties.folders import parts_of

_LOG = logging.getLogger("mayfly.ims_bridge")
IMS_FORMAT = c.MQFMT_IMS.decode().rstrip()
#: The initial values of an MQIIH.
NO_HEADER = structures.IIH.initial()
_APPLICATION_NAME_BYTES = 28
#: The sense code that says: look at the reason code beside it.
_SEE_REASON_CODE = 0x1A
_LARGEST_SENSE_CODE = c.MQFB_IMS_LAST - c.MQFB_IMS_ERROR
_LARGEST_REASON_CODE = c.MQFB_IMS_NACK_1A_REASON_LAST - c.MQFB_IMS_NACK_1A_REASON_FIRST
#: A request is read as it was put.
_GET = c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
#: Of a connection that was made again: the unit of work is backed out, or its commit in doubt.
_ENDED_WITH_CONNECTION: Final = frozenset({rc.MQRC_BACKED_OUT, rc.MQRC_CALL_INTERRUPTED})


class Request(bytes):
    """The data of a request after all headers, as bytes; ``message`` is the complete message."""

    message: Message


class ImsRequest(NamedTuple):
    """The parts of a request.

    ``iih`` is None if it has no MQIIH, ``header`` its fields or defaults.
    """

    data: Request
    iih: IIH | None
    header: dict[str, Value]
    format_name: str


def parse_request(message: Message) -> ImsRequest:
    """Split a request into an MQIIH, if its format is MQIMS, and the data.

    Message properties before them are skipped. Raises MQRC_IIH_ERROR for a wrong StrucId, Version
    or StrucLength, or data too short for an MQIIH, and MQRC_RFH_ERROR for wrong properties.
    """
    parts = parts_of(message.descriptor, message.body)
    body, format_name = parts.data, parts.data_format.strip()
    iih, header = None, NO_HEADER
    if format_name == IMS_FORMAT:
        header = structures.IIH.unpack(body, big_endian=is_big_endian(parts.data_encoding))
        length_bytes = structures.IIH.length(c.MQIIH_VERSION_1)
        if header["StrucLength"] != length_bytes:
            raise mq_error(rc.MQRC_IIH_ERROR, f"MQIIH StrucLength {header['StrucLength']!r}")
        iih = IIH()
        iih.unpack(body, parts.data_encoding)
        body = body[length_bytes:]
    data = Request(body)
    data.message = message
    return ImsRequest(data, iih, header, format_name)


def feedback_of(error: MQError) -> int:
    """Return the feedback code (MQFB_* or MQRC_*) for a request that cannot be read."""
    return c.MQFB_IIH_ERROR if error.reason == rc.MQRC_IIH_ERROR else error.reason


def reply_to(message: Message, request: ImsRequest, answer: bytes) -> ask.Reply:
    """Return the reply to a request, with an MQIIH if the request had one.

    The reply is put with the authority of the requester. Its expiry is unlimited, unless the
    request has MQIIH_PASS_EXPIRATION. Then it is the remaining expiry of the request when the
    bridge got it: the time in the bridge is not subtracted. The expiration report options are then
    copied, too, with the ReplyToQ for the report.
    """
    original = message.descriptor
    passes_expiry = _flags(request) & c.MQIIH_PASS_EXPIRATION
    report = original.report & c.MQRO_EXPIRATION_WITH_FULL_DATA if passes_expiry else c.MQRO_NONE
    descriptor = Descriptor(
        report=report,
        msg_type=c.MQMT_REPLY,
        format=request.format_name,
        priority=original.priority,
        persistence=original.persistence,
        reply_to_q=original.reply_to_q if report else "",
        reply_to_q_mgr=original.reply_to_q_mgr if report else "",
        user_identifier=original.user_identifier,
        accounting_token=original.accounting_token,
        appl_identity_data=original.appl_identity_data,
        put_appl_type=c.MQAT_XCF,
        put_appl_name=message.queue[:_APPLICATION_NAME_BYTES],
    )
    correl_id = message.msg_id
    if original.report & c.MQRO_PASS_CORREL_ID:
        correl_id = message.correl_id if message.correl_id.strip(b"\0") else b""
    return ask.Reply(
        original.reply_to_q,
        original.reply_to_q_mgr,
        _header(request) + answer,
        packed_descriptor(descriptor),
        # As with reports (R6): nobody gets the bridge to put where he may not.
        putter=original.user_identifier,
        msg_id=message.msg_id if original.report & c.MQRO_PASS_MSG_ID else b"",
        correl_id=correl_id,
        time_to_live_ms=message.remaining_ms if passes_expiry else None,
    )


def _header(request: ImsRequest) -> bytes:
    """Return the MQIIH of the reply, b"" if the request had none; its Flags are always 0."""
    if request.format_name != IMS_FORMAT:
        return b""
    header = request.header
    is_formatless = _flags(request) & c.MQIIH_REPLY_FORMAT_NONE
    return structures.IIH.pack(
        {
            "Encoding": c.MQENC_NATIVE,
            "Format": "" if is_formatless else header["ReplyToFormat"],
            "LTermOverride": header["LTermOverride"],
            "MFSMapName": header["MFSMapName"],
            "CommitMode": header["CommitMode"],
            "SecurityScope": "",
        }
    )


def _flags(request: ImsRequest) -> int:
    """Return the Flags of a request's MQIIH, 0 without an MQIIH."""
    flags = request.header["Flags"]
    assert isinstance(flags, int)
    return flags


class ImsNak(Exception):
    """Raised by a transaction program to refuse a request for good, like a NAK of IMS.

    ``feedback`` is 300 + ``sense_code`` (1 to 99). Sense code 0x1A comes with a ``reason_code`` (0
    to 255), and gives 600 + ``reason_code``.
    """

    def __init__(self, sense_code: int, reason_code: int = 0) -> None:
        """Take the codes that IMS would return; raises ValueError if one is out of range."""
        if not 1 <= sense_code <= _LARGEST_SENSE_CODE:
            raise ValueError(f"sense_code {sense_code!r} is not within 1 .. {_LARGEST_SENSE_CODE}")
        if not 0 <= reason_code <= _LARGEST_REASON_CODE:
            raise ValueError(f"reason_code {reason_code!r} is not within 0 .. 255")
        super().__init__(sense_code, reason_code)
        self.feedback = c.MQFB_IMS_ERROR + sense_code
        if sense_code == _SEE_REASON_CODE:
            self.feedback = c.MQFB_IMS_NACK_1A_REASON_FIRST + reason_code


def refuse(connection: Connection, message: Message, feedback: int) -> None:
    """Move a request to the dead-letter queue, in the unit of work in which it was got.

    ``feedback`` becomes the reason in the MQDLH and the Feedback of the report. Its remaining
    expiry goes on counting there. With MQRO_DISCARD_MSG it is discarded instead. In both cases the
    exception report that it asks for is sent. Raises the MQError of the dead-letter queue.
    """
    if message.descriptor.report & c.MQRO_DISCARD_MSG:
        _LOG.warning("%s is discarded, Feedback %d", message, feedback)
    else:
        connection.call(ask.DeadLetter(message.queue, token_of(message), feedback))
    connection.call(ask.ReportException(message.queue, token_of(message), feedback))


#: Called with the data of a request and its MQIIH, None without; returns the answer, None for none.
Transaction = Callable[[Request, IIH | None], bytes | None]


class RequestHandler:
    """Gets the requests on a queue and answers them, one unit of work for each.

    Close it at the end.
    """

    def __init__(
        self, source: QueueManager | Connection, queue: str, transaction: Transaction
    ) -> None:
        """Open the queue for input; raises the MQError of the open.

        ``transaction`` is the program that answers a request. A queue manager as ``source`` gets a
        new connection, which :meth:`close` closes.
        """
        self._transaction = transaction
        self._owns_connection = isinstance(source, QueueManager)
        if isinstance(source, QueueManager):
            source = LocalConnection(source.session(program="mayfly-ims"), source)
        self.connection = source
        try:
            self._handle = source.call(ask.Open(queue, c.MQOO_INPUT_SHARED)).handle
        except MQError:
            if self._owns_connection:
                source.close(commit=False)
            raise

    def next(self) -> Message | None:
        """Get the next request under syncpoint, without waiting; None if the queue has none."""
        try:
            return self.connection.get(self._handle, _GET).message
        except NoMessage:
            return None

    def begin(self, on_done: OnDone[Delivery]) -> UnderWay:
        """Begin to wait for the next request; while gets are inhibited the wait continues.

        Returns the wait, which can be cancelled, at once. ``on_done`` is called with the request or
        an MQError.
        """
        return self.connection.begin(
            ask.GetAny([self._handle], _GET | c.MQGMO_WAIT, tells_refusals=True),
            on_done,
            _ignore_refusal,
        )

    def process(self, message: Message) -> bool:
        """Answer or refuse a request and commit; return False if the request was backed out.

        That happens if the transaction program fails; the request is then on the queue again. If
        neither the reply queue nor the dead-letter queue takes a message, backs out and raises the
        MQError.
        """
        try:
            is_done = self._process_in_unit(message)
            if is_done:
                self.connection.call(ask.Commit())
        except BaseException:
            with suppress(MQError):
                self.connection.call(ask.Backout())
            raise
        if not is_done:
            self.connection.call(ask.Backout())
        return is_done

    def has_limit(self) -> bool:
        """Return True if the queue has a BOTHRESH above 0, which limits the tries of a request."""
        return self.connection.call(ask.AskBackoutRule(self._handle)).threshold > 0

    def close(self) -> None:
        """Back out and close the queue, and also the connection if the handler has made it."""
        if self._owns_connection:
            self.connection.close(commit=False)
            return
        # A connection that is broken, or closed, has nothing left to close.
        with suppress(MQError):
            self.connection.call(ask.Backout())
            self.connection.call(ask.CloseObject(self._handle))

    def _process_in_unit(self, message: Message) -> bool:
        """Answer or refuse a request, without a commit; return False if its program failed.

        A request that was backed out BOTHRESH times is moved away instead. A reply that its queue
        does not take goes to the dead-letter queue, with a log entry. Raises MQError if that fails,
        too.
        """
        connection = self.connection
        if message.backout_count:
            rule = connection.call(ask.AskBackoutRule(self._handle))
            if 0 < rule.threshold <= message.backout_count:
                self._requeue(message, rule.queue_name)
                return True
        try:
            request = parse_request(message)
        except MQError as error:
            _LOG.warning("%s is no request: %s", message, error)
            refuse(connection, message, feedback_of(error))
            return True
        try:
            answer = _checked(self._transaction(request.data, request.iih))
        except ImsNak as nak:
            refuse(connection, message, nak.feedback)
            return True
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's own failure
            _LOG.warning("%s: the transaction raised %r", message, error, exc_info=error)
            return False
        if answer is not None:
            reason = connection.call(reply_to(message, request, answer))
            if reason:
                _LOG.warning("the reply to %s is a dead letter, reason %d", message, reason)
        return True

    def _requeue(self, message: Message, queue: str) -> None:
        """Move a request that has failed too often to the queue ``queue`` (its BOQNAME).

        If ``queue`` is blank or does not take it, the request is refused to the dead-letter queue.
        """
        if queue:
            try:
                self.connection.call(ask.Forward(message.queue, token_of(message), queue))
            except MQError as error:
                _LOG.warning("%s cannot go to BOQNAME(%s): %s", message, queue, error)
            else:
                return
        refuse(self.connection, message, c.MQFB_IMS_ERROR)


def _ignore_refusal(_handle: int, _error: MQError) -> None:
    """Ignore that gets are inhibited: the wait continues until they are allowed again."""


def _checked(answer: object) -> bytes | None:
    """Return an answer as bytes or None; raises TypeError for another type."""
    if answer is None or isinstance(answer, (bytes, bytearray, memoryview)):
        return None if answer is None else bytes(answer)
    raise TypeError(f"a transaction answers bytes or None, not {type(answer).__name__}")


class ImsBridge:
    """Answers the requests on a queue with a transaction program (docs/LISTENERS.md).

    A request of format MQIMS begins with an MQIIH; of any other format, such as MQIMSVS, it is data
    only. ``transaction(request, iih)`` gets the data as bytes and the header or None, and returns
    the answer. None sends no answer, ImsNak refuses the request, any other exception backs it out.
    """

    def __init__(
        self, source: QueueManager | Connection, *, queue: str, transaction: Transaction
    ) -> None:
        """Store queue and program; nothing is opened yet.

        ``source`` is a queue manager of this process, or an operator's connection. The bridge alone
        uses that connection while it works, and does not close it. Raises TypeError if
        ``transaction`` is not callable.
        """
        if not callable(transaction):
            raise TypeError(f"transaction {transaction!r} cannot be called")
        self._source = source
        self._queue = queue
        self._transaction = transaction
        holder = source.engine if isinstance(source, QueueManager) else source
        self._runtime = holder.runtime
        self._thread: Thread | None = None
        self._wait = Wait(self._runtime)
        self._is_stopping = False
        #: How often definitions were seen to change, and how often they had before the attempt
        #: since which nothing is taken.
        self._change_count = 0
        self._held_at_count: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread of :meth:`start` is alive: it waits for requests, or answers one."""
        return self._thread is not None and self._thread.is_alive()

    def run_once(self) -> int:
        """Answer the requests that are on the queue now; return their number.

        It stops at a request whose program fails; this request is then on the queue again. Raises
        the MQError of open or get. Raises an MQError too if a request can go nowhere, not even to
        the dead-letter queue; it is then on the queue again.
        """
        count = 0
        with closing(RequestHandler(self._source, self._queue, self._transaction)) as handler:
            # Requests that come meanwhile are for the next pass: a reply may be a request again.
            for _ in range(Administration(handler.connection.call).curdepth(self._queue)):
                message = handler.next()
                if message is None or not handler.process(message):
                    break
                count += 1
        return count

    def start(self) -> None:
        """Start a thread that answers requests as they come; does nothing while it runs.

        Raises the MQError of the open, and RuntimeError inside a program that has stopped the
        bridge.
        """
        if self.is_running and not self._is_stopping:
            return
        self._join()
        handler = RequestHandler(self._source, self._queue, self._transaction)
        self._is_stopping, self._held_at_count = False, None
        self._wait = Wait(self._runtime)
        self._thread = self._runtime.thread(partial(self._serve, handler), "mayfly-ims")
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, and wait until the present one is answered.

        A second call does nothing. Inside a transaction program it does not wait: the thread ends
        after the program has returned.
        """
        self._is_stopping = True
        self._wait.end()
        if self._thread is not None and self._thread.ident != self._runtime.thread_id():
            self._join()

    def _join(self) -> None:
        """Wait for the thread to end; does nothing without a thread."""
        if self._thread is not None:
            self._thread.join()

    def _serve(self, handler: RequestHandler) -> None:
        """Answer requests until the bridge is stopped; errors of the queue manager are logged."""
        changes = _DefinitionWatch(self, handler.connection)
        try:
            with closing(handler), closing(changes):
                while (message := self._next(handler)) is not None:
                    self._process(handler, message)
        except ConnectionBroken as error:
            _LOG.info("the bridge on %s ends: %s", self._queue, error)
        except (MQError, StoreError) as error:
            _LOG.error("the bridge on %s stops: %s", self._queue, error)

    def note_change(self) -> None:
        """Record that an object definition has changed.

        A bridge that is held after a failed request then tries again.
        """
        self._change_count += 1
        self._wait.wake()

    def _next(self, handler: RequestHandler) -> Message | None:
        """Wait for the next request and get it; None if the bridge must stop.

        While the bridge is held after a failed request, it first waits until an object definition
        changes.
        """
        while not self._is_stopping:
            if self._held_at_count == self._change_count:
                self._wait.for_change()
                continue
            delivery = self._wait.of(handler.begin)
            if delivery is not None:
                return delivery.result.message
        return None

    def _process(self, handler: RequestHandler, message: Message) -> None:
        """Answer a request; hold the bridge if the request would come back at once without end.

        A held bridge takes no requests until an object definition changes. Raises ConnectionBroken;
        other errors are logged.
        """
        # Read before the attempt: a definition changed during it may be the missing one.
        change_count = self._change_count
        try:
            comes_again = not handler.process(message) and not handler.has_limit()
        except ConnectionBroken:
            raise
        except MQError as error:
            if error.reason in _ENDED_WITH_CONNECTION:
                # There is a new connection: a message that was backed out comes again, counted.
                _LOG.warning("%s: the connection was made again: %s", message, error)
                return
            _LOG.error("%s can go nowhere: %s", message, error)
            comes_again = True
        except Exception:  # noqa: BLE001 - a request that nobody expected ends no thread
            _LOG.exception("%s cannot be answered", message)
            comes_again = not handler.has_limit()
        if comes_again:
            # At once, and for ever: until a definition changes, nothing is taken.
            self._held_at_count = change_count
            _LOG.error("the bridge on %s is held until a definition changes", self._queue)


class _DefinitionWatch:
    """Tells a bridge of each change of object definitions, until closed or disconnected."""

    def __init__(self, bridge: ImsBridge, connection: Connection) -> None:
        """Begin to watch the definitions of the connection's queue manager; raises MQError."""
        self._bridge, self._connection = bridge, connection
        self._is_closed = False
        self._under_way: UnderWay = connection.begin(ask.AwaitDefinitions(), self._on_change)

    def close(self) -> None:
        """Stop to watch."""
        self._is_closed = True
        self._under_way.cancel()

    def _on_change(self, error: MQError | None) -> None:
        """Watch for the next change and wake the bridge; called at each change and at the end."""
        if error is None and not self._is_closed:
            self._under_way = self._connection.begin(ask.AwaitDefinitions(), self._on_change)
        # At the end of the connection, too: a held bridge then detects it.
        self._bridge.note_change()

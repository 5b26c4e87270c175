"""Messaging of the REST API: put, get, browse and list messages of queues, publish to topics.

A get locks the message, makes the answer, and removes the message durably before it sends the
answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from mayfly.client.connection import Connection
from mayfly.client.open_objects import OUTDATED
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import MANAGER_CCSID, codec_name
from mayfly.mqi.constants import REPORT_OPTIONS, report_names, report_option
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import InhibitedError, MQError, NoMessage, mq_error
from mayfly.mqi.properties import Typed, format_float
from mayfly.servers.http.connection import ClientGone, read_body, reserve_for_body
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.rest.calls import (
    FAILED,
    NO_MESSAGE_MADE,
    NO_RESPONSE_HEADER,
    WRONG_CHARACTER_SET,
    WRONG_MEDIA_TYPE,
    RestAnswer,
    RestCall,
    RestError,
    json_answer,
    of_mq_error,
    wrong_value,
)
from mayfly.servers.http.service import AuthenticatedUser
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import check_name
from mayfly.verbs.messages import Delivery, Message, PutResult, Settlement
from mayfly.verbs.properties.folders import Parts, Property, check_mixed, converted, named, parts_of
from mayfly.verbs.properties.selectors.names import (
    correlation_bytes,
    correlation_text,
    id_bytes,
    id_text,
)
from mayfly.verbs.requests import MessageMore
from mayfly.verbs.schedule import IF_EXISTS, check_key, key_id

_PUT: Final = c.MQOO_OUTPUT | c.MQOO_FAIL_IF_QUIESCING
_GET: Final = c.MQOO_INPUT_SHARED | c.MQOO_FAIL_IF_QUIESCING
_BROWSE: Final = c.MQOO_BROWSE | c.MQOO_FAIL_IF_QUIESCING
_QUIESCING: Final = c.MQGMO_FAIL_IF_QUIESCING | c.MQGMO_PROPERTIES_FORCE_MQRFH2
_LONGEST_WAIT_MS: Final = 2_147_483_647
_USUAL_LIMIT: Final = 10
_HIGHEST_LIMIT: Final = 2_147_483_647
_IDS: Final = ("correlationId", "messageId")


class _Wanted(NamedTuple):
    """The ids that a message must have to be selected, b"" for any id.

    ``selector`` is set for a correlation id that is a text; otherwise it is None.
    """

    msg_id: bytes
    correl_id: bytes
    selector: str | None


async def put(call: RestCall) -> RestAnswer:
    """Put a message on a queue; 201, when a persistent message is on the disk.

    The answer has the MsgId in a header. Raises RestError for a wrong header or body, or an unknown
    queue.
    """
    return await _send(call, call.names[1], c.MQOT_Q)


async def publish(call: RestCall) -> RestAnswer:
    """Publish a message to a topic; 201.

    The answer has the MsgId in a header. Raises RestError for a wrong header or body.
    """
    return await _send(call, call.names[1], c.MQOT_TOPIC)


async def take(call: RestCall) -> RestAnswer:
    """Get a message; 200 with the message, 204 if no message came within the wait.

    The message is removed from its queue before it is sent. If the client goes while it waits
    (ClientGone), or the message cannot be an answer (501), the message stays on the queue.
    """
    authenticated = await call.admit()
    given = call.parameters((*_IDS, "wait"))
    wanted = _wanted(given, call.version)
    wait_ms = whole_number("wait", given.get("wait", "0"), 0, _LONGEST_WAIT_MS)
    await _wait_for_memory(call)
    conversation = authenticated.conversation(call.request)
    with _OpenObject(conversation, call.names[1], _GET, wanted.selector) as handle:
        try:
            delivery = await _get_locked(call, conversation, handle, wanted, wait_ms)
        except NoMessage:
            return RestAnswer(HTTPStatus.NO_CONTENT)
        settlement = Settlement.RETURNED
        try:
            answer = answer_of(delivery.result.message, call.version)
            call.http_connection.answer.note(len(answer.body))
            if call.http_connection.is_lost:
                raise ClientGone
            settlement = Settlement.TAKEN
        finally:
            settle = ask.Settle([delivery.number], settlement)
            await call.service.outcomes.of(partial(conversation.begin, settle))
        return answer


async def browse(call: RestCall) -> RestAnswer:
    """Browse the first message, which stays on its queue; 204 without a message.

    501 if the message cannot be an answer.
    """
    authenticated = await call.admit()
    wanted = _wanted(call.parameters(_IDS), call.version)
    await _wait_for_memory(call)
    conversation = authenticated.conversation(call.request)
    with _OpenObject(conversation, call.names[1], _BROWSE, wanted.selector) as handle:
        options = _QUIESCING | c.MQGMO_BROWSE_FIRST
        get = ask.GetAny([handle], options, 0, None, wanted.msg_id, wanted.correl_id)
        try:
            delivery = await call.service.outcomes.of(partial(conversation.begin, get))
        except NoMessage:
            return RestAnswer(HTTPStatus.NO_CONTENT)
        answer = answer_of(delivery.result.message, call.version)
        call.http_connection.answer.note(len(answer.body))
        return answer


async def list_messages(call: RestCall) -> RestAnswer:
    """List messages without their bodies, only ids and formats; they stay on the queue.

    An empty or get-inhibited queue gives an empty list.
    """
    authenticated = await call.admit()
    given = call.parameters((*_IDS, "limit"))
    wanted = _wanted(given, call.version)
    limit = whole_number("limit", given.get("limit", str(_USUAL_LIMIT)), 1, _HIGHEST_LIMIT)
    found = await run_in_threadpool(_list, call, authenticated, wanted, limit)
    return json_answer({"messages": found})


async def _send(call: RestCall, name: str, kind: int) -> RestAnswer:
    """Put the body of a request on a queue or topic; return the answer (201) with the new MsgId.

    ``kind`` is MQOT_Q or MQOT_TOPIC. The object is opened before the body is read. Raises
    RestError.
    """
    authenticated = await call.admit()
    request = call.request
    call.parameters(())
    headers = call.headers()
    check_type(headers.get("content-type", ""))
    conversation = authenticated.conversation(request)
    usr = partial(request.headers.getlist, USR)
    message = put_arguments(headers, usr, call.version, conversation.now_ms)
    # First: a user without the authority need not send the body.
    with _OpenObject(conversation, name, _PUT, kind=kind) as handle:
        max_bytes = call.http_connection.budget.longest(authenticated.admitted.max_message_bytes)
        reservation = await reserve_for_body(request, max_bytes)
        try:
            body = await read_text(request, max_bytes)
            try:
                result = await _put(call, conversation, handle, body, message, name)
            except MQError as error:
                if error.reason not in OUTDATED:
                    raise
                # Its definition has changed while the body was on its way.
                with _OpenObject(conversation, name, _PUT, kind=kind) as new_handle:
                    result = await _put(call, conversation, new_handle, body, message, name)
        finally:
            if reservation is not None:
                reservation.end()
    shown = shown_id(result.msg_id, call.version)
    return RestAnswer(HTTPStatus.CREATED, ((MESSAGE_ID.lower().encode(), shown.encode()),))


async def _put(
    call: RestCall,
    conversation: Connection,
    handle: int,
    body: bytes,
    message: PutArguments,
    name: str,
) -> PutResult:
    """Put a body as one message on an open object, outside a unit of work; return the result.

    ``name`` is that of the object, for a key. Raises the MQError of the put.
    """
    check_key(message.key, message.if_exists, None)
    more, unique = message.more, 0
    if message.key is not None:
        more["msg_id"], unique = key_id(name, message.key), IF_EXISTS[message.if_exists]
    put = ask.Put.of(
        handle,
        body,
        message.descriptor,
        c.MQPMO_FAIL_IF_QUIESCING | unique,
        **more,
    )
    result: PutResult | None = await call.service.outcomes.of(partial(conversation.begin, put))
    assert result is not None
    return result


async def _get_locked(
    call: RestCall, conversation: Connection, handle: int, wanted: _Wanted, wait_ms: int
) -> Delivery:
    """Return a message locked for this conversation; the caller must settle it.

    ``wanted`` has the ids of the wanted message, b"" for any. Waits up to ``wait_ms``. Raises
    NoMessage if none comes within that time.
    """
    if not (wanted.msg_id or wanted.correl_id):
        for delivery in conversation.call(ask.TakeHeld(handle, _QUIESCING, 1, 1)):
            return delivery
        if not wait_ms:
            raise mq_error(rc.MQRC_NO_MSG_AVAILABLE)
    outcome: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
    options = _QUIESCING | (c.MQGMO_WAIT if wait_ms else 0)
    get = ask.GetAny([handle], options, wait_ms, None, wanted.msg_id, wanted.correl_id)
    under_way = conversation.begin(get, call.service.outcomes.callback_for(outcome))
    if not wait_ms:
        return await outcome
    return await call.service.message_waits.wait(call.http_connection, outcome, under_way)


async def _wait_for_memory(call: RestCall) -> None:
    """Wait, at most 30 seconds, until the memory budget allows to read a message.

    Raises MQRC_RESOURCE_PROBLEM after that time.
    """
    if call.http_connection.budget.is_used_up:
        (await call.http_connection.reserve(0)).end()


class _OpenObject:
    """A queue or topic that is open for a ``with`` block; the block gets its handle.

    An MQError in the block becomes a RestError that names the queue or topic. A queue is opened
    anew for each request. So authority is checked each time, and an idle client has no handle that
    would keep the queue from being deleted or cleared (2042).
    """

    __slots__ = ("_asked", "_connection", "_handle")

    def __init__(
        self,
        connection: Connection,
        name: str,
        options: int,
        selector: str | None = None,
        *,
        kind: int = c.MQOT_Q,
    ) -> None:
        """Prepare the open; ``options`` are MQOO_*, ``kind`` is MQOT_Q or MQOT_TOPIC."""
        queue, topic = ("", name) if kind == c.MQOT_TOPIC else (name, "")
        self._connection = connection
        self._asked = ask.Open(queue, options, kind, topic=topic, selector=selector)

    def __enter__(self) -> int:
        """Open the object and return its handle; raises RestError, also for a model queue."""
        try:
            opened = self._connection.call(self._asked)
            self._handle = opened.handle
            if opened.made:
                self._close()
                # It would end with the request, and the message with it.
                raise mq_error(rc.MQRC_Q_TYPE_ERROR, f"{self._asked.name} is a model queue")
        except MQError as error:
            raise self._to_rest_error(error) from error
        return self._handle

    def __exit__(self, _kind: object, raised: BaseException | None, _trace: object) -> None:
        """Close the object; an MQError of the block or of the close is raised as RestError."""
        try:
            self._close()
        except MQError as error:
            raise self._to_rest_error(error) from error
        if isinstance(raised, MQError):
            raise self._to_rest_error(raised) from raised

    def _close(self) -> None:
        """Close the handle, unless the connection has ended."""
        if self._connection.is_open:
            self._connection.call(ask.CloseObject(self._handle))

    def _to_rest_error(self, error: MQError) -> RestError:
        """Return the RestError for an MQError, with the name of the queue or topic."""
        asked = self._asked
        is_topic = asked.kind == c.MQOT_TOPIC
        return of_mq_error(error, f"topic {asked.topic!r}" if is_topic else f"queue {asked.name!r}")


def _wanted(given: Mapping[str, str], version: int) -> _Wanted:
    """Return the ids in the query parameters messageId and correlationId; b"" for a missing one.

    ``version`` is that of the REST API, which decides the form of an id. Raises RestError (400) for
    an invalid id.
    """
    message, correlation = given.get("messageId", ""), given.get("correlationId", "")
    msg_id = message_id_of(message, version) if "messageId" in given else b""
    if "correlationId" not in given:
        return _Wanted(msg_id, b"", None)
    if is_text_id(correlation, version):
        quoted = correlation.replace("'", "''")
        return _Wanted(msg_id, b"", f"JMSCorrelationID = '{quoted}'")
    return _Wanted(msg_id, correlation_of(correlation, version), None)


def _list(
    call: RestCall, authenticated: AuthenticatedUser, wanted: _Wanted, limit: int
) -> list[dict[str, Any]]:
    """Browse at most ``limit`` messages without bodies; return them for JSON.

    The keys are messageId, correlationId and format. ``wanted`` has the ids of the wanted messages,
    b"" for any. Runs in a thread. An empty or get-inhibited queue gives an empty list. Raises
    RestError if the queue cannot be opened.
    """
    found: list[dict[str, Any]] = []
    with (
        authenticated.connection() as connection,
        _OpenObject(connection, call.names[1], _BROWSE, wanted.selector) as handle,
    ):
        options = _QUIESCING | c.MQGMO_ACCEPT_TRUNCATED_MSG
        try:
            while len(found) < limit:
                result = connection.get(
                    handle,
                    options | (c.MQGMO_BROWSE_NEXT if found else c.MQGMO_BROWSE_FIRST),
                    max_length=0,
                    msg_id=wanted.msg_id,
                    correl_id=wanted.correl_id,
                )
                message = result.message
                found.append(
                    {
                        "messageId": shown_id(message.msg_id, call.version),
                        "correlationId": shown_correlation(message.correl_id, call.version),
                        "format": message.descriptor.format.strip(),
                    }
                )
        except (NoMessage, InhibitedError):
            # IBM's server shows a queue that is inhibited as an empty one.
            return found
    return found


# Bodies, headers, and properties in the header ibm-mq-usr


UTF_8: Final = 1208
TEXT_FORMAT: Final = "MQSTR"
EXPIRY: Final = "ibm-mq-md-expiry"
PERSISTENCE: Final = "ibm-mq-md-persistence"
PRIORITY: Final = "ibm-mq-md-priority"
CORRELATION_ID: Final = "ibm-mq-md-correlationId"
MESSAGE_ID: Final = "ibm-mq-md-messageId"
REPLY_TO: Final = "ibm-mq-md-replyTo"
#: Properties of version 3, each ``name;value;type``, several with commas between them or in headers
#: of their own. Text is in double quotes; a backslash stands before a quote or a backslash in it.
USR: Final = "ibm-mq-usr"
#: Not IBM's: how many ms after the put the message can be got for the first time.
DELIVERY_DELAY: Final = "mayfly-delivery-delay"
#: Not IBM's: the key under which no other delayed message waits, and what happens if one does.
KEY: Final = "mayfly-key"
_IF_EXISTS_HEADER: Final = "mayfly-if-exists"
#: Not IBM's: the reports that are asked for, and the feedback of a report.
REPORT: Final = "mayfly-report"
FEEDBACK: Final = "mayfly-feedback"
UNLIMITED: Final = "unlimited"
PERSISTENCES: Final = {
    "nonPersistent": c.MQPER_NOT_PERSISTENT,
    "persistent": c.MQPER_PERSISTENT,
}
_AS_DESTINATION: Final = "asDestination"
TEXT_TYPES: Final = frozenset(
    "text/plain text/html text/xml application/json application/xml".split()
)
_LONGEST_LIFE_MS: Final = 99_999_999_900
_A_LIFE: Final = f"{UNLIMITED}, or 1 to {_LONGEST_LIFE_MS} ms"
_HEX_ID: Final = re.compile("[0-9A-Fa-f]{48}")
#: The versions before the one with priorities, properties and ids that are text put with this one.
_FIXED_PRIORITY: Final = 4
TYPED_VERSION: Final = 3


class PutArguments(NamedTuple):
    """The arguments of a put, except for the body; ``more`` are fields that the MQMD lacks."""

    descriptor: Descriptor
    more: MessageMore
    key: str | None
    if_exists: str


def put_arguments(
    headers: Mapping[str, str],
    usr: Callable[[], list[str]],
    version: int,
    now_ms: Callable[[], int],
) -> PutArguments:
    """Return the arguments of a put from the headers of a request.

    ``headers`` have names in lower case. ``usr`` returns all headers named ``ibm-mq-usr``, which
    are read from version 3 on. ``now_ms`` returns the present time, from which a delay counts.
    Raises RestError (400), which names the wrong header and its value.
    """
    properties = []
    if USR in headers and version >= TYPED_VERSION:
        properties = _properties_of(map(_in_utf_8, usr()))
    correl_id = b""
    given = _in_utf_8(headers.get(CORRELATION_ID.lower(), ""))
    if given:
        correl_id = correlation_of(given, version)
        if is_text_id(given, version):
            properties.append(Property("jms.Cid", Typed("string", given)))
    if properties:
        # As JMS writes a TextMessage.
        properties.insert(0, Property("mcd.Msd", Typed("string", "jms_text")))
    is_delayed = DELIVERY_DELAY in headers
    return PutArguments(
        _descriptor(
            _priority(headers, version),
            _persistence(headers, version),
            headers.get(REPLY_TO.lower(), ""),
            headers.get(REPORT, ""),
        ),
        MessageMore(
            correl_id=correl_id,
            time_to_live_ms=_life_ms(headers.get(EXPIRY, UNLIMITED)),
            delay_ms=_delay_ms(headers[DELIVERY_DELAY], now_ms()) if is_delayed else 0,
            properties=properties,
        ),
        _in_utf_8(headers[KEY]) if KEY in headers else None,
        headers.get(_IF_EXISTS_HEADER, "refuse"),
    )


@lru_cache(maxsize=64)
def check_type(given: str) -> None:
    """Raise RestError if a Content-Type is not text (415) or its charset is not UTF-8 (406).

    ``given`` is the header's value, "" if it is missing.
    """
    media_type, *parameters = (part.strip().lower() for part in given.split(";"))
    if media_type not in TEXT_TYPES:
        text = f"Content-Type is {given or 'missing'!r}; it has to be one of "
        text += f"{', '.join(sorted(TEXT_TYPES))}"
        raise RestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, WRONG_MEDIA_TYPE, text)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            text = f"the character set {value.strip()!r} is not acceptable: it has to be utf-8"
            raise RestError(HTTPStatus.NOT_ACCEPTABLE, WRONG_CHARACTER_SET, text)


async def read_text(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request, which must be text in UTF-8.

    Raises RestError: 400 if it is not UTF-8, 413 if it has more than ``max_bytes``. Raises
    ClientDisconnect if the client goes.
    """
    try:
        body = await read_body(request, max_bytes)
    except HttpError as error:
        status, reason = error.status, rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
        raise RestError(status, FAILED, error.detail, reason=reason) from error
    try:
        body.decode()
    except UnicodeDecodeError as error:
        text = f"the body is no UTF-8: byte {error.start} is {body[error.start]:#x}"
        raise RestError(HTTPStatus.BAD_REQUEST, NO_MESSAGE_MADE, text) from None
    return body


def is_text_id(given: str, version: int) -> bool:
    """Return True if a correlation id is a text of the application, not a 24-byte id.

    ``ID:`` with at most 48 hexadecimal digits is an id. Before version 3 the result is False.
    """
    return version >= TYPED_VERSION and id_bytes(given) is None


def correlation_of(given: str, version: int) -> bytes:
    """Return the 24-byte CorrelId for a header or query parameter.

    In version 3 any text has a CorrelId. Before, raises RestError (400) unless it is 48 hexadecimal
    digits.
    """
    if version >= TYPED_VERSION:
        return correlation_bytes(given)
    return _id_of_hex(CORRELATION_ID, given)


def message_id_of(given: str, version: int) -> bytes:
    """Return the 24-byte MsgId of a query parameter of 48 hexadecimal digits.

    Version 3 allows ``ID:`` before them. Raises RestError (400) for another form.
    """
    if version >= TYPED_VERSION and given.startswith("ID:"):
        given = given.removeprefix("ID:")
    return _id_of_hex("messageId", given)


def whole_number(
    name: str, given: str, minimum: int, maximum: int, what: str = "", reason: int = rc.MQRC_NONE
) -> int:
    """Return a header or query parameter as a number from ``minimum`` to ``maximum``.

    Raises RestError (400) with its name; ``what`` says in the error text which values are allowed.
    ``reason`` is the MQRC_* of the error, 0 for none.
    """
    is_number = given.isascii() and given.isdecimal() and len(given) <= len(str(maximum))
    if not is_number or not minimum <= int(given) <= maximum:
        what = what or f"a whole number from {minimum} to {maximum}"
        raise wrong_value(name, given, what, reason=reason)
    return int(given)


def _in_utf_8(given: str) -> str:
    """Return a header, which HTTP decodes as Latin-1, decoded as UTF-8.

    A header that is no UTF-8 is returned unchanged.
    """
    try:
        return given if given.isascii() else given.encode("latin-1").decode()
    except UnicodeDecodeError:
        return given


def _id_of_hex(name: str, given: str) -> bytes:
    """Return 24 bytes from 48 hexadecimal digits; raises RestError (400) for anything else."""
    if not _HEX_ID.fullmatch(given):
        raise wrong_value(name, given, "48 hexadecimal digits")
    return bytes.fromhex(given)


def _life_ms(given: str) -> int | None:
    """Return the header ``ibm-mq-md-expiry`` in ms; None for "unlimited".

    Raises RestError (400) with MQRC_EXPIRY_ERROR for anything else.
    """
    if given == UNLIMITED:
        return None
    return whole_number(EXPIRY, given, 1, _LONGEST_LIFE_MS, _A_LIFE, rc.MQRC_EXPIRY_ERROR)


def _delay_ms(given: str, now_ms: int) -> int:
    """Return the delivery delay in a header, in ms.

    It counts from ``now_ms``, which limits it. Raises RestError (400) with MQRC_OPTIONS_ERROR if it
    is no number or too long.
    """
    longest_ms = LATEST_DUE_MS - now_ms
    what = f"a whole number of ms from 0 to {longest_ms}"
    return whole_number(DELIVERY_DELAY, given, 0, longest_ms, what, rc.MQRC_OPTIONS_ERROR)


def _report(given: str) -> int:
    """Return the MQRO options for a header such as ``expiration, cod``; none for an empty one.

    Raises RestError (400) for an unknown name.
    """
    report = c.MQRO_NONE
    for name in given.split(",") if given else ():
        option = report_option(name)
        if option is None:
            what = f"made of {', '.join(REPORT_OPTIONS)}, with commas between"
            raise wrong_value(REPORT, given, what, reason=rc.MQRC_REPORT_OPTIONS_ERROR)
        report |= option
    return report


def _priority(headers: Mapping[str, str], version: int) -> int:
    """Return the priority in the headers, MQPRI_PRIORITY_AS_Q_DEF without the header.

    Before version 3 it is always 4. Raises RestError (400) unless it is 0 to 9 or
    ``asDestination``.
    """
    if version < TYPED_VERSION:
        return _FIXED_PRIORITY
    given = headers.get(PRIORITY, _AS_DESTINATION)
    if given == _AS_DESTINATION:
        return c.MQPRI_PRIORITY_AS_Q_DEF
    return whole_number(PRIORITY, given, 0, 9)


def _persistence(headers: Mapping[str, str], version: int) -> int:
    """Return the MQPER_* value in the headers, not persistent without the header.

    Raises RestError (400) for an unknown word; ``asDestination`` is known from version 3 on.
    """
    given = headers.get(PERSISTENCE, "nonPersistent")
    if given == _AS_DESTINATION and version >= TYPED_VERSION:
        return c.MQPER_PERSISTENCE_AS_Q_DEF
    found = PERSISTENCES.get(given)
    if found is None:
        known = [*PERSISTENCES, _AS_DESTINATION][: 3 if version >= TYPED_VERSION else 2]
        raise wrong_value(PERSISTENCE, given, f"one of {', '.join(known)}")
    return found


@lru_cache(maxsize=256)
def _descriptor(priority: int, persistence: int, reply_to: str, reports: str) -> Descriptor:
    """Return the message descriptor for these values; equal values share one (cached).

    With a reply-to queue the message is a request. Raises RestError (400) for an invalid reply-to
    queue or report option.
    """
    queue, at, manager = reply_to.partition("@")
    try:
        for name in [queue] * bool(reply_to) + [manager] * bool(at):
            check_name(name)
    except MQError as error:
        what = "QUEUE or QUEUE@QMGR"
        raise wrong_value(REPLY_TO, reply_to, what, reason=error.reason) from error
    return Descriptor(
        report=_report(reports),
        msg_type=c.MQMT_REQUEST if queue else c.MQMT_DATAGRAM,
        encoding=c.MQENC_NORMAL,
        coded_char_set_id=UTF_8,
        priority=priority,
        persistence=persistence,
        format=TEXT_FORMAT,
        reply_to_q=queue,
        reply_to_q_mgr=manager,
    )


_TEXT_TYPE: Final = b"text/plain;charset=utf-8"
_PERSISTENCE_NAMES: Final = {number: name for name, number in PERSISTENCES.items()}
_JMS_TEXT: Final = "jms_text"


def answer_of(message: Message, version: int) -> RestAnswer:
    """Return a message as an answer (200): its body as text, descriptor and properties as headers.

    ``version`` is that of the REST API: from version 3 on there are more headers. Raises RestError
    (501) if the body is not text, or if an id, a queue name or a property contains control
    characters, which no header can hold.
    """
    descriptor = message.descriptor
    parts = _parts(message)
    text = _text(parts)
    headers = [
        (MESSAGE_ID, shown_id(message.msg_id, version)),
        (EXPIRY, UNLIMITED if message.remaining_ms is None else str(message.remaining_ms)),
        (PERSISTENCE, _PERSISTENCE_NAMES[int(message.persistent)]),
    ]
    correlation = shown_correlation(message.correl_id, version, _property(parts, "jms.Cid"))
    if correlation:
        _check_header(CORRELATION_ID, correlation)
        headers.append((CORRELATION_ID, correlation))
    queue, manager = descriptor.reply_to_q.strip(), descriptor.reply_to_q_mgr.strip()
    if queue:
        reply_to = f"{queue}@{manager}" if manager else queue
        _check_header(REPLY_TO, reply_to)
        headers.append((REPLY_TO, reply_to))
    if descriptor.report and (reports := report_names(descriptor.report)):
        headers.append((REPORT, ", ".join(reports)))
    if descriptor.msg_type == c.MQMT_REPORT:
        headers.append((FEEDBACK, str(descriptor.feedback)))
    if version >= TYPED_VERSION:
        headers.append((PRIORITY, str(descriptor.priority)))
        headers += [
            (USR, _usr_header(found)) for found in parts.properties if "." not in found.name
        ]
    packed = tuple((name.lower().encode(), value.encode()) for name, value in headers)
    return RestAnswer(HTTPStatus.OK, packed, text, _TEXT_TYPE)


def shown_id(identifier: bytes, version: int) -> str:
    """Return a MsgId in hexadecimal, with ``ID:`` before it from version 3 on."""
    return f"ID:{identifier.hex()}" if version >= TYPED_VERSION else identifier.hex()


def shown_correlation(correl_id: bytes, version: int, text: str | None = None) -> str:
    """Return a CorrelId in hexadecimal; empty for all zeros.

    From version 3 on it has ``ID:`` before it, or is ``text``, the application's text from which it
    was made.
    """
    if version >= TYPED_VERSION:
        return correlation_text(correl_id, text) or ""
    return (id_text(correl_id) or "").removeprefix("ID:")


def _parts(message: Message) -> Parts:
    """Return the data and properties of a message; raises RestError (501) for a damaged MQRFH2."""
    try:
        return parts_of(message.descriptor, message.body)
    except MQError as error:
        raise _not_text(f"its MQRFH2 is damaged: {error}") from error


def _property(parts: Parts, name: str) -> str | None:
    """Return the value of a property that is text; None if it is missing or no text."""
    value = next((p.typed.value for p in parts.properties if p.name == name), None)
    return value if isinstance(value, str) else None


def _text(parts: Parts) -> bytes:
    """Return the text of a message in UTF-8.

    Raises RestError (501) if the message is not text, or its character set is unknown or wrong.
    """
    kind = _property(parts, "mcd.Msd") or _JMS_TEXT
    data_format = parts.data_format.strip()
    if kind != _JMS_TEXT or (data_format != TEXT_FORMAT and parts.data):
        shown = data_format or "blank"
        raise _not_text(f"its format is {shown}, and it is no TextMessage of JMS")
    ccsid = parts.data_coded_char_set_id
    if ccsid in (MANAGER_CCSID, c.MQCCSI_Q_MGR):
        codec: str | None = "utf-8"
    else:
        codec = codec_name(ccsid, parts.data_encoding)
    if codec is None:
        raise _not_text(f"its character set {ccsid} is not known")
    try:
        return parts.data.decode(codec).encode()
    except UnicodeError as error:
        raise _not_text(f"its data are no text in character set {ccsid}: {error}") from error


def _not_text(why: str) -> RestError:
    """Return the RestError (501) for a message that cannot be an answer, and stays on its queue."""
    text = f"the message stays on its queue, as it cannot be made an answer: {why}"
    return RestError(HTTPStatus.NOT_IMPLEMENTED, FAILED, text)


#: Names of types as in Java, and those of the bridge that was before this API.
_TYPES: Final = {
    "boolean": c.MQTYPE_BOOLEAN,
    "byte": c.MQTYPE_INT8,
    "short": c.MQTYPE_INT16,
    "integer": c.MQTYPE_INT32,
    "int": c.MQTYPE_INT32,
    "long": c.MQTYPE_INT64,
    "float": c.MQTYPE_FLOAT32,
    "double": c.MQTYPE_FLOAT64,
    "string": c.MQTYPE_STRING,
    "i1": c.MQTYPE_INT8,
    "i2": c.MQTYPE_INT16,
    "i4": c.MQTYPE_INT32,
    "i8": c.MQTYPE_INT64,
    "r4": c.MQTYPE_FLOAT32,
    "r8": c.MQTYPE_FLOAT64,
}
_NAMES: Final = {
    "boolean": "boolean",
    "i1": "byte",
    "i2": "short",
    "i4": "integer",
    "i8": "long",
    "r4": "float",
    "r8": "double",
    "string": "string",
}
_PART: Final = re.compile(
    r"\s*(?P<name>[^;,\s\"]+)\s*;\s*"
    r"(?:\"(?P<text>(?:[^\"\\]|\\.)*)\"|(?P<bare>[^;,\"]*?))\s*;\s*(?P<type>[A-Za-z0-9]+)\s*(?:,|$)"
)
_ESCAPED: Final = re.compile(r"\\(.)")
_NOT_IN_A_HEADER: Final = re.compile(r"[\x00-\x1f\x7f]")


def _properties_of(headers: Iterable[str]) -> list[Property]:
    """Return the properties in headers of the form ``name;value;type``.

    Raises RestError (400) with the header for a wrong form, name, type or value, and for a repeated
    name.
    """
    found: dict[str, Property] = {}
    for header in headers:
        position = 0
        while position < len(header):
            part = _PART.match(header, position)
            if part is None:
                raise wrong_value(USR, header, "name;value;type, with text in double quotes")
            position = part.end()
            made = _property_of(part, header, found)
            if made.name in found:
                raise wrong_value(USR, header, f"without a second {made.name}")
            found[made.name] = made
    return list(found.values())


def _check_header(what: str, text: str) -> None:
    """Raise RestError (501) if a text has control characters, which no header can hold.

    ``what`` names the text in the error.
    """
    if _NOT_IN_A_HEADER.search(text):
        message = f"{what} has control characters: no header can hold it"
        raise RestError(HTTPStatus.NOT_IMPLEMENTED, NO_RESPONSE_HEADER, message)


def _property_of(part: re.Match[str], header: str, others: Iterable[str]) -> Property:
    """Return one property of a header, from a match of ``name;value;type``.

    ``others`` are the names of the properties before. Raises RestError (400) for an unknown type,
    or an invalid name or value.
    """
    name, kind = part["name"], part["type"].lower()
    mq_type = _TYPES.get(kind)
    if mq_type is None:
        raise wrong_value(USR, header, f"of a type that is known: {', '.join(_NAMES.values())}")
    quoted = part["text"]
    text = part["bare"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
    try:
        made = named(name, converted(name, Typed("string", text), mq_type))
        check_mixed(made.name, others)
    except MQError as error:
        raise wrong_value(USR, header, error.detail, reason=error.reason) from error
    return made


def _usr_header(found: Property) -> str:
    """Return a property as ``ibm-mq-usr`` header: ``colour;"red";string``, ``size;5;integer``.

    Raises RestError (501) for control characters in name or value.
    """
    name, (dt, value) = found.name, found.typed
    _check_header(f"the name of property {name!r}", name)
    kind = _NAMES.get(dt, "string")
    if isinstance(value, bool):
        return f"{name};{str(value).lower()};{kind}"
    if isinstance(value, int):
        return f"{name};{value};{kind}"
    if isinstance(value, float):
        return f"{name};{format_float(value, is_single=dt == 'r4')};{kind}"
    text = value.hex() if isinstance(value, bytes) else value or ""
    _check_header(f"property {name}", text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name};"{escaped}";string'

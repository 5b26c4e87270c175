"""Messaging of the REST API: put, get, browse and list messages of queues, publish to topics.

A get locks the message, makes the answer, and removes the message durably before it sends the
answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.concurrency import run_in_threadpool

from mayfly.client.connection import Connection
from mayfly.client.open_objects import OUTDATED
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import InhibitedError, MQError, NoMessage, mq_error
from mayfly.servers.http.connection import reserve_for_body
from mayfly.servers.http.rest.calls import RestAnswer, RestCall, RestError, json_answer, of_mq_error
from mayfly.servers.http.rest.messages import (
    MESSAGE_ID,
    USR,
    PutArguments,
    answer_of,
    check_type,
    correlation_of,
    is_text_id,
    message_id_of,
    put_arguments,
    read_text,
    shown_correlation,
    shown_id,
    whole_number,
)
from mayfly.servers.http.service import AuthenticatedUser
from mayfly.servers.http.waits import ClientGone
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, PutResult, Settlement
from mayfly.verbs.put_keys import IF_EXISTS, check_key, key_id

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

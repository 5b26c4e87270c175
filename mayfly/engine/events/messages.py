"""Event messages: their descriptor and data, those of channels and those of calls that fail.

Channels are started, stopped, stopped by a command, or refuse a partner. Calls fail for unknown,
inhibited and unreachable queues, and for missing authority.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from mayfly.engine.attributes import PROCESS, QALIAS, QMGR, QREMOTE, TOPIC, ChannelDefinition
from mayfly.engine.authority import words
from mayfly.engine.authority.checks import Caller, RefusedCall
from mayfly.engine.core import Core
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    arrive,
    check_capacity,
    new_id,
    new_row,
)
from mayfly.engine.descriptors import Context
from mayfly.engine.disposal import prepared_with_own_context
from mayfly.engine.events.catalog import (
    CHANNEL_BLOCKED,
    CHANNEL_BLOCKED_WARNING,
    CHANNEL_FAILED,
    CHANNEL_NOT_AVAILABLE,
    CHANNEL_SSL_ERROR,
    CHANNEL_STARTED,
    CHANNEL_STOPPED,
    CHANNEL_STOPPED_BY_USER,
    FAILURES,
    NOT_AUTHORIZED_CLOSE,
    NOT_AUTHORIZED_CONNECT,
    NOT_AUTHORIZED_DESTINATION,
    NOT_AUTHORIZED_OPEN,
    NOT_AUTHORIZED_SUBSCRIBE,
    TEXT_BYTES,
    EventType,
)
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import Window
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.event_constants import MQCFT_EVENT
from mayfly.mqi.pcf import Header, Structure, byte_string, integer, pack, string, string_list

#: Values of parameters by their numbers: a number, a text, bytes, or several texts.
Facts: TypeAlias = "dict[int, int | str | bytes | tuple[str, ...]]"

_LOG: Final = logging.getLogger("mayfly.events")
_FORMAT: Final = c.MQFMT_EVENT.decode().rstrip()
_APPLICATION_BYTES: Final = 28
_OF_CHANNELS: Final = "chlev"
#: CHLEV(EXCEPTION).
_EXCEPTIONS_ALONE: Final = 2


def is_on(core: Core, event: EventType) -> bool:
    """Return True if the queue manager makes an event now: the attribute for it is not DISABLED."""
    switch: int = getattr(core.registry.queue_manager, event.switch)
    if event.switch == _OF_CHANNELS and switch == _EXCEPTIONS_ALONE:
        return event.is_exception
    return switch != 0


def emit(
    core: Core,
    event: EventType,
    facts: Mapping[int, int | str | bytes | tuple[str, ...]],
    more: Sequence[Structure] = (),
    *,
    correl_id: bytes = b"",
    sequence_number: int = 1,
    control: int = k.MQCFC_LAST,
) -> None:
    """Put the message of an event, if the event is on; nothing is raised.

    ``facts`` are the values of its parameters by number; the name of the queue manager is known.
    ``more`` are structures behind the parameters. ``correl_id``, ``sequence_number`` and
    ``control`` are for several messages about one event. The message has the default persistence of
    its queue, never expires, and is no part of a unit of work. It is lost when its queue is
    missing, and, with a warning in the log, when its queue refuses it.

    A caller with the engine lock calls ``Committer.run_deferred`` after it has released it.
    """
    if not is_on(core, event) or core.is_closing or core.is_stopped:
        return
    with core.engine_lock:
        _add(core, event, _body(core, event, facts, more, sequence_number, control), correl_id)
    if not core.engine_lock.is_held():
        core.committer.run_deferred()


def structures_of(
    parameters: Sequence[int], facts: Mapping[int, int | str | bytes | tuple[str, ...]]
) -> list[Structure]:
    """Return the parameters that have a value, in their order, as PCF structures.

    A text longer than its parameter is cut.
    """
    found = []
    for number in parameters:
        value = facts.get(number)
        if isinstance(value, bytes):
            found.append(byte_string(number, value))
        elif isinstance(value, tuple):
            found.append(string_list(number, value, TEXT_BYTES.get(number, 0)))
        elif isinstance(value, str):
            length = TEXT_BYTES.get(number, 0)
            cut = value.encode()[:length].decode(errors="ignore") if length else value
            found.append(string(number, cut, length))
        elif value is not None:
            found.append(integer(number, value))
    return found


def _body(
    core: Core,
    event: EventType,
    facts: Mapping[int, int | str | bytes | tuple[str, ...]],
    more: Sequence[Structure],
    sequence_number: int,
    control: int,
) -> bytes:
    """Return the data of an event message: MQCFH and parameters."""
    header = Header(
        MQCFT_EVENT,
        event.category.command,
        event.category.version,
        sequence_number,
        control,
        c.MQCC_WARNING,
        event.reason,
    )
    known = {c.MQCA_Q_MGR_NAME: core.name, **facts}
    return pack(header, [*structures_of(event.parameters, known), *more])


def _add(core: Core, event: EventType, body: bytes, correl_id: bytes) -> None:
    """Leave the put of an event message to ``Committer.run_deferred``; needs the engine lock."""
    transaction, now_ms = Transaction(), core.now_ms()
    if core.registry.find(event.category.queue) is None:
        # STRSTPEV is on from the beginning, its queue is not there: no news at each start.
        _LOG.debug("event %s is lost: %s is not defined", event.name, event.category.queue)
        return
    try:
        path = core.registry.resolve_target(event.category.queue)
        descriptor = _descriptor(core.name, path.default_priority, path.default_persistence)
        prepared = prepared_with_own_context(core, descriptor)
        window = Window(now_ms, now_ms, None)
        message = OutgoingMessage(prepared, window, MessageIds(new_id(core), correl_id), body)
        check_capacity(path, prepared, len(body))
        arrive(core, transaction, path, prepared, new_row(core, path, message))
    except MQError as error:
        text = f"event {event.name} is lost: {error}"
        core.alike_warnings.note(_LOG, ("event", event.name, error.reason), now_ms, text)
        return
    core.committer.deferred.append(transaction)


@lru_cache(maxsize=64)
def _descriptor(manager_name: str, priority: int, persistence: int) -> Descriptor:
    """Return the MQMD of an event message: a datagram with Format MQEVENT; cached."""
    return Descriptor(
        priority=priority,
        persistence=persistence,
        put_appl_type=c.MQAT_QMGR,
        put_appl_name=manager_name[:_APPLICATION_BYTES],
        format=_FORMAT,
        reply_to_q_mgr=manager_name,
    )


_SENDERS: Final = (c.MQCHT_SENDER,)


def report_start(core: Core, definition: ChannelDefinition, connection: str) -> None:
    """Make the event for a channel that is connected to its partner, at ``connection``."""
    emit(core, CHANNEL_STARTED, _facts(definition, connection))


def report_stop(
    core: Core, definition: ChannelDefinition, connection: str, qualifier: int, failure: str = ""
) -> None:
    """Make the event for a channel that was connected and is not any more.

    ``qualifier`` is MQRQ_CHANNEL_STOPPED_*; ``failure`` is the text of the error, empty without.
    """
    event = CHANNEL_STOPPED if qualifier == e.MQRQ_CHANNEL_STOPPED_OK else CHANNEL_FAILED
    facts: Facts = {
        **_facts(definition, connection),
        e.MQIACF_REASON_QUALIFIER: qualifier,
        e.MQIACF_ERROR_IDENTIFIER: 0,
        e.MQIACF_AUX_ERROR_DATA_INT_1: 0,
        e.MQIACF_AUX_ERROR_DATA_INT_2: 0,
        k.MQCACF_AUX_ERROR_DATA_STR_1: failure,
    }
    emit(core, event, facts)


def report_stop_command(core: Core, channel: str) -> None:
    """Make the event for a channel that STOP CHANNEL has stopped."""
    facts: Facts = {
        e.MQIACF_REASON_QUALIFIER: e.MQRQ_CHANNEL_STOPPED_DISABLED,
        k.MQCACH_CHANNEL_NAME: channel,
    }
    emit(core, CHANNEL_STOPPED_BY_USER, facts)


def report_blocked(
    core: Core,
    qualifier: int,
    *,
    channel: str,
    address: str,
    user: str,
    manager: str,
    subject: str,
    is_warning: bool = False,
) -> None:
    """Make the event for a partner that a rule for channels keeps out.

    ``qualifier`` is MQRQ_CHANNEL_BLOCKED_*. ``channel``, ``user``, ``manager`` and ``subject``, of
    the certificate, are those that the partner shows, empty for none. With ``is_warning`` it is let
    in, by WARN(YES).
    """
    is_of_user = qualifier == e.MQRQ_CHANNEL_BLOCKED_USERID
    is_of_address = qualifier == e.MQRQ_CHANNEL_BLOCKED_ADDRESS
    facts: Facts = {
        e.MQIACF_REASON_QUALIFIER: qualifier,
        **({} if is_of_address else {k.MQCACH_CHANNEL_NAME: channel}),
        **({k.MQCACF_USER_IDENTIFIER: user} if is_of_user else {}),
        k.MQCACH_CONNECTION_NAME: address,
        **({c.MQCA_REMOTE_Q_MGR_NAME: manager} if manager else {}),
        **({k.MQCACH_SSL_PEER_NAME: subject} if subject else {}),
        **({k.MQCACH_CLIENT_USER_ID: user} if user and not is_of_user else {}),
    }
    emit(core, CHANNEL_BLOCKED_WARNING if is_warning else CHANNEL_BLOCKED, facts)


def report_channel_full(
    core: Core, *, channel: str, address: str, limit: int, is_of_client: bool
) -> None:
    """Make the event for a client above MAXINST, or with ``is_of_client`` above MAXINSTC."""
    qualifier = e.MQRQ_CLIENT_INST_LIMIT if is_of_client else e.MQRQ_SVRCONN_INST_LIMIT
    number = k.MQIACH_MAX_INSTS_PER_CLIENT if is_of_client else k.MQIACH_MAX_INSTANCES
    facts: Facts = {
        e.MQIACF_REASON_QUALIFIER: qualifier,
        k.MQCACH_CHANNEL_NAME: channel,
        k.MQCACH_CONNECTION_NAME: address,
        number: limit,
    }
    emit(core, CHANNEL_NOT_AVAILABLE, facts)


def report_tls_refusal(
    core: Core, qualifier: int, *, channel: str, address: str, subject: str
) -> None:
    """Make the event for a partner whose TLS or certificate a channel does not take.

    ``qualifier`` is MQRQ_SSL_*; ``subject`` is that of the certificate, empty without one.
    """
    facts: Facts = {
        e.MQIACF_REASON_QUALIFIER: qualifier,
        k.MQCACH_CHANNEL_NAME: channel,
        k.MQCACH_CONNECTION_NAME: address,
        **({k.MQCACH_SSL_PEER_NAME: subject} if subject else {}),
    }
    emit(core, CHANNEL_SSL_ERROR, facts)


def _facts(definition: ChannelDefinition, connection: str) -> Facts:
    """Return name, transmission queue and connection of a channel."""
    facts: Facts = {k.MQCACH_CHANNEL_NAME: definition.name}
    if definition.chltype in _SENDERS:
        facts[k.MQCACH_XMIT_Q_NAME] = definition.xmitq
    facts[k.MQCACH_CONNECTION_NAME] = connection
    return facts


_BY_REASON: Final = {event.reason: event for event in FAILURES}


def report_failure(core: Core, context: Context, error: MQError, name: str) -> None:
    """Make the event for a call of a program that has failed; nothing for most reasons.

    ``context`` names the program, and ``name`` is the queue as the program named it, perhaps with
    ``@`` and a queue manager. Call it without the engine lock. Nothing is raised.
    """
    event = _BY_REASON.get(error.reason)
    if event is not None:
        queue, _, manager = name.partition("@")
        facts: Facts = {
            c.MQIA_APPL_TYPE: context.put_appl_type,
            e.MQCACF_APPL_NAME: context.put_appl_name,
            c.MQCA_Q_NAME: queue,
        }
        if manager not in ("", core.name):
            facts[e.MQCACF_OBJECT_Q_MGR_NAME] = manager
        definition = core.registry.find(queue)
        if definition is not None and definition.kind == QALIAS:
            facts[e.MQCA_BASE_Q_NAME] = definition.target
        xmitq = definition.xmitq if definition is not None and definition.kind == QREMOTE else ""
        xmitq = xmitq or manager or core.registry.queue_manager.defxmitq
        if xmitq:
            facts[c.MQCA_XMIT_Q_NAME] = xmitq
        emit(core, event, facts)
    # A Queue Full event, which was made under the lock.
    if core.committer.deferred:
        core.committer.run_deferred()


def report_refusal(core: Core, refusal: RefusedCall) -> None:
    """Make the event for a call that is refused for want of authority; nothing is raised."""
    event, qualifier = _refused(refusal)
    facts: Facts = {
        e.MQIACF_REASON_QUALIFIER: qualifier,
        k.MQCACF_USER_IDENTIFIER: refusal.user,
        **_caller(refusal.caller),
    }
    if refusal.options is not None:
        facts[e.MQIACF_OPEN_OPTIONS] = refusal.options
    if refusal.object_type == TOPIC:
        facts[c.MQCA_TOPIC_STRING] = refusal.name
        facts[e.MQCACF_ADMIN_TOPIC_NAMES] = refusal.topic_objects
    elif refusal.object_type == PROCESS:
        facts[c.MQCA_PROCESS_NAME] = refusal.name
    elif refusal.object_type == words.QUEUE:
        queue, _, manager = refusal.name.partition("@")
        facts[c.MQCA_Q_NAME] = queue
        if manager not in ("", core.name):
            facts[e.MQCACF_OBJECT_Q_MGR_NAME] = manager
    if refusal.subscription is not None:
        topic, name, options = refusal.subscription
        facts[c.MQCA_TOPIC_STRING] = topic
        facts[k.MQCACF_SUB_NAME] = name
        if options is not None:
            facts[e.MQIACF_SUB_OPTIONS] = options
    emit(core, event, facts)


def _refused(refusal: RefusedCall) -> tuple[EventType, int]:
    """Return the type of the event for a refused call, and its ReasonQualifier (MQRQ_*)."""
    subscription = refusal.subscription
    if refusal.object_type == QMGR and refusal.missing & words.CONNECT:
        return NOT_AUTHORIZED_CONNECT, e.MQRQ_CONN_NOT_AUTHORIZED
    if refusal.options is None or (subscription is not None and subscription.options is None):
        return NOT_AUTHORIZED_CLOSE, e.MQRQ_CLOSE_NOT_AUTHORIZED
    if subscription is None:
        return NOT_AUTHORIZED_OPEN, e.MQRQ_OPEN_NOT_AUTHORIZED
    if refusal.object_type == TOPIC:
        return NOT_AUTHORIZED_SUBSCRIBE, e.MQRQ_SUB_NOT_AUTHORIZED
    return NOT_AUTHORIZED_DESTINATION, e.MQRQ_SUB_DEST_NOT_AUTHORIZED


def report_password(core: Core, user: str, caller: Caller) -> None:
    """Make the event for a program that is refused for its password; nothing is raised."""
    facts: Facts = {
        e.MQIACF_REASON_QUALIFIER: e.MQRQ_CSP_NOT_AUTHORIZED,
        k.MQCACF_USER_IDENTIFIER: user,
        **_caller(caller),
    }
    emit(core, NOT_AUTHORIZED_CONNECT, facts)


def _caller(caller: Caller) -> Facts:
    """Return the parameters about a program; a client has an address and a channel as well."""
    facts: Facts = {c.MQIA_APPL_TYPE: c.MQAT_UNIX, e.MQCACF_APPL_NAME: caller.program}
    if caller.address:
        facts[k.MQCACH_CONNECTION_NAME] = caller.address
    if caller.channel:
        facts[k.MQCACH_CHANNEL_NAME] = caller.channel
    return facts

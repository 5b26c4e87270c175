"""Events of calls that fail: unknown, inhibited and unreachable queues, and missing authority."""

from __future__ import annotations

from typing import Final

from mayfly.engine.attributes import PROCESS, QALIAS, QMGR, QREMOTE, TOPIC
from mayfly.engine.authority import words
from mayfly.engine.authority.checks import Caller, RefusedCall
from mayfly.engine.core import Core
from mayfly.engine.descriptors import Context
from mayfly.engine.events.catalog import (
    FAILURES,
    NOT_AUTHORIZED_CLOSE,
    NOT_AUTHORIZED_CONNECT,
    NOT_AUTHORIZED_DESTINATION,
    NOT_AUTHORIZED_OPEN,
    NOT_AUTHORIZED_SUBSCRIBE,
    EventType,
)
from mayfly.engine.events.messages import Facts, emit
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi.errors import MQError

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
    """Return the event of a refusal, and its ReasonQualifier."""
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

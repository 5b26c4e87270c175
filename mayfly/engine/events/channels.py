"""Events of channels: started, stopped, stopped by a command, and partners that are refused."""

from __future__ import annotations

from typing import Final

from mayfly.engine.attributes import ChannelDefinition
from mayfly.engine.core import Core
from mayfly.engine.events.catalog import (
    CHANNEL_BLOCKED,
    CHANNEL_BLOCKED_WARNING,
    CHANNEL_FAILED,
    CHANNEL_NOT_AVAILABLE,
    CHANNEL_SSL_ERROR,
    CHANNEL_STARTED,
    CHANNEL_STOPPED,
    CHANNEL_STOPPED_BY_USER,
)
from mayfly.engine.events.messages import Facts, emit
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e

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

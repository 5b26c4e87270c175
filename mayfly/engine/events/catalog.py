"""The events: one row each, with the reason code and the parameters in their order.

Source: IBM MQ 9.4, "Event message reference".
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi import reasons as rc


class Category(NamedTuple):
    """A kind of event: the queue of its messages, the command (MQCMD_*) and version of its MQCFH.

    Events with the same queue are got together, and told apart by their reason.
    """

    queue: str
    command: int
    version: int = 1


class EventType(NamedTuple):
    """One event: its reason code, the attribute that turns it on, and its parameters in order.

    ``switch`` is the field of the queue manager's definition, 0 when off. ``is_exception`` is True
    for events of channels that CHLEV(EXCEPTION) leaves on. A parameter without a value at an event
    is left out of the message.
    """

    name: str
    reason: int
    category: Category
    switch: str
    parameters: tuple[int, ...]
    is_exception: bool = False


PERFORMANCE: Final = Category("SYSTEM.ADMIN.PERFM.EVENT", e.MQCMD_PERFM_EVENT)
MANAGER: Final = Category("SYSTEM.ADMIN.QMGR.EVENT", e.MQCMD_Q_MGR_EVENT)
CHANNELS: Final = Category("SYSTEM.ADMIN.CHANNEL.EVENT", e.MQCMD_CHANNEL_EVENT)
CONFIGURATION: Final = Category("SYSTEM.ADMIN.CONFIG.EVENT", e.MQCMD_CONFIG_EVENT, 2)
COMMANDS: Final = Category("SYSTEM.ADMIN.COMMAND.EVENT", e.MQCMD_COMMAND_EVENT, 3)

#: The lengths of texts in bytes, to which blanks pad them; other texts have their own.
TEXT_BYTES: Final = {
    c.MQCA_Q_MGR_NAME: 48,
    c.MQCA_Q_NAME: 48,
    e.MQCA_BASE_Q_NAME: 48,
    c.MQCA_XMIT_Q_NAME: 48,
    c.MQCA_PROCESS_NAME: 48,
    c.MQCA_REMOTE_Q_MGR_NAME: 48,
    e.MQCACF_OBJECT_Q_MGR_NAME: 48,
    e.MQCACF_APPL_NAME: 28,
    k.MQCACF_USER_IDENTIFIER: 12,
    k.MQCACH_CHANNEL_NAME: 20,
    k.MQCACH_CONNECTION_NAME: 264,
    k.MQCACH_XMIT_Q_NAME: 48,
    k.MQCACH_CLIENT_USER_ID: 12,
    e.MQCACF_EVENT_USER_ID: 12,
    e.MQCACF_EVENT_Q_MGR: 48,
    e.MQCACF_EVENT_APPL_IDENTITY: 32,
    e.MQCACF_EVENT_APPL_NAME: 28,
    e.MQCACF_EVENT_APPL_ORIGIN: 4,
    k.MQCACF_OBJECT_NAME: 48,
    e.MQCACF_ADMIN_TOPIC_NAMES: 48,
}

_MANAGER: Final = (c.MQCA_Q_MGR_NAME,)
_APPLICATION: Final = (c.MQIA_APPL_TYPE, e.MQCACF_APPL_NAME)
_OBJECT_MANAGER: Final = (e.MQCACF_OBJECT_Q_MGR_NAME,)

# Performance: of one queue, with its statistics since the last event

_STATISTICS: Final = (
    *_MANAGER,
    e.MQCA_BASE_Q_NAME,
    e.MQIA_TIME_SINCE_RESET,
    e.MQIA_HIGH_Q_DEPTH,
    e.MQIA_MSG_ENQ_COUNT,
    e.MQIA_MSG_DEQ_COUNT,
)


def _performance(name: str, reason: int) -> EventType:
    """Return the row of a performance event."""
    return EventType(name, reason, PERFORMANCE, "perfmev", _STATISTICS)


Q_DEPTH_HIGH: Final = _performance("Queue Depth High", e.MQRC_Q_DEPTH_HIGH)
Q_DEPTH_LOW: Final = _performance("Queue Depth Low", e.MQRC_Q_DEPTH_LOW)
Q_FULL: Final = _performance("Queue Full", rc.MQRC_Q_FULL)
SERVICE_HIGH: Final = _performance("Queue Service Interval High", e.MQRC_Q_SERVICE_INTERVAL_HIGH)
SERVICE_OK: Final = _performance("Queue Service Interval OK", e.MQRC_Q_SERVICE_INTERVAL_OK)

# The queue manager: its start and end, and calls of programs that failed

Q_MGR_ACTIVE: Final = EventType(
    "Queue Manager Active", e.MQRC_Q_MGR_ACTIVE, MANAGER, "strstpev", _MANAGER
)
Q_MGR_NOT_ACTIVE: Final = EventType(
    "Queue Manager Not Active",
    e.MQRC_Q_MGR_NOT_ACTIVE,
    MANAGER,
    "strstpev",
    (*_MANAGER, e.MQIACF_REASON_QUALIFIER),
)
#: The place of a client; nothing of a program in the process of the queue manager.
_CLIENT: Final = (k.MQCACH_CONNECTION_NAME, k.MQCACH_CHANNEL_NAME)
_TOPIC: Final = (c.MQCA_TOPIC_STRING, e.MQCACF_ADMIN_TOPIC_NAMES)
_USER: Final = (k.MQCACF_USER_IDENTIFIER, *_APPLICATION)


def _not_authorized(number: int, *parameters: int) -> EventType:
    """Return the row of Not Authorized of a type, 1 to 6."""
    return EventType(
        f"Not Authorized (type {number})",
        rc.MQRC_NOT_AUTHORIZED,
        MANAGER,
        "authorev",
        (*_MANAGER, e.MQIACF_REASON_QUALIFIER, *parameters),
    )


NOT_AUTHORIZED_CONNECT: Final = _not_authorized(1, *_USER, *_CLIENT)
NOT_AUTHORIZED_OPEN: Final = _not_authorized(
    2,
    e.MQIACF_OPEN_OPTIONS,
    *_USER,
    *_OBJECT_MANAGER,
    c.MQCA_Q_NAME,
    c.MQCA_PROCESS_NAME,
    *_TOPIC,
    *_CLIENT,
)
#: Of MQCO_DELETE, or of MQCO_REMOVE_SUB.
NOT_AUTHORIZED_CLOSE: Final = _not_authorized(
    3, *_USER, c.MQCA_Q_NAME, k.MQCACF_SUB_NAME, *_TOPIC, *_CLIENT
)
NOT_AUTHORIZED_COMMAND: Final = _not_authorized(4, e.MQIACF_COMMAND, k.MQCACF_USER_IDENTIFIER)
NOT_AUTHORIZED_SUBSCRIBE: Final = _not_authorized(
    5, e.MQIACF_SUB_OPTIONS, *_USER, *_TOPIC, *_CLIENT
)
#: Of the queue that a program gives to a subscription.
NOT_AUTHORIZED_DESTINATION: Final = _not_authorized(
    6,
    e.MQIACF_SUB_OPTIONS,
    *_USER,
    c.MQCA_TOPIC_STRING,
    *_OBJECT_MANAGER,
    c.MQCA_Q_NAME,
    e.MQIACF_OPEN_OPTIONS,
    *_CLIENT,
)
_INHIBITED: Final = (*_MANAGER, c.MQCA_Q_NAME, *_APPLICATION)
GET_INHIBITED: Final = EventType(
    "Get Inhibited", rc.MQRC_GET_INHIBITED, MANAGER, "inhibtev", _INHIBITED
)
PUT_INHIBITED: Final = EventType(
    "Put Inhibited",
    rc.MQRC_PUT_INHIBITED,
    MANAGER,
    "inhibtev",
    (*_INHIBITED, *_OBJECT_MANAGER),
)
#: The queue that was named, and the queue that its definition leads to.
_THROUGH_ALIAS: Final = (*_MANAGER, c.MQCA_Q_NAME, e.MQCA_BASE_Q_NAME, *_APPLICATION)
_THROUGH_QUEUE: Final = (*_MANAGER, c.MQCA_Q_NAME, c.MQCA_XMIT_Q_NAME, *_APPLICATION)


def _local(name: str, reason: int, parameters: tuple[int, ...]) -> EventType:
    """Return the row of an event about an object that is not defined as it is used."""
    return EventType(name, reason, MANAGER, "localev", (*parameters, *_OBJECT_MANAGER))


def _remote(name: str, reason: int, parameters: tuple[int, ...] = _THROUGH_QUEUE) -> EventType:
    """Return the row of an event about the way to another queue manager."""
    return EventType(name, reason, MANAGER, "remoteev", (*parameters, *_OBJECT_MANAGER))


UNKNOWN_OBJECT_NAME: Final = _local(
    "Unknown Object Name",
    rc.MQRC_UNKNOWN_OBJECT_NAME,
    (*_MANAGER, *_APPLICATION, c.MQCA_Q_NAME, c.MQCA_PROCESS_NAME),
)
#: Failures of opens and puts of programs.
FAILURES: Final = (
    GET_INHIBITED,
    PUT_INHIBITED,
    UNKNOWN_OBJECT_NAME,
    _local("Alias Base Queue Type Error", rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR, _THROUGH_ALIAS),
    _local("Unknown Alias Base Queue", rc.MQRC_UNKNOWN_ALIAS_BASE_Q, _THROUGH_ALIAS),
    _remote("Default Transmission Queue Type Error", rc.MQRC_DEF_XMIT_Q_TYPE_ERROR),
    _remote("Default Transmission Queue Usage Error", rc.MQRC_DEF_XMIT_Q_USAGE_ERROR),
    _remote("Queue Type Error", rc.MQRC_Q_TYPE_ERROR, _INHIBITED),
    _remote("Remote Queue Name Error", rc.MQRC_REMOTE_Q_NAME_ERROR, _INHIBITED),
    _remote("Transmission Queue Type Error", rc.MQRC_XMIT_Q_TYPE_ERROR),
    _remote("Transmission Queue Usage Error", rc.MQRC_XMIT_Q_USAGE_ERROR),
    _remote("Unknown Default Transmission Queue", rc.MQRC_UNKNOWN_DEF_XMIT_Q),
    _remote("Unknown Remote Queue Manager", rc.MQRC_UNKNOWN_REMOTE_Q_MGR, _INHIBITED),
    _remote("Unknown Transmission Queue", rc.MQRC_UNKNOWN_XMIT_Q),
)

# Channels

_CHANNEL: Final = (*_MANAGER, k.MQCACH_CHANNEL_NAME, k.MQCACH_XMIT_Q_NAME, k.MQCACH_CONNECTION_NAME)
_STOPPED: Final = (
    *_MANAGER,
    e.MQIACF_REASON_QUALIFIER,
    k.MQCACH_CHANNEL_NAME,
    e.MQIACF_ERROR_IDENTIFIER,
    e.MQIACF_AUX_ERROR_DATA_INT_1,
    e.MQIACF_AUX_ERROR_DATA_INT_2,
    k.MQCACF_AUX_ERROR_DATA_STR_1,
    k.MQCACH_XMIT_Q_NAME,
    k.MQCACH_CONNECTION_NAME,
)
CHANNEL_STARTED: Final = EventType(
    "Channel Started", e.MQRC_CHANNEL_STARTED, CHANNELS, "chlev", _CHANNEL
)
CHANNEL_STOPPED: Final = EventType(
    "Channel Stopped", e.MQRC_CHANNEL_STOPPED, CHANNELS, "chlev", _STOPPED
)
CHANNEL_FAILED: Final = CHANNEL_STOPPED._replace(is_exception=True)
CHANNEL_STOPPED_BY_USER: Final = EventType(
    "Channel Stopped By User",
    e.MQRC_CHANNEL_STOPPED_BY_USER,
    CHANNELS,
    "chlev",
    (*_MANAGER, e.MQIACF_REASON_QUALIFIER, k.MQCACH_CHANNEL_NAME),
    is_exception=True,
)
_BLOCKED: Final = (
    *_MANAGER,
    e.MQIACF_REASON_QUALIFIER,
    k.MQCACH_CHANNEL_NAME,
    k.MQCACF_USER_IDENTIFIER,
    k.MQCACH_CONNECTION_NAME,
    c.MQCA_REMOTE_Q_MGR_NAME,
    k.MQCACH_SSL_PEER_NAME,
    k.MQCACH_CLIENT_USER_ID,
)
CHANNEL_BLOCKED: Final = EventType(
    "Channel Blocked", e.MQRC_CHANNEL_BLOCKED, CHANNELS, "chlev", _BLOCKED, is_exception=True
)
CHANNEL_BLOCKED_WARNING: Final = EventType(
    "Channel Blocked (warning)",
    e.MQRC_CHANNEL_BLOCKED_WARNING,
    CHANNELS,
    "chlev",
    _BLOCKED,
    is_exception=True,
)
CHANNEL_NOT_AVAILABLE: Final = EventType(
    "Channel Not Available",
    rc.MQRC_CHANNEL_NOT_AVAILABLE,
    CHANNELS,
    "chlev",
    (
        *_MANAGER,
        e.MQIACF_REASON_QUALIFIER,
        k.MQCACH_CHANNEL_NAME,
        k.MQCACH_CONNECTION_NAME,
        k.MQIACH_MAX_INSTANCES,
        k.MQIACH_MAX_INSTS_PER_CLIENT,
    ),
    is_exception=True,
)
CHANNEL_SSL_ERROR: Final = EventType(
    "Channel SSL Error",
    e.MQRC_CHANNEL_SSL_ERROR,
    CHANNELS,
    "sslev",
    (
        *_MANAGER,
        e.MQIACF_REASON_QUALIFIER,
        k.MQCACH_CHANNEL_NAME,
        k.MQCACH_CONNECTION_NAME,
        k.MQCACH_SSL_PEER_NAME,
    ),
)

# Configuration, whose messages go on with the attributes of the object, and commands

_ORIGIN: Final = (
    e.MQCACF_EVENT_USER_ID,
    e.MQIACF_EVENT_ORIGIN,
    e.MQCACF_EVENT_Q_MGR,
    e.MQBACF_EVENT_ACCOUNTING_TOKEN,
    e.MQCACF_EVENT_APPL_IDENTITY,
    e.MQIACF_EVENT_APPL_TYPE,
    e.MQCACF_EVENT_APPL_NAME,
    e.MQCACF_EVENT_APPL_ORIGIN,
)
_CHANGED: Final = (*_ORIGIN, k.MQIACF_OBJECT_TYPE)


def _configuration(name: str, reason: int) -> EventType:
    """Return the row of an event about a definition."""
    return EventType(name, reason, CONFIGURATION, "configev", _CHANGED)


CREATE_OBJECT: Final = _configuration("Create object", e.MQRC_CONFIG_CREATE_OBJECT)
CHANGE_OBJECT: Final = _configuration("Change object", e.MQRC_CONFIG_CHANGE_OBJECT)
DELETE_OBJECT: Final = _configuration("Delete object", e.MQRC_CONFIG_DELETE_OBJECT)
REFRESH_OBJECT: Final = _configuration("Refresh object", e.MQRC_CONFIG_REFRESH_OBJECT)
#: The parameters of the group CommandContext; the group CommandData follows it.
COMMAND_CONTEXT: Final = (*_ORIGIN, e.MQIACF_COMMAND)
COMMAND_MQSC: Final = EventType("Command (MQSC)", e.MQRC_COMMAND_MQSC, COMMANDS, "cmdev", ())
COMMAND_PCF: Final = EventType("Command (PCF)", e.MQRC_COMMAND_PCF, COMMANDS, "cmdev", ())

EVENTS: Final = (
    Q_DEPTH_HIGH,
    Q_DEPTH_LOW,
    Q_FULL,
    SERVICE_HIGH,
    SERVICE_OK,
    Q_MGR_ACTIVE,
    Q_MGR_NOT_ACTIVE,
    NOT_AUTHORIZED_CONNECT,
    NOT_AUTHORIZED_OPEN,
    NOT_AUTHORIZED_CLOSE,
    NOT_AUTHORIZED_COMMAND,
    NOT_AUTHORIZED_SUBSCRIBE,
    NOT_AUTHORIZED_DESTINATION,
    *FAILURES,
    CHANNEL_STARTED,
    CHANNEL_STOPPED,
    CHANNEL_STOPPED_BY_USER,
    CHANNEL_BLOCKED,
    CHANNEL_BLOCKED_WARNING,
    CHANNEL_NOT_AVAILABLE,
    CHANNEL_SSL_ERROR,
    CREATE_OBJECT,
    CHANGE_OBJECT,
    DELETE_OBJECT,
    REFRESH_OBJECT,
    COMMAND_MQSC,
    COMMAND_PCF,
)
#: The queues of events, by the attribute of the queue manager that turns them on.
QUEUES: Final = {event.switch.upper(): event.category.queue for event in EVENTS}

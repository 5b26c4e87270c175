"""Connections of a queue manager, and instances (client sockets) of SVRCONN channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from mayfly.admin.model import (
    APPLICATION_TYPES,
    APSTATUS,
    APSTATUS_LOCAL,
    APSTATUS_QMGR,
    BALANCE_STATE,
    BALANCED,
    CHANNEL_STATUS,
    CHSTATUS,
    CONN,
    DISK_STATUS,
    HANDLE,
    HANDLE_TYPES,
    IMMOVABLE,
    INPUT_TYPES,
    MANAGER_STATUS,
    NO,
    PROCESSOR_STATUS,
    QMSTATUS,
    QSTATUS_HANDLE,
    UNIT_OF_WORK_STATES,
    YES,
    Record,
    WrongObject,
)
from mayfly.channel import (
    ChannelState,
    ClientConnection,
    channels_of,
    client_connections,
    end_client,
    quiesce_client,
)
from mayfly.engine import Engine
from mayfly.engine.api.administration import (
    is_disk_full,
    manager_identifier,
    matches,
    view_connections,
)
from mayfly.engine.api.administration import (
    stop_connection as end_connection,
)
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi.command_constants import MQRCCF_CHANNEL_NOT_ACTIVE, MQRCCF_CONNECTION_ID_ERROR
from mayfly.mqi.constants import MQCHT_SVRCONN
from mayfly.verbs.facts import Value

_OPEN_OPTIONS = sorted(
    (
        (name, value)
        for name, value in vars(c).items()
        if name.startswith("MQOO_") and isinstance(value, int) and value > 0
    ),
    key=lambda each: each[1],
)

#: Options of an open queue beside input: the name of MQOO_* and the word that is displayed.
_OPENED = ("BROWSE", "INQUIRE", "OUTPUT", "SET")
_INPUTS = {
    "MQOO_INPUT_EXCLUSIVE": "EXCL",
    "MQOO_INPUT_SHARED": "SHARED",
    "MQOO_INPUT_AS_Q_DEF": "SHARED",
}


class OpenHandle(NamedTuple):
    """An open object of a connection: its type, its name, and the names of its MQOO_* options."""

    kind: str
    name: str
    options: tuple[str, ...]


class OpenConnection(NamedTuple):
    """One connection of a program; ``channel`` and ``address`` are empty for a local program.

    ``identifier`` is CONN. ``unit_of_work_ms`` is when its unit of work began, None without one.
    Times are ms since 1970.
    """

    identifier: str
    user: str
    application: str
    channel: str
    address: str
    has_tls: bool
    connected_ms: int
    unit_of_work_ms: int | None
    handles: tuple[OpenHandle, ...]
    #: The ids (SUBID) of the subscriptions that it has open.
    subscriptions: frozenset[str]


def open_connections(manager: Engine, pattern: str = "*") -> list[OpenConnection]:
    """Return the connections whose ids match, local and of clients, oldest first.

    ``pattern`` is a CONN id, or its start followed by ``*``. Returns an empty list for no match.
    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    clients = {client.number: client for client in client_connections(manager)}
    opened = []
    for found in view_connections(manager):
        identifier, client = connection_id(found.number), clients.get(found.number)
        if not matches(identifier, pattern):
            continue
        handles = tuple(
            OpenHandle(kind, name, tuple(word for word, bit in _OPEN_OPTIONS if options & bit))
            for kind, name, options in found.handles
        )
        opened.append(
            OpenConnection(
                identifier,
                found.user,
                found.application,
                "" if client is None else client.channel,
                "" if client is None else client.address,
                client is not None and client.has_tls,
                found.connected_ms,
                found.unit_of_work_ms,
                handles,
                found.subscriptions,
            )
        )
    return opened


def inquire(manager: Engine, pattern: str) -> list[Record]:
    """Return a CONN record for each connection whose id matches, oldest first.

    ``pattern`` is a CONN id, or its start followed by ``*``. Returns an empty list for no match.
    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    return [_connection(manager, found) for found in open_connections(manager, pattern)]


def inquire_manager_status(manager: Engine, _pattern: str) -> list[Record]:
    """Return the one QMSTATUS record of a queue manager; the pattern is ignored.

    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    values: dict[str, Value] = {
        "STATUS": MANAGER_STATUS["RUNNING"],
        "CONNS": len(view_connections(manager)),
        "DISK": DISK_STATUS["FULL" if is_disk_full(manager) else "OK"],
        "DDELAY": processor_status(manager),
    }
    return [Record(QMSTATUS, manager.name, values)]


def processor_status(manager: Engine) -> int:
    """Return the number for the status of the delivery delay processor: whether it runs."""
    word = manager.delay_processor.status().partition(":")[0]
    return PROCESSOR_STATUS[word.upper()]


def inquire_handles(manager: Engine, pattern: str) -> list[Record]:
    """Return a HANDLE record for each open object of the connections whose ids match.

    ``pattern`` is a CONN id, or its start followed by ``*``. Returns an empty list for no match.
    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    return [
        Record(
            HANDLE,
            found.identifier,
            {
                "OBJNAME": handle.name,
                "OBJTYPE": HANDLE_TYPES[handle.kind],
                "OPENOPTS": ",".join(handle.options),
                "APPLTAG": found.application,
                "USERID": found.user,
            },
        )
        for found in open_connections(manager, pattern)
        for handle in found.handles
    ]


def inquire_queue_handles(manager: Engine, pattern: str) -> list[Record]:
    """Return a QSTATUS_HANDLE record for each handle of queues whose names match, sorted by name.

    ``pattern`` is a name, or the start of names followed by ``*``. Returns [] if nobody has one.
    """
    found = [
        (handle, each)
        for each in open_connections(manager)
        for handle in each.handles
        if handle.kind == "QUEUE" and matches(handle.name, pattern)
    ]
    found.sort(key=lambda pair: pair[0].name)
    return [_queue_handle(handle, each) for handle, each in found]


def _queue_handle(handle: OpenHandle, found: OpenConnection) -> Record:
    """Return a record of DISPLAY QSTATUS TYPE(HANDLE) for an open handle of a queue.

    It has the application, user, channel, address and connection id, INPUT as NO, SHARED or EXCL,
    and YES or NO for BROWSE, INQUIRE, OUTPUT and SET.
    """
    asked = next((word for option, word in _INPUTS.items() if option in handle.options), "NO")
    values: dict[str, Value] = {
        "APPLTAG": found.application,
        "APPLTYPE": APPLICATION_TYPES["USER"],
        **{word: YES if f"MQOO_{word}" in handle.options else NO for word in _OPENED},
        "INPUT": INPUT_TYPES[asked],
        "CHANNEL": found.channel,
        "CONNAME": found.address,
        "CONN": found.identifier,
        "USERID": found.user,
    }
    return Record(QSTATUS_HANDLE, handle.name, values)


def inquire_applications(manager: Engine, pattern: str) -> list[Record]:
    """Return an APSTATUS record for each name of programs that are connected, sorted by name.

    ``pattern`` is a name, or the start of names followed by ``*``. Returns [] for no match. There
    are no uniform clusters, so none can be moved, and none is balanced.
    """
    balanced = BALANCED["NOTAPPLIC"]
    return [
        Record(
            APSTATUS,
            name,
            {"CLUSTER": "", "COUNT": count, "MOVCOUNT": 0, "BALANCED": balanced},
        )
        for name, count in _counted(manager, pattern)
    ]


def inquire_applications_here(manager: Engine, pattern: str) -> list[Record]:
    """Return an APSTATUS_QMGR record for each name of programs, sorted by name.

    It is as :func:`inquire_applications`, of this queue manager in place of a uniform cluster.
    LMSGDATE and LMSGTIME are blank: no other queue manager tells of programs.
    """
    values: dict[str, Value] = {
        "ACTIVE": YES,
        "MOVCOUNT": 0,
        "BALSTATE": BALANCE_STATE["NOTAPPLIC"],
        "LMSGDATE": "",
        "LMSGTIME": "",
        "QMNAME": manager.name,
        "QMID": manager_identifier(manager),
    }
    return [
        Record(APSTATUS_QMGR, name, {"COUNT": count, **values})
        for name, count in _counted(manager, pattern)
    ]


def _counted(manager: Engine, pattern: str) -> list[tuple[str, int]]:
    """Return the names of connected programs that match, each with its connections, sorted."""
    counts = Counter(found.application for found in open_connections(manager))
    return [(name, counts[name]) for name in sorted(counts) if matches(name, pattern)]


def inquire_application_instances(manager: Engine, pattern: str) -> list[Record]:
    """Return an APSTATUS_LOCAL record for each connection of programs, sorted by name.

    ``pattern`` is a name, or the start of names followed by ``*``. Returns [] for no match. Nothing
    is moved here; IMMREASN says why IBM MQ would not move it either: it is no client, or one that
    does not reconnect at the word of a queue manager.
    """
    found = [each for each in open_connections(manager) if matches(each.application, pattern)]
    found.sort(key=lambda each: each.application)
    return [
        Record(
            APSTATUS_LOCAL,
            each.application,
            {
                "CONNTAG": f"MQCT{each.identifier}{manager.name}",
                "CONNS": 1,
                "MOVABLE": NO,
                "IMMREASN": IMMOVABLE["NOTRECONN" if each.channel else "NOTCLIENT"],
                "IMMCOUNT": 0,
                "IMMDATE": "",
                "IMMTIME": "",
            },
        )
        for each in found
    ]


def stop_connection(manager: Engine, identifier: str) -> None:
    """End the connection with a CONN id, and back out its unit of work.

    For a client its socket ends, with all conversations on it. Raises WrongObject
    (MQRCCF_CONNECTION_ID_ERROR) for an id that no connection has.
    """
    numbers = [each.number for each in view_connections(manager)]
    found = next((number for number in numbers if connection_id(number) == identifier), 0)
    # The socket of a client ends as well, with what else it carries.
    if end_client(manager, found) or end_connection(manager, found):
        return
    text = f"no connection has the id {identifier}"
    raise WrongObject(MQRCCF_CONNECTION_ID_ERROR, "CONN", identifier, text)


def stop_channel(manager: Engine, name: str, *, is_forced: bool, is_inactive: bool = False) -> None:
    """Stop a channel; its clients end after their current work, or at once if ``is_forced``.

    ``is_forced`` also cuts off the batch of a sender and backs out the units of work of clients.
    With ``is_inactive`` the channel becomes inactive: a SVRCONN or RCVR accepts at once, a trigger
    message starts a sender. Does not wait for current batches or the work of clients. Raises
    MQRC_UNKNOWN_OBJECT_NAME, MQRC_STORAGE_MEDIUM_FULL, and MQRC_CHANNEL_CONFIG_ERROR for a channel
    of a type that is only kept.
    """
    channels_of(manager).stop(name, is_forced=is_forced, is_inactive=is_inactive)
    _end_clients(manager, name, "", is_forced=is_forced)


def stop_channel_instances(
    manager: Engine, name: str, *, connection: str = "", partner: str = "", is_forced: bool
) -> None:
    """End the instances of a channel with one partner; the channel becomes no more than inactive.

    ``connection`` is CONNAME and ``partner`` RQMNAME as DISPLAY CHSTATUS shows them; one at least
    is not empty, and both must fit. Clients have no queue manager. For ``is_forced`` see
    :func:`stop_channel`. Raises WrongObject (MQRCCF_CHANNEL_NOT_ACTIVE) if there is no such
    instance, MQRC_UNKNOWN_OBJECT_NAME, and MQRC_CHANNEL_CONFIG_ERROR for a channel of a type that
    is only kept.
    """
    count = channels_of(manager).end_instances(
        name, connection=connection, partner=partner, is_forced=is_forced
    )
    if not partner:
        count += _end_clients(manager, name, connection, is_forced=is_forced)
    if not count:
        text = f"channel {name} has no active instance with {connection or partner}"
        attribute = "CONNAME" if connection else "QMNAME"
        raise WrongObject(MQRCCF_CHANNEL_NOT_ACTIVE, attribute, connection or partner, text)


def _end_clients(manager: Engine, channel: str, address: str, *, is_forced: bool) -> int:
    """End the clients of a SVRCONN channel, and return how many there were; "" is any address."""
    end = end_client if is_forced else quiesce_client
    found = [
        client
        for client in client_connections(manager)
        if client.channel == channel
        and not client.sending_manager
        and address in ("", client.address)
    ]
    for client in found:
        end(manager, client.number)
    return len(found)


def inquire_instances(manager: Engine, pattern: str) -> list[Record]:
    """Return a CHSTATUS record for each client socket on SVRCONN channels whose names match.

    ``pattern`` is a name, or the start of names followed by ``*``. Returns an empty list without
    clients.
    """
    instances: dict[int, list[ClientConnection]] = {}
    for client in client_connections(manager):
        is_program = bool(client.channel) and not client.sending_manager
        if is_program and matches(client.channel, pattern):
            instances.setdefault(client.instance, []).append(client)
    return [_instance(clients) for _number, clients in sorted(instances.items())]


def connection_id(number: int) -> str:
    """Return the CONN id of a connection number: 161 -> ``'00000000000000A1'``."""
    return f"{number:016X}"


def _connection(manager: Engine, found: OpenConnection) -> Record:
    """Return the CONN record of a connection.

    UOWAGE is the age of its unit of work in seconds, 0 without one.
    """
    began_ms = found.unit_of_work_ms
    date, time = date_and_time(began_ms)
    values: dict[str, Value] = {
        "APPLTAG": found.application,
        "APPLTYPE": APPLICATION_TYPES["USER"],
        "USERID": found.user,
        "CHANNEL": found.channel,
        "CONNAME": found.address,
        "HANDLES": len(found.handles),
        "UOWSTATE": UNIT_OF_WORK_STATES["NONE" if began_ms is None else "ACTIVE"],
        "UOWSTDA": date,
        "UOWSTTI": time,
        "UOWAGE": 0 if began_ms is None else max(0, manager.now_ms() - began_ms) // SECOND_MS,
    }
    return Record(CONN, found.identifier, values)


def _instance(clients: Sequence[ClientConnection]) -> Record:
    """Return the CHSTATUS record of one client socket; ``clients`` are its conversations."""
    first = clients[0]
    date, time = date_and_time(first.connected_ms)
    values: dict[str, Value] = {
        "CHLTYPE": MQCHT_SVRCONN,
        "STATUS": CHANNEL_STATUS[ChannelState.RUNNING],
        "CONNAME": first.address,
        "MCAUSER": first.user,
        "RAPPLTAG": first.application,
        "CURSHCNV": len(clients),
        "MSGS": sum(client.request_count for client in clients),
        "HBINT": first.heartbeat_ms // SECOND_MS,
        "BYTSSENT": first.sent_bytes,
        "BYTSRCVD": first.received_bytes,
        "CHSTADA": date,
        "CHSTATI": time,
    }
    return Record(CHSTATUS, first.channel, values)


def date_and_time(moment_ms: int | None) -> tuple[str, str]:
    """Return ms since 1970 as a UTC date and time of MQSC: ``('2026-01-31', '23.59.59')``.

    Returns two empty texts for None.
    """
    if moment_ms is None:
        return "", ""
    moment = datetime.fromtimestamp(moment_ms / SECOND_MS, UTC)
    return moment.strftime("%Y-%m-%d"), moment.strftime("%H.%M.%S")

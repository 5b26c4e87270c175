"""``…/channels``: the status of channels; start, stop, reset and resolve."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from mayfly.admin import CHANNEL, inquire, named, object_type, stop_channel
from mayfly.admin.model import Record
from mayfly.admin.security.roles import Role
from mayfly.channel import ChannelState, ClientConnection, channels_of, client_connections
from mayfly.engine import Engine
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation

_OF_CLIENTS: Final = "SVRCONN"


class ChannelPartner(Struct):
    """The status of a channel with one of its partners, as in DISPLAY CHSTATUS."""

    status: Annotated[ChannelState, Meta(description="STATUS")]
    partner: Annotated[str, Meta(description="the queue manager at the other end, once known")]
    connection: Annotated[str, Meta(description="CONNAME")]
    message_count: Annotated[int, Meta(description="MSGS, since the channel was started")]
    batch_count: Annotated[int, Meta(description="BATCHES, since the channel was started")]
    last_message_ms: Annotated[
        int | None, Meta(description="when the last of these was handed over, null without one")
    ]
    sent_bytes: Annotated[int, Meta(description="BYTSSENT; 0 within a process")]
    received_bytes: Annotated[int, Meta(description="BYTSRCVD; 0 within a process")]
    is_in_doubt: Annotated[bool, Meta(description="INDOUBT: a batch may have arrived or not")]
    sequence: Annotated[int, Meta(description="LSTSEQNO, of the last batch that is sure")]
    current_sequence: Annotated[int, Meta(description="CURSEQNO, of the batch in doubt if any")]
    luw: Annotated[str, Meta(description="LSTLUWID")]
    current_luw: Annotated[str, Meta(description="CURLUWID")]
    short_retries_left: Annotated[int, Meta(description="SHORTRTS")]
    long_retries_left: Annotated[int, Meta(description="LONGRTS")]
    heartbeat_s: Annotated[int, Meta(description="HBINT, 0 while there is no connection")]
    failure: Annotated[str, Meta(description="why it retries or has stopped, empty if it does not")]


class Channel(Struct):
    """A channel and its status; a channel of clients shows only how many clients it has."""

    name: Annotated[str, Meta(description="the name of the channel")]
    type: Annotated[str, Meta(description="CHLTYPE: SDR, RCVR or SVRCONN")]
    description: Annotated[str, Meta(description="DESCR")]
    transmission_queue: Annotated[str, Meta(description="XMITQ, empty where it has none")]
    is_stopped: Annotated[bool, Meta(description="whether only a start lets it work again")]
    partners: Annotated[
        list[ChannelPartner],
        Meta(description="one of a sender; of a receiver, those that have sent"),
    ]
    client_count: Annotated[int, Meta(description="conversations that clients have by it")]


class AllChannels(Struct):
    """Channels by name."""

    channels: list[Channel]


class Stop(Struct, forbid_unknown_fields=True):
    """Body of a stop: whether the channel ends its work first, and whether clients may return."""

    mode: Annotated[
        Literal["quiesce", "force"],
        Meta(description="behind the work under way; or at once, which cuts it off"),
    ] = "quiesce"
    inactive: Annotated[
        bool, Meta(description="INACTIVE, not STOPPED: partners and triggers may start it again")
    ] = False


class Reset(Struct, forbid_unknown_fields=True):
    """Body of a reset: the new sequence number."""

    sequence: Annotated[int, Meta(ge=1, le=999_999_999, description="SEQNUM of the next message")]


class Resolve(Struct, forbid_unknown_fields=True):
    """Body of a resolve: whether the batch in doubt is committed or backed out."""

    action: Annotated[
        Literal["commit", "backout"],
        Meta(description="commit: it is there, and ends here; backout: it goes again"),
    ]


def listed(call: Call[NoQuery, None]) -> AllChannels:
    """List all channels by name, with the status of their partners."""
    engine = call.manager.engine
    clients = client_connections(engine)
    found = inquire(engine, (CHANNEL,), "*")
    return AllChannels([_to_channel(engine, record, clients) for record in found])


def shown(call: Call[NoQuery, None]) -> Channel:
    """Show one channel; 404 for an unknown channel."""
    return _find(call)


def started(call: Call[NoQuery, None]) -> Channel:
    """Start a sender, or let a receiver or a channel of clients accept connections again.

    The answer does not wait for the partner: a later status shows whether the partner can be
    reached. 404 if the channel does not exist.
    """
    _find(call)
    channels_of(call.manager.engine).start(call.names["channel"])
    return _find(call)


def stopped(call: Call[NoQuery, Stop]) -> Channel:
    """Stop a channel until it is started again; 404 for an unknown channel.

    With ``inactive`` clients and senders may connect again, and a trigger starts a sender.
    """
    _find(call)
    is_forced, is_inactive = call.body.mode == "force", call.body.inactive
    name = call.names["channel"]
    stop_channel(call.manager.engine, name, is_forced=is_forced, is_inactive=is_inactive)
    return _find(call)


def reset(call: Call[NoQuery, Reset]) -> Channel:
    """Set the sequence number of the next message; 404 if the channel does not exist.

    A sender sends the number to its receiver when it starts. 409 while the channel is connected or
    in doubt.
    """
    _find(call)
    channels_of(call.manager.engine).reset(call.names["channel"], call.body.sequence)
    return _find(call)


def resolved(call: Call[NoQuery, Resolve]) -> Channel:
    """Commit or back out a batch in doubt without asking the partner.

    A wrong decision loses or duplicates messages. Compare the partner's LSTLUWID with CURLUWID
    here: if they are equal, the batch has arrived and is to be committed. 404 if the channel does
    not exist, 409 if no batch is in doubt.
    """
    _find(call)
    is_committed = call.body.action == "commit"
    channels_of(call.manager.engine).resolve(call.names["channel"], is_committed=is_committed)
    return _find(call)


def _find(call: Call[Any, Any]) -> Channel:
    """Return the channel in the path of a request; raises HttpError (404) if it is missing."""
    engine, name = call.manager.engine, call.names["channel"]
    found = [one for one in inquire(engine, (CHANNEL,), name) if one.name == name]
    if not found:
        raise HttpError(HTTPStatus.NOT_FOUND, f"{name!r} is no channel")
    return _to_channel(engine, found[0], client_connections(engine))


def _to_channel(engine: Engine, record: Record, clients: list[ClientConnection]) -> Channel:
    """Return a channel with the status of its partners, as the API shows it.

    ``clients`` are all client conversations of the queue manager, which are counted by channel.
    """
    name, values = record.name, record.values
    kind = str(named(object_type(CHANNEL).attributes["CHLTYPE"], values["CHLTYPE"]))
    channels = channels_of(engine)
    statuses = [] if kind == _OF_CLIENTS else channels.status(name)
    is_stopped = channels.is_stopped(name) or any(
        one.is_sender and one.status is ChannelState.STOPPED for one in statuses
    )
    return Channel(
        name,
        kind,
        str(values.get("DESCR", "")),
        str(values.get("XMITQ", "")),
        is_stopped,
        [
            ChannelPartner(
                **{field: getattr(one, field) for field in ChannelPartner.__struct_fields__}
            )
            for one in statuses
        ],
        sum(client.channel == name for client in clients),
    )


_PATH: Final = f"{OF_MANAGER}/channels"
_NONE: Final = {HTTPStatus.NOT_FOUND: "there is no such channel"}
_WRONG: Final = {
    **_NONE,
    HTTPStatus.CONFLICT: "the channel is running, of another type, or a batch of it is in doubt",
}
OPERATIONS: Final = (
    Operation("GET", _PATH, listed, Role.LOOK),
    Operation("GET", f"{_PATH}/{{channel}}", shown, Role.LOOK, problems=_NONE),
    Operation("POST", f"{_PATH}/{{channel}}/start", started, Role.OPERATE, problems=_WRONG),
    Operation("POST", f"{_PATH}/{{channel}}/stop", stopped, Role.OPERATE, problems=_WRONG),
    Operation("POST", f"{_PATH}/{{channel}}/reset", reset, Role.OPERATE, problems=_WRONG),
    Operation("POST", f"{_PATH}/{{channel}}/resolve", resolved, Role.OPERATE, problems=_WRONG),
)

"""Channels: messages of a transmission queue move to another queue manager, each exactly once."""

from mayfly.channel.channels import (
    Channels,
    ClientConnection,
    Clients,
    LocalLink,
    channels_of,
    client_connections,
    clients_known,
    connect_local,
    end_client,
    quiesce_client,
)
from mayfly.channel.links import LinkDown, ReceiverLink, Traffic
from mayfly.channel.receiver import RemoteSender
from mayfly.channel.sender import ChannelState, ChannelStatus
from mayfly.engine.api.transit import ChannelDefinition
from mayfly.verbs.contracts.channels import Envelope, Opening, ReceiverState

__all__ = [
    "RemoteSender",
    "ChannelDefinition",
    "ChannelStatus",
    "Channels",
    "ClientConnection",
    "Clients",
    "ReceiverLink",
    "LinkDown",
    "LocalLink",
    "Opening",
    "Envelope",
    "ReceiverState",
    "ChannelState",
    "Traffic",
    "channels_of",
    "client_connections",
    "clients_known",
    "connect_local",
    "end_client",
    "quiesce_client",
]

"""The face of the engine for what moves messages between queue managers, exactly once.

Channels, the hierarchy of publish/subscribe and the way to and from MQ Everyplace use it.
"""

from mayfly.engine.arrivals import next_number, when_woken
from mayfly.engine.attributes import ChannelDefinition
from mayfly.engine.objects.definitions_lock import definitions_if_free
from mayfly.engine.objects.lookup import channel_definitions
from mayfly.engine.pubsub.from_neighbours import publish_from_neighbour
from mayfly.engine.pubsub.neighbours import Neighbours
from mayfly.engine.pubsub.proxies import PUBLICATIONS
from mayfly.engine.pubsub.subscribed_topics import SubscribedTopics, TopicChange
from mayfly.engine.remote.unwrapping import out_of_transit
from mayfly.engine.remote.wrapping import seen_in_transit
from mayfly.engine.transit import (
    MoveNumbers,
    Shipment,
    Undeliverable,
    open_transmission_queue,
    put_received,
    refuse,
    report_expiration,
)

__all__ = [
    # Channels: their definitions, and when to look for work.
    "ChannelDefinition",
    "channel_definitions",
    "when_woken",
    # Messages leave for another queue manager, and come from one, each exactly once.
    "MoveNumbers",
    "Undeliverable",
    "Shipment",
    "open_transmission_queue",
    "out_of_transit",
    "put_received",
    "refuse",
    "report_expiration",
    "seen_in_transit",
    # Publish/subscribe with neighbours.
    "Neighbours",
    "PUBLICATIONS",
    "SubscribedTopics",
    "TopicChange",
    "definitions_if_free",
    "next_number",
    "publish_from_neighbour",
]

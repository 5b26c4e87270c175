"""The engine's API for moving messages between queue managers, exactly once.

Channels, the hierarchy of publish/subscribe and the bridge to MQ Everyplace use it.
"""

from mayfly.engine.arrivals import next_number
from mayfly.engine.attributes import ChannelDefinition
from mayfly.engine.events.messages import report_start, report_stop, report_stop_command
from mayfly.engine.objects.administration import definitions_if_free
from mayfly.engine.objects.views import channel_definitions
from mayfly.engine.pubsub.neighbours import (
    Neighbours,
    SubscribedTopics,
    TopicChange,
    publish_from_neighbour,
)
from mayfly.engine.pubsub.proxies import PUBLICATIONS
from mayfly.engine.remote_queues import out_of_transit, seen_in_transit
from mayfly.engine.transit import (
    ChannelBatch,
    MoveNumbers,
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
    "report_start",
    "report_stop",
    "report_stop_command",
    # Messages leave for another queue manager, and come from one, each exactly once.
    "MoveNumbers",
    "Undeliverable",
    "ChannelBatch",
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

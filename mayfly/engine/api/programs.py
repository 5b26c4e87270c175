"""The engine's API for programs: verbs, their arguments and results.

Only ``mayfly.client.connection`` uses it, the base of facades and servers.
"""

from mayfly.engine.callbacks import Completion
from mayfly.engine.delay.schedule import SessionSchedule
from mayfly.engine.finding.search import ANY
from mayfly.engine.forwarding import find_got_message
from mayfly.engine.get import get_many
from mayfly.engine.objects.inquire import (
    DEFINITION_KINDS,
    DefinitionHandle,
    inquire,
    inquire_itself,
    set_attributes,
)
from mayfly.engine.objects.views import has_ttl_from_release
from mayfly.engine.pending import PendingGet, PendingWaits
from mayfly.engine.properties import with_properties
from mayfly.engine.pubsub.mqsub import (
    SubscriptionWanted,
    delete_temporary_topic,
    facts_of,
    is_subscribed_to,
    make_temporary_topic,
    open_durable,
    remove_idle,
    reserve_client_id,
    subscribe_as,
)
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.topic_verbs import TopicHandle
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.verb_options import check_get_options

__all__ = [
    # An open queue manager: its configuration, its place, its status.
    # Programs: a session, its open queues, what is put and got.
    "ANY",
    "DEFINITION_KINDS",
    "DefinitionHandle",
    "SessionSchedule",
    "TopicHandle",
    "check_get_options",
    "get_many",
    "has_ttl_from_release",
    "inquire",
    "inquire_itself",
    "find_got_message",
    "set_attributes",
    # Properties of messages.
    "with_properties",
    # Subscriptions.
    "OpenSubscription",
    "SubscriptionWanted",
    "reserve_client_id",
    "delete_temporary_topic",
    "facts_of",
    "is_subscribed_to",
    "make_temporary_topic",
    "open_durable",
    "remove_idle",
    "subscribe_as",
    # Verbs that end by callback, and messages that are held until they are settled.
    "Completion",
    "PendingGet",
    "PendingWaits",
    "UnitOfWork",
]

"""The face of the engine for programs: verbs, what they are given and what they return.

Only ``mayfly.connection`` uses it; facades and servers stand on ``mayfly.connection``.
"""

from mayfly.engine.callbacks import Completion
from mayfly.engine.counting import Counts
from mayfly.engine.delay.schedule import Schedule, check_page
from mayfly.engine.deliveries import Delivery, Settlement
from mayfly.engine.delivery import bytes_of
from mayfly.engine.descriptors import plain_descriptor
from mayfly.engine.finding.search import ANY
from mayfly.engine.forwarding import got_in
from mayfly.engine.get_many import MOST_BYTES, check_most, get_many
from mayfly.engine.get_result import GetResult, Handed
from mayfly.engine.home import HOME_VARIABLE
from mayfly.engine.message import row_of, token_of
from mayfly.engine.objects.handle import DEFINITION_KINDS, DefinitionHandle
from mayfly.engine.objects.inquire import Inquiry, inquire, inquire_itself, text_length
from mayfly.engine.objects.lookup import has_lives_from_release
from mayfly.engine.objects.set_attributes import set_attributes
from mayfly.engine.properties.putting import with_properties
from mayfly.engine.pubsub.durable import (
    claim_client_id,
    delete_temporary_topic,
    is_subscribed_to,
    make_temporary_topic,
    open_durable,
    remove_idle,
)
from mayfly.engine.pubsub.mqsub import SubscriptionFacts, SubscriptionWanted, facts_of, subscribe_as
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.topic_handle import TopicHandle
from mayfly.engine.put import PutResult
from mayfly.engine.standing_get import StandingGet
from mayfly.engine.standing_wait import StandingWaits
from mayfly.engine.status import Status
from mayfly.engine.taking import Room
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.verb_options import check_get_options

__all__ = [
    # An open queue manager: its configuration, its place, its status.
    "Counts",
    "HOME_VARIABLE",
    # Programs: a session, its open queues, what is put and got.
    "ANY",
    "DEFINITION_KINDS",
    "DefinitionHandle",
    "GetResult",
    "Handed",
    "Inquiry",
    "MOST_BYTES",
    "PutResult",
    "Schedule",
    "Status",
    "TopicHandle",
    "bytes_of",
    "check_get_options",
    "check_most",
    "check_page",
    "get_many",
    "has_lives_from_release",
    "inquire",
    "inquire_itself",
    "plain_descriptor",
    "row_of",
    "got_in",
    "set_attributes",
    "text_length",
    "token_of",
    # Properties of messages.
    "with_properties",
    # Subscriptions.
    "OpenSubscription",
    "SubscriptionFacts",
    "SubscriptionWanted",
    "claim_client_id",
    "delete_temporary_topic",
    "facts_of",
    "is_subscribed_to",
    "make_temporary_topic",
    "open_durable",
    "remove_idle",
    "subscribe_as",
    # Verbs that end by callback, and messages that are held until they are settled.
    "Delivery",
    "Completion",
    "Room",
    "Settlement",
    "StandingGet",
    "StandingWaits",
    "UnitOfWork",
]

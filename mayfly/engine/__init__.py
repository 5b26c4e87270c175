"""The face of the engine: what channels, facades, servers and commands may use of it.

A name stands here because a neighbour asks for it, under the name that the neighbour would give it.
Everything behind this module is the engine's own and may change: its lock, its definitions in
memory, its transactions. ``tests/engine_boundary.txt`` counts what is still taken from there.
"""

from mayfly.engine.arrival_order import arrival_number, next_arrival_number, next_number
from mayfly.engine.arrivals import Arrivals
from mayfly.engine.attributes import ChannelDefinition, ChildDefinition, attributes_of
from mayfly.engine.attributes.attribute import (
    AUTHREC,
    CHANNEL,
    LONGEST_MESSAGE_BYTES,
    PROCESS,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    SUB,
    TOPIC,
    Attribute,
    Value,
)
from mayfly.engine.attributes.of_channels import ANY_TLS, RECEIVER_ONLY, SENDER_ONLY
from mayfly.engine.authority.changes import check_entity, delete_authority, set_authority
from mayfly.engine.authority.checks import check_putter
from mayfly.engine.authority.profiles import SELF, check_profile
from mayfly.engine.authority.profiles import is_generic as is_generic_profile
from mayfly.engine.authority.profiles import pattern_of as profile_pattern
from mayfly.engine.authority.records import GROUP, PRINCIPAL, Entity
from mayfly.engine.authority.records import RecordKey as AuthorityKey
from mayfly.engine.authority.words import OBJECT_TYPES
from mayfly.engine.authority.words import allowed_words as authorities_of
from mayfly.engine.authority.words import spelled as spelled_authorities
from mayfly.engine.bulk.bulk_browse import page as browsable_page
from mayfly.engine.bulk.bulk_browse import ranges as browsable_ranges
from mayfly.engine.bulk.claim_holding import Limit as ClaimLimit
from mayfly.engine.bulk.claims import Claims
from mayfly.engine.bulk.consumers import ClaimError
from mayfly.engine.bulk.consumers import Standing as ConsumerStanding
from mayfly.engine.bulk.staged_rows import StagedRows
from mayfly.engine.bulk.stages import TRANSACTION_ROWS, StageMissing
from mayfly.engine.callbacks import Later
from mayfly.engine.configuration import Configuration
from mayfly.engine.counting import Counts, Verification, volatile_count
from mayfly.engine.delay.schedule import AuditEntry, Receipt, Schedule, Scheduled, ScheduleFilter
from mayfly.engine.deliveries import Delivery, Settlement
from mayfly.engine.delivery import Identifier, new_message_id, stored_id
from mayfly.engine.expiry_scan import scan_every
from mayfly.engine.finding.search import ANY, Match
from mayfly.engine.forwarding import bury, bury_reply, forward, put_reply, report_exception
from mayfly.engine.get import GetRequest, GetResult
from mayfly.engine.handles import Handle
from mayfly.engine.home import HOME_VARIABLE, check_manager_name, folder_in_home
from mayfly.engine.locking import definitions_if_free
from mayfly.engine.manager import Manager
from mayfly.engine.message import Message, position_of, token_of
from mayfly.engine.move_numbers import MoveNumbers
from mayfly.engine.objects.administration import alter as alter_definition
from mayfly.engine.objects.administration import clear as clear_queue
from mayfly.engine.objects.administration import define as define_queue
from mayfly.engine.objects.administration import delete as delete_queue
from mayfly.engine.objects.handle import DEFINITION_KINDS, DefinitionHandle
from mayfly.engine.objects.inquire import Inquiry, inquire, inquire_itself, text_length
from mayfly.engine.objects.lookup import (
    channel_definitions,
    definitions_version,
    manager_definition,
    target_queue,
)
from mayfly.engine.objects.named import (
    alter_named,
    define_named,
    delete_named,
    find_channel,
    find_named,
)
from mayfly.engine.objects.registry import DEFAULT_OBJECTS, STAGING_QUEUE, check_name
from mayfly.engine.objects.set_attributes import set_attributes
from mayfly.engine.objects.views import (
    entities_of,
    granted,
    matches,
    view_authority,
    view_channels,
    view_manager,
    view_members,
    view_named,
    view_neighbours,
    view_queue,
    view_queue_status,
    view_queues,
    view_subscriptions,
    view_topic_string,
    view_topics,
)
from mayfly.engine.open_managers import open_managers as managers_here
from mayfly.engine.own_time import OwnTime, come_back
from mayfly.engine.properties.putting import with_properties
from mayfly.engine.pubsub.from_neighbours import publish_from_neighbour
from mayfly.engine.pubsub.mqsub import SubscriptionFacts, SubscriptionWanted, facts_of, subscribe_as
from mayfly.engine.pubsub.neighbours import Neighbours
from mayfly.engine.pubsub.proxies import PUBLICATIONS
from mayfly.engine.pubsub.retained import clear_retained
from mayfly.engine.pubsub.subscribed_topics import SubscribedTopics, TopicChange
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.subscription_administration import (
    CHANGEABLE as CHANGEABLE_OF_SUBSCRIPTIONS,
)
from mayfly.engine.pubsub.subscription_administration import (
    alter_subscription,
    define_subscription,
    delete_subscription,
)
from mayfly.engine.pubsub.topic_administration import alter_topic, define_topic, delete_topic
from mayfly.engine.pubsub.topic_handle import TopicHandle
from mayfly.engine.pubsub.topic_strings import check_topic_string
from mayfly.engine.pubsub.topics import BASE_VALUES as TOPIC_VALUES
from mayfly.engine.pubsub.topics import DEFAULT_TOPIC
from mayfly.engine.put import PutRequest, PutResult
from mayfly.engine.received import Refused, put_received, refuse, report_expiration
from mayfly.engine.remote.resolution import full_name
from mayfly.engine.remote.unwrapping import out_of_transit
from mayfly.engine.remote.wrapping import seen_in_transit
from mayfly.engine.session import Session
from mayfly.engine.settings import PLATFORMS, SETTINGS, SettingValue
from mayfly.engine.shipments import Shipment, open_transmission_queue
from mayfly.engine.status import Status
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.verb_options import check_get_options
from mayfly.engine.watch import Signal, wait_for
from mayfly.engine.whereabouts.answer import Stay, Step, Whereabouts
from mayfly.properties.folders import Description as PropertyDescription
from mayfly.properties.folders import Property, parts_of

__all__ = [
    # An open queue manager: what it is made with, where it lives, what it says of itself.
    "Configuration",
    "Counts",
    "HOME_VARIABLE",
    "Manager",
    "OwnTime",
    "PLATFORMS",
    "SETTINGS",
    "SettingValue",
    "Verification",
    "check_manager_name",
    "come_back",
    "folder_in_home",
    "next_number",
    "scan_every",
    "volatile_count",
    # What is defined, and who may put.
    "ChannelDefinition",
    "ChildDefinition",
    "LONGEST_MESSAGE_BYTES",
    "channel_definitions",
    "check_name",
    "check_putter",
    "definitions_if_free",
    "definitions_version",
    "find_channel",
    "full_name",
    "manager_definition",
    "managers_here",
    "target_queue",
    # Programs: a session, its open queues, what is put and got.
    "ANY",
    "DEFINITION_KINDS",
    "DefinitionHandle",
    "GetRequest",
    "GetResult",
    "Handle",
    "Identifier",
    "Inquiry",
    "MANAGER_CCSID",
    "Match",
    "Message",
    "PutRequest",
    "PutResult",
    "Session",
    "Status",
    "TopicHandle",
    "Value",
    "arrival_number",
    "check_get_options",
    "inquire",
    "inquire_itself",
    "new_message_id",
    "next_arrival_number",
    "parts_of",
    "position_of",
    "set_attributes",
    "stored_id",
    "text_length",
    "token_of",
    # Services, which are driven by what arrives.
    "Arrivals",
    "Signal",
    "wait_for",
    # A message that was got moves on, its life running on, or is answered.
    "bury",
    "bury_reply",
    "forward",
    "put_reply",
    "report_exception",
    # Messages go to another queue manager, in batches, and come from one, each exactly once.
    "MoveNumbers",
    "Refused",
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
    "check_topic_string",
    "publish_from_neighbour",
    # Delayed messages.
    "AuditEntry",
    "Receipt",
    "Schedule",
    "ScheduleFilter",
    "Scheduled",
    # Where a message is.
    "Stay",
    "Step",
    "Whereabouts",
    # Many messages at once: claims of consumers, stages of writers, a queue in ranges.
    "ClaimError",
    "ClaimLimit",
    "Claims",
    "ConsumerStanding",
    "StageMissing",
    "StagedRows",
    "TRANSACTION_ROWS",
    "browsable_page",
    "browsable_ranges",
    # Properties of messages.
    "Property",
    "PropertyDescription",
    "with_properties",
    # Subscriptions.
    "OpenSubscription",
    "SubscriptionFacts",
    "SubscriptionWanted",
    "facts_of",
    "subscribe_as",
    # Verbs that end by callback, and messages that are held until they are settled.
    "Delivery",
    "Later",
    "Settlement",
    "UnitOfWork",
    # Administration: kinds of objects, their attributes, what is defined and how it stands.
    "ANY_TLS",
    "AUTHREC",
    "Attribute",
    "AuthorityKey",
    "CHANGEABLE_OF_SUBSCRIPTIONS",
    "CHANNEL",
    "DEFAULT_OBJECTS",
    "DEFAULT_TOPIC",
    "Entity",
    "GROUP",
    "OBJECT_TYPES",
    "PRINCIPAL",
    "PROCESS",
    "QALIAS",
    "QLOCAL",
    "QMGR",
    "QMODEL",
    "QREMOTE",
    "QUEUE_KINDS",
    "RECEIVER_ONLY",
    "SELF",
    "SENDER_ONLY",
    "STAGING_QUEUE",
    "SUB",
    "TOPIC",
    "TOPIC_VALUES",
    "alter_definition",
    "alter_named",
    "alter_subscription",
    "alter_topic",
    "attributes_of",
    "authorities_of",
    "check_entity",
    "check_profile",
    "clear_queue",
    "clear_retained",
    "define_named",
    "define_queue",
    "define_subscription",
    "define_topic",
    "delete_authority",
    "delete_named",
    "delete_queue",
    "delete_subscription",
    "delete_topic",
    "entities_of",
    "find_named",
    "granted",
    "is_generic_profile",
    "matches",
    "profile_pattern",
    "set_authority",
    "spelled_authorities",
    "view_authority",
    "view_channels",
    "view_manager",
    "view_members",
    "view_named",
    "view_neighbours",
    "view_queue",
    "view_queue_status",
    "view_queues",
    "view_subscriptions",
    "view_topic_string",
    "view_topics",
]

"""The face of the engine: what channels, facades, servers and commands may use of it.

A name stands here because a neighbour asks for it, under the name that the neighbour would give it.
Everything behind this module is the engine's own and may change: its lock, its definitions in
memory, its transactions. ``tests/engine_boundary.txt`` counts what is still taken from there.
"""

from mayfly.engine.arrivals import Arrivals
from mayfly.engine.attributes import ChannelDefinition, ChildDefinition
from mayfly.engine.attributes.attribute import Value
from mayfly.engine.callbacks import Later
from mayfly.engine.configuration import Configuration
from mayfly.engine.counting import Counts, Verification
from mayfly.engine.delay.schedule import AuditEntry, Receipt, Schedule, Scheduled, ScheduleFilter
from mayfly.engine.deliveries import Delivery, Settlement
from mayfly.engine.delivery import Identifier, new_message_id, stored_id
from mayfly.engine.finding.search import ANY, Match
from mayfly.engine.forwarding import bury, forward, report_exception
from mayfly.engine.get import GetRequest, GetResult
from mayfly.engine.handles import Handle
from mayfly.engine.home import HOME_VARIABLE, check_manager_name, folder_in_home
from mayfly.engine.manager import Manager
from mayfly.engine.message import Message, token_of
from mayfly.engine.objects.handle import DEFINITION_KINDS, DefinitionHandle
from mayfly.engine.objects.inquire import (
    MANAGER_CCSID,
    Inquiry,
    inquire,
    inquire_itself,
    text_length,
)
from mayfly.engine.objects.lookup import channel_definitions, manager_definition, target_queue
from mayfly.engine.objects.named import find_channel
from mayfly.engine.objects.set_attributes import set_attributes
from mayfly.engine.open_managers import open_managers as managers_here
from mayfly.engine.own_time import OwnTime, come_back
from mayfly.engine.properties.folders import Description as PropertyDescription
from mayfly.engine.properties.folders import Property
from mayfly.engine.properties.putting import with_properties
from mayfly.engine.pubsub.mqsub import SubscriptionFacts, SubscriptionWanted, facts_of, subscribe_as
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.topic_handle import TopicHandle
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
from mayfly.engine.watch import wait_for
from mayfly.engine.whereabouts.answer import Stay, Step, Whereabouts

__all__ = [
    # An open queue manager: what it is made with, where it lives, what it says of itself.
    "Configuration",
    "ChannelDefinition",
    "ChildDefinition",
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
    # What is defined.
    "channel_definitions",
    "find_channel",
    "manager_definition",
    "target_queue",
    "managers_here",
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
    "new_message_id",
    "Status",
    "TopicHandle",
    "Value",
    "check_get_options",
    "inquire",
    "inquire_itself",
    "set_attributes",
    "stored_id",
    "text_length",
    "token_of",
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
    # Services, which are driven by what arrives.
    "Arrivals",
    "wait_for",
    # A message that was got moves on, its life running on.
    "bury",
    "forward",
    "full_name",
    "report_exception",
    # Messages go to another queue manager, in batches, and come from one.
    "Refused",
    "Shipment",
    "open_transmission_queue",
    "out_of_transit",
    "put_received",
    "refuse",
    "report_expiration",
    "seen_in_transit",
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
]

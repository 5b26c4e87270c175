"""The face of the engine: what channels, facades, servers and commands may use of it.

A name stands here because a neighbour asks for it, under the name that the neighbour would give it.
Everything behind this module is the engine's own and may change: its lock, its definitions in
memory, its transactions. ``tests/engine_boundary.txt`` counts what is still taken from there.
"""

from mayfly.engine.arrivals import Arrivals
from mayfly.engine.attributes import ChannelDefinition, ChildDefinition
from mayfly.engine.configuration import Configuration
from mayfly.engine.counting import Verification
from mayfly.engine.delay.schedule import AuditEntry, Receipt, Schedule, Scheduled, ScheduleFilter
from mayfly.engine.delivery import Identifier, new_message_id, stored_id
from mayfly.engine.forwarding import bury, forward, report_exception
from mayfly.engine.get import GetRequest
from mayfly.engine.handles import Handle
from mayfly.engine.home import check_manager_name, folder_in_home
from mayfly.engine.manager import Manager
from mayfly.engine.message import Message
from mayfly.engine.objects.lookup import (
    channel_definitions,
    manager_definition,
    target_queue,
)
from mayfly.engine.objects.named import find_channel
from mayfly.engine.own_time import OwnTime, come_back
from mayfly.engine.put import PutRequest
from mayfly.engine.received import Refused, put_received, refuse, report_expiration
from mayfly.engine.remote.resolution import full_name
from mayfly.engine.remote.unwrapping import out_of_transit
from mayfly.engine.remote.wrapping import seen_in_transit
from mayfly.engine.session import Session
from mayfly.engine.settings import PLATFORMS, SETTINGS, SettingValue
from mayfly.engine.shipments import Shipment, open_transmission_queue
from mayfly.engine.watch import wait_for
from mayfly.engine.whereabouts.answer import Stay, Step, Whereabouts

__all__ = [
    # An open queue manager: what it is made with, where it lives, what it says of itself.
    "Configuration",
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
    "ChannelDefinition",
    "ChildDefinition",
    "channel_definitions",
    "find_channel",
    "manager_definition",
    "target_queue",
    # Programs: a session, its open queues, what is put and got.
    "GetRequest",
    "Handle",
    "Identifier",
    "Message",
    "PutRequest",
    "Session",
    "new_message_id",
    "stored_id",
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

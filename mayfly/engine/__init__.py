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
from mayfly.engine.delivery import Identifier, stored_id
from mayfly.engine.forwarding import bury, forward, report_exception
from mayfly.engine.get import GetRequest
from mayfly.engine.handles import Handle
from mayfly.engine.home import check_manager_name, folder_in_home
from mayfly.engine.manager import Manager
from mayfly.engine.message import Message
from mayfly.engine.own_time import OwnTime, come_back
from mayfly.engine.put import PutRequest
from mayfly.engine.remote.resolution import full_name
from mayfly.engine.session import Session
from mayfly.engine.settings import PLATFORMS, SETTINGS, SettingValue
from mayfly.engine.watch import wait_for
from mayfly.engine.whereabouts.answer import Stay, Step, Whereabouts

__all__ = [
    # An open queue manager: what it is made with, where it lives, what it says of itself.
    "Configuration",
    "ChannelDefinition",
    "ChildDefinition",
    "Manager",
    "OwnTime",
    "PLATFORMS",
    "SETTINGS",
    "SettingValue",
    "Verification",
    "check_manager_name",
    "come_back",
    "folder_in_home",
    # Programs: a session, its open queues, what is put and got.
    "GetRequest",
    "Handle",
    "Identifier",
    "Message",
    "PutRequest",
    "Session",
    "stored_id",
    # Services, which are driven by what arrives.
    "Arrivals",
    "wait_for",
    # A message that was got moves on, its life running on.
    "bury",
    "forward",
    "full_name",
    "report_exception",
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

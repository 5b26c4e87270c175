"""The API of the engine: the names that channels, clients, servers and commands may use.

Names that several of them use are in this module. Names for one of them are in a module of
``mayfly.engine.api``: ``programs``, ``administration``, ``transit``, ``bulk``, ``operating``,
``admission``. Everything else in this package is internal: the lock, the definitions in memory, the
transactions. ``tests/test_tidy.py`` finds imports of internals from outside.
"""

from mayfly.engine.arrivals import Arrivals, arrival_number
from mayfly.engine.attributes import LONGEST_MESSAGE_BYTES
from mayfly.engine.configuration import Configuration
from mayfly.engine.counting import volatile_count
from mayfly.engine.delivery import new_message_id
from mayfly.engine.engine import Engine
from mayfly.engine.expiry import scan_every
from mayfly.engine.finding.search import Match
from mayfly.engine.forwarding import (
    check_forward_target,
    forward,
    move_under_cursor,
    put_dead_letter,
    put_reply,
    report_exception,
    set_aside,
)
from mayfly.engine.get import GetRequest
from mayfly.engine.handles import Handle
from mayfly.engine.objects.administration import find_channel
from mayfly.engine.objects.inquire import text_length
from mayfly.engine.objects.views import (
    manager_definition,
    manager_folder,
)
from mayfly.engine.own_time import advance_clock, return_to_wall_clock
from mayfly.engine.put import PutRequest
from mayfly.engine.remote_queues import full_name
from mayfly.engine.session import Session
from mayfly.engine.settings import PLATFORMS, SETTINGS, SettingValue, setting_value
from mayfly.engine.trace.sources import ArchiveError, TraceSource, TraceSources, combined_trace

__all__ = [
    # An open queue manager: its configuration, its place, its status.
    "Configuration",
    "Engine",
    "PLATFORMS",
    "SETTINGS",
    "SettingValue",
    "advance_clock",
    "setting_value",
    "return_to_wall_clock",
    "scan_every",
    "volatile_count",
    # Definitions, and the authority to put.
    "LONGEST_MESSAGE_BYTES",
    "find_channel",
    "full_name",
    "manager_definition",
    "manager_folder",
    "text_length",
    # Programs: a session, its open queues, what is put and got.
    "GetRequest",
    "Handle",
    "Match",
    "PutRequest",
    "Session",
    "arrival_number",
    "new_message_id",
    # Services, which run when messages arrive.
    "Arrivals",
    # A message that was got is forwarded, reported on or answered.
    "put_dead_letter",
    "set_aside",
    "check_forward_target",
    "forward",
    "move_under_cursor",
    "put_reply",
    "report_exception",
    # Where a message is.
    "ArchiveError",
    "TraceSources",
    "TraceSource",
    "combined_trace",
]

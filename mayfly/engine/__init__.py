"""The face of the engine: the names that channels, facades, servers and commands may use.

A name stands here because a neighbour asks for it, under the name that the neighbour would give it.
Names that several neighbours use stand in this module. Names that one kind of neighbour alone
uses stand in a part of the face: ``face.programs``, ``face.administration``,
``face.transit``, ``face.bulk``, ``face.operating``.
Everything else in this package is the engine's own and may change: its lock, its definitions in
memory, its transactions. ``tests/test_tidy.py`` refuses whatever takes them from outside.
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
from mayfly.engine.objects.inquire import text_length
from mayfly.engine.objects.named import find_channel
from mayfly.engine.objects.views import (
    manager_definition,
    manager_folder,
)
from mayfly.engine.own_time import advance_clock, return_to_wall_clock
from mayfly.engine.put import PutRequest
from mayfly.engine.remote.resolution import full_name
from mayfly.engine.session import Session
from mayfly.engine.settings import PLATFORMS, SETTINGS, SettingValue, setting_value
from mayfly.engine.trace.sources import ArchiveError, TraceSource, TraceSources, whole_trace

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
    # Services, which are driven by what arrives.
    "Arrivals",
    # A message that was got moves on, its life running on, or is answered.
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
    "whole_trace",
]

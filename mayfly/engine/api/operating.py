"""The engine's API for operators: a group, counts, figures, traces of messages."""

from mayfly.engine.counting import counts_of, depth_of, verify
from mayfly.engine.delay.schedule import KeptMessages, SessionSchedule
from mayfly.engine.delay.staging_queries import DelayTimeline, Span
from mayfly.engine.ended_lives import (
    EndedFilter,
    ended_messages,
    ended_steps,
    ended_summary,
    erase_lives,
    erasures,
    expired_present,
    write_trace,
)
from mayfly.engine.expiry import Expired, watch_expiry
from mayfly.engine.figures import PUT, Figures, LiveFigures, QueueFigures, Watch, figures
from mayfly.engine.own_time import follow_wall, own_time
from mayfly.engine.properties import with_properties
from mayfly.engine.queue_content import (
    ContentFilter,
    PresentMessage,
    Receipts,
    audit,
    copy_messages,
    delete_messages,
    list_messages,
    look_at,
    move_messages,
    undo_cancel,
    undo_moves,
)
from mayfly.engine.queues import BOUNDS_MS, NO_LATENESS, LatenessCounts, LatenessSum
from mayfly.engine.settings import Settings
from mayfly.engine.sharing.group import QueueSharingGroup
from mayfly.engine.trace.entries import message_trace
from mayfly.engine.trace.sources import TraceCollector

__all__ = [
    "BOUNDS_MS",
    "ContentFilter",
    "EndedFilter",
    "Expired",
    "Figures",
    "KeptMessages",
    "LatenessCounts",
    "LatenessSum",
    "LiveFigures",
    "NO_LATENESS",
    "PUT",
    "PresentMessage",
    "QueueFigures",
    "QueueSharingGroup",
    "Receipts",
    "SessionSchedule",
    "Settings",
    "Span",
    "TraceCollector",
    "DelayTimeline",
    "Watch",
    "audit",
    "copy_messages",
    "counts_of",
    "delete_messages",
    "depth_of",
    "ended_messages",
    "ended_steps",
    "ended_summary",
    "erase_lives",
    "erasures",
    "expired_present",
    "figures",
    "follow_wall",
    "list_messages",
    "look_at",
    "move_messages",
    "own_time",
    "undo_cancel",
    "undo_moves",
    "verify",
    "watch_expiry",
    "message_trace",
    "with_properties",
    "write_trace",
]

"""The engine's API for operators: a group, counts, figures, traces of messages."""

from mayfly.engine.counting import counts_of, depth_of, verify
from mayfly.engine.delay.timeline import DelayTimeline, Span
from mayfly.engine.ended import (
    EndedFilter,
    ended_messages,
    ended_steps,
    ended_summary,
    expired_present,
    write_trace,
)
from mayfly.engine.erasure import erase_lives, erasures
from mayfly.engine.expiry import Expired, watch_expiry
from mayfly.engine.figures import PUT, Figures, LiveFigures, QueueFigures, Watch, figures
from mayfly.engine.lateness import BOUNDS_MS, LatenessCounts
from mayfly.engine.own_time import follow_wall, own_time
from mayfly.engine.settings import Settings
from mayfly.engine.sharing.group import QueueSharingGroup
from mayfly.engine.trace.entries import message_trace
from mayfly.engine.trace.sources import TraceCollector

__all__ = [
    "BOUNDS_MS",
    "EndedFilter",
    "Expired",
    "Figures",
    "LatenessCounts",
    "LiveFigures",
    "PUT",
    "QueueFigures",
    "QueueSharingGroup",
    "Settings",
    "Span",
    "TraceCollector",
    "DelayTimeline",
    "Watch",
    "counts_of",
    "depth_of",
    "ended_messages",
    "ended_steps",
    "ended_summary",
    "erase_lives",
    "erasures",
    "expired_present",
    "figures",
    "follow_wall",
    "own_time",
    "verify",
    "watch_expiry",
    "message_trace",
    "write_trace",
]

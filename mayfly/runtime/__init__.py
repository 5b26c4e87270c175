"""The runtime: access to the machine's clocks, threads, locks, randomness and files."""

from mayfly.runtime.clocks import SystemClock, elapsed_ms, elapsed_through_suspend_ms
from mayfly.runtime.files import Files
from mayfly.runtime.runtime import Condition, EngineLock, Event, Lock, Loop, Runtime, Signal, Thread
from mayfly.runtime.virtual_clock import VirtualClock

__all__ = [
    "Condition",
    "EngineLock",
    "Event",
    "Files",
    "Lock",
    "Loop",
    "Runtime",
    "Signal",
    "SystemClock",
    "Thread",
    "VirtualClock",
    "elapsed_ms",
    "elapsed_through_suspend_ms",
]

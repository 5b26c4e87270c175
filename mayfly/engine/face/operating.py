"""The face of the engine for ``mayfly.QueueManager``: its group, and what operators ask of it."""

from mayfly.engine.counting import Counts, counts_of, depth_of, verify
from mayfly.engine.own_time import follow_wall, own_time
from mayfly.engine.settings import Settings
from mayfly.engine.sharing.group import QueueSharingGroup
from mayfly.engine.whereabouts.asking import whereabouts

__all__ = [
    "Counts",
    "QueueSharingGroup",
    "Settings",
    "counts_of",
    "depth_of",
    "follow_wall",
    "own_time",
    "verify",
    "whereabouts",
]

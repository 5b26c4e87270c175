"""The face of the engine for listener ports: waits. Only ``mayfly.listener`` uses it."""

from mayfly.engine.waiting import LOOK_YOURSELF
from mayfly.engine.watch import Wait

__all__ = ["LOOK_YOURSELF", "Wait"]

"""The face of the engine for listener ports and the IMS bridge: waits on open queues."""

from mayfly.engine.waiting import LOOK_YOURSELF
from mayfly.engine.watch import Source, Wait, between_takes

__all__ = ["LOOK_YOURSELF", "Source", "Wait", "between_takes"]

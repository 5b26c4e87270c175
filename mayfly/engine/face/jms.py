"""The face of the engine for the IMS bridge: a wait on an open queue."""

from mayfly.engine.watch import Source

__all__ = ["Source"]

"""Mayfly: a message queue manager in which every message has a lifetime."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.2.0"
__all__ = [
    "Client",
    "MQError",
    "Message",
    "QueueManager",
    "QueueSharingGroup",
    "Reconnect",
    "SystemClock",
    "__version__",
    "aio",
    "connect",
]

if TYPE_CHECKING:
    from mayfly import aio
    from mayfly.client.client import Client, connect
    from mayfly.client.connection.endpoint import Reconnect
    from mayfly.engine.api.operating import QueueSharingGroup
    from mayfly.mqi.errors import MQError
    from mayfly.queue_manager import QueueManager
    from mayfly.runtime.clocks import SystemClock
    from mayfly.verbs.messages import Message

_MODULES = {
    "Client": "mayfly.client.client",
    "MQError": "mayfly.mqi.errors",
    "Message": "mayfly.verbs.messages",
    "QueueManager": "mayfly.queue_manager",
    "QueueSharingGroup": "mayfly.engine.api.operating",
    "Reconnect": "mayfly.client.connection.endpoint",
    "SystemClock": "mayfly.runtime.clocks",
    "connect": "mayfly.client.client",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that the lifetime rules load without a store.

    Raises AttributeError for any other name.
    """
    from importlib import import_module

    if name == "aio":
        return import_module("mayfly.aio")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'mayfly' has no attribute {name!r}")
    return getattr(import_module(module), name)

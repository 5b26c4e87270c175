"""Questions about definitions from outside the engine; each answer is of its moment."""

from __future__ import annotations

from pathlib import Path

from mayfly.engine.attributes.attribute import CHANNEL, QLOCAL
from mayfly.engine.attributes.of_channels import ChannelDefinition
from mayfly.engine.attributes.of_manager import ManagerDefinition
from mayfly.engine.attributes.of_queues import TTL_FROM_SEND
from mayfly.engine.core import Core
from mayfly.engine.objects.named import named_of
from mayfly.engine.queues import LocalQueue


def manager_definition(core: Core) -> ManagerDefinition:
    """Return the attributes of the queue manager itself."""
    return core.registry.queue_manager


def channel_definitions(core: Core) -> list[ChannelDefinition]:
    """Return the definitions of all channels by name."""
    return [one for one in named_of(core, CHANNEL) if isinstance(one, ChannelDefinition)]


def manager_folder(core: Core) -> Path | None:
    """Return the folder in which a queue manager lives, None for one in memory."""
    return core.store.folder


def target_queue(core: Core, name: str) -> LocalQueue:
    """Return the queue on which a message arrives that is put under a name (C2).

    For another queue manager's queue that is a transmission queue. Raises as ``resolve_target``.
    """
    return core.registry.resolve_target(name).queue


def has_lives_from_release(core: Core) -> bool:
    """Return True if a queue has TTLFROM(RELEASE), where a life may be shorter than its delay."""
    with core.engine_lock:
        return any(
            definition.kind == QLOCAL and definition.ttlfrom != TTL_FROM_SEND
            for definition in core.registry.definitions()
        )

"""Objects that are neither queue nor topic change: processes and channels."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.engine.attributes import TABLES
from mayfly.engine.attributes.attribute import CHANNEL, PROCESS
from mayfly.engine.attributes.definition import Definition
from mayfly.engine.attributes.of_channels import ChannelDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import erase, save
from mayfly.engine.triggering.triggering import triggering_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.checks import check_name
from mayfly.verbs.facts import Value


def define_named(
    core: Core, kind: str, name: str, attributes: Mapping[str, Value], *, replace: bool = False
) -> None:
    """Define an object; attributes left out have their default.

    With ``replace`` an existing one takes the attributes given. Raises
    MQRC_OBJECT_ALREADY_EXISTS, MQRC_OBJECT_NAME_ERROR.
    """
    check_name(name)
    core.check_running()
    with core.definitions_lock:
        existing = core.registry.named.get((kind, name))
        if existing is not None and not replace:
            raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"{kind} {name} exists")
        before = TABLES[kind](kind, name) if existing is None else existing
        _keep(core, before.altered(attributes))


def alter_named(core: Core, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes; raises MQRC_UNKNOWN_OBJECT_NAME."""
    core.check_running()
    with core.definitions_lock:
        definition = find_named(core, kind, name)
        _keep(core, definition.altered(attributes))


def delete_named(core: Core, kind: str, name: str) -> None:
    """Delete an object; raises MQRC_UNKNOWN_OBJECT_NAME."""
    core.check_running()
    with core.definitions_lock:
        erase(core, find_named(core, kind, name))
        with core.engine_lock:
            del core.registry.named[kind, name]


def find_named(core: Core, kind: str, name: str) -> Definition:
    """Return a definition; raises MQRC_UNKNOWN_OBJECT_NAME."""
    definition = core.registry.named.get((kind, name))
    if definition is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
    return definition


def find_channel(core: Core, name: str) -> ChannelDefinition:
    """Return the definition of a channel; raises MQRC_UNKNOWN_OBJECT_NAME."""
    definition = find_named(core, CHANNEL, name)
    assert isinstance(definition, ChannelDefinition)
    return definition


def named_of(core: Core, kind: str) -> list[Definition]:
    """Return all definitions of a kind by name."""
    return [core.registry.named[key] for key in sorted(core.registry.named) if key[0] == kind]


def _keep(core: Core, definition: Definition) -> None:
    save(core, definition, 0)
    with core.engine_lock:
        key = definition.kind, definition.name
        is_new, core.registry.named[key] = key not in core.registry.named, definition
        if is_new and definition.kind == PROCESS:
            triggering_of(core).process_defined(definition.name)
    core.committer.run_deferred()

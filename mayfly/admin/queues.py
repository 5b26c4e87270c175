"""Queues of all types and the queue manager itself: define, alter, delete, inquire."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from mayfly.admin.errors import UnknownModel
from mayfly.admin.model import NO, PLATFORMS, PROCESSOR_STATUS, QSTATUS, YES, Record
from mayfly.admin.values import checked_all
from mayfly.engine import Engine
from mayfly.engine.face.administration import (
    DEFAULT_OBJECTS,
    QLOCAL,
    QMGR,
    alter_definition,
    define_queue,
    delete_queue,
    view_manager,
    view_queue,
    view_queue_status,
    view_queues,
)
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import ObjectError
from mayfly.verbs.facts import Value

#: Attributes that a queue does not take over from its model.
_OWN = ("QSGDISP",)


def define(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define a queue; other attributes are the model's, else the default object's."""
    given = checked_all(kind, attributes)
    model = view_queue(manager, like or DEFAULT_OBJECTS[kind])
    if model is not None and model.kind == kind:
        given = {**{k: v for k, v in model.attributes.items() if k not in _OWN}, **given}
    elif like is not None:
        raise UnknownModel(kind, like)
    define_queue(manager, kind, name, given, replace=replace)


def alter(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a queue, or of the queue manager, whose name is not looked at."""
    alter_definition(manager, kind, name, checked_all(kind, attributes))


def delete(manager: Engine, kind: str, name: str, *, purge: bool = False) -> None:
    """Delete a queue; one with messages only with ``purge``."""
    delete_queue(manager, kind, name, purge=purge)


def inquire(manager: Engine, pattern: str, kinds: Collection[str]) -> list[Record]:
    """Return the queues of some types whose names match."""
    records = []
    for definition, depth, input_count, output_count in view_queues(manager, pattern, kinds):
        values = dict(definition.attributes)
        if definition.kind == QLOCAL:
            values |= {
                "CURDEPTH": depth,
                "IPPROCS": input_count,
                "OPPROCS": output_count,
                "DEFTYPE": definition.definition_type,
            }
        records.append(Record(definition.kind, definition.name, values))
    return records


def inquire_manager(manager: Engine) -> Record:
    """Return the queue manager itself."""
    own = {"CMDLEVEL": manager.command_level, "PLATFORM": PLATFORMS[manager.platform]}
    return Record(QMGR, manager.name, {**view_manager(manager).attributes, **own})


def inquire_status(manager: Engine, pattern: str) -> list[Record]:
    """Return how the local queues stand whose names match."""
    names = [view.definition.name for view in view_queues(manager, pattern, (QLOCAL,))]
    records = []
    for name in names:
        # One deleted in the meantime is left out; the lock is not held over all of them.
        with contextlib.suppress(ObjectError):
            records.append(_status(manager, name))
    return records


def _status(manager: Engine, name: str) -> Record:
    status = view_queue_status(manager, name)
    values: dict[str, Value] = {
        "CURDEPTH": status.depth,
        "IPPROCS": status.input_count,
        "OPPROCS": status.output_count,
        "UNCOM": YES if status.has_uncommitted_work else NO,
        "MSGAGE": status.oldest_age_seconds,
        "STAGED": status.staged_count,
        "LIVE": status.live_count,
        "EXPIRED": status.expired_count,
    }
    if name == STAGING_QUEUE:
        # Whether the delivery delay processor runs (D28).
        word = manager.delay_processor.status().partition(":")[0].upper()
        values["DDELAY"] = PROCESSOR_STATUS[word]
    return Record(QSTATUS, name, values)

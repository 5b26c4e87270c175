"""Dynamic queues: made by opening a model queue, gone with their creator or when told (C9)."""

from __future__ import annotations

from mayfly.engine.administration import delete_queue, enter_queue
from mayfly.engine.attributes import defaults_of
from mayfly.engine.attributes.attribute import QLOCAL, QMODEL
from mayfly.engine.core import Core
from mayfly.engine.definitions import Definition
from mayfly.engine.objects import check_name
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error


def create_dynamic_queue(
    core: Core, model_name: str, dynamic_name: str, owners: tuple[str, ...] = ()
) -> str | None:
    """Make a queue after a model and return its name; None when the name is not a model's.

    A trailing ``*`` of the dynamic name is replaced by something unique; ``owners`` are users who
    may do everything with it. Raises MQRC_DYNAMIC_Q_NAME_ERROR and MQRC_OBJECT_ALREADY_EXISTS.
    """
    model = core.registry.find(model_name)
    if model is None or model.kind != QMODEL:
        return None
    with core.administration:
        return _create(core, model, dynamic_name, owners)


def _create(core: Core, model: Definition, name: str, owners: tuple[str, ...]) -> str:
    if name.endswith("*"):
        with core.latch:
            sequence = core.store.sequence.next()
        name = f"{name[:-1][:32]}{core.store.sequence.instance:05X}{sequence:011X}"
    try:
        check_name(name)
    except MQError as error:
        raise mq_error(rc.MQRC_DYNAMIC_Q_NAME_ERROR, error.detail) from None
    if core.registry.find(name) is not None:
        raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"{name} exists")
    given = {k: v for k, v in model.attributes.items() if k != "DEFTYPE"}
    attributes = {**defaults_of(QLOCAL), **given}
    definition = Definition(QLOCAL, name, attributes)
    definition.definition_type = model.number("DEFTYPE")
    definition.owners = owners
    enter_queue(core, definition)
    return name


def drop_dynamic_queue(
    core: Core, queue: LocalQueue, options: int, *, is_owner: bool, own_handles: int
) -> None:
    """Delete the queue of a handle that is being closed, if that is what closing it means.

    Raises MQRC_OPTIONS_ERROR for a delete option on a predefined queue, MQRC_Q_NOT_EMPTY for
    MQCO_DELETE on a queue with messages, MQRC_OBJECT_IN_USE when others have it open; a temporary
    queue goes with its creator all the same, and others get MQRC_Q_DELETED.
    """
    deletes = options & (c.MQCO_DELETE | c.MQCO_DELETE_PURGE)
    if options & ~(c.MQCO_DELETE | c.MQCO_DELETE_PURGE):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"close options {options:#x}")
    if core.registry.by_name(queue.name) is not queue:
        return
    kind = queue.definition.definition_type
    if deletes and kind not in (c.MQQDT_TEMPORARY_DYNAMIC, c.MQQDT_PERMANENT_DYNAMIC):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{queue.name} is not a dynamic queue")
    is_temporary = is_owner and kind == c.MQQDT_TEMPORARY_DYNAMIC
    if not is_temporary and not deletes:
        return
    purges = is_temporary or bool(options & c.MQCO_DELETE_PURGE)
    if is_temporary:
        own_handles = queue.input_count + queue.output_count
    with core.administration:
        delete_queue(core, queue, purge=purges, own_handles=own_handles)

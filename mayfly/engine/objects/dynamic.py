"""Dynamic queues: made by opening a model queue, gone with their creator or when told (C9)."""

from __future__ import annotations

from mayfly.engine.attributes import attributes_of
from mayfly.engine.attributes.attribute import QLOCAL, QMODEL
from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import delete_queue, enter_queue
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import check_name
from mayfly.verbs.contracts.outcomes import Ending

#: The unique part that replaces the asterisk needs 16 of the 48 characters.
_LAST_PLACE_OF_ASTERISK = 33
_DELETES = c.MQCO_DELETE | c.MQCO_DELETE_PURGE


def create_dynamic_queue(
    core: Core, model_name: str, dynamic_name: str, owners: tuple[str, ...] = ()
) -> str | None:
    """Make a queue after a model and return its name; None when the name is not a model's.

    A trailing ``*`` of the dynamic name, among its first 33 characters, is replaced by something
    unique; ``owners`` are users who may do everything with it. Raises MQRC_DYNAMIC_Q_NAME_ERROR and
    MQRC_OBJECT_ALREADY_EXISTS.
    """
    model = core.registry.find(model_name)
    if model is None or model.kind != QMODEL:
        return None
    with core.definitions_lock:
        return _create(core, model, dynamic_name, owners)


def _create(core: Core, model: QueueDefinition, name: str, owners: tuple[str, ...]) -> str:
    if name.endswith("*"):
        if len(name) > _LAST_PLACE_OF_ASTERISK:
            said = f"{name!r} has its * behind place {_LAST_PLACE_OF_ASTERISK}"
            raise mq_error(rc.MQRC_DYNAMIC_Q_NAME_ERROR, said)
        with core.engine_lock:
            sequence = core.store.sequence.next()
        name = f"{name[:-1]}{core.store.sequence.instance:05X}{sequence:011X}"
    try:
        check_name(name)
    except MQError as error:
        raise mq_error(rc.MQRC_DYNAMIC_Q_NAME_ERROR, error.detail) from None
    if core.registry.find(name) is not None:
        raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"{name} exists")
    given = {k: v for k, v in model.attributes.items() if k in attributes_of(QLOCAL)}
    definition = QueueDefinition(QLOCAL, name, model.deftype, owners).altered(given)
    enter_queue(core, definition)
    return name


def drop_dynamic_queue(
    core: Core, queue: LocalQueue, options: int, ending: Ending, *, is_owner: bool
) -> None:
    """Delete the queue of a handle that is being closed, if that is what closing it means.

    A temporary queue goes with its creator, messages and all; a permanent one with MQCO_DELETE when
    it is empty, with MQCO_DELETE_PURGE in any case. Other handles on it get MQRC_Q_DELETED from
    then on.
    Raises MQRC_OPTIONS_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE for a delete option on any other
    queue, MQRC_Q_NOT_EMPTY for MQCO_DELETE on a permanent queue with messages and for either option
    on one with uncommitted work.
    """
    if options & ~_DELETES or options == _DELETES:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"close options {options:#x}")
    if core.registry.by_name(queue.name) is not queue:
        return
    kind = queue.definition.definition_type
    is_temporary = is_owner and kind == c.MQQDT_TEMPORARY_DYNAMIC
    if not is_temporary and not options:
        return
    if not is_temporary and kind != c.MQQDT_PERMANENT_DYNAMIC:
        said = f"{queue.name} is no dynamic queue that this handle may delete"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
    if not is_temporary and queue.has_uncommitted_work:
        raise mq_error(rc.MQRC_Q_NOT_EMPTY, f"{queue.name} has uncommitted work")
    purges = is_temporary or bool(options & c.MQCO_DELETE_PURGE)
    with core.definitions_lock:
        handles = queue.input_count + queue.output_count
        delete_queue(core, queue, purge=purges, own_handles=handles, ending=ending)

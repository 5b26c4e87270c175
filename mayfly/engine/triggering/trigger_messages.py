"""Trigger messages: how one looks, and how it gets onto its initiation queue (T7-T9, E22)."""

from __future__ import annotations

import logging
from functools import lru_cache

from mayfly.engine.attributes.attribute import PROCESS
from mayfly.engine.attributes.of_processes import ProcessDefinition
from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.core import Core
from mayfly.engine.delivery import Ids, OutgoingMessage, arrive, check_room, new_id, new_row
from mayfly.engine.disposal import as_given, dead_letter
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import Window
from mayfly.mqi.constants import MQAT_QMGR, MQPER_NOT_PERSISTENT
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.structures import TM

_LOG = logging.getLogger("mayfly.trigger")
_FORMAT = "MQTRIG"
_APPLICATION_LENGTH = 28
#: Fields of the MQTM that come from APPLICID, ENVRDATA and USERDATA; their lengths in bytes.
_PROCESS_FIELDS = (("ApplId", 256), ("EnvData", 128), ("UserData", 128))
_TRIGGER_DATA_LENGTH = 64


def put_trigger_messages(
    core: Core, definition: QueueDefinition, initiation_queue: str, count: int
) -> tuple[Transaction, int]:
    """Return the transaction that puts trigger messages for a queue, and how many are not lost.

    They live for ever, whatever caps the initiation queue has (E22), and do not survive a restart.
    A message that this queue cannot take goes to the dead-letter queue; if that fails, it is lost
    (T9).
    """
    transaction, kept, now_ms = Transaction(), 0, core.now_ms()
    path = core.registry.resolve(initiation_queue)
    prepared = as_given(core, _descriptor(core.name, path.default_priority))
    body = _body(core, definition)
    window = Window(now_ms, now_ms, None)
    for _ in range(count):
        message = OutgoingMessage(prepared, window, Ids(new_id(core), b""), body)
        try:
            check_room(path, len(body), persistent=False)
        except MQError as failure:
            try:
                dead_letter(core, transaction, message, failure.reason, initiation_queue)
            except MQError as error:
                said = f"trigger message for {definition.name} is lost: {failure}; {error}"
                kind = "trigger", definition.name, failure.reason, error.reason
                core.alike_warnings.note(_LOG, kind, now_ms, said)
                continue
        else:
            arrive(core, transaction, path, prepared, new_row(core, path, message))
        kept += 1
    return transaction, kept


@lru_cache(maxsize=64)
def _descriptor(manager_name: str, priority: int) -> Descriptor:
    return Descriptor(
        priority=priority,
        persistence=MQPER_NOT_PERSISTENT,
        put_appl_type=MQAT_QMGR,
        put_appl_name=manager_name[:_APPLICATION_LENGTH],
        format=_FORMAT,
        reply_to_q_mgr=manager_name,
    )


def _body(core: Core, definition: QueueDefinition) -> bytes:
    """Return the MQTM; without a process, as for a transmission queue, it names no program."""
    name = definition.process
    process = core.registry.named.get((PROCESS, name))
    texts, appl_type = ("", "", ""), 0
    if isinstance(process, ProcessDefinition):
        appl_type = process.appltype
        texts = process.applicid, process.envrdata, process.userdata
    return _packed(definition.name, name, definition.trigdata, appl_type, texts)


@lru_cache(maxsize=1024)
def _packed(
    queue: str, process: str, trigger_data: str, appl_type: int, texts: tuple[str, str, str]
) -> bytes:
    fields = zip(_PROCESS_FIELDS, texts, strict=True)
    return TM.pack(
        {
            "QName": queue,
            "ProcessName": process,
            "TriggerData": _cut(trigger_data, _TRIGGER_DATA_LENGTH),
            "ApplType": appl_type,
            **{field: _cut(text, length) for (field, length), text in fields},
        }
    )


def _cut(text: str, length: int) -> str:
    """Cut a text to bytes: its attribute counts characters."""
    return text if text.isascii() else text.encode()[:length].decode(errors="ignore")

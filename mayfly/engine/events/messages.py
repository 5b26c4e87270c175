"""Event messages are put: their descriptor, their data, and what happens when nobody takes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from mayfly.engine.core import Core
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    arrive,
    check_capacity,
    new_id,
    new_row,
)
from mayfly.engine.disposal import prepared_with_own_context
from mayfly.engine.events.catalog import TEXT_BYTES, EventType
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import Window
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.event_constants import MQCFT_EVENT
from mayfly.mqi.pcf import Header, Structure, byte_string, integer, pack, string, string_list

#: Values of parameters by their numbers: a number, a text, bytes, or several texts.
Facts: TypeAlias = "dict[int, int | str | bytes | tuple[str, ...]]"

_LOG: Final = logging.getLogger("mayfly.events")
_FORMAT: Final = c.MQFMT_EVENT.decode().rstrip()
_APPLICATION_BYTES: Final = 28
_OF_CHANNELS: Final = "chlev"
#: CHLEV(EXCEPTION).
_EXCEPTIONS_ALONE: Final = 2


def is_on(core: Core, event: EventType) -> bool:
    """Return True if the queue manager makes an event now: the attribute for it is not DISABLED."""
    switch: int = getattr(core.registry.queue_manager, event.switch)
    if event.switch == _OF_CHANNELS and switch == _EXCEPTIONS_ALONE:
        return event.is_exception
    return switch != 0


def emit(
    core: Core,
    event: EventType,
    facts: Mapping[int, int | str | bytes | tuple[str, ...]],
    more: Sequence[Structure] = (),
    *,
    correl_id: bytes = b"",
    sequence_number: int = 1,
    control: int = k.MQCFC_LAST,
) -> None:
    """Put the message of an event, if the event is on; nothing is raised.

    ``facts`` are the values of its parameters by number; the name of the queue manager is known.
    ``more`` are structures behind the parameters. ``correl_id``, ``sequence_number`` and
    ``control`` are for several messages about one event. The message has the default persistence of
    its queue, never expires, and is no part of a unit of work. It is lost when its queue is
    missing, and, with a warning in the log, when its queue refuses it.

    A caller with the engine lock calls ``Committer.run_deferred`` after it has released it.
    """
    if not is_on(core, event) or core.is_closing or core.is_stopped:
        return
    with core.engine_lock:
        _add(core, event, _body(core, event, facts, more, sequence_number, control), correl_id)
    if not core.engine_lock.is_held():
        core.committer.run_deferred()


def structures_of(
    parameters: Sequence[int], facts: Mapping[int, int | str | bytes | tuple[str, ...]]
) -> list[Structure]:
    """Return the parameters that have a value, in their order, as PCF structures.

    A text longer than its parameter is cut.
    """
    found = []
    for number in parameters:
        value = facts.get(number)
        if isinstance(value, bytes):
            found.append(byte_string(number, value))
        elif isinstance(value, tuple):
            found.append(string_list(number, value, TEXT_BYTES.get(number, 0)))
        elif isinstance(value, str):
            length = TEXT_BYTES.get(number, 0)
            cut = value.encode()[:length].decode(errors="ignore") if length else value
            found.append(string(number, cut, length))
        elif value is not None:
            found.append(integer(number, value))
    return found


def _body(
    core: Core,
    event: EventType,
    facts: Mapping[int, int | str | bytes | tuple[str, ...]],
    more: Sequence[Structure],
    sequence_number: int,
    control: int,
) -> bytes:
    """Return the data of an event message: MQCFH and parameters."""
    header = Header(
        MQCFT_EVENT,
        event.category.command,
        event.category.version,
        sequence_number,
        control,
        c.MQCC_WARNING,
        event.reason,
    )
    known = {c.MQCA_Q_MGR_NAME: core.name, **facts}
    return pack(header, [*structures_of(event.parameters, known), *more])


def _add(core: Core, event: EventType, body: bytes, correl_id: bytes) -> None:
    """Leave the put of an event message to ``Committer.run_deferred``; needs the engine lock."""
    transaction, now_ms = Transaction(), core.now_ms()
    if core.registry.find(event.category.queue) is None:
        # STRSTPEV is on from the beginning, its queue is not there: no news at each start.
        _LOG.debug("event %s is lost: %s is not defined", event.name, event.category.queue)
        return
    try:
        path = core.registry.resolve_target(event.category.queue)
        descriptor = _descriptor(core.name, path.default_priority, path.default_persistence)
        prepared = prepared_with_own_context(core, descriptor)
        window = Window(now_ms, now_ms, None)
        message = OutgoingMessage(prepared, window, MessageIds(new_id(core), correl_id), body)
        check_capacity(path, prepared, len(body))
        arrive(core, transaction, path, prepared, new_row(core, path, message))
    except MQError as error:
        text = f"event {event.name} is lost: {error}"
        core.alike_warnings.note(_LOG, ("event", event.name, error.reason), now_ms, text)
        return
    core.committer.deferred.append(transaction)


@lru_cache(maxsize=64)
def _descriptor(manager_name: str, priority: int, persistence: int) -> Descriptor:
    """Return the MQMD of an event message: a datagram with Format MQEVENT; cached."""
    return Descriptor(
        priority=priority,
        persistence=persistence,
        put_appl_type=c.MQAT_QMGR,
        put_appl_name=manager_name[:_APPLICATION_BYTES],
        format=_FORMAT,
        reply_to_q_mgr=manager_name,
    )

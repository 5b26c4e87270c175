"""Erases who and what ended messages were from the ledger, with a record of it."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.checks import Identifier, stored_id
from mayfly.verbs.contracts.erasure import Erasure


def erase_lives(
    core: Core, *, identifier: Identifier | None, user: str | None, by: str, reason: str
) -> Erasure:
    """Erase ids, users and programs from the records of ended messages; return the record of it.

    The messages are those that have ``identifier`` as MsgId, CorrelId, or MsgId of the life before,
    or those that ``user`` has put or ended: one of both is given. Messages that have not ended stay
    as they are. ``by`` is who erases. Call it without the engine lock. Raises MQRC_OPTIONS_ERROR
    without a reason, or for not one of both; MQRC_MD_ERROR for a wrong id;
    MQRC_STORAGE_MEDIUM_FULL.
    """
    core.check_running()
    if (identifier is None) == (user is None) or user == "":
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "erase by an id, or by the name of a user")
    if not reason.strip():
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "the reason of an erasure is missing")
    value: bytes | str
    if identifier is not None:
        value = stored_id(identifier)
        if not value:
            raise mq_error(rc.MQRC_MD_ERROR, "the id has no byte but zeros")
    else:
        assert user is not None
        value = user
    selected_by = "id" if user is None else "user"
    begun = Erasure(core.now_ms(), by, selected_by, reason.strip(), 0)
    return core.store.erasure.erase(value, begun)


def erasures(core: Core) -> list[Erasure]:
    """Return the records of erasures from the ledger, oldest first; [] if there was none."""
    core.check_running()
    return core.store.erasure.records()

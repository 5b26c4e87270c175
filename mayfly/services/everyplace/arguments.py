"""Checks of arguments; each error names the argument and its value."""

from __future__ import annotations

from pathlib import Path

from mayfly.lifetime.everyplace import LONG_RANGE
from mayfly.mqi import reasons as rc
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.fields import MessageFields, MessageUid
from mayfly.services.everyplace.rules import QueueRule
from mayfly.verbs.contracts.files import local_path


def checked_name(kind: str, name: object) -> str:
    """Return the name of a queue or a queue manager: any text that is not empty."""
    if not isinstance(name, str) or not name or not _is_text(name):
        raise EveryplaceError(rc.MQRC_OBJECT_NAME_ERROR, f"{kind} name {name!r}")
    return name


def checked_folder(folder: object) -> Path:
    """Return a folder of this machine; raises MQRC_OPTIONS_ERROR for what is none."""
    if not isinstance(folder, (str, Path)) or not str(folder):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"folder {folder!r} is no path")
    try:
        return local_path(folder)
    except ValueError as error:
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"folder: {error}") from error


def check_confirm_id(confirm_id: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless it is a long of 0 or more."""
    if type(confirm_id) is not int or not 0 <= confirm_id <= LONG_RANGE[1]:
        raise EveryplaceError(
            rc.MQRC_OPTIONS_ERROR, f"confirm_id {confirm_id!r} is not within 0 .. {LONG_RANGE[1]}"
        )


def check_message(fields: object) -> None:
    """Raise MQRC_FORMAT_ERROR unless it is a message."""
    if not isinstance(fields, MessageFields):
        raise EveryplaceError(rc.MQRC_FORMAT_ERROR, f"fields {fields!r} is no MessageFields")


def check_uid(uid: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless it is the uid of a message."""
    if not isinstance(uid, MessageUid):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"uid {uid!r} is no MessageUid")


def check_rule(rule: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless it is a rule or None: a class of rules is none."""
    if rule is not None and not isinstance(rule, QueueRule):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"rule {rule!r} is neither None nor QueueRule")


def check_listener(listener: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless it can be called."""
    if not callable(listener):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"listener {listener!r} cannot be called")


def _is_text(name: str) -> bool:
    # Half of a surrogate pair is no character, and no table could hold it.
    return not any("\ud800" <= character <= "\udfff" for character in name)

"""Settings of a queue manager, stored in its folder: platform, command level and others.

IBM MQ has similar settings in qm.ini (docs/SETTINGS.md). The case of a setting's name is ignored.
"""

from __future__ import annotations

from typing import Any, Final

from mayfly.admin.model import SETTING, AdminError, Record
from mayfly.engine import SETTINGS, Configuration, Engine, SettingValue, setting_value
from mayfly.engine.api.administration import (
    COMMAND_LEVEL,
    defaults_on,
    matches,
    reconfigure,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import MQRCCF_ATTR_VALUE_ERROR, MQRCCF_ATTR_VALUE_FIXED
from mayfly.mqi.errors import mq_error

_FIELDS = _PLATFORM, _LEVEL = "platform", "command_level"
_VALUE: Final = "VALUE"
_NAMES: Final = (*_FIELDS, *(setting.name for setting in SETTINGS))


def inquire(manager: Engine, pattern: str) -> list[Record]:
    """Return the settings whose names match, with the value in force and the default, as texts.

    ``pattern`` is a name, or the start of names followed by ``*``. Returns an empty list for no
    match.
    """
    settings, defaults = manager.settings, defaults_on(manager.platform)
    rows: dict[str, tuple[SettingValue, SettingValue]] = {
        _PLATFORM: (manager.platform, manager.platform),
        _LEVEL: (manager.command_level, COMMAND_LEVEL),
        **{name: (value, defaults[name]) for name, value in settings.in_force.items()},
    }
    return [
        Record(SETTING, name, {_VALUE: _text(value), "DEFAULT": _text(default)})
        for name, (value, default) in rows.items()
        if matches(name, pattern.lower())
    ]


def alter_setting(manager: Engine, name: str, value: SettingValue) -> None:
    """Set a setting; durable on return, in force for later calls.

    Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown name. Raises AdminError for a wrong value, and
    for another platform: a queue manager keeps the platform of its creation.
    """
    found = _checked_name(name)
    fields: dict[str, Any] = {found: value} if found in _FIELDS else {"settings": {found: value}}
    try:
        reconfigure(manager, Configuration(**fields))
    except ValueError as error:
        reason = MQRCCF_ATTR_VALUE_FIXED if found == _PLATFORM else MQRCCF_ATTR_VALUE_ERROR
        raise AdminError(reason, _VALUE, value, str(error)) from error


def reset_setting(manager: Engine, name: str) -> None:
    """Set a setting back to its default, durably; for the platform do nothing.

    Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown name.
    """
    found = _checked_name(name)
    if found != _PLATFORM:
        reconfigure(manager, Configuration(), (found,))


def value_of(name: str, text: str) -> SettingValue:
    """Return the typed value of a setting for its text, as ``'true'`` -> True; change nothing.

    Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown setting, AdminError for a wrong value. The values
    of platform and command level are checked by :func:`alter_setting` only.
    """
    found = _checked_name(name)
    if found == _PLATFORM:
        return text.lower()
    if found == _LEVEL:
        return int(text) if text.isascii() and text.isdecimal() else text
    try:
        return setting_value(found, text)
    except ValueError as error:
        raise AdminError(MQRCCF_ATTR_VALUE_ERROR, _VALUE, text, str(error)) from error


def _checked_name(name: str) -> str:
    """Return the name of a setting in lower case.

    Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown name.
    """
    found = name.lower()
    if found not in _NAMES:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"setting {name} is not known")
    return found


def _text(value: SettingValue) -> str:
    """Return the value of a setting as text; True is ``'true'``."""
    return str(value).lower() if isinstance(value, bool) else str(value)

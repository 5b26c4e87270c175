"""Platform, command level and settings of a queue manager: given at its start, kept by its folder.

Values that are given are kept: a later start without values has the same. The platform is chosen
when a queue manager is made and never changes. Command level and settings change when they are
given, at a start or while the queue manager runs.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mayfly.engine.attributes import QMGR
from mayfly.engine.core import Core
from mayfly.engine.settings import PLATFORMS, Settings, SettingValue, check_settings
from mayfly.engine.transaction import Transaction
from mayfly.mqi.errors import StoreError
from mayfly.store.meta import read_configuration, write_configuration
from mayfly.store.store import Store
from mayfly.store.units import Unit

#: The command level of a queue manager; 9.4 has everything that Mayfly implements.
COMMAND_LEVEL = 940
DEFAULT_PLATFORM = "distributed"
_NO_SETTINGS: Mapping[str, SettingValue] = MappingProxyType({})


class Configuration(NamedTuple):
    """The given values; None, or a missing setting, stands for the folder's, else the default."""

    platform: str | None = None
    command_level: int | None = None
    settings: Mapping[str, SettingValue] = _NO_SETTINGS

    @property
    def is_empty(self) -> bool:
        return self.platform is None and self.command_level is None and not self.settings


def checked_configuration(
    platform: str | None, command_level: int | None, settings: Mapping[str, SettingValue] | None
) -> Configuration:
    """Return what was given; raises ValueError naming the field and its wrong value."""
    if platform is not None and platform not in PLATFORMS:
        raise ValueError(f"platform {platform!r} is not one of {tuple(PLATFORMS)}")
    if command_level is not None and (type(command_level) is not int or command_level < 1):
        raise ValueError(f"command_level {command_level!r} is not a positive number, as 940 is")
    check_settings(settings or {})
    return Configuration(platform, command_level, dict(settings or {}))


def configure(core: Core, given: Configuration) -> None:
    """Give a queue manager that starts its configuration, and write it where the store lacks it.

    A folder of an older Mayfly keeps no platform: the first one that is given becomes its own.
    Raises ValueError for another platform than the store's, StoreError for what only a later Mayfly
    can have written, MQRC_STORAGE_MEDIUM_FULL.
    """
    is_new = not any(kind == QMGR for kind, _name, _number, _attributes in core.store.objects())
    now = _kept(core.store, given, is_new=is_new)
    core.platform = now.platform or DEFAULT_PLATFORM
    core.command_level = COMMAND_LEVEL if now.command_level is None else now.command_level
    core.settings = Settings(now.settings, os.environ, core.platform)


def reconfigure(core: Core, given: Configuration, forgotten: Collection[str] = ()) -> None:
    """Change the configuration of a running queue manager, durably; it acts on later calls.

    ``forgotten`` are settings, or ``command_level``, that have their default again. Raises
    ValueError for another platform and for what :func:`checked_configuration` refuses,
    MQRC_STORAGE_MEDIUM_FULL.
    """
    core.check_running()
    given = checked_configuration(*given)
    _check_platform(given, core.platform)
    with core.definitions_lock:
        stored = read_configuration(core.store.persistent)
        kept = _known(stored, core.store)
        level = kept.command_level if given.command_level is None else given.command_level
        settings = {**kept.settings, **given.settings}
        now = Configuration(
            kept.platform,
            None if "command_level" in forgotten else level,
            {name: value for name, value in settings.items() if name not in forgotten},
        )
        transaction = Transaction()
        transaction.unit.statements.append(write_configuration(_stored_form(now)))
        core.committer.run(transaction)
        with core.engine_lock:
            core.command_level = COMMAND_LEVEL if now.command_level is None else now.command_level
            core.settings = core.settings.changed(now.settings)
            core.must_wake = True
    # A level at which delivery delay is known lets staged messages go again (D30).
    core.committer.run_deferred()


def _check_platform(given: Configuration, made_for: str | None) -> None:
    if given.platform is not None and made_for not in (None, given.platform):
        raise ValueError(
            f"platform {given.platform!r}: this queue manager was made for {made_for!r}, "
            "and a platform does not change"
        )


def _stored_form(configuration: Configuration) -> dict[str, Any]:
    return {name: value for name, value in configuration._asdict().items() if value}


def _kept(store: Store, given: Configuration, *, is_new: bool) -> Configuration:
    stored = read_configuration(store.persistent)
    kept = _known(stored, store)
    _check_platform(given, kept.platform)
    platform = given.platform or kept.platform or (DEFAULT_PLATFORM if is_new else None)
    level = kept.command_level if given.command_level is None else given.command_level
    now = Configuration(platform, level, {**kept.settings, **given.settings})
    wanted = _stored_form(now)
    if wanted != stored:
        unit = Unit()
        unit.statements.append(write_configuration(wanted))
        store.group.commit(unit)
    return now


def _known(stored: dict[str, Any], store: Store) -> Configuration:
    try:
        return checked_configuration(
            stored.get("platform"), stored.get("command_level"), stored.get("settings")
        )
    except ValueError as error:
        if store.folder is None:
            raise
        raise StoreError(
            f"{store.folder} was configured by a newer Mayfly: {error}", store.folder
        ) from error

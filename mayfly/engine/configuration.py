"""Configuration of a queue manager: platform, command level and settings, stored in its folder.

Values given at a start are stored, so a later start without values uses the same. The platform
never changes; command level and settings may, at a start or while the queue manager runs.
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
from mayfly.store.database import read_configuration, write_configuration
from mayfly.store.store import Store
from mayfly.store.units import Unit

#: The command level of a queue manager; 9.4 has everything that Mayfly implements.
COMMAND_LEVEL = 940
DEFAULT_PLATFORM = "distributed"
_NO_SETTINGS: Mapping[str, SettingValue] = MappingProxyType({})


class Configuration(NamedTuple):
    """Platform, command level and settings, as a caller gives them or as they are stored.

    None, or a setting that is missing, means the stored value, else the default.
    """

    platform: str | None = None
    command_level: int | None = None
    settings: Mapping[str, SettingValue] = _NO_SETTINGS

    @property
    def is_empty(self) -> bool:
        """True if no platform, command level or setting is given."""
        return self.platform is None and self.command_level is None and not self.settings


def checked_configuration(
    platform: str | None, command_level: int | None, settings: Mapping[str, SettingValue] | None
) -> Configuration:
    """Return these values as a Configuration.

    Raises ValueError with the field and its wrong value.
    """
    if platform is not None and platform not in PLATFORMS:
        raise ValueError(f"platform {platform!r} is not one of {tuple(PLATFORMS)}")
    if command_level is not None and (type(command_level) is not int or command_level < 1):
        raise ValueError(f"command_level {command_level!r} is not a positive number, as 940 is")
    check_settings(settings or {})
    return Configuration(platform, command_level, dict(settings or {}))


def configure(core: Core, given: Configuration) -> None:
    """Set platform, command level and settings of a queue manager that starts; store new values.

    Values in ``given`` replace stored ones. A folder of an older Mayfly has no platform and takes
    the first that is given. Raises ValueError for another platform than the stored one, StoreError
    for values of a newer Mayfly, MQRC_STORAGE_MEDIUM_FULL.
    """
    is_new = not any(kind == QMGR for kind, _name, _number, _attributes in core.store.objects())
    now = _kept(core.store, given, is_new=is_new)
    core.platform = now.platform or DEFAULT_PLATFORM
    core.command_level = COMMAND_LEVEL if now.command_level is None else now.command_level
    core.settings = Settings(now.settings, os.environ, core.platform)


def reconfigure(core: Core, given: Configuration, forgotten: Collection[str] = ()) -> None:
    """Change command level and settings of a running queue manager, durably.

    Values that ``given`` does not have stay as they are. ``forgotten`` names settings, or
    ``command_level``, that return to their default. Raises ValueError for another platform or a
    wrong value, MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
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
    """Raise ValueError if ``given`` has another platform than ``made_for``.

    None in either is accepted.
    """
    if given.platform is not None and made_for not in (None, given.platform):
        raise ValueError(
            f"platform {given.platform!r}: this queue manager was made for {made_for!r}, "
            "and a platform does not change"
        )


def _stored_form(configuration: Configuration) -> dict[str, Any]:
    """Return the configuration for the store, without fields that are None or empty."""
    return {name: value for name, value in configuration._asdict().items() if value}


def _kept(store: Store, given: Configuration, *, is_new: bool) -> Configuration:
    """Return the stored configuration with the values of ``given`` in it; store it if changed.

    ``is_new`` gives a queue manager without a platform the default one. Raises ValueError for
    another platform than the stored one, StoreError for values of a newer Mayfly.
    """
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
    """Return ``stored`` as a Configuration; raises StoreError if it has values of a newer Mayfly.

    In memory, without a folder, it raises ValueError instead.
    """
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

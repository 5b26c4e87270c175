"""``mayfly create``: make a queue manager, as crtmqm does."""

from __future__ import annotations

from mayfly.cli.configuration import (
    LevelOption,
    PlatformOption,
    SettingOption,
    configuration_of,
)
from mayfly.cli.managers import FolderOption, Name, folder_of, opened
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store.database import DATABASE_FILE


def create(
    name: Name,
    *,
    platform: PlatformOption = None,
    command_level: LevelOption = None,
    setting: SettingOption = None,
    path: FolderOption = None,
) -> None:
    """Make a queue manager, as crtmqm does.

    A platform brings the rules of its edition and the defaults of its settings, for good. One that
    is there stays as it is: exit code 3.

    \b
    Examples:
      mayfly create QM1
      mayfly create QMI --platform ibmi
      mayfly create QMZ --platform zos --setting expiry.max_check=always
    """
    folder = folder_of(name, path)
    if (folder / DATABASE_FILE).exists():
        said = f"there is a queue manager in {folder}; ALTER SETTING changes what it was made with"
        raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, said)
    given = configuration_of(platform, command_level, setting)
    with opened(name, path, make=True, given=given):
        pass

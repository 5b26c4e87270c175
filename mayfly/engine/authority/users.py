"""The groups of users: asked for whatever is done in the name of a user, also after a restart."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from mayfly.mqi.errors import StoreError

_LOG = logging.getLogger("mayfly.authority")
#: The group whose members may do everything, as in IBM MQ; the user of this name may, too.
ADMINISTRATORS: Final = "mqm"
#: The length of a user name in a message descriptor; characters beyond it are ignored.
USER_CHARACTERS: Final = 12


class FileOfUsers(Protocol):
    """The file of users beside a queue manager, as the engine asks it."""

    def groups_of(self, user: str) -> tuple[str, ...] | None:
        """Return the groups of a user, None for a user that it does not hold.

        Raises StoreError or OSError when it cannot be read.
        """


class UserGroups:
    """The groups of each user, from the file of users or from programs; guarded by the lock.

    The file says them of a user that it holds, as it is at that moment. Of any other user those
    count that a program in this process has told last, at a connection; the store keeps them.
    """

    def __init__(self) -> None:
        """Begin with no file, and with nothing told."""
        self.file: FileOfUsers | None = None
        self._told: Mapping[str, tuple[str, ...]] = {}

    def of(self, user: str) -> tuple[str, ...]:
        """Return the groups of a user, none for a user that nobody knows."""
        found = self._in_file(user)
        return self._told.get(user, ()) if found is None else found

    def must_be_told(self, user: str, groups: tuple[str, ...]) -> bool:
        """Return True if groups that a program tells are news; those in the file never are."""
        return self._told.get(user, ()) != groups and self._in_file(user) is None

    def enter(self, told: Mapping[str, tuple[str, ...]]) -> None:
        """Take the groups that programs have told, () for a user without any."""
        every = {**self._told, **told}
        self._told = {user: groups for user, groups in every.items() if groups}

    def _in_file(self, user: str) -> tuple[str, ...] | None:
        """Return the groups in the file, None for a user that it does not hold.

        A file that cannot be read is logged, and gives no groups: nothing is allowed by mistake.
        """
        try:
            return None if self.file is None else self.file.groups_of(user)
        except (StoreError, OSError) as error:
            _LOG.error("the groups of user %r are not known: %s", user, error)
            return ()

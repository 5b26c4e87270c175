"""Programs tell the groups of the users as whom they connect; the store keeps them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mayfly.engine.transaction import Transaction
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.store.meta import read_user_groups, write_user_groups

if TYPE_CHECKING:
    from mayfly.engine.core import Core

_LOG = logging.getLogger("mayfly.authority")


def load_groups(core: Core) -> None:
    """Take the groups that the store keeps; raises StoreDamaged."""
    core.registry.authority.users.enter(read_user_groups(core.store.persistent))


def tell_groups(core: Core, user: str, groups: tuple[str, ...]) -> None:
    """Keep the groups of a user; durable on return, in the memory alone on a full disk.

    Those of a user in the file of users are not kept: they end when the user is removed from it.
    Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
    """
    users = core.registry.authority.users
    if not user or not users.must_be_told(user, groups):
        return
    with core.definitions_lock:
        transaction = Transaction()
        transaction.unit.statements.append(write_user_groups(user, groups))
        try:
            core.committer.run(transaction)
        except MQError as error:
            if error.reason != rc.MQRC_STORAGE_MEDIUM_FULL:
                raise
            _LOG.warning("a restart will not know the groups of user %r: %s", user, error)
        with core.engine_lock:
            users.enter({user: groups})

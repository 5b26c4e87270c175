"""Helpers of the tests of authority: granting, taking away, and sessions of users."""

from __future__ import annotations

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import GROUP, PRINCIPAL, QMGR, SELF, Entity, set_authority
from mayfly.engine.authority.words import QUEUE

ALICE = "alice"


def grant(
    qm: QueueManager,
    words: str,
    profile: str,
    *,
    to: str = ALICE,
    group: str = "",
    kind: str = QUEUE,
) -> None:
    """Give a user, or a group, authorities on a profile."""
    entity = Entity(GROUP, group) if group else Entity(PRINCIPAL, to)
    set_authority(qm.engine, kind, profile, [entity], add=words.split())


def revoke(
    qm: QueueManager, words: str, profile: str, *, to: str = ALICE, kind: str = QUEUE
) -> None:
    """Take authorities away from a user."""
    set_authority(qm.engine, kind, profile, [Entity(PRINCIPAL, to)], remove=words.split())


def connect(qm: QueueManager, user: str = ALICE, *groups: str, transacted: bool = False) -> Session:
    """Return a session of a user, who may connect and has what was granted besides."""
    grant(qm, "CONNECT", SELF, to=user, kind=QMGR)
    return qm.session(user, transacted, groups=groups)

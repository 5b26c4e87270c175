"""Checks of authority: for the verbs of a session, and for puts in the name of a user."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from mayfly.engine.attributes import AUTHCHK_NONE, AUTHCHK_RELEASE, QMGR, QMODEL, TOPIC
from mayfly.engine.authority import words
from mayfly.engine.authority.records import ADMINISTRATORS, SELF, USER_CHARACTERS
from mayfly.engine.transaction import Transaction
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.meta import read_user_groups, write_user_groups
from mayfly.verbs.topic_strings import ancestry

if TYPE_CHECKING:
    from mayfly.engine.core import Core


_LOG = logging.getLogger("mayfly.authority")
_CACHE_SIZE = 10_000
_INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE
#: The rights that each open option needs on the object opened.
_OF_OPTION = (
    (_INPUT, words.GET),
    (c.MQOO_BROWSE, words.BROWSE),
    (c.MQOO_OUTPUT, words.PUT),
    (c.MQOO_INQUIRE, words.INQ),
    (c.MQOO_SET, words.SET),
    (c.MQOO_PASS_IDENTITY_CONTEXT, words.PASSID),
    (c.MQOO_PASS_ALL_CONTEXT, words.PASSALL),
    (c.MQOO_SET_IDENTITY_CONTEXT, words.SETID),
    (c.MQOO_SET_ALL_CONTEXT, words.SETALL),
)
#: Rights that must be had on the queue manager as well.
_OF_MANAGER_TOO = words.SETID | words.SETALL


class UserAuthority:
    """The rights of one user, cached by queue until definitions or authority records change.

    Each check raises MQRC_NOT_AUTHORIZED with object, user and missing authority. A refusal is
    logged and counted.
    """

    def __init__(self, core: Core, user: str, groups: tuple[str, ...] | None = None) -> None:
        """Use these groups of the user, or with None those known now."""
        self._core = core
        self.user = user[:USER_CHARACTERS]
        users = core.registry.authority.users
        self.groups = users.of(self.user) if groups is None else groups
        self._version = -1
        self._queues: dict[str, int] = {}

    def check_connect(self) -> None:
        """Check for CONNECT on the queue manager, if any record exists for the queue manager."""
        with self._core.engine_lock:
            is_open_to_all = not self._core.registry.authority.has_any(QMGR)
        if not is_open_to_all:
            self._check(QMGR, SELF, words.CONNECT)

    def check_queue(self, name: str, wanted: int) -> None:
        """Check for authority on a queue, by the name given; for an alias that is the alias."""
        is_current = self._version == self._core.registry.version
        bits = self._queues.get(name) if is_current else None
        if bits is None:
            bits = self._renew(name)
        if wanted & ~bits:
            self._refuse(words.QUEUE, name, wanted & ~bits)

    def check_open(self, name: str, options: int) -> None:
        """Check for what MQOPEN options need; a model queue also needs DSP (C7).

        Without any of these options it needs INQ, because even such an open reveals the object.
        """
        definition = self._core.registry.find(name)
        if definition is None and "@" not in name:
            # There is no such queue; the caller's open raises that.
            return
        wanted = 0
        for option, needed in _OF_OPTION:
            if options & option:
                wanted |= needed
        wanted = wanted or words.INQ
        if definition is not None and definition.kind == QMODEL:
            wanted |= words.DSP
        self.check_queue(name, wanted)
        if wanted & _OF_MANAGER_TOO:
            self._check(QMGR, SELF, wanted & _OF_MANAGER_TOO)

    def check_inquire(self, object_type: str = QMGR, name: str = SELF) -> None:
        """Check for INQ on the queue manager, or on another object that is no queue."""
        self._check(object_type, name, words.INQ)

    def check_alternate(self) -> None:
        """Check for ALTUSR on the queue manager."""
        self._check(QMGR, SELF, words.ALTUSR)

    def recorded(self) -> int:
        """Return the bits that records give on the queue manager, even with AUTHCHK(NONE)."""
        records = self._core.registry.authority
        with self._core.engine_lock:
            return records.granted(records.entities_of(self.user, self.groups), QMGR, SELF)

    def check_recorded(self, wanted: int) -> None:
        """Check for authority on the queue manager, even with AUTHCHK(NONE)."""
        missing = wanted & ~self.recorded()
        if missing:
            self._refuse(QMGR, SELF, missing)

    def check_topic(self, topic: str, wanted: int) -> None:
        """Check for authority on a topic string; topic objects at it or above give authority.

        The user who made a temporary topic may use it.
        """
        missing, registry = wanted, self._core.registry
        with self._core.engine_lock:
            if registry.queue_manager.authchk == AUTHCHK_NONE:
                return
            if registry.authority.temporary_topics.get(topic) == self.user:
                return
            for string in ancestry(topic):
                definition = registry.topics.at(string)
                if definition is not None:
                    missing &= ~self._granted(TOPIC, definition.name)
        if missing:
            self._refuse(TOPIC, repr(topic), missing)

    def own(self, name: str) -> None:
        """Give the user all authority on a queue created for the user, while the queue exists."""
        with self._core.engine_lock:
            definition = self._core.registry.find(name)
            if definition is not None and self.user not in definition.owners:
                definition.owners = (*definition.owners, self.user)
                self._core.registry.changed()

    def _renew(self, name: str) -> int:
        """Read the authorities on a queue again, and cache them."""
        version = self._core.registry.version
        if self._version != version or len(self._queues) >= _CACHE_SIZE:
            self._queues = {}
        bits = self._queues[name] = self._granted(words.QUEUE, name)
        self._version = version
        return bits

    def _granted(self, object_type: str, name: str) -> int:
        """Return the authorities, as bits, of the user on an object; all with AUTHCHK(NONE)."""
        registry = self._core.registry
        with self._core.engine_lock:
            if registry.queue_manager.authchk == AUTHCHK_NONE:
                return words.EVERYTHING
            if object_type == words.QUEUE:
                if "@" in name:
                    # A message for another queue manager is put on the transmission queue.
                    path = registry.resolve_target(name)
                    name = path.name if path.remote is None else path.queue.name
                definition = registry.find(name)
                if definition is not None and self.user in definition.owners:
                    return words.EVERYTHING
            entities = registry.authority.entities_of(self.user, self.groups)
            return registry.authority.granted(entities, object_type, name)

    def _check(self, object_type: str, name: str, wanted: int) -> None:
        """Raise MQRC_NOT_AUTHORIZED when the user lacks an authority on an object."""
        missing = wanted & ~self._granted(object_type, name)
        if missing:
            self._refuse(object_type, name, missing)

    def _refuse(self, object_type: str, name: str, missing: int) -> NoReturn:
        """Count and log a refusal, and raise MQRC_NOT_AUTHORIZED."""
        core = self._core
        with core.engine_lock:
            core.registry.authority.refused_count += 1
        named = core.name if object_type == QMGR else name
        text = f"user {self.user!r} lacks {words.spelled(missing)} on {object_type} {named}"
        _LOG.warning("%s: not authorized: %s", core.name, text)
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, text)


def manager_authorities(core: Core, user: str, groups: Sequence[str]) -> frozenset[str]:
    """Return the authorities that records give on the queue manager, as MQSC words."""
    bits = UserAuthority(core, user, tuple(groups)).recorded()
    return frozenset(word for word, bit in words.BITS.items() if bits & bit)


def check_manager_authority(core: Core, user: str, groups: Sequence[str], word: str) -> None:
    """Check that records give CONNECT and ``word`` on the queue manager.

    Raises MQRC_NOT_AUTHORIZED.
    """
    authority = UserAuthority(core, user, tuple(groups))
    authority.check_connect()
    authority.check_recorded(words.BITS[word])


def may_do_everything(core: Core, user: str, groups: Sequence[str]) -> bool:
    """Return True if a user has all authority: user or group mqm, or the queue manager's opener."""
    return core.registry.authority.may_do_everything(user[:USER_CHARACTERS], groups)


def authority_in_name_of(core: Core, user: str) -> UserAuthority | None:
    """Return the authority of a user on whose behalf something is done, None for an administrator.

    The user's groups are those known now. The empty name is the queue manager itself, which has all
    authority.
    """
    authority = UserAuthority(core, user)
    if not user or may_do_everything(core, user, authority.groups):
        return None
    return authority


def alternate_authority(core: Core, own: UserAuthority | None, user: str) -> UserAuthority | None:
    """Return the authority that applies to an open on behalf of another user (ALTUSR).

    None means all authority. Raises MQRC_NOT_AUTHORIZED when the session's user lacks ALTUSR.
    """
    if own is not None:
        own.check_alternate()
        if not user:
            return UserAuthority(core, user)
    return authority_in_name_of(core, user)


def check_putter(core: Core, user: str, queue: str) -> None:
    """Check for PUT of the user on whose behalf a message is put; raises MQRC_NOT_AUTHORIZED."""
    authority = authority_in_name_of(core, user)
    if authority is not None:
        authority.check_queue(queue, words.PUT)


def check_release(core: Core, user: str, queue: str) -> None:
    """Check for PUT again at the release of a delayed message, with AUTHCHK(RELEASE) only."""
    if core.registry.queue_manager.authchk == AUTHCHK_RELEASE:
        check_putter(core, user, queue)


def authority_of(
    core: Core, user: str, groups: Sequence[str] | None, *, known_as: str = ""
) -> UserAuthority | None:
    """Return the authority of a user who connects, None for an administrator.

    The groups are also kept for later actions in the user's name; None means those known already.
    Without a user, ``known_as`` is the name of an operator. Raises MQRC_NOT_AUTHORIZED without
    CONNECT, as ``check_connect``.
    """
    if isinstance(groups, str):
        raise TypeError(f"groups is a sequence of names, not {groups!r}")
    if not user:
        if known_as:
            keep_groups(core, known_as[:USER_CHARACTERS], (ADMINISTRATORS,))
        return None
    authority = UserAuthority(core, user, None if groups is None else tuple(groups))
    if authority.user == core.registry.authority.opener:
        return None
    is_admin = may_do_everything(core, user, authority.groups)
    if not is_admin:
        authority.check_connect()
    if groups is not None:
        keep_groups(core, authority.user, authority.groups)
    return None if is_admin else authority


def load_groups(core: Core) -> None:
    """Read the groups of users from the store; raises StoreDamaged."""
    core.registry.authority.users.enter(read_user_groups(core.store.persistent))


def keep_groups(core: Core, user: str, groups: tuple[str, ...]) -> None:
    """Store the groups of a user; durable on return, but only in memory on a full disk.

    Groups of a user in the file of users are not stored, as they end with the entry in the file.
    Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
    """
    users = core.registry.authority.users
    if not user or not users.is_new(user, groups):
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

"""Checks of authority: for the verbs of a session, and for puts in the name of a user."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from mayfly.engine.attributes import AUTHCHK_NONE, AUTHCHK_RELEASE, QMGR, QMODEL, TOPIC
from mayfly.engine.authority import words
from mayfly.engine.authority.records import ADMINISTRATORS, SELF, USER_CHARACTERS
from mayfly.engine.transaction import Transaction
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.database import read_user_groups, write_user_groups
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
#: The one option that each right is for.
_LEAST_OPTION = (
    (c.MQOO_INPUT_SHARED, words.GET),
    *((option, needed) for option, needed in _OF_OPTION if needed != words.GET),
    (c.MQOO_OUTPUT, words.PUB),
)
#: Rights that must be had on the queue manager as well.
_OF_MANAGER_TOO = words.SETID | words.SETALL


class Caller(NamedTuple):
    """The program whose calls are checked, as events name it.

    ``address`` and ``channel`` are those of a client, empty for a program of this process.
    """

    program: str = ""
    address: str = ""
    channel: str = ""


class SubscriptionCall(NamedTuple):
    """The action of a call on a subscription, as events name it.

    ``topic`` is its topic string, ``name`` is empty for one without. ``options`` are MQSO_* of
    MQSUB, or None for MQCO_REMOVE_SUB.
    """

    topic: str
    name: str
    options: int | None


class RefusedCall(NamedTuple):
    """A refused call: user, program, object, and the authorities that are missing, as bits.

    ``object_type`` is QMGR, QUEUE, TOPIC or another type of MQSC; a TOPIC is named by its string,
    and ``topic_objects`` are the objects at which its authorities were looked for. ``options`` are
    those with which the object was to be opened, or None where it was to be deleted by MQCLOSE.
    ``subscription`` is what the call was about, None for one that is not about a subscription.
    """

    user: str
    caller: Caller
    object_type: str
    name: str
    missing: int
    options: int | None
    subscription: SubscriptionCall | None = None
    topic_objects: tuple[str, ...] = ()


#: Something is done in the name of a user, and by no program.
NO_PROGRAM = Caller()


class UserAuthority:
    """The authorities of one user; each check raises MQRC_NOT_AUTHORIZED if one is missing.

    The error names object, user and missing authority; it is also logged and counted. Authorities
    on queues are cached until a definition or an authority record changes.
    """

    def __init__(
        self,
        core: Core,
        user: str,
        groups: tuple[str, ...] | None = None,
        caller: Caller = NO_PROGRAM,
    ) -> None:
        """Keep the user name, cut to 12 characters, and the user's groups.

        With ``groups`` None the groups are those that the queue manager knows for the user now.
        ``caller`` is the application of the user, for events.
        """
        self._core, self.caller = core, caller
        self.user = user[:USER_CHARACTERS]
        users = core.registry.authority.users
        self.groups = users.of(self.user) if groups is None else groups
        self._version = -1
        self._queues: dict[str, int] = {}

    def check_connect(self) -> None:
        """Raise MQRC_NOT_AUTHORIZED if the user lacks CONNECT on the queue manager.

        Every user may connect while no authority record exists for the queue manager.
        """
        with self._core.engine_lock:
            is_open_to_all = not self._core.registry.authority.has_any(QMGR)
        if not is_open_to_all:
            self._check(QMGR, SELF, words.CONNECT)

    def check_queue(
        self,
        name: str,
        wanted: int,
        options: int | None = 0,
        subscription: SubscriptionCall | None = None,
    ) -> None:
        """Raise MQRC_NOT_AUTHORIZED unless the user has authorities ``wanted`` (bits) on a queue.

        ``options`` and ``subscription`` are for the event. ``options`` are those of MQOPEN; 0 for a
        verb that opens by itself, None for MQCLOSE that deletes. ``subscription`` is that for which
        the queue is to be the destination, None for none.
        For an alias the authority on the alias counts, not that on its target. For
        ``QUEUE@MANAGER`` it is the authority on the transmission queue. The queue need not exist.
        """
        is_current = self._version == self._core.registry.version
        bits = self._queues.get(name) if is_current else None
        if bits is None:
            bits = self._renew(name)
        if wanted & ~bits:
            self._refuse(words.QUEUE, name, wanted & ~bits, options, subscription)

    def check_open(
        self, name: str, options: int, subscription: SubscriptionCall | None = None
    ) -> None:
        """Raise MQRC_NOT_AUTHORIZED unless the user may open a queue with MQOPEN ``options``.

        ``subscription`` is as in :meth:`check_queue`. A model queue also needs DSP (C7). Options
        without an authority of their own need INQ, as even such an open reveals that the queue
        exists. Nothing is checked for an undefined queue of this queue manager, as the open fails
        anyway.
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
        self.check_queue(name, wanted, options, subscription)
        if wanted & _OF_MANAGER_TOO:
            self._check(QMGR, SELF, wanted & _OF_MANAGER_TOO)

    def check_inquire(self, object_type: str = QMGR, name: str = SELF) -> None:
        """Raise MQRC_NOT_AUTHORIZED if the user lacks INQ on an object other than a queue.

        By default the object is the queue manager.
        """
        self._check(object_type, name, words.INQ)

    def check_alternate(self) -> None:
        """Raise MQRC_NOT_AUTHORIZED if the user lacks ALTUSR on the queue manager."""
        self._check(QMGR, SELF, words.ALTUSR)

    def recorded(self) -> int:
        """Return the user's authorities on the queue manager as bits, from authority records alone.

        Unlike the checks it reads the records even with AUTHCHK(NONE). Returns 0 without a record.
        """
        records = self._core.registry.authority
        with self._core.engine_lock:
            return records.granted(records.entities_of(self.user, self.groups), QMGR, SELF)

    def check_recorded(self, wanted: int) -> None:
        """Raise MQRC_NOT_AUTHORIZED unless records give ``wanted`` (bits) on the queue manager.

        Unlike the other checks it applies even with AUTHCHK(NONE).
        """
        missing = wanted & ~self.recorded()
        if missing:
            self._refuse(QMGR, SELF, missing)

    def check_topic(
        self, topic: str, wanted: int, subscription: SubscriptionCall | None = None
    ) -> None:
        """Raise MQRC_NOT_AUTHORIZED unless the user has authorities ``wanted`` on a topic string.

        ``subscription`` is what the call is about, for the event; None for a publisher. Authorities
        on the topic objects at the string and at all its ancestors are added up. The user who
        created a temporary topic has all authority on it, and with AUTHCHK(NONE) every user has.
        """
        missing, registry, objects = wanted, self._core.registry, list[str]()
        with self._core.engine_lock:
            if registry.queue_manager.authchk == AUTHCHK_NONE:
                return
            if registry.authority.temporary_topics.get(topic) == self.user:
                return
            for string in ancestry(topic):
                definition = registry.topics.at(string)
                if definition is not None:
                    objects.append(definition.name)
                    missing &= ~self._granted(TOPIC, definition.name)
        if missing:
            self._refuse(TOPIC, topic, missing, 0, subscription, tuple(objects))

    def grant_ownership(self, name: str) -> None:
        """Give the user all authority on a queue created for the user, until the queue is deleted.

        Does nothing when the queue does not exist.
        """
        with self._core.engine_lock:
            definition = self._core.registry.find(name)
            if definition is not None and self.user not in definition.owners:
                definition.owners = (*definition.owners, self.user)
                self._core.registry.changed()

    def _renew(self, name: str) -> int:
        """Read the authorities on a queue from the records, cache them, and return them as bits."""
        version = self._core.registry.version
        if self._version != version or len(self._queues) >= _CACHE_SIZE:
            self._queues = {}
        bits = self._queues[name] = self._granted(words.QUEUE, name)
        self._version = version
        return bits

    def _granted(self, object_type: str, name: str) -> int:
        """Return the user's authorities on an object as bits; all bits with AUTHCHK(NONE).

        A queue that was created for the user also gives all bits. Returns 0 without a record.
        """
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
        """Raise MQRC_NOT_AUTHORIZED unless the user has the authorities ``wanted`` on an object."""
        missing = wanted & ~self._granted(object_type, name)
        if missing:
            self._refuse(object_type, name, missing)

    def _refuse(
        self,
        object_type: str,
        name: str,
        missing: int,
        options: int | None = 0,
        subscription: SubscriptionCall | None = None,
        topic_objects: tuple[str, ...] = (),
    ) -> NoReturn:
        """Raise MQRC_NOT_AUTHORIZED that names the ``missing`` bits; also count, log and report it.

        ``options`` are those of MQOPEN, 0 for the options that need the ``missing`` bits, None for
        MQCLOSE. ``subscription`` and ``topic_objects`` are as in RefusedCall.
        """
        core = self._core
        with core.engine_lock:
            core.registry.authority.refused_count += 1
        named = {QMGR: core.name, TOPIC: repr(name)}.get(object_type, name)
        text = f"user {self.user!r} lacks {words.spelled(missing)} on {object_type} {named}"
        _LOG.warning("%s: not authorized: %s", core.name, text)
        if options == 0:
            options = sum(option for option, needed in _LEAST_OPTION if needed & missing)
        refusal = RefusedCall(
            self.user,
            self.caller,
            object_type,
            name,
            missing,
            options,
            subscription,
            topic_objects,
        )
        for notify in core.on_refusal:
            notify(refusal)
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, text)


def manager_authorities(core: Core, user: str, groups: Sequence[str]) -> frozenset[str]:
    """Return a user's authorities on the queue manager as MQSC words, such as ``{"CONNECT"}``.

    Only authority records count, even with AUTHCHK(NONE). Empty without a record.
    """
    bits = UserAuthority(core, user, tuple(groups)).recorded()
    return frozenset(word for word, bit in words.BITS.items() if bits & bit)


def check_manager_authority(core: Core, user: str, groups: Sequence[str], word: str) -> None:
    """Raise MQRC_NOT_AUTHORIZED unless a user has CONNECT and ``word`` on the queue manager.

    ``word`` is an MQSC authority such as ``DSP``. It must come from a record, even with
    AUTHCHK(NONE).
    """
    authority = UserAuthority(core, user, tuple(groups))
    authority.check_connect()
    authority.check_recorded(words.BITS[word])


def may_do_everything(core: Core, user: str, groups: Sequence[str]) -> bool:
    """Return True if authority is never checked for a user.

    Such a user is named mqm, is in group mqm, or has opened the queue manager.
    """
    user = user[:USER_CHARACTERS]
    is_opener = bool(user) and user == core.registry.authority.opener
    return is_opener or user == ADMINISTRATORS or ADMINISTRATORS in groups


def known_groups(core: Core, user: str) -> tuple[str, ...]:
    """Return the groups of a user that the queue manager knows now; empty for an unknown user."""
    return UserAuthority(core, user).groups


def authority_in_name_of(
    core: Core, user: str, caller: Caller = NO_PROGRAM
) -> UserAuthority | None:
    """Return the authority of the user in whose name something is done; None means all authority.

    ``caller`` is the program that does it. None is returned for administrators and for the empty
    name, which is the queue manager itself. The user's groups are those known now.
    """
    authority = UserAuthority(core, user, caller=caller)
    if not user or may_do_everything(core, user, authority.groups):
        return None
    return authority


def alternate_authority(core: Core, own: UserAuthority | None, user: str) -> UserAuthority | None:
    """Return the authority for an open or subscription with MQOO_ALTERNATE_USER_AUTHORITY.

    ``own`` is the authority of the session and ``user`` the alternate user. None means all
    authority. Raises MQRC_NOT_AUTHORIZED when the session's user lacks ALTUSR.
    """
    caller = NO_PROGRAM
    if own is not None:
        own.check_alternate()
        caller = own.caller
        if not user:
            return UserAuthority(core, user, caller=caller)
    return authority_in_name_of(core, user, caller)


def check_putter(core: Core, user: str, queue: str) -> None:
    """Raise MQRC_NOT_AUTHORIZED if the user in whose name a message is put lacks PUT."""
    authority = authority_in_name_of(core, user)
    if authority is not None:
        authority.check_queue(queue, words.PUT)


def check_release(core: Core, user: str, queue: str) -> None:
    """Raise MQRC_NOT_AUTHORIZED if the sender of a delayed message lacks PUT at its release.

    Checks with AUTHCHK(RELEASE) only; otherwise the check at the put is enough.
    """
    if core.registry.queue_manager.authchk == AUTHCHK_RELEASE:
        check_putter(core, user, queue)


def authority_of(
    core: Core,
    user: str,
    groups: Sequence[str] | None,
    *,
    known_as: str = "",
    caller: Caller = NO_PROGRAM,
) -> UserAuthority | None:
    """Return the authority of a user who connects; None means all authority.

    None is returned for an administrator, for the opener of the queue manager, and for an empty
    user. ``groups`` are stored for later work in the user's name; None means the groups already
    known. An empty user with ``known_as`` stores that name as a member of group mqm. ``caller`` is
    the user's application. Raises MQRC_NOT_AUTHORIZED as ``check_connect``, and TypeError when
    ``groups`` is one text.
    """
    if isinstance(groups, str):
        raise TypeError(f"groups is a sequence of names, not {groups!r}")
    if not user:
        if known_as:
            keep_groups(core, known_as[:USER_CHARACTERS], (ADMINISTRATORS,))
        return None
    authority = UserAuthority(core, user, None if groups is None else tuple(groups), caller)
    if authority.user == core.registry.authority.opener:
        return None
    is_admin = may_do_everything(core, user, authority.groups)
    if not is_admin:
        authority.check_connect()
    if groups is not None:
        keep_groups(core, authority.user, authority.groups)
    return None if is_admin else authority


def load_groups(core: Core) -> None:
    """Read the stored groups of all users into memory; raises StoreDamaged."""
    core.registry.authority.users.enter(read_user_groups(core.store.persistent))


def keep_groups(core: Core, user: str, groups: tuple[str, ...]) -> None:
    """Store the groups of a user, so that they are known after a restart; durable on return.

    Does nothing for an empty user, for unchanged groups, and for a user in the file of users, where
    the file decides. On a full disk the groups are kept in memory only. Raises
    MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
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

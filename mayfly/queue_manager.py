"""The class QueueManager, with its channels, publish/subscribe hierarchy and commands."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from mayfly.admin import QLOCAL, define, with_numbers
from mayfly.admin.folder_check import check_files
from mayfly.admin.mqsc.commands import run_script
from mayfly.admin.security.users import Users
from mayfly.channel import ChannelDefinition, Channels, ReceiverLink, connect_local
from mayfly.channel.hierarchy import Hierarchy
from mayfly.engine import Engine, Session, SettingValue, advance_clock
from mayfly.engine.api.operating import (
    QueueSharingGroup,
    Settings,
    TraceCollector,
    counts_of,
    depth_of,
    erase_lives,
    erasures,
    follow_wall,
    message_trace,
    own_time,
    verify,
)
from mayfly.lifetime.times import Clock
from mayfly.mqi.constants import MQXPT_LOCAL
from mayfly.mqi.errors import FolderInUse
from mayfly.runtime import Runtime
from mayfly.store.replica.lease import LEASE_MS
from mayfly.store.replica.standing import STANDBY, read_standing
from mayfly.verbs.checks import Identifier, folder_in_home
from mayfly.verbs.contracts.erasure import Erasure
from mayfly.verbs.facts import Counts, MessageTrace, MqscResult, OwnTime, Verification

#: The open queue managers of this process: of several with one name the one opened last.
_OPEN: weakref.WeakValueDictionary[str, QueueManager] = weakref.WeakValueDictionary()


def managers_here() -> dict[str, QueueManager]:
    """Return the open queue managers of this process by name.

    Of two with the same name, it has the one opened later.
    """
    return dict(_OPEN)


class QueueManager:
    """A queue manager in this process; leaving its ``with`` block closes it.

    ``QueueManager("QM1")`` is in memory. ``QueueManager("QM1", folder)`` keeps persistent messages,
    definitions and the ledger (the records of ended messages) in the folder.
    ``QueueManager.open("QM1")`` is the one that the command line and pymqi use under this name.
    With a ``sharing_group``, whose clock it uses, it has the shared queues too.

    Platform, command level and settings that are passed are stored in the folder. Those not passed
    are as stored, else defaults (docs/SETTINGS.md). Sessions of ``user``, and sessions without a
    user, may do everything (docs/SECURITY.md).
    """

    def __init__(
        self,
        name: str,
        path: str | Path | None = None,
        clock: Clock | None = None,
        *,
        platform: str | None = None,
        command_level: int | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        user: str = "",
        runtime: Runtime | None = None,
        sharing_group: QueueSharingGroup | None = None,
        replica: str | None = None,
        replica_lease_ms: int = LEASE_MS,
    ) -> None:
        """Open the queue manager, and start the channels that ran when it was last open.

        ``path`` is its folder, created when missing; None keeps everything in memory. ``clock``
        None is the time of the machine, or of the group. Platform, command level and settings that
        are None stay as stored in the folder, or are the defaults. Sessions of ``user``, and
        sessions without a user, may do everything. ``runtime`` replaces threads, locks and files in
        tests. ``sharing_group`` is the group to join. ``replica`` is the URL of a database of
        PostgreSQL that has all acknowledged changes too (docs/REPLICA.md). After
        ``replica_lease_ms`` without a word from this process another may open the queue manager;
        commits wait for the database for three quarters of that.

        Raises ValueError for an invalid platform, command level, setting or lease. In a group, it
        raises ValueError for another clock, and for a name that is open already. Raises
        MQRC_Q_MGR_NAME_ERROR for an invalid name. Raises FolderInUse, NewerSchema, StoreDamaged or
        StoreError for a folder that cannot be used or belongs to another group,
        and ReplicaError, a StoreError, when the database cannot be used or another process owns the
        queue manager.
        """
        if replica is not None and (path is None or sharing_group is not None):
            raise ValueError("replica: a queue manager with a folder and without a group has one")
        membership = None if sharing_group is None else sharing_group.membership(name, clock)
        clock = clock if membership is None else membership.clock
        runtime = Runtime() if runtime is None else runtime
        users = Users(None if path is None else Path(path), runtime.files)
        # An unreadable file would refuse every user without a reason.
        users.check()
        with _saying_how_to_share(name, path):
            #: The argument of services and of functions of ``mayfly.engine``.
            engine = self.engine = Engine(
                name,
                path,
                clock,
                platform=platform,
                command_level=command_level,
                settings=settings,
                user=user,
                runtime=runtime,
                membership=membership,
                users=users,
                replica=replica,
                replica_lease_ms=replica_lease_ms,
            )
        self.name, self.platform, self.clock = name, engine.platform, engine.clock
        #: Its time, in ms since 1970, UTC; and the function that does all work due by then.
        self.now_ms, self.run_due = engine.now_ms, engine.due_work.run_due
        #: The ledger of ended lives, by position, and traces of messages (docs/WHY.md).
        self.ledger, self.traces = engine.ledger, TraceCollector(engine, partial(_beside, name))
        #: Bulk reads and writes of pipelines, each message exactly once.
        self.claims, self.stages = engine.claims, engine.stages
        #: The channels to and from other queue managers (docs/CHANNELS.md).
        self.channels = Channels(engine, partial(_link_of, name, engine.runtime))
        self.channels.restart()
        #: Publish/subscribe with other queue managers (docs/CHANNELS.md).
        self.hierarchy = Hierarchy(engine)
        # By this list a session keeps its queue manager, and a group can close it.
        engine.before_close += [self.hierarchy.close, self.channels.close, self._leave]
        _OPEN[name] = self

    @classmethod
    def open(
        cls,
        name: str,
        clock: Clock | None = None,
        *,
        platform: str | None = None,
        command_level: int | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        user: str = "",
    ) -> Self:
        """Open the queue manager in ``$MAYFLY_HOME/name`` (default ``~/.mayfly/name``).

        The folder is created when it is missing. The other parameters are those of the class.
        Raises ValueError for an invalid platform, command level or setting, and
        MQRC_Q_MGR_NAME_ERROR for a name that is invalid or no folder name. Raises FolderInUse,
        NewerSchema, StoreDamaged or StoreError for a folder that cannot be used.
        """
        return cls(
            name,
            folder_in_home(name),
            clock,
            platform=platform,
            command_level=command_level,
            settings=settings,
            user=user,
        )

    @property
    def is_stopped(self) -> bool:
        """Whether it was closed, or has stopped because its store failed."""
        return self.engine.is_stopped

    @property
    def settings(self) -> Settings:
        """The settings in force (docs/SETTINGS.md)."""
        return self.engine.settings

    def session(
        self,
        user: str | None = None,
        transacted: bool = False,
        program: str = "mayfly",
        *,
        groups: Sequence[str] | None = (),
    ) -> Session:
        """Connect a user, and return the session; ``program`` becomes PutApplName.

        User and ``groups`` are taken without a password check. A session without a user may do
        everything. ``groups`` None keeps the groups known for the user (docs/SECURITY.md). With
        ``transacted``, puts and gets take effect only at a call of ``commit``; else each takes
        effect at once. Raises MQRC_CONNECTION_BROKEN if the queue manager is closed,
        MQRC_NOT_AUTHORIZED for a user without CONNECT.
        """
        return self.engine.session(user, transacted, program, groups=groups)

    def define_queue(
        self, name: str, *, like: str | None = None, replace: bool = False, **attributes: int | str
    ) -> None:
        """Define a local queue durably: ``define_queue("ORDERS", maxdepth=500, capexpry=600)``.

        Attributes are MQSC keywords in lower case, with words or numbers as values. Attributes that
        are left out are copied from the queue ``like``, else from SYSTEM.DEFAULT.LOCAL.QUEUE. With
        ``replace`` an existing queue keeps its messages, but none of its old attributes. Raises
        MQRC_OBJECT_ALREADY_EXISTS without ``replace``, MQRC_OBJECT_NAME_ERROR, and
        ``admin.AdminError`` with attribute and value (docs/ADMINISTRATION.md).
        """
        given = {keyword.upper(): value for keyword, value in attributes.items()}
        define(self.engine, QLOCAL, name, with_numbers(QLOCAL, given), like=like, replace=replace)

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands; the result has ``.text`` as in runmqsc, ``.rows`` and ``.ok``.

        A failing command makes ``ok`` False, and the commands after it still run. Nothing is
        raised.
        """
        return run_script(self.engine, script)

    def counts(self, queue: str) -> Counts:
        """Return the numbers of staged, live, uncommitted, locked and expired messages of a queue.

        Staged messages wait for their delivery time. Raises MQRC_UNKNOWN_OBJECT_NAME,
        MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        return counts_of(self.engine, queue)

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH: committed and uncommitted messages, with expired ones (E12).

        Raises MQRC_UNKNOWN_OBJECT_NAME when the queue is not defined.
        """
        return depth_of(self.engine, queue)

    def why(self, identifier: Identifier) -> MessageTrace:
        """Return where the message with a MsgId or CorrelId is, or how it ended (docs/WHY.md).

        For an unknown id the trace has no entries. Only this queue manager is searched;
        ``traces.of`` searches others too. Raises MQRC_MD_ERROR for an empty id or one of more than
        24 bytes.
        """
        return message_trace(self.engine, identifier)

    def erase_lives(
        self,
        *,
        identifier: Identifier | None = None,
        user: str | None = None,
        by: str = "",
        reason: str,
    ) -> Erasure:
        """Erase ids, users and programs from records of ended messages; return the record of it.

        One of both is given: ``identifier``, a MsgId or CorrelId, or ``user``, who has put or ended
        the messages. ``by`` is who erases. Counts and positions stay (docs/LEDGER.md). Raises
        MQRC_OPTIONS_ERROR, MQRC_MD_ERROR for a wrong id, MQRC_STORAGE_MEDIUM_FULL.
        """
        return erase_lives(self.engine, identifier=identifier, user=user, by=by, reason=reason)

    def erasures(self) -> list[Erasure]:
        """Return the records of erasures from the ledger, oldest first; [] if there was none."""
        return erasures(self.engine)

    def verify(self) -> Verification:
        """Recount all messages, compare with the counters, and check each file of the folder.

        The result has ``.ok`` and ``.problems``, which name a damaged file. Transactions wait
        meanwhile. Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        found = verify(self.engine)
        problems = (*found.problems, *check_files(self.engine))
        return found._replace(ok=not problems, problems=problems)

    def delay_processor_status(self) -> str:
        """Return ``running``, ``spark``, or ``stopped:`` with the reason (D28).

        With ``running`` delayed messages are released here, with ``spark`` by a Spark pipeline,
        with ``stopped:`` not at all. Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        self.engine.check_running()
        return self.engine.delay_processor.status()

    def own_time(self) -> OwnTime:
        """Return the queue manager's time, the wall clock and their difference, in ms.

        The result also counts the messages that a change to the wall clock would release or expire.
        Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        return own_time(self.engine)

    def follow_wall(self) -> OwnTime:
        """Set the queue manager's time forward to the wall clock; return the times before that.

        Delayed messages that fall due are released at once; expired ones are discarded as usual. A
        virtual clock is not changed. Raises MQRC_ENVIRONMENT_ERROR when the queue manager's time
        is ahead, and MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group.
        """
        return follow_wall(self.engine)

    def advance_clock(self, ms: int) -> OwnTime:
        """Advance a virtual clock by ``ms``, do all work that falls due, and return the new times.

        Raises MQRC_ENVIRONMENT_ERROR for another clock, MQRC_OPTIONS_ERROR for a negative step.
        """
        return advance_clock(self.engine, ms)

    def close(self) -> None:
        """End channels and hierarchy, back out open units of work, and close the store.

        Non-persistent messages are recorded as lost. A second call does nothing.
        """
        self.engine.close()

    def crash(self) -> None:
        """Stop as ``kill -9`` stops a process, for tests of recovery (docs/DEVELOPING.md).

        Units of work and non-persistent messages are lost; data that were acknowledged as durable
        exist at the next open. Sessions get MQRC_CONNECTION_BROKEN.
        """
        self.engine.crash()

    def _leave(self) -> None:
        """Remove this queue manager from the open ones of this process.

        Does nothing when one that was opened later has its name.
        """
        if _OPEN.get(self.name) is self:
            del _OPEN[self.name]

    def __repr__(self) -> str:
        """Return name, place of the data, and whether the queue manager has stopped, as text."""
        return f"<{type(self).__name__} {self.engine.label}>"

    def __enter__(self) -> Self:
        """Return the queue manager."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the queue manager."""
        self.close()


def _beside(name: str) -> list[Engine]:
    """Return the engines of the other queue managers open in this process, sorted by name.

    Stopped ones are left out.
    """
    found = sorted(managers_here().items())
    return [each.engine for other, each in found if other != name and not each.is_stopped]


def _link_of(manager: str, runtime: Runtime, definition: ChannelDefinition) -> ReceiverLink:
    """Return a new link for a sender channel: in this process for TRPTYPE LOCAL, else a socket.

    ``manager`` is the queue manager that sends. Raises LinkDown when CONNAME is not open in this
    process (LOCAL), or no address of it answers. Raises MQRC_NOT_AUTHORIZED for an unreadable token
    file, and the reason code with which a server refuses the channel.
    """
    if definition.trptype == MQXPT_LOCAL:
        return connect_local(definition)
    # Connections know queue managers; and a queue manager without such a channel needs no sockets.
    from mayfly.client.connection.channel_link import ChannelLink

    return ChannelLink(definition, manager, runtime)


@contextmanager
def _saying_how_to_share(name: str, path: str | Path | None) -> Iterator[None]:
    """Add to a FolderInUse of the ``with`` block the text how programs can share a queue manager.

    ``name`` is that queue manager, ``path`` its folder; the changed error is raised. For the folder
    of a standby it says where the owner is.
    """
    try:
        yield
    except FolderInUse as error:
        standing = None if path is None else read_standing(Path(path))
        if standing is not None and standing.role == STANDBY:
            text = f"{standing.refusal}; {path} is in use by the server that follows"
            raise FolderInUse(text, error.path) from None
        raise FolderInUse(
            f"{error.message}; programs share {name} through the command `mayfly serve {name}`,"
            " to which they connect as clients (docs/SERVING.md)",
            error.path,
        ) from None

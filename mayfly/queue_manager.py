"""The public class: a queue manager has an engine, channels, a hierarchy and a command language."""

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
from mayfly.admin.mqsc import run_script
from mayfly.admin.security.users import Users
from mayfly.channel import ChannelDefinition, Channels, Link, connect_local
from mayfly.channel.hierarchy import Hierarchy
from mayfly.engine import Engine, Session, SettingValue, advance_clock
from mayfly.engine.api.operating import (
    MessageTraces,
    QueueSharingGroup,
    Settings,
    counts_of,
    depth_of,
    follow_wall,
    message_trace,
    own_time,
    verify,
)
from mayfly.lifetime.times import Clock
from mayfly.mqi.constants import MQXPT_LOCAL
from mayfly.mqi.errors import FolderInUse
from mayfly.runtime import Runtime
from mayfly.verbs.checks import Identifier, folder_in_home
from mayfly.verbs.facts import Counts, MqscResult, OwnTime, Verification
from mayfly.verbs.trace import MessageTrace

#: The open queue managers of this process: of several with one name the one opened last.
_OPEN: weakref.WeakValueDictionary[str, QueueManager] = weakref.WeakValueDictionary()


def managers_here() -> dict[str, QueueManager]:
    """Return the queue managers that are open in this process, by name."""
    return dict(_OPEN)


class QueueManager:
    """A queue manager in this process; a context manager.

    ``QueueManager("QM1")`` lives in memory, ``QueueManager("QM1", folder)`` keeps persistent
    messages, definitions and the ledger in the folder. ``QueueManager.open("QM1")`` is the one that
    the command line and pymqi mean by this name. With a ``sharing_group``, which gives its clock,
    it has the queues of that group, too.

    Platform, command level and settings that are left out are what the folder keeps, else the
    defaults; those given are kept (docs/SETTINGS.md). Sessions of ``user``, like those of no user,
    may do everything (docs/AUTHORITY.md).
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
    ) -> None:
        """Open the queue manager, and start the channels that ran when it was last open.

        Raises ValueError for a wrong platform, command level or setting, for another clock than
        that of the group, and for a name that is open in the group already; MQRC_Q_MGR_NAME_ERROR
        for a wrong name; FolderInUse, NewerSchema, StoreDamaged or StoreError for a folder that
        cannot be used, or is not of this group.
        """
        membership = None if sharing_group is None else sharing_group.membership(name, clock)
        clock = clock if membership is None else membership.clock
        runtime = Runtime() if runtime is None else runtime
        users = Users(None if path is None else Path(path), runtime.files)
        # Without them everybody would be refused, and nobody know why.
        users.check()
        with _saying_how_to_share(name):
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
            )
        self.name, self.platform, self.clock = name, engine.platform, engine.clock
        #: Its time, in ms since 1970, UTC; and the function that does all work due by then.
        self.now_ms, self.run_due = engine.now_ms, engine.due_work.run_due
        #: The ledger of ended lives, by position, and traces of messages (docs/WHY.md).
        self.ledger, self.traces = engine.ledger, MessageTraces(engine, partial(_beside, name))
        #: Bulk reads and writes of pipelines, each message exactly once.
        self.claims, self.stages = engine.claims, engine.stages
        #: The channels to and from other queue managers (docs/CHANNELS.md).
        self.channels = Channels(engine, partial(_link_of, name, engine.runtime))
        self.channels.restart()
        #: Publish/subscribe with other queue managers (docs/HIERARCHY.md).
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
        """Open the queue manager in ``$MAYFLY_HOME/name`` (``~/.mayfly``), made when missing.

        Raises as ``QueueManager``, and MQRC_Q_MGR_NAME_ERROR for a name that no folder can have.
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
        """Whether it was closed, or has stopped because its store has failed."""
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
        """Connect; ``program`` becomes PutApplName.

        User and ``groups`` are taken at their word; user None is who opened the queue manager, and
        ``groups`` None says nothing of them (docs/AUTHORITY.md). Raises
        MQRC_CONNECTION_BROKEN if closed, MQRC_NOT_AUTHORIZED for a user without CONNECT.
        """
        return self.engine.session(user, transacted, program, groups=groups)

    def define_queue(
        self, name: str, *, like: str | None = None, replace: bool = False, **attributes: int | str
    ) -> None:
        """Define a local queue, durably: ``define_queue("ORDERS", maxdepth=500, capexpry=600)``.

        Attributes have their MQSC keywords in lower case, and words or numbers as values. The
        others are those of the queue ``like``, else of SYSTEM.DEFAULT.LOCAL.QUEUE. ``replace``
        defines a queue that is there anew, with its messages.
        Raises MQRC_OBJECT_ALREADY_EXISTS, MQRC_OBJECT_NAME_ERROR, and ``admin.AdminError``, which
        names attribute and value (docs/ADMINISTRATION.md).
        """
        given = {keyword.upper(): value for keyword, value in attributes.items()}
        define(self.engine, QLOCAL, name, with_numbers(QLOCAL, given), like=like, replace=replace)

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands; ``.text`` as runmqsc prints, ``.rows`` for programs, ``.ok`` for all.

        A wrong command makes ``ok`` False and does not stop those after it; nothing is raised.
        """
        return run_script(self.engine, script)

    def counts(self, queue: str) -> Counts:
        """Return staged, live, uncommitted, locked and expired_present of a local queue.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        return counts_of(self.engine, queue)

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH: committed and uncommitted, expired ones included (E12)."""
        return depth_of(self.engine, queue)

    def why(self, identifier: Identifier) -> MessageTrace:
        """Say where the message with a MsgId or CorrelId is, or what became of it (docs/WHY.md).

        This queue manager alone is asked: ``traces.of`` asks others, too. Raises MQRC_MD_ERROR for
        no id, or one of more than 24 bytes.
        """
        return message_trace(self.engine, identifier)

    def verify(self) -> Verification:
        """Recount everything and compare; ``.ok`` when nothing is wrong, else ``.problems``.

        Each file of the folder is read: a problem names the one that is damaged. New work is held
        back meanwhile. Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        found = verify(self.engine)
        problems = (*found.problems, *check_files(self.engine))
        return found._replace(ok=not problems, problems=problems)

    def delay_processor_status(self) -> str:
        """Return how delayed messages go: ``running``, ``spark``, ``stopped:`` and why (D28)."""
        self.engine.check_running()
        return self.engine.delay_processor.status()

    def own_time(self) -> OwnTime:
        """Return own time, the wall clock and what lies between (docs/CLOCKS.md)."""
        return own_time(self.engine)

    def follow_wall(self) -> OwnTime:
        """Follow the wall clock forward, however far; returns the times from before.

        Raises MQRC_ENVIRONMENT_ERROR where the queue manager is ahead of the clock, and
        MQRC_FUNCTION_NOT_SUPPORTED in a queue-sharing group.
        """
        return follow_wall(self.engine)

    def advance_clock(self, ms: int) -> OwnTime:
        """Move a virtual clock on, and do what falls due; see ``own_time.advance_clock``."""
        return advance_clock(self.engine, ms)

    def close(self) -> None:
        """End channels and hierarchy, back out open units of work, and close the store.

        The loss of messages that a restart does not keep is recorded. A second call does nothing.
        """
        self.engine.close()

    def crash(self) -> None:
        """End as ``kill -9`` ends its process, for tests of recovery (docs/TESTING.md).

        Nothing is backed out, wound up or written: units of work and non-persistent messages are
        lost, what was acknowledged as durable is there when the folder is opened again. Sessions
        get MQRC_CONNECTION_BROKEN.
        """
        self.engine.crash()

    def _leave(self) -> None:
        """Be found by name no longer."""
        if _OPEN.get(self.name) is self:
            del _OPEN[self.name]

    def __repr__(self) -> str:
        """Say where it lives, and whether it has stopped."""
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
        """Close."""
        self.close()


def _beside(name: str) -> list[Engine]:
    """Return the engines of the other queue managers that are open in this process, by name."""
    found = sorted(managers_here().items())
    return [each.engine for other, each in found if other != name and not each.is_stopped]


def _link_of(manager: str, runtime: Runtime, definition: ChannelDefinition) -> Link:
    """Return the link of a sender of a queue manager, as TRPTYPE says; raises LinkDown, MQError."""
    if definition.trptype == MQXPT_LOCAL:
        return connect_local(definition)
    # Connections know queue managers; and a queue manager without such a channel needs no sockets.
    from mayfly.client.connection.channel_link import ChannelLink

    return ChannelLink(definition, manager, runtime)


@contextmanager
def _saying_how_to_share(name: str) -> Iterator[None]:
    """Say in FolderInUse how several programs share a queue manager."""
    try:
        yield
    except FolderInUse as error:
        raise FolderInUse(
            f"{error.message}; programs share {name} through the command `mayfly serve {name}`,"
            " to which they connect as clients (docs/SERVING.md)",
            error.path,
        ) from None

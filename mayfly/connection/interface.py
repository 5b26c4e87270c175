"""The interface of a connection: the verbs of a program, wherever its queue manager is.

Parameters and results are numbers, bytes, text and named tuples of these, so that they can travel:
an open object is a number, options are the bits of the MQI, times are in ms. Errors are MQError:
class, reason code and detail. After a LostAnswer the call may have taken effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, TypeVar

from mayfly.connection.onward import Held, Many, Onward
from mayfly.connection.operating import Administration, ClaimVerbs, ScheduleVerbs
from mayfly.connection.topics import Topics
from mayfly.connection.values import (
    BackoutRule,
    Delivery,
    GetResult,
    Inquiry,
    Opened,
    Property,
    PutResult,
    Settlement,
    Status,
    Value,
)
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime

_T = TypeVar("_T")
#: Is called once with the result of a verb, or with its error; it must not block.
OnDone: TypeAlias = Callable[[_T | MQError], object]
#: Is called with the handle of a queue that cannot be got from, and the error; it must not block.
OnRefused: TypeAlias = Callable[[int, MQError], object]


class UnderWay(Protocol):
    """A verb that was begun and ends with a callback."""

    def cancel(self) -> bool:
        """End the verb without effect, and return True: the callback is never called.

        Returns False when the verb is decided, or cannot be taken back: the callback was called or
        will be called.
        """


class Connection(Protocol):
    """One conversation of one user with a queue manager, with one unit of work.

    One thread at a time uses it. Any thread may close it or one of its objects: the waits that this
    ends raise MQRC_HCONN_ERROR and MQRC_HOBJ_ERROR.
    """

    name: str
    #: The number of the conversation on the queue manager.
    number: int
    objects: Objects
    topics: Topics
    asynchronous: Asynchronous
    schedule: ScheduleVerbs
    schedule_in_unit: ScheduleVerbs
    held: Held
    many: Many
    onward: Onward
    runtime: Runtime

    def open(
        self,
        name: str,
        options: int,
        *,
        kind: int = c.MQOT_Q,
        manager: str = "",
        topic: str = "",
        dynamic_name: str = "AMQ.*",
        selector: str | None = None,
        alternate_user: str = "",
    ) -> Opened:
        """MQOPEN with MQOO options; a queue that is the alias of a topic is opened as that.

        For MQOT_TOPIC ``name`` is a topic object or empty, and ``topic`` the string behind its.
        Raises the reason codes of C1-C9.
        """

    def close_object(self, handle: int, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE with MQCO options.

        Returns 0, or MQRC_INCOMPLETE_GROUP or _MSG when it stopped within one. Raises
        MQRC_HOBJ_ERROR, MQRC_Q_NOT_EMPTY, MQRC_OPTION_NOT_VALID_FOR_TYPE.
        """

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        properties: Sequence[Property] = (),
        context: int = c.MQHO_NONE,
    ) -> PutResult | None:
        """MQPUT to a queue or a topic with MQPMO options; the life is given in one of two units.

        ``context`` is the handle whose saved context is passed on. Returns None for a message with
        MQPMO_ASYNC_RESPONSE that its queue refuses: :meth:`status` says why. Raises the reason
        codes of P1-P13 and MQRC_EXPIRY_ERROR (E2); nothing is put then, unless it is LostAnswer.
        """

    def put1(
        self,
        name: str,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        kind: int = c.MQOT_Q,
        manager: str = "",
        topic: str = "",
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
    ) -> PutResult:
        """MQPUT1: one put to what :meth:`open` would open, without a handle.

        Raises the reason codes of open and put, MQRC_OPTIONS_ERROR for MQPMO_ASYNC_RESPONSE and
        options that pass context on.
        """

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        wait_ms: int = 0,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        group_id: bytes = b"",
        sequence_number: int | None = None,
        offset: int | None = None,
        token: bytes | None = None,
        in_handle: bool = False,
        with_extension: bool = False,
    ) -> GetResult:
        """MQGET with MQGMO options, destructive or browsing; ids that are empty match all.

        ``wait_ms`` counts with MQGMO_WAIT, -1 is for ever; ``max_length`` None takes any length.
        With ``in_handle`` the properties are for a message handle, ``with_extension`` puts what an
        MQMD of version 1 cannot say into an MQMDE. Raises the reason codes of G1-G13 and B1-B8,
        MQRC_NO_MSG_AVAILABLE first of all.
        """

    def unlock(self, handle: int, options: int = c.MQGMO_UNLOCK) -> int:
        """MQGET with MQGMO_UNLOCK: returns 0 or MQRC_NO_MSG_LOCKED (B6)."""

    def status(self) -> Status:
        """MQSTAT: the outcome of puts with MQPMO_ASYNC_RESPONSE since the last MQSTAT (P13)."""

    def commit(self) -> None:
        """MQCMIT; raises MQRC_STORAGE_MEDIUM_FULL (backed out), LostAnswer."""

    def backout(self) -> None:
        """MQBACK: puts vanish, gets go back with their backout count one higher (G8)."""

    def close(self, *, commit: bool = True) -> None:
        """MQDISC: commits the unit of work, or backs it out; closes all objects.

        Deliveries that are not settled go back, counted. A second close does nothing.
        """

    def now_ms(self) -> int:
        """Return the queue manager's time: ms since 1970, UTC (docs/CLOCKS.md)."""

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""

    @property
    def is_broken(self) -> bool:
        """Whether the queue manager is gone."""

    @property
    def socket(self) -> int | None:
        """The number of its socket, which others may share, 0 when it is gone.

        None for a connection in this process, which has none.
        """

    @property
    def admin(self) -> Administration:
        """The verbs of an operator; MQRC_NOT_AUTHORIZED for a user with limited authority."""

    @property
    def claims(self) -> ClaimVerbs:
        """The claims of pipelines, which an operator may end; raises as :attr:`admin`."""


class Objects(Protocol):
    """Inquiries about open objects, and changes of their attributes."""

    def is_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""

    def inquire(self, handle: int, selectors: Sequence[int]) -> Inquiry:
        """MQINQ; handle MQHO_NONE (0) asks the queue manager itself.

        Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_INQUIRE, MQRC_SELECTOR_ERROR, MQRC_Q_DELETED,
        MQRC_NOT_AUTHORIZED.
        """

    def set(self, handle: int, values: Mapping[int, Value]) -> None:
        """MQSET, all or none; raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET, MQRC_SELECTOR_ERROR.

        A value that an attribute does not take has a reason code of its own.
        """

    def backout_rule(self, handle: int) -> BackoutRule:
        """Return BOTHRESH and BOQNAME of the queue of a handle; raises MQRC_HOBJ_ERROR."""

    def command_level(self) -> int:
        """Return the command level of the queue manager, for every user.

        It shows which verbs and options there are.
        """

    def lives_from_release(self, handle: int = c.MQHO_NONE) -> bool:
        """Return True if an open queue has TTLFROM(RELEASE): lives begin at the release.

        With handle MQHO_NONE (0), return True if any queue has it. Raises MQRC_HOBJ_ERROR.
        """

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which ends an object that its program has dropped.

        Python may collect an object at any moment, also within a verb. ``end`` might need a lock
        that this verb holds; it then runs with the next verb.
        """


class Asynchronous(Protocol):
    """Verbs that do not wait: they end with ``on_done``, called once and outside of all locks.

    Callbacks of a queue manager come one at a time, in the order in which the outcomes were
    decided. A callback may come before its verb has returned. It may call verbs and must not block.
    Errors are outcomes as well: the verbs themselves raise no MQError.
    """

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        wait_ms: int = c.MQWI_UNLIMITED,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
    ) -> UnderWay:
        """Get a message that this connection holds, as a delivery, until it is settled.

        Beside MQGMO_WAIT, for the time of ``wait_ms``, the options may be those of truncation,
        conversion and properties. With MQGMO_SYNCPOINT the message goes into the unit of work of
        this conversation. With MQGMO_BROWSE_FIRST it stays on its queue, for everybody. The number
        of the delivery is 0 in these two cases, and there is nothing to settle.
        """

    def fetch(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[GetResult],
        wait_ms: int = 0,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        group_id: bytes = b"",
        sequence_number: int | None = None,
        offset: int | None = None,
        token: bytes | None = None,
        in_handle: bool = False,
        with_extension: bool = False,
    ) -> UnderWay:
        """Get a message as ``Connection.get`` does: into the unit of work, or for good.

        When a get for good of a persistent message is told, it is durable. Gets of one handle
        follow each other. Tells MQRC_OPTIONS_ERROR for a get under the cursor: that never waits.
        """

    def get_any(
        self,
        handles: Iterable[int],
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[Delivery],
        wait_ms: int = c.MQWI_UNLIMITED,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        on_refused: OnRefused | None = None,
    ) -> UnderWay:
        """Get one message from whichever of several open queues has one, the first of them first.

        The delivery names its handle. The end of any of the handles ends the get, MQRC_HOBJ_ERROR.
        So does a queue that cannot be got from, with its reason code. With ``on_refused`` the get
        goes on with the others, and with that one when it can be got from again. ``on_refused`` is
        called with the handle and the error, once for a handle and a reason until a get finds that
        the queue can be got from.
        """

    def wait_until(self, moment_ms: int | None, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until the queue manager's time is a moment: ms since 1970; one that is past is now.

        None never comes. Ends with MQRC_HCONN_ERROR when the connection is closed before, and with
        MQRC_CONNECTION_BROKEN or MQRC_Q_MGR_STOPPING at the end of the queue manager.
        """

    def await_definitions(self, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until a definition is made, altered or deleted.

        A program that a definition stands in the way of waits for this, and tries again.
        """

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        on_done: OnDone[PutResult | None],
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        properties: Sequence[Property] = (),
        context: int = c.MQHO_NONE,
    ) -> UnderWay:
        """Put a message; outside of syncpoint a persistent one is durable when it is told.

        Tells None for one with MQPMO_ASYNC_RESPONSE that its queue refuses. Messages have the order
        of the calls; those that are put meanwhile share a sync. Tells
        MQRC_RESOURCE_PROBLEM when 10,000 of the queue manager's are on their way to the disk.
        """

    def together(self) -> AbstractContextManager[object]:
        """Let puts that are begun within a block travel together, which costs less.

        All are on their way when the block ends. Each has its own outcome, as without the block.
        """

    def commit(self, on_done: OnDone[None]) -> UnderWay:
        """Commit the unit of work; the next one begins at once."""

    def settle(
        self,
        deliveries: Iterable[int],
        settlement: Settlement,
        *,
        reason: int = 0,
        within: int = 0,
        on_done: OnDone[None] | None = None,
    ) -> UnderWay:
        """Settle deliveries by their numbers, all with one sync or none.

        Without ``on_done`` they are settled on return, or it raises. ``reason`` stands in the MQDLH
        of dead letters. ``within`` is the number of a conversation on the same queue manager, maybe
        this one. Its unit of work takes the deliveries over: they are TAKEN at its commit, and go
        back counted at its backout.

        Tells MQRC_STORAGE_MEDIUM_FULL when the messages are back on their queues instead. After
        all other errors they are held as before. These are MQRC_HMSG_ERROR for a number that is
        settled already, and MQRC_UOW_NOT_AVAILABLE for a ``within`` that is no conversation.
        ``within`` with another settlement than TAKEN is MQRC_OPTIONS_ERROR. A dead-letter queue
        that does not take a message gives its own reason.
        """

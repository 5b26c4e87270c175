"""A connection: the requests of a program, wherever its queue manager is.

Each kind of connection has its own :meth:`Connection.call` and :meth:`Connection.begin`, which take
a request (``mayfly.verbs.requests``). The verbs are methods that make one of their parameters. Open
objects are numbers, options are the bits of the MQI, times are in ms. Errors are MQError: class,
reason code and detail. After a LostAnswer the call may have taken effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import index
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, Unpack

from mayfly.client.connection.onward import Held, Many, Onward
from mayfly.client.connection.operating import Administration, Claims, Schedule
from mayfly.client.connection.topics import Topics
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.properties.folders import Property
from mayfly.runtime import Runtime
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import packed_descriptor
from mayfly.verbs.facts import Inquiry, Status, Value
from mayfly.verbs.messages import Delivery, GetResult, PutResult, Settlement
from mayfly.verbs.requests import BackoutRule, Opened
from mayfly.verbs.rows import packed_scalar, rows_of_properties

_T = TypeVar("_T")
_R = TypeVar("_R")
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


class MessageMore(TypedDict, total=False):
    """Fields of a message that is put, as ``requests.NewMessage`` has them, without its body."""

    msg_id: bytes
    correl_id: bytes
    expiry_tenths: int
    time_to_live_ms: int | None
    delay_ms: int
    properties: Sequence[Property]


class PutMore(MessageMore, total=False):
    """The same, and the handle whose saved context is passed on."""

    context: int


class GetMore(TypedDict, total=False):
    """Fields of a get, as ``requests.Get`` has them; ids that are empty match all.

    ``wait_ms`` counts with MQGMO_WAIT, -1 is for ever; ``max_length`` None takes any length. With
    ``in_handle`` the properties are for a message handle, ``with_extension`` puts what an MQMD of
    version 1 cannot say into an MQMDE.
    """

    wait_ms: int
    max_length: int | None
    msg_id: bytes
    correl_id: bytes
    group_id: bytes
    sequence_number: int | None
    offset: int | None
    token: bytes | None
    in_handle: bool
    with_extension: bool


def put_request(
    handle: int,
    body: bytes,
    descriptor: Descriptor,
    options: int = c.MQPMO_NONE,
    *,
    context: int = c.MQHO_NONE,
    **more: Unpack[MessageMore],
) -> ask.Put:
    """Return the request of a put; raises MQRC_MD_ERROR, MQRC_PROPERTY_TYPE_ERROR."""
    message = _new_message(body, **more)
    return ask.Put(packed_descriptor(descriptor), options, index(handle), index(context), message)


def _new_message(body: bytes, properties: Sequence[Property] = (), **more: Any) -> ask.NewMessage:
    rows = rows_of_properties(properties) if properties else []
    return ask.NewMessage(body, properties=rows, **more)


def check_one_queue(request: ask.GetAny) -> None:
    """Raise MQRC_OPTIONS_ERROR for a get of several queues that is called: it is to be begun."""
    if len(request.handles) != 1:
        said = f"{len(request.handles)} handles: a get of several queues is begun"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, said)


class Decided:
    """A verb that is decided, or cannot be taken back any more."""

    def stands(self) -> bool:
        """Return False."""
        return False

    def cancel(self) -> bool:
        """Return False: the callback tells how it ends."""
        return False


DECIDED = Decided()


class Connection:
    """One conversation of one user with a queue manager, with one unit of work.

    One thread at a time uses it. Any thread may close it or one of its objects: the waits that this
    ends raise MQRC_HCONN_ERROR and MQRC_HOBJ_ERROR.
    """

    name: str
    #: The number of the conversation on the queue manager.
    number: int
    runtime: Runtime

    # Each kind of connection has its own of these.

    def call(self, request: ask.Request[_R]) -> _R:
        """Make a request and return its answer; raises MQError."""
        raise NotImplementedError

    def begin(
        self,
        request: ask.Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Make a request that ends with ``on_done``, called once and outside of all locks.

        Callbacks of a queue manager come one at a time, in the order in which the outcomes were
        decided. A callback may come before this has returned. It may make requests and must not
        block. Errors are outcomes as well: nothing is raised. ``on_event`` is called for what a
        request meets while it goes on (:class:`requests.GetAny`).
        """
        raise NotImplementedError

    def tell(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Call ``on_done`` with an outcome that is known, as :meth:`begin` does."""
        raise NotImplementedError

    def together(self) -> AbstractContextManager[object]:
        """Let puts that are begun within a block travel together, which costs less.

        All are on their way when the block ends. Each has its own outcome, as without the block.
        """
        return nullcontext()

    def close(self, *, commit: bool = True) -> None:
        """MQDISC: commits the unit of work, or backs it out; closes all objects.

        Deliveries that are not settled go back, counted. A second close does nothing.
        """
        raise NotImplementedError

    def has_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        raise NotImplementedError

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which ends an object that its program has dropped.

        Python may collect an object at any moment, also within a verb. ``end`` might need a lock
        that this verb holds; it then runs with the next verb.
        """
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        raise NotImplementedError

    @property
    def is_broken(self) -> bool:
        """Whether the queue manager is gone."""
        raise NotImplementedError

    @property
    def socket(self) -> int | None:
        """The number of its socket, which others may share, 0 when it is gone.

        None for a connection in this process, which has none.
        """
        return None

    # The verbs.

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
        return self.call(
            ask.Open(name, options, kind, manager, topic, dynamic_name, selector, alternate_user)
        )

    def close_object(self, handle: int, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE with MQCO options.

        Returns 0, or MQRC_INCOMPLETE_GROUP or _MSG when it stopped within one. Raises
        MQRC_HOBJ_ERROR, MQRC_Q_NOT_EMPTY, MQRC_OPTION_NOT_VALID_FOR_TYPE.
        """
        return self.call(ask.CloseObject(index(handle), options))

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        **more: Unpack[PutMore],
    ) -> PutResult | None:
        """MQPUT to a queue or a topic with MQPMO options; the life is given in one of two units.

        ``context`` is the handle whose saved context is passed on. Returns None for a message with
        MQPMO_ASYNC_RESPONSE that its queue refuses: :meth:`status` says why. Raises the reason
        codes of P1-P13 and MQRC_EXPIRY_ERROR (E2); nothing is put then, unless it is LostAnswer.
        """
        return self.call(put_request(handle, body, descriptor, options, **more))

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
        **more: Unpack[MessageMore],
    ) -> PutResult:
        """MQPUT1: one put to what :meth:`open` would open, without a handle.

        Raises the reason codes of open and put, MQRC_OPTIONS_ERROR for MQPMO_ASYNC_RESPONSE and
        options that pass context on.
        """
        message = _new_message(body, **more)
        packed = packed_descriptor(descriptor)
        return self.call(ask.Put1(packed, options, message, name, kind, manager, topic))

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        **more: Unpack[GetMore],
    ) -> GetResult:
        """MQGET with MQGMO options, destructive or browsing.

        Raises the reason codes of G1-G13 and B1-B8, MQRC_NO_MSG_AVAILABLE first of all.
        """
        return self.call(ask.Get(index(handle), options, **more))

    def unlock(self, handle: int, options: int = c.MQGMO_UNLOCK) -> int:
        """MQGET with MQGMO_UNLOCK: returns 0 or MQRC_NO_MSG_LOCKED (B6)."""
        return self.call(ask.Unlock(index(handle), options))

    def status(self) -> Status:
        """MQSTAT: the outcome of puts with MQPMO_ASYNC_RESPONSE since the last MQSTAT (P13)."""
        return self.call(ask.AskStatus())

    def commit(self) -> None:
        """MQCMIT; raises MQRC_STORAGE_MEDIUM_FULL (backed out), LostAnswer."""
        self.call(ask.Commit())

    def backout(self) -> None:
        """MQBACK: puts vanish, gets go back with their backout count one higher (G8)."""
        self.call(ask.Backout())

    def now_ms(self) -> int:
        """Return the queue manager's time: ms since 1970, UTC (docs/CLOCKS.md)."""
        return self.call(ask.Now())

    @property
    def objects(self) -> Objects:
        """Inquiries about open objects, and changes of their attributes."""
        return Objects(self.call)

    @property
    def topics(self) -> Topics:
        """Subscriptions, and topics that are the conversation's own."""
        return Topics(self.call)

    @property
    def asynchronous(self) -> Asynchronous:
        """Verbs that do not wait."""
        return Asynchronous(self)

    @property
    def held(self) -> Held:
        """Messages that this conversation holds one by one."""
        return Held(self.call)

    @property
    def many(self) -> Many:
        """Messages that a program gets many at a time."""
        return Many(self.call)

    @property
    def onward(self) -> Onward:
        """Verbs that move or answer a message in the unit of work that gets it."""
        return Onward(self.call)

    @property
    def schedule(self) -> Schedule:
        """The schedule of delayed messages; changes are durable when they return."""
        return Schedule(self.call)

    @property
    def schedule_in_unit(self) -> Schedule:
        """The schedule of delayed messages; changes are part of the unit of work."""
        return Schedule(self.call, in_unit=True)

    @property
    def admin(self) -> Administration:
        """The verbs of an operator; MQRC_NOT_AUTHORIZED for a user with limited authority."""
        return Administration(self.call)

    @property
    def claims(self) -> Claims:
        """The claims of pipelines, which an operator may end; raises as :attr:`admin`."""
        return Claims(self.call)


class Objects:
    """Inquiries about open objects, and changes of their attributes."""

    def __init__(self, call: ask.Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    def inquire(self, handle: int, selectors: Sequence[int]) -> Inquiry:
        """MQINQ; handle MQHO_NONE (0) asks the queue manager itself.

        Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_INQUIRE, MQRC_SELECTOR_ERROR, MQRC_Q_DELETED,
        MQRC_NOT_AUTHORIZED.
        """
        return self._call(ask.Inquire(index(handle), list(selectors)))

    def set(self, handle: int, values: Mapping[int, Value]) -> None:
        """MQSET, all or none; raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET, MQRC_SELECTOR_ERROR.

        A value that an attribute does not take has a reason code of its own.
        """
        rows = [
            (selector, packed_scalar(value, "set.values", rc.MQRC_UNEXPECTED_ERROR))
            for selector, value in values.items()
        ]
        self._call(ask.Set(index(handle), rows))

    def backout_rule(self, handle: int) -> BackoutRule:
        """Return BOTHRESH and BOQNAME of the queue of a handle; raises MQRC_HOBJ_ERROR."""
        return self._call(ask.AskBackoutRule(index(handle)))

    def command_level(self) -> int:
        """Return the command level of the queue manager, for every user.

        It shows which verbs and options there are.
        """
        return self._call(ask.AskCommandLevel())

    def lives_from_release(self, handle: int = c.MQHO_NONE) -> bool:
        """Return True if an open queue has TTLFROM(RELEASE): lives begin at the release.

        With handle MQHO_NONE (0), return True if any queue has it. Raises MQRC_HOBJ_ERROR.
        """
        return self._call(ask.AskLivesFromRelease(index(handle)))


class Asynchronous:
    """Verbs that do not wait: they end with ``on_done``, as ``Connection.begin`` says."""

    def __init__(self, connection: Connection) -> None:
        """Make requests on a connection."""
        self._connection, self._begin = connection, connection.begin

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
        return self.get_any(
            [handle],
            options,
            on_done=on_done,
            wait_ms=wait_ms,
            max_length=max_length,
            msg_id=msg_id,
            correl_id=correl_id,
        )

    def fetch(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        on_done: OnDone[GetResult],
        **more: Unpack[GetMore],
    ) -> UnderWay:
        """Get a message as ``Connection.get`` does: into the unit of work, or for good.

        When a get for good of a persistent message is told, it is durable. Gets of one handle
        follow each other. Tells MQRC_OPTIONS_ERROR for a get under the cursor: that never waits.
        """
        return self._begin(ask.Get(index(handle), options, **more), on_done)

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
        numbers, tells = list(map(index, handles)), on_refused is not None
        request = ask.GetAny(numbers, options, wait_ms, max_length, msg_id, correl_id, tells)
        return self._begin(request, on_done, on_refused)

    def wait_until(self, moment_ms: int | None, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until the queue manager's time is a moment: ms since 1970; one that is past is now.

        None never comes. Ends with MQRC_HCONN_ERROR when the connection is closed before, and with
        MQRC_CONNECTION_BROKEN or MQRC_Q_MGR_STOPPING at the end of the queue manager.
        """
        return self._begin(ask.WaitUntil(moment_ms), on_done)

    def await_definitions(self, *, on_done: OnDone[None]) -> UnderWay:
        """Wait until a definition is made, altered or deleted.

        A program that a definition stands in the way of waits for this, and tries again.
        """
        return self._begin(ask.AwaitDefinitions(), on_done)

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        on_done: OnDone[PutResult | None],
        **more: Unpack[PutMore],
    ) -> UnderWay:
        """Put a message; outside of syncpoint a persistent one is durable when it is told.

        Tells None for one with MQPMO_ASYNC_RESPONSE that its queue refuses. Messages have the order
        of the calls; those that are put meanwhile share a sync. Tells
        MQRC_RESOURCE_PROBLEM when 10,000 of the queue manager's are on their way to the disk.
        """
        try:
            request = put_request(handle, body, descriptor, options, **more)
        except MQError as error:
            self._connection.tell(on_done, error)
            return DECIDED
        return self._begin(request, on_done)

    def together(self) -> AbstractContextManager[object]:
        """Let puts that are begun within a block travel together, which costs less.

        All are on their way when the block ends. Each has its own outcome, as without the block.
        """
        return self._connection.together()

    def commit(self, on_done: OnDone[None]) -> UnderWay:
        """Commit the unit of work; the next one begins at once."""
        return self._begin(ask.Commit(), on_done)

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
        request = ask.Settle(list(deliveries), settlement, reason, within)
        if on_done is not None:
            return self._begin(request, on_done)
        self._connection.call(request)
        return DECIDED

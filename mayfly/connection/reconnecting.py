"""A connection that is made again when it breaks, with all that was open (docs/CLIENTS.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from mayfly.connection.endpoint import Reconnect
from mayfly.connection.interface import Connection
from mayfly.connection.operating import Administration, ClaimVerbs, ScheduleVerbs
from mayfly.connection.reconnecting_calls import (
    ReconnectingCalls,
    ReconnectingHeld,
    ReconnectingMany,
    ReconnectingOnward,
)
from mayfly.connection.reconnecting_topics import ReconnectingTopics
from mayfly.connection.reconnection import (
    USUAL_ATTEMPTS,
    USUAL_PATIENCE,
    Attempts,
    Lost,
    Patience,
    Reconnection,
    backed_out,
    incompatible,
    interrupted,
)
from mayfly.connection.reopening import Numbers, reopen_dynamic
from mayfly.connection.values import (
    BackoutRule,
    GetResult,
    Inquiry,
    Opened,
    Property,
    PutResult,
    Status,
    Value,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error

_IN_UNIT = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT


class ReconnectingConnection:
    """The verbs of ``interface.Connection``; they raise as ``Reconnection.run``.

    It has none for pipelines. ``number`` is that of the first conversation, and stays.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        how: Reconnect,
        patience: Patience = USUAL_PATIENCE,
        attempts: Attempts = USUAL_ATTEMPTS,
    ) -> None:
        """Connect; raises as ``connect``."""
        self._again = again = Reconnection(connect, how, patience, attempts)
        self.number = again.now[0].number
        self._run, self._opened = again.run, again.objects
        self.runtime = again.runtime
        self.objects = ReconnectingObjects(again)
        self.topics = ReconnectingTopics(again)
        self.schedule = cast("ScheduleVerbs", _Part(again, lambda now: now.schedule))
        self.schedule_in_unit = cast(
            "ScheduleVerbs", _Part(again, lambda now: now.schedule_in_unit, in_unit=True)
        )
        calls = ReconnectingCalls(again, self.number)
        self.asynchronous = calls
        self.held = ReconnectingHeld(again, calls.deliveries)
        self.many = ReconnectingMany(again)
        self.onward = ReconnectingOnward(again)
        #: The verbs of an operator.
        admin = _Part(again, lambda now: now.admin)
        admin.ledger = _Part(again, lambda now: now.admin.ledger)
        admin.stories = _Part(again, lambda now: now.admin.stories)
        self.admin = cast("Administration", admin)
        self.claims = cast("ClaimVerbs", _Part(again, _without_claims))

    @property
    def name(self) -> str:
        """The name of the queue manager of now."""
        return self._again.now[0].name

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
        """MQOPEN."""

        def open_as(now: Connection, name: str, dynamic_name: str) -> Opened:
            return now.open(
                name,
                options,
                kind=kind,
                manager=manager,
                topic=topic,
                dynamic_name=dynamic_name,
                selector=selector,
                alternate_user=alternate_user,
            )

        def reopen(now: Connection, numbers: Numbers) -> Opened:
            return open_as(now, numbers.renamed.get(name, name), dynamic_name)

        def enter(opened: Opened) -> Opened:
            if opened.made:
                return self._opened.enter(opened, reopen_dynamic(open_as, name, opened.made))
            return self._opened.enter(opened, reopen)

        return self._run(lambda now: reopen(now, self._opened.now), enter=enter)

    def close_object(self, handle: int, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE."""
        reason = self._run(lambda now: now.close_object(self._opened.inner(handle), options))
        self._opened.drop(handle)
        return reason

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
        """MQPUT; raises MQRC_RECONNECT_INCOMPATIBLE for MQPMO_LOGICAL_ORDER."""
        if options & c.MQPMO_LOGICAL_ORDER:
            raise incompatible("MQPMO_LOGICAL_ORDER")
        return self._run(
            lambda now: now.put(
                self._opened.inner(handle),
                body,
                descriptor,
                options,
                msg_id=msg_id,
                correl_id=correl_id,
                expiry_tenths=expiry_tenths,
                time_to_live_ms=time_to_live_ms,
                delay_ms=delay_ms,
                properties=properties,
                context=self._opened.inner(context),
            ),
            in_unit=bool(options & c.MQPMO_SYNCPOINT),
        )

    def put1(
        self,
        name: str,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        **more: Any,
    ) -> PutResult:
        """MQPUT1."""
        return self._run(
            lambda now: now.put1(name, body, descriptor, options, **more),
            in_unit=bool(options & c.MQPMO_SYNCPOINT),
        )

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        token: bytes | None = None,
        **more: Any,
    ) -> GetResult:
        """MQGET.

        A get that is interrupted is repeated: outside of a unit of work its message may be lost, as
        in IBM MQ. Browsing begins anew after a new connection. Raises MQRC_RECONNECT_INCOMPATIBLE
        for MQGMO_LOGICAL_ORDER, and MQRC_RECONNECT_Q_MGR_REQD for a MsgToken unless it reconnects
        to the same queue manager.
        """
        if options & c.MQGMO_LOGICAL_ORDER:
            raise incompatible("MQGMO_LOGICAL_ORDER")
        if token is not None and not self._again.is_to_same:
            raise mq_error(rc.MQRC_RECONNECT_Q_MGR_REQD, "a get by MsgToken")
        return self._again.wait(
            lambda now: now.get(self._opened.inner(handle), options, token=token, **more),
            in_unit=bool(options & _IN_UNIT),
        )

    def unlock(self, handle: int, options: int = c.MQGMO_UNLOCK) -> int:
        """MQGET with MQGMO_UNLOCK."""
        return self._run(lambda now: now.unlock(self._opened.inner(handle), options))

    def status(self) -> Status:
        """MQSTAT."""
        return self._run(lambda now: now.status())

    def commit(self) -> None:
        """MQCMIT.

        Raises MQRC_BACKED_OUT for a unit of work that was lost before, and LostAnswer with
        MQRC_CALL_INTERRUPTED when the connection broke before the answer came.
        """
        again = self._again
        of_unit, has_work = again.end_unit(again.next_unit())

        def commit(now: Connection) -> None:
            if has_work and now is not of_unit:
                raise backed_out()
            now.commit()

        try:
            again.attempt(commit)
        except Lost as lost:
            if not has_work:
                return
            if lost.is_in_doubt:
                raise interrupted() from lost
            raise backed_out() from lost

    def backout(self) -> None:
        """MQBACK; a unit of work that was lost with its connection is backed out already."""
        again = self._again
        try:
            again.end_unit(again.next_unit())
        except MQError:
            return
        with suppress(Lost):
            again.attempt(lambda now: now.backout())

    def close(self, *, commit: bool = True) -> None:
        """MQDISC; raises MQRC_BACKED_OUT when the unit of work to be committed is lost."""
        again = self._again
        if again.is_closed:
            return
        now = again.close()
        is_gone = again.is_backed_out or (again.has_work and now.is_broken)
        now.close(commit=commit)
        if is_gone and commit:
            raise backed_out()

    def now_ms(self) -> int:
        """Return the queue manager's time."""
        return self._run(lambda now: now.now_ms())

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return not self._again.is_closed

    @property
    def is_broken(self) -> bool:
        """Whether the attempts to connect again have failed."""
        return self._again.failure is not None

    @property
    def socket(self) -> int | None:
        """The number of the socket of now, 0 when there is none."""
        return self._again.now[0].socket


class ReconnectingObjects:
    """See ``interface.Objects``, whose methods these are."""

    def __init__(self, again: Reconnection) -> None:
        """Stand on a reconnection."""
        self._run, self._opened = again.run, again.objects
        self._again = again

    def is_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        return self._opened.has(handle)

    def inquire(self, handle: int, selectors: Sequence[int]) -> Inquiry:
        """MQINQ."""
        return self._run(lambda now: now.objects.inquire(self._opened.inner(handle), selectors))

    def set(self, handle: int, values: Mapping[int, Value]) -> None:
        """MQSET."""
        self._run(lambda now: now.objects.set(self._opened.inner(handle), values))

    def backout_rule(self, handle: int) -> BackoutRule:
        """Return BOTHRESH and BOQNAME."""
        return self._run(lambda now: now.objects.backout_rule(self._opened.inner(handle)))

    def command_level(self) -> int:
        """Return the command level of the queue manager."""
        return self._run(lambda now: now.objects.command_level())

    def lives_from_release(self, handle: int = c.MQHO_NONE) -> bool:
        """Return True if an open queue has TTLFROM(RELEASE); any queue, for MQHO_NONE."""
        return self._run(lambda now: now.objects.lives_from_release(self._opened.inner(handle)))

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end`` of an object that its program has dropped, now or at the next verb."""
        self._again.now[0].objects.end_dropped(end)


class _Part:
    """A part of the connection of now: its methods run like verbs."""

    #: Parts of this one, where there are any.
    ledger: _Part
    stories: _Part

    def __init__(
        self, again: Reconnection, part: Callable[[Connection], Any], *, in_unit: bool = False
    ) -> None:
        self._again, self._part, self._in_unit = again, part, in_unit

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def verb(*args: Any, **more: Any) -> Any:
            return self._again.run(
                lambda now: getattr(self._part(now), name)(*args, **more), in_unit=self._in_unit
            )

        return verb


def _without_claims(_now: Connection) -> ClaimVerbs:
    said = "claims are ended by commands, whose connections are not made again"
    raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, said)

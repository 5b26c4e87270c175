"""The verbs of an operator over a remote connection: the schedule, administration, claims."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from mayfly.connection.remote_conversation import Conversation
from mayfly.connection.values import (
    AuditEntry,
    ConsumerState,
    Counts,
    OwnTime,
    Receipt,
    Scheduled,
    ScheduleFilter,
    Verification,
    Whereabouts,
    stored_id,
)
from mayfly.connection.wire_values import script_of_row, stories_of_row, whereabouts_of_row
from mayfly.contracts.wire_verbs import Verb
from mayfly.engine import PropertyQuestion, StoriesFound
from mayfly.engine.face.programs import check_page
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqsc import MqscResult
from mayfly.store.ledger import PositionTrimmed

_EVERYTHING = ScheduleFilter()
#: The verb that answers with the number of messages as well, which older servers do not know.
_WITH_COUNT = {
    Verb.SCHEDULE_CANCEL: Verb.SCHEDULE_CANCEL_COUNTED,
    Verb.SCHEDULE_RESCHEDULE: Verb.SCHEDULE_RESCHEDULE_COUNTED,
    Verb.SCHEDULE_RELEASE: Verb.SCHEDULE_RELEASE_COUNTED,
}


class RemoteSchedule:
    """See ``operating.ScheduleVerbs``, whose methods these are."""

    def __init__(self, conversation: Conversation, *, in_unit: bool = False) -> None:
        """Ask over a conversation; changes are durable at once, or part of the unit of work."""
        self._call = conversation.call
        self._conversation, self._in_unit = conversation, in_unit

    def list(
        self, where: ScheduleFilter = _EVERYTHING, *, limit: int = 20, after: int | None = None
    ) -> builtins.list[Scheduled]:
        """Return delayed messages by delivery time."""
        # Checked here, as in one process: a value that is no number cannot even be sent.
        check_page(limit, after)
        rows = self._call(Verb.SCHEDULE_LIST, [where, limit, after])
        return [Scheduled(*row) for row in rows]

    def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message that was sent under a MsgId."""
        row = self._call(Verb.SCHEDULE_SHOW, [stored_id(msg_id, "msg_id")])
        return None if row is None else Scheduled(*row)

    def count(self, queue: str | None = None) -> int:
        """Return how many messages are delayed."""
        count: int = self._call(Verb.SCHEDULE_COUNT, [queue])
        return count

    def cancel(self, msg_id: bytes | str) -> Receipt:
        """Take the messages of a MsgId off the schedule."""
        return self._receipt(Verb.SCHEDULE_CANCEL, [stored_id(msg_id, "msg_id")])

    def reschedule(
        self, msg_id: bytes | str, *, delay_ms: int | None = None, deliver_at_ms: int | None = None
    ) -> Receipt:
        """Give the messages of a MsgId another delivery time."""
        asked = [stored_id(msg_id, "msg_id"), delay_ms, deliver_at_ms]
        return self._receipt(Verb.SCHEDULE_RESCHEDULE, asked)

    def release(self, msg_id: bytes | str) -> Receipt:
        """Let the messages of a MsgId go to their target now."""
        return self._receipt(Verb.SCHEDULE_RELEASE, [stored_id(msg_id, "msg_id")])

    def cancel_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Cancel everything a filter finds."""
        return self._steps(Verb.SCHEDULE_CANCEL_ALL, [where])

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: int | None = None,
        deliver_at_ms: int | None = None,
        by_ms: int | None = None,
    ) -> Iterator[int]:
        """Give everything a filter finds another delivery time."""
        return self._steps(Verb.SCHEDULE_RESCHEDULE_ALL, [where, delay_ms, deliver_at_ms, by_ms])

    def release_all(self, where: ScheduleFilter) -> Iterator[int]:
        """Let everything a filter finds go now."""
        return self._steps(Verb.SCHEDULE_RELEASE_ALL, [where])

    def audit(self, limit: int = 20) -> builtins.list[AuditEntry]:
        """Return the latest changes of the schedule."""
        check_page(limit)
        return [AuditEntry(*row) for row in self._call(Verb.SCHEDULE_AUDIT, [limit])]

    def now_ms(self) -> int:
        """Return the time by which messages are due."""
        now_ms: int = self._call(Verb.NOW, [])
        return now_ms

    def _receipt(self, verb: Verb, asked: builtins.list[Any]) -> Receipt:
        try:
            receipt, message_count = self._change(_WITH_COUNT[verb], asked)
        except MQError as error:
            if error.reason != rc.MQRC_FUNCTION_NOT_SUPPORTED:
                raise
            # An older server changes one message of the id, and knows no count.
            receipt, message_count = self._change(verb, asked), 1
        return Receipt(receipt).of(message_count)

    def _change(self, verb: Verb, asked: builtins.list[Any]) -> Any:
        conversation = self._conversation
        if conversation.changes_in_unit != self._in_unit:
            self._call(Verb.SCHEDULE_SYNCPOINT, [self._in_unit])
            conversation.changes_in_unit = self._in_unit
        # A change that is lost with its unit of work is backed out for certain.
        return self._call(verb, asked, is_doubtful=not self._in_unit)

    def _steps(self, verb: Verb, asked: builtins.list[Any]) -> Iterator[int]:
        number = self._change(verb, asked)
        while True:
            done_count = self._change(Verb.SCHEDULE_NEXT, [number])
            if done_count is None:
                return
            yield done_count


class RemoteStories:
    """See ``operating.StoryVerbs``, whose methods these are."""

    def __init__(self, call: Callable[..., Any]) -> None:
        """Ask by a call of verbs."""
        self._call = call

    def of(self, identifier: bytes | str) -> Whereabouts:
        """Return where a message has been."""
        return whereabouts_of_row(self._call(Verb.STORY, [stored_id(identifier)]))

    def with_property(self, question: PropertyQuestion) -> StoriesFound:
        """Return the stories of messages that are here and have a property."""
        return stories_of_row(self._call(Verb.STORIES, list(question)))


class RemoteAdministration:
    """See ``operating.Administration``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    @property
    def stories(self) -> RemoteStories:
        """Where messages have been."""
        return RemoteStories(self._call)

    @property
    def ledger(self) -> RemoteLedger:
        """The lives that have ended."""
        return RemoteLedger(self._call)

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands."""
        return script_of_row(self._call(Verb.MQSC, [script], is_doubtful=True))

    def counts(self, queue: str) -> Counts:
        """Return the counts of a local queue."""
        return Counts(*self._call(Verb.COUNTS, [queue]))

    def curdepth(self, queue: str) -> int:
        """Return CURDEPTH."""
        depth: int = self._call(Verb.CURDEPTH, [queue])
        return depth

    def why(self, identifier: bytes | str) -> Whereabouts:
        """Return the place or the outcome of a message."""
        return whereabouts_of_row(self._call(Verb.WHY, [stored_id(identifier)]))

    def verify(self) -> Verification:
        """Recount everything and compare."""
        ok, problems, queues, messages = self._call(Verb.VERIFY, [])
        return Verification(ok, tuple(problems), queues, messages)

    def delay_processor_status(self) -> str:
        """Return how delayed messages go."""
        return str(self._call(Verb.DELAY_PROCESSOR_STATUS, []))

    def own_time(self) -> OwnTime:
        """Return its own time beside the clock of its machine."""
        return OwnTime(*self._call(Verb.OWN_TIME, []))

    def follow_wall(self) -> OwnTime:
        """Follow the clock of its machine forward."""
        return OwnTime(*self._call(Verb.FOLLOW_WALL, [], is_doubtful=True))

    def advance_clock(self, ms: int) -> OwnTime:
        """Move a virtual clock on."""
        return OwnTime(*self._call(Verb.ADVANCE_CLOCK, [ms], is_doubtful=True))

    def run_due(self) -> None:
        """Do all work that is due."""
        self._call(Verb.RUN_DUE, [])


class RemoteLedger:
    """See ``operating.LedgerVerbs``, whose methods these are."""

    def __init__(self, call: Callable[[Verb, list[Any]], Any]) -> None:
        """Ask by the verbs of a conversation."""
        self._call = call

    def first_position(self) -> int:
        """Return the oldest position that is held."""
        position: int = self._call(Verb.LEDGER_FIRST, [])
        return position

    def page(self, after_position: int, max_rows: int) -> list[tuple[Any, ...]]:
        """Return rows that follow a position."""
        rows, first_held = self._call(Verb.LEDGER_PAGE, [after_position, max_rows])
        if first_held is not None:
            raise PositionTrimmed(after_position, first_held)
        return [tuple(row) for row in rows]


class RemoteClaims:
    """See ``operating.ClaimVerbs``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._call = conversation.call

    @property
    def instance_id(self) -> str:
        """The store of the queue manager."""
        return str(self._call(Verb.CLAIMS_INSTANCE, []))

    def standings(self) -> list[ConsumerState]:
        """Return the state of each consumer."""
        return [ConsumerState(*row) for row in self._call(Verb.CLAIMS_STANDINGS, [])]

    def end_written(self, consumer: str, until: int) -> int:
        """End claims whose messages are written."""
        asked = [consumer, until]
        count: int = self._call(Verb.CLAIMS_END_WRITTEN, asked, is_doubtful=True)
        return count

    def release(self, consumer: str) -> int:
        """Give claimed messages back."""
        count: int = self._call(Verb.CLAIMS_RELEASE, [consumer], is_doubtful=True)
        return count

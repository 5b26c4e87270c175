"""Facts about a queue manager and its messages, as answers: attributes, counts, times, traces."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

#: A value of an attribute.
Value: TypeAlias = int | str


class Inquiry(NamedTuple):
    """Attribute values, in the order of the selectors of MQINQ.

    A value is None for an attribute that this type of queue does not have; ``warning`` is
    MQRC_SELECTOR_NOT_FOR_TYPE then, otherwise 0.
    """

    values: list[Value | None]
    warning: int


class SubscriptionFacts(NamedTuple):
    """The attributes of a subscription at one moment."""

    name: str
    topic: str
    queue: str
    is_durable: bool
    is_managed: bool
    user_is_fixed: bool
    on_request: bool
    correl_id: bytes
    expiry_tenths: int
    priority: int
    user_data: str
    selector: str


class Status(NamedTuple):
    """The result of MQSTAT: the first failed asynchronous put since the last MQSTAT, and counts.

    A failure replaces an earlier warning. Without either, ``reason`` is 0 and ``object_type`` is
    MQOT_NONE. ``queue`` and ``manager`` are the resolved names.
    """

    comp: int = c.MQCC_OK
    reason: int = rc.MQRC_NONE
    success_count: int = 0
    warning_count: int = 0
    failure_count: int = 0
    object_type: int = c.MQOT_NONE
    object_name: str = ""
    queue: str = ""
    manager: str = ""


class Counts(NamedTuple):
    """The numbers of messages of one queue, by their state.

    ``staged`` wait on the staging queue for their delivery time, or on this queue for the end of
    the delay after their backout (BODELAY); ``live`` could be got now;
    ``uncommitted`` were put in open units of work; ``locked`` were got in open units of work, are
    claimed by a consumer, or locked by a browse; ``expired_present`` have passed their deadline and
    are not discarded yet.
    """

    staged: int
    live: int
    uncommitted: int
    locked: int
    expired_present: int


class Verification(NamedTuple):
    """The result of ``verify``, the check of a store: ``ok`` is True when ``problems`` is empty.

    ``queues`` and ``messages`` are how many were checked.
    """

    ok: bool
    problems: tuple[str, ...]
    queues: int
    messages: int


class OwnTime(NamedTuple):
    """The queue manager's time and its machine's wall clock, both in ms since 1970, UTC.

    The counts tell what setting the queue manager's time to the wall clock would cause.
    ``expiring_count`` and ``due_count`` are the messages whose deadline or delivery time lies
    between the two times. ``expired_count`` are those that have expired and are not discarded yet.
    ``put_ahead_count`` are those on ordinary queues whose put time is later than the wall clock.
    ``waiting_count`` are those whose deadline or delivery time is later than both. ``step_count``
    is how often the wall clock has stepped.
    """

    own_ms: int
    wall_ms: int
    step_count: int
    expiring_count: int
    due_count: int
    expired_count: int
    put_ahead_count: int
    waiting_count: int

    @property
    def difference_ms(self) -> int:
        """Wall clock minus queue manager time, in ms; negative if the queue manager is ahead."""
        return self.wall_ms - self.own_ms


#: The code of the reply to a command with a syntax error.
SYNTAX_ERROR = "AMQ8405E"
#: Names the values of a script that have no effect in Mayfly.
WITHOUT_EFFECT = "MFY1003I"


class MqscMessage(NamedTuple):
    """One reply to an MQSC command.

    ``body`` is the text printed below it. ``reason`` is the MQRC_* of a failure, otherwise 0.
    ``line`` and ``column``, from 1, are the place of a failure in the script: of the wrong text in
    the command, or of the command's beginning. Otherwise they are 0.
    """

    code: str
    text: str
    body: str = ""
    reason: int = 0
    line: int = 0
    column: int = 0

    @property
    def is_information(self) -> bool:
        """Whether the reply reports success: its code ends in I."""
        return self.code.endswith("I")

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" + (f"\n{self.body}" if self.body else "")


class CommandResult(NamedTuple):
    """The replies to one command of a script, and the objects it displayed.

    ``number`` counts the commands from 1.
    """

    number: int
    command: str
    messages: tuple[MqscMessage, ...]
    rows: tuple[dict[str, Value], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the command was executed without an error."""
        return all(message.is_information for message in self.messages)

    @property
    def is_valid(self) -> bool:
        """Whether the command has no syntax error."""
        return all(message.code != SYNTAX_ERROR for message in self.messages)


class MqscResult(NamedTuple):
    """The result of a script; ``text`` is the transcript as runmqsc prints it."""

    text: str
    commands: tuple[CommandResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every command was executed without an error; True for an empty script."""
        return all(command.ok for command in self.commands)

    @property
    def rows(self) -> list[dict[str, Value]]:
        """The objects that the commands have displayed: for each a dict of value by keyword."""
        return [row for command in self.commands for row in command.rows]

    @property
    def messages(self) -> list[MqscMessage]:
        """The replies to all commands, in order."""
        return [message for command in self.commands for message in command.messages]

    @property
    def codes(self) -> list[str]:
        """The codes of all replies, in order."""
        return [message.code for message in self.messages]

    def __str__(self) -> str:
        return self.text


MAX_TRACES: Final = 100
_EARLIEST_MS, _LATEST_MS = 0, 2**63 - 1


class Relation(StrEnum):
    """The relation between a found message and the id in the question."""

    #: It has the id as its MsgId.
    MESSAGE = "message"
    #: A report about that message.
    REPORT = "report"
    #: It has the id as its CorrelId.
    CORRELATED = "correlated"


class TraceEntry(NamedTuple):
    """One message on one queue: its state there now, or how its stay there ended.

    ``state`` is a ``lifetime.life.State``. Times are ms since 1970; ``ended_ms`` is None while it
    is on the queue, ``expire_at_ms`` None if it never expires. ``msg_id`` and ``correl_id`` are
    those its sender knows: 24 bytes, empty where unknown. ``target`` is its next queue, on the
    staging queue, a transmission queue or a dead-letter queue. ``reason`` is an MQRC_* or MQFB_*:
    why it was dead-lettered or discarded, or the Feedback of a report. ``holder`` names the user or
    consumer that holds it while it is uncommitted or locked, ``hindrance`` why nobody can get it.
    ``report`` are its report options. ``queue_manager`` owns the queue; for a shared queue it is
    the queue-sharing group.

    ``program`` is the PutApplName, ``topic`` the topic string of a published copy; both are empty
    for an ended message, as the ledger does not have them. ``capped_by``, ``detected_by``,
    ``ended_by`` and ``ended_program`` are columns of the ledger (docs/LEDGER.md), empty where
    unknown. Only ``capped_by`` is known of a message that is still on its queue.
    """

    relation: str
    state: str
    queue: str
    msg_id: bytes
    correl_id: bytes
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    ended_ms: int | None
    reason: int
    target: str
    holder: str
    hindrance: str
    persistent: bool
    body_bytes: int
    report: int
    reply_to_q: str
    backout_count: int
    user_identifier: str
    program: str = ""
    topic: str = ""
    queue_manager: str = ""
    capped_by: str = ""
    detected_by: str = ""
    ended_by: str = ""
    ended_program: str = ""


class Step(NamedTuple):
    """One line of the answer: an event of a message, or its state; ``at_ms`` is ms since 1970.

    ``user`` and ``program`` are those that caused the event, empty where unknown.
    """

    at_ms: int
    what: str
    queue: str
    text: str
    queue_manager: str = ""
    user: str = ""
    program: str = ""


class MessageTrace(NamedTuple):
    """The history of the messages with one id, as queue managers know it at one moment.

    ``entries`` are in the order in which they ended, present ones last; empty for an unknown id.
    ``is_cut`` is True when more than MAX_TRACE_ENTRIES of a kind were found. ``ledger_position``
    and ``ledger_ms`` belong to the oldest row of the ledger that retention has kept, None while the
    ledger is empty. These three are about ``queue_manager``. ``notes`` are sentences about places
    that could not be searched.
    """

    asked_id: bytes
    at_ms: int
    sentence: str
    steps: tuple[Step, ...]
    entries: tuple[TraceEntry, ...]
    is_cut: bool
    ledger_position: int | None
    ledger_ms: int | None
    queue_manager: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether a message with this id was found, on a queue or in the ledger."""
        return bool(self.entries)

    def __str__(self) -> str:
        """Return the sentence, so that ``print(qm.why(msg_id))`` tells where a message is."""
        return self.sentence


#: The most messages in an answer, of each kind and place.
MAX_TRACE_ENTRIES = 50


class PropertyQuestion(NamedTuple):
    """A search for messages with a property; times are those of the put, ms since 1970.

    ``value`` is the value as text. ``from_ms`` is inside the range, ``before_ms`` outside; None is
    no bound. At most ``limit`` traces are returned, those of the latest puts.
    """

    name: str
    value: str
    from_ms: int | None = None
    before_ms: int | None = None
    limit: int = 20

    def check(self) -> None:
        """Raise MQRC_OPTIONS_ERROR for a limit outside 1 to 100, or an empty range of time."""
        if not 1 <= self.limit <= MAX_TRACES:
            text = f"limit {self.limit} is not a whole number from 1 to {MAX_TRACES}"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
        if self.put_range[0] >= self.put_range[1]:
            text = f"from_ms {self.from_ms} is not before before_ms {self.before_ms}"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)

    @property
    def put_range(self) -> tuple[int, int]:
        """The range of put times searched, ms since 1970; the second is outside of the range."""
        return (
            _EARLIEST_MS if self.from_ms is None else self.from_ms,
            _LATEST_MS if self.before_ms is None else self.before_ms,
        )


class TracesFound(NamedTuple):
    """Traces of messages with a property, the latest put first.

    ``is_cut`` is True when there are more. ``notes`` are sentences about places that could not be
    searched.
    """

    traces: tuple[MessageTrace, ...]
    is_cut: bool
    notes: tuple[str, ...]

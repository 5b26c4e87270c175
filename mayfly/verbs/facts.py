"""Facts about a queue manager, as answers: attributes, put status, counts, times, MQSC replies."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc

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
    ``line`` and ``column``, from 1, are the place of a failure in the script: of what is wrong in
    the command, or of its beginning. Otherwise they are 0.
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

"""Facts as a queue manager tells them: queues, subscriptions, puts, time; results of MQSC."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc

#: A value of an attribute.
Value: TypeAlias = int | str


class Inquiry(NamedTuple):
    """Values in the order of the selectors.

    An attribute that this type of queue lacks is None, with the warning MQRC_SELECTOR_NOT_FOR_TYPE.
    """

    values: list[Value | None]
    warning: int


class SubscriptionFacts(NamedTuple):
    """The attributes of a subscription, at one moment."""

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
    """The first asynchronous put that went wrong, and how many went how, since it was asked last.

    A failure replaces a warning that came before it. Without either, reason is 0 and object type
    MQOT_NONE. ``queue`` and ``manager`` are where the name led to.
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
    """Messages of one queue by where they stand.

    ``staged`` wait on the staging queue to come here; ``live`` could be got now; ``uncommitted``
    are puts of open units of work; ``locked`` are got in open units of work, claimed by a consumer
    or locked by a browse;
    ``expired_present`` have passed their deadline and are not discarded yet (E8, E12).
    """

    staged: int
    live: int
    uncommitted: int
    locked: int
    expired_present: int


class Verification(NamedTuple):
    """The result of ``verify``; ``ok`` when nothing is wrong."""

    ok: bool
    problems: tuple[str, ...]
    queues: int
    messages: int


class OwnTime(NamedTuple):
    """Both times in ms since 1970, UTC, and what accepting the wall clock would do to messages.

    ``expiring_count`` and ``due_count`` are the messages whose deadline or delivery time lies
    between the two times; ``expired_count`` those that have expired and are not discarded yet;
    ``put_ahead_count`` those on ordinary queues that were put at a time that the wall clock has not
    reached; ``waiting_count`` those with a deadline or a delivery time later than both.
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
        """Wall clock minus own time: less than 0 where the queue manager is ahead."""
        return self.wall_ms - self.own_ms


#: The code of the reply to a command that cannot be read.
SYNTAX_ERROR = "AMQ8405E"


class MqscMessage(NamedTuple):
    """One reply to a command.

    ``body`` is what is printed below it. ``reason`` is the MQRC_* behind a failure, 0 otherwise;
    ``line`` and ``column``, from 1, are the place of a syntax error in the script, 0 otherwise.
    """

    code: str
    text: str
    body: str = ""
    reason: int = 0
    line: int = 0
    column: int = 0

    @property
    def is_information(self) -> bool:
        """Whether the command went well."""
        return self.code.endswith("I")

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" + (f"\n{self.body}" if self.body else "")


class CommandResult(NamedTuple):
    """One command of a script, by its number from 1, with its replies and the objects shown."""

    number: int
    command: str
    messages: tuple[MqscMessage, ...]
    rows: tuple[dict[str, Value], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the command was carried out."""
        return all(message.is_information for message in self.messages)

    @property
    def is_valid(self) -> bool:
        """Whether the command was understood."""
        return all(message.code != SYNTAX_ERROR for message in self.messages)


class MqscResult(NamedTuple):
    """The result of a script; ``text`` is the transcript as runmqsc prints it."""

    text: str
    commands: tuple[CommandResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every command was carried out."""
        return all(command.ok for command in self.commands)

    @property
    def rows(self) -> list[dict[str, Value]]:
        """One dict an object displayed: keyword to value, words as words, numbers as int."""
        return [row for command in self.commands for row in command.rows]

    @property
    def messages(self) -> list[MqscMessage]:
        return [message for command in self.commands for message in command.messages]

    @property
    def codes(self) -> list[str]:
        """The codes of all replies, in order."""
        return [message.code for message in self.messages]

    def __str__(self) -> str:
        return self.text

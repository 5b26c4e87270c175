"""The arguments of ``mayfly schedule``: ids, moments, intervals, and filters of messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import typer

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.values import duration_ms, message_id
from mayfly.verbs.schedule import ScheduleFilter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_ID_BYTES = 24
#: As many of a name are in MQMD.UserIdentifier.
_USER_CHARACTERS = 12
#: Fewer digits are the year 1973 or before: seconds, or a date without its hyphens.
_MS_DIGITS = re.compile(r"[0-9]{12,14}")
#: Default of --limit.
LIMIT_COUNT = 20


class Property(NamedTuple):
    """A message property and the text it must have."""

    name: str
    value: str


class Moment(NamedTuple):
    """A moment in ms since 1970, or so many ms after the queue manager's present time."""

    ms: int
    is_from_now: bool = False

    def at(self, now_ms: int) -> int:
        """Return the moment in ms since 1970."""
        return now_ms + self.ms if self.is_from_now else self.ms


class Wanted(NamedTuple):
    """The messages that a command is about; ``where`` is without the delivery times."""

    where: ScheduleFilter
    due_from: Moment | None
    due_before: Moment | None

    @property
    def is_everything(self) -> bool:
        """Whether no filter is given."""
        return self == _EVERYTHING

    def at(self, now_ms: int) -> ScheduleFilter:
        """Return the filter; a range that holds no moment is a mistake on the command line."""
        due_from_ms = None if self.due_from is None else self.due_from.at(now_ms)
        due_before_ms = None if self.due_before is None else self.due_before.at(now_ms)
        if due_from_ms is not None and due_before_ms is not None and due_from_ms >= due_before_ms:
            raise CommandFailed(
                ExitCode.USAGE,
                f"--due-from {due_from_ms} is not before --due-before {due_before_ms}",
            )
        return self.where._replace(due_from_ms=due_from_ms, due_before_ms=due_before_ms)


_EVERYTHING = Wanted(ScheduleFilter(), None, None)


class NewTime(NamedTuple):
    """The new delivery time: exactly one is not None."""

    delay_ms: int | None
    deliver_at_ms: int | None
    by_ms: int | None


def schedule_id(text: str) -> bytes:
    """Return a MsgId of 24 bytes from its hexadecimal digits, with or without ``ID:``."""
    return message_id(text).ljust(_ID_BYTES, b"\0")


def moment_ms(text: str) -> int:
    """Return a moment in ms since 1970 from ISO 8601 (without a zone: UTC) or such ms as digits.

    Raises BadParameter, also for digits that can only be seconds: they would be long past.
    """
    typed = text.strip()
    if typed.isdecimal():
        if _MS_DIGITS.fullmatch(typed) is None:
            raise typer.BadParameter(
                f"{text!r} is no moment: milliseconds since 1970 have 12 to 14 digits"
            )
        return int(typed)
    try:
        read = datetime.fromisoformat(typed)
        since_epoch = (read if read.tzinfo is not None else read.replace(tzinfo=UTC)) - _EPOCH
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no moment: ISO 8601 as in 2026-11-20T18:00:00Z, milliseconds since "
            "1970, or for --due-from and --due-before from now on, as in +1h"
        ) from None
    at_ms, rest = divmod(since_epoch, _MS)
    if rest:
        raise typer.BadParameter(f"{text!r} is not a whole number of milliseconds")
    return at_ms


def due_moment(text: str) -> Moment:
    """Return a moment as :func:`moment_ms`, or ``+1h`` from now; raises BadParameter."""
    typed = text.strip()
    if typed.startswith("+"):
        return Moment(duration_ms(typed[1:]), is_from_now=True)
    return Moment(moment_ms(text))


def signed_duration_ms(text: str) -> int:
    """Return a duration in ms, less than 0 after a minus sign; raises BadParameter."""
    typed = text.strip()
    if typed.startswith("-"):
        return -duration_ms(typed[1:])
    return duration_ms(typed.removeprefix("+"))


def limit_of(text: str) -> int:
    """Return a count of at least 1; raises BadParameter."""
    typed = text.strip()
    if re.fullmatch(r"[0-9]{1,18}", typed) is None or not int(typed):
        raise typer.BadParameter(f"{text!r} is not a count: 1 or more")
    return int(typed)


def position_of(text: str) -> int:
    """Return a position as a list shows it: 64 bits, and less than 0; raises BadParameter."""
    typed = text.strip()
    if re.fullmatch(r"-[0-9]{1,19}", typed) is None or not -(2**63) <= int(typed) < 0:
        raise typer.BadParameter(f"{text!r} is not a position that a list has shown")
    return int(typed)


def property_of(text: str) -> Property:
    """Return ``name=value``; raises BadParameter."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not name=value")
    return Property(name, value)


MsgId = Annotated[
    bytes,
    typer.Argument(metavar="MSG_ID", parser=schedule_id, help="Its id, as `mayfly put` prints it."),
]
MsgIds = Annotated[
    list[bytes] | None,
    typer.Argument(metavar="MSG_ID", parser=schedule_id, help="Ids as `mayfly put` prints them."),
]
QueueOption = Annotated[
    str | None, typer.Option("--queue", metavar="QUEUE", help="The queue named at the put.")
]
TargetOption = Annotated[
    str | None,
    typer.Option("--queue", metavar="QUEUE", help="Only what goes there, by whatever alias."),
]
SenderOption = Annotated[
    str | None, typer.Option("--sender", metavar="USER", help="Who put it: its UserIdentifier.")
]
PropertyOption = Annotated[
    list[Property] | None,
    typer.Option(
        "--property",
        parser=property_of,
        metavar="NAME=VALUE",
        help="A message property that it has; several must all be so.",
    ),
]
DueFromOption = Annotated[
    Moment | None,
    typer.Option(
        "--due-from", parser=due_moment, metavar="MOMENT", help="Due then or later; +1h from now."
    ),
]
DueBeforeOption = Annotated[
    Moment | None,
    typer.Option(
        "--due-before", parser=due_moment, metavar="MOMENT", help="Due before that; +1h from now."
    ),
]
WithinOption = Annotated[
    int | None,
    typer.Option("--within", parser=duration_ms, metavar="TIME", help="Due within that, as in 1h."),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", parser=limit_of, metavar="COUNT", help="How many at most. [default: 20]"
    ),
]
AfterOption = Annotated[
    int | None,
    typer.Option(
        "--after", parser=position_of, metavar="POSITION", help="Go on after this position."
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="All that match; without a filter, all there are.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask before all there are is concerned.")
]
DelayOption = Annotated[
    int | None,
    typer.Option("--delay", parser=duration_ms, metavar="TIME", help="So long from now, as in 5m."),
]
AtOption = Annotated[
    int | None,
    typer.Option("--at", parser=moment_ms, metavar="MOMENT", help="At that moment."),
]
ByOption = Annotated[
    int | None,
    typer.Option(
        "--by",
        parser=signed_duration_ms,
        metavar="TIME",
        help="Each so much later, or earlier as in -1h; with --all.",
    ),
]


def filter_of(
    queue: str | None,
    sender: str | None,
    properties: Sequence[Property] | None,
    *,
    due_from: Moment | None,
    due_before: Moment | None,
    within_ms: int | None,
) -> Wanted:
    """Return the messages that are meant; ``within_ms`` is another word for ``due_before``."""
    if within_ms is not None:
        if due_before is not None:
            raise CommandFailed(ExitCode.USAGE, "give --within or --due-before, not both")
        # A message due at the very end of the interval is within it.
        due_before = Moment(within_ms + 1, is_from_now=True)
    pairs = tuple((name, value) for name, value in properties or ())
    user = None if sender is None else sender[:_USER_CHARACTERS]
    return Wanted(ScheduleFilter(queue, user, pairs), due_from, due_before)


def new_time(
    delay_ms: int | None, deliver_at_ms: int | None, by_ms: int | None, *, is_all: bool
) -> NewTime:
    """Return the new delivery time; raises CommandFailed unless it is given in exactly one way."""
    given = [
        name
        for name, value in (("--delay", delay_ms), ("--at", deliver_at_ms), ("--by", by_ms))
        if value is not None
    ]
    if len(given) != 1:
        found = f"; found {' and '.join(given)}" if given else ""
        raise CommandFailed(ExitCode.USAGE, f"give one of --delay, --at and --by{found}")
    if by_ms == 0:
        raise CommandFailed(ExitCode.USAGE, "--by 0 moves nothing")
    if by_ms is not None and not is_all:
        raise CommandFailed(ExitCode.USAGE, "--by is for --all; give --delay or --at with ids")
    return NewTime(delay_ms, deliver_at_ms, by_ms)

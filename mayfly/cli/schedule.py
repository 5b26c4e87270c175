"""``mayfly schedule``: list, change and release delayed messages."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Annotated, NamedTuple

import typer

from mayfly.cli.managers import Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode, group
from mayfly.cli.show import JsonOption, aligned, is_confirmed, moment, note, print_json
from mayfly.cli.values import (
    ID_BYTES,
    PropertyValue,
    duration_ms,
    message_id,
    moment_ms,
    property_of,
)
from mayfly.client.connection import Administration, Schedule
from mayfly.client.connection.json_values import audit_as_json, scheduled_as_json
from mayfly.lifetime.times import spelled_moment
from mayfly.verbs.schedule import AuditEntry, Receipt, Scheduled, ScheduleFilter

#: As many of a name are in MQMD.UserIdentifier.
_USER_CHARACTERS = 12
#: Default of --limit.
LIMIT_COUNT = 20
_PAGE_COUNT = 1_000
#: A longer operation shows its progress on a terminal.
_SILENT_SECONDS = 1.0
_LIST_HEAD = ("MsgId", "due (UTC)", "queue", "sender", "bytes")
_AUDIT_HEAD = ("at (UTC)", "user", "action", "receipt", "count", "what")
#: Moments in an entry of the audit; a number with more digits is beyond the year 5138.
_MOMENT = re.compile(r"(^to |\bdue_from_ms=|\bdue_before_ms=)([0-9]{1,14})(?![0-9])")


class Moment(NamedTuple):
    """A moment in ms since 1970; with ``is_from_now`` in ms after the queue manager's time."""

    ms: int
    is_from_now: bool = False

    def at(self, now_ms: int) -> int:
        """Return the moment in ms since 1970; ``now_ms`` is the queue manager's time."""
        return now_ms + self.ms if self.is_from_now else self.ms


class DelayedSelection(NamedTuple):
    """The delayed messages that a command is for; ``where`` is the filter without times."""

    where: ScheduleFilter
    due_from: Moment | None
    due_before: Moment | None

    @property
    def is_everything(self) -> bool:
        """Whether the options have no filter, so that all delayed messages are meant."""
        return self == _EVERYTHING

    def at(self, now_ms: int) -> ScheduleFilter:
        """Return the complete filter, with times counted from ``now_ms`` where needed.

        Raises CommandFailed if its range of time is empty.
        """
        due_from_ms = None if self.due_from is None else self.due_from.at(now_ms)
        due_before_ms = None if self.due_before is None else self.due_before.at(now_ms)
        if due_from_ms is not None and due_before_ms is not None and due_from_ms >= due_before_ms:
            raise CommandFailed(
                ExitCode.USAGE,
                f"--due-from {due_from_ms} is not before --due-before {due_before_ms}",
            )
        return self.where._replace(due_from_ms=due_from_ms, due_before_ms=due_before_ms)


_EVERYTHING = DelayedSelection(ScheduleFilter(), None, None)


def schedule_id(text: str) -> bytes:
    """Return a MsgId of 24 bytes from hexadecimal digits, with or without ``ID:``.

    Missing bytes at the end are zero. Raises BadParameter for other texts and for more bytes.
    """
    return message_id(text).ljust(ID_BYTES, b"\0")


def due_moment(text: str) -> Moment:
    """Return a moment in ISO 8601, in ms since 1970, or from now as ``+1h``.

    Raises BadParameter for another text.
    """
    typed = text.strip()
    if typed.startswith("+"):
        return Moment(duration_ms(typed[1:]), is_from_now=True)
    return Moment(moment_ms(text))


def signed_duration_ms(text: str) -> int:
    """Return a duration such as ``1h`` or ``-1h`` in ms; raises BadParameter for another text."""
    typed = text.strip()
    if typed.startswith("-"):
        return -duration_ms(typed[1:])
    return duration_ms(typed.removeprefix("+"))


def limit_of(text: str) -> int:
    """Return a whole number of at least 1; raises BadParameter for another text."""
    typed = text.strip()
    if re.fullmatch(r"[0-9]{1,18}", typed) is None or not int(typed):
        raise typer.BadParameter(f"{text!r} is not a count: 1 or more")
    return int(typed)


def key_of(text: str) -> int:
    """Return a position that a list has shown, a negative 64-bit number.

    Raises BadParameter for another text.
    """
    typed = text.strip()
    if re.fullmatch(r"-[0-9]{1,19}", typed) is None or not -(2**63) <= int(typed) < 0:
        raise typer.BadParameter(f"{text!r} is not a position that a list has shown")
    return int(typed)


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
    list[PropertyValue] | None,
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
    typer.Option("--after", parser=key_of, metavar="POSITION", help="Go on after this position."),
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
    properties: Sequence[PropertyValue] | None,
    *,
    due_from: Moment | None,
    due_before: Moment | None,
    within_ms: int | None,
) -> DelayedSelection:
    """Return the delayed messages that the filter options select; None is no limit.

    ``sender`` is the user who put them; ``properties`` must all be equal. ``within_ms`` selects
    messages due within this many ms from now, overdue ones included unless ``due_from`` is set.
    Raises CommandFailed for --within beside --due-before.
    """
    if within_ms is not None:
        if due_before is not None:
            raise CommandFailed(ExitCode.USAGE, "give --within or --due-before, not both")
        # A message due at the very end of the interval is within it.
        due_before = Moment(within_ms + 1, is_from_now=True)
    pairs = tuple((name, value) for name, value in properties or ())
    user = None if sender is None else sender[:_USER_CHARACTERS]
    return DelayedSelection(ScheduleFilter(queue, user, pairs), due_from, due_before)


def check_new_time(
    delay_ms: int | None, deliver_at_ms: int | None, by_ms: int | None, *, is_all: bool
) -> None:
    """Raise CommandFailed unless exactly one of --delay, --at and --by is used.

    ``is_all`` is the option --all. --by is refused without it, and if it is 0.
    """
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


schedule = group(
    epilog="Exit code 1 when nothing is there, or when a receipt is not the one asked for."
)


@schedule.command("list")
def list_(
    name: Name,
    *,
    queue: QueueOption = None,
    sender: SenderOption = None,
    properties: PropertyOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    within_ms: WithinOption = None,
    limit: LimitOption = None,
    after: AfterOption = None,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what waits, in the order in which it is due.

    With --json as one JSON line each. Where there are more than --limit, stderr says how to go on.
    Exit code 1 when there is none. `show` tells all of one message, to the millisecond.

    \b
    Example:
      mayfly schedule list QM1 --queue Q1 --within 1h
    """
    selection = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    last: Scheduled | None = None
    with opened_schedule(name, path) as waiting:
        where = selection.at(waiting.now_ms())
        for page in _pages(waiting, where, LIMIT_COUNT if limit is None else limit, after):
            if as_json:
                for entry in page:
                    print_json(scheduled_as_json(entry), indent=None)
            else:
                print(*entry_lines(page, has_head=last is None), sep="\n")
            last = page[-1]
        if last is None:
            is_filtered = not selection.is_everything or after is not None
            what = f"that waits on {name} matches" if is_filtered else f"waits on {name}"
            raise CommandFailed(ExitCode.NOTHING, f"nothing {what}")
        if waiting.list(where, limit=1, after=last.position):
            note(f"there are more: --after {last.position}")


@schedule.command()
def show(
    name: Name, msg_id: MsgId, *, path: PlaceOption = None, as_json: JsonOption = False
) -> None:
    """Show one message that waits. Exit code 1 when it does not wait, or no longer.

    \b
    Example:
      mayfly schedule show QM1 414d5120514d31202020202020202020a10eb26700000001
    """
    with opened_schedule(name, path) as waiting:
        entry = waiting.show(msg_id)
    if entry is None:
        text = (
            f"{msg_id.hex()} does not wait on {name}; mayfly why {name} {msg_id.hex()} tells more"
        )
        raise CommandFailed(ExitCode.NOTHING, text)
    if as_json:
        print_json(scheduled_as_json(entry))
    else:
        for label, value in details(entry).items():
            print(f"{label:<14}  {value}")


@schedule.command()
def cancel(
    name: Name,
    msg_ids: MsgIds = None,
    *,
    queue: QueueOption = None,
    sender: SenderOption = None,
    properties: PropertyOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    within_ms: WithinOption = None,
    is_all: AllOption = False,
    is_sure: YesOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel messages: they are never delivered.

    Prints a receipt for each id: cancelled (also the second time), already-released, expired,
    dead-lettered, locked or unknown; and how many messages it is for, if they are several. Exit
    code 1 when one is not cancelled.

    \b
    Examples:
      mayfly schedule cancel QM1 414d5120514d31202020202020202020a10eb26700000001
      mayfly schedule cancel QM1 --queue Q1 --sender alice --all
    """
    selection = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    request = ScheduleCommand(name, path, msg_ids, selection, is_all, is_sure, as_json)
    action = ScheduleAction(
        "cancel",
        (Receipt.CANCELLED,),
        one=Schedule.cancel,
        bulk=Schedule.cancel_all,
    )
    carry_out(action, request)


@schedule.command()
def reschedule(
    name: Name,
    msg_ids: MsgIds = None,
    *,
    delay_ms: DelayOption = None,
    at_ms: AtOption = None,
    by_ms: ByOption = None,
    queue: QueueOption = None,
    sender: SenderOption = None,
    properties: PropertyOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    within_ms: WithinOption = None,
    is_all: AllOption = False,
    is_sure: YesOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give messages another delivery time.

    One that has passed releases them at once. Their deadline stays, unless their queue has
    TTLFROM(RELEASE): a time after it is refused with MQRC_EXPIRY_ERROR, for all that match. Prints
    a receipt for each id; exit code 1 when one is not rescheduled.

    \b
    Examples:
      mayfly schedule reschedule QM1 414d5120514d31202020202020202020a10eb26700000001 --delay 5m
      mayfly schedule reschedule QM1 --queue Q1 --all --by 1h
    """
    check_new_time(delay_ms, at_ms, by_ms, is_all=is_all)
    selection = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    request = ScheduleCommand(name, path, msg_ids, selection, is_all, is_sure, as_json)
    action = ScheduleAction(
        "reschedule",
        (Receipt.RESCHEDULED, Receipt.RELEASED),
        one=lambda waiting, msg_id: waiting.reschedule(
            msg_id, delay_ms=delay_ms, deliver_at_ms=at_ms
        ),
        bulk=lambda waiting, selection: waiting.reschedule_all(
            selection, delay_ms=delay_ms, deliver_at_ms=at_ms, by_ms=by_ms
        ),
    )
    carry_out(action, request)


@schedule.command()
def release(
    name: Name,
    msg_ids: MsgIds = None,
    *,
    queue: QueueOption = None,
    sender: SenderOption = None,
    properties: PropertyOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    within_ms: WithinOption = None,
    is_all: AllOption = False,
    is_sure: YesOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver messages now, not at their delivery time.

    Prints a receipt for each id; exit code 1 when one is neither released nor was before.

    \b
    Example:
      mayfly schedule release QM1 --queue Q1 --all
    """
    selection = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    request = ScheduleCommand(name, path, msg_ids, selection, is_all, is_sure, as_json)
    action = ScheduleAction(
        "release",
        (Receipt.RELEASED, Receipt.ALREADY_RELEASED),
        one=Schedule.release,
        bulk=Schedule.release_all,
    )
    carry_out(action, request)


@schedule.command()
def count(
    name: Name,
    *,
    queue: TargetOption = None,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count what waits, in all or for one queue.

    \b
    Example:
      mayfly schedule count QM1 --queue Q1
    """
    with opened_schedule(name, path) as waiting:
        found = waiting.count(queue)
    if as_json:
        print_json({"queue": queue, "message_count": found})
    else:
        print(found)


@schedule.command()
def audit(
    name: Name,
    *,
    limit: LimitOption = None,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who changed what, the latest first.

    With --json as one JSON line each. Exit code 1 when nobody did.

    \b
    Example:
      mayfly schedule audit QM1 --limit 5
    """
    with opened_schedule(name, path) as waiting:
        entries = waiting.audit(LIMIT_COUNT if limit is None else limit)
    if not entries:
        raise CommandFailed(ExitCode.NOTHING, f"nobody has changed what waits on {name}")
    if as_json:
        for entry in entries:
            print_json(audit_as_json(entry), indent=None)
    else:
        print(*audit_lines(entries), sep="\n")


def _pages(
    waiting: Schedule, selection: ScheduleFilter, limit: int, after: int | None
) -> Iterator[list[Scheduled]]:
    """Yield up to ``limit`` delayed messages in due order, in pages of 1,000; no page is empty.

    ``waiting`` is the schedule, ``selection`` the filter. The messages are those behind position
    ``after``; None is the begin.
    """
    while limit:
        asked = min(limit, _PAGE_COUNT)
        page = waiting.list(selection, limit=asked, after=after)
        if page:
            yield page
        if len(page) < asked:
            return
        limit -= asked
        after = page[-1].position


class ScheduleAction(NamedTuple):
    """An operation on delayed messages (cancel, reschedule, release), with its success receipts.

    ``one`` does it for one MsgId, ``bulk`` for all messages that match a filter; ``bulk`` yields
    the number done so far.
    """

    verb: str
    successes: tuple[Receipt, ...]
    one: Callable[[Schedule, bytes], Receipt]
    bulk: Callable[[Schedule, ScheduleFilter], Iterator[int]]


class ScheduleCommand(NamedTuple):
    """The arguments of an operation: queue manager, messages by ids or filter, and output form."""

    name: str
    path: str | None
    msg_ids: list[bytes] | None
    selection: DelayedSelection
    is_all: bool
    is_sure: bool
    as_json: bool


@contextmanager
def opened_schedule(name: str, path: str | None, *, delivers: bool = False) -> Iterator[Schedule]:
    """Return a context with the schedule of a queue manager: its delayed messages.

    ``path`` is its folder or URL, None the usual folder. With ``delivers`` messages that are due
    are delivered at the end of the block, so that a message reported as released can be got. Prints
    a warning if the processor that delivers them does not run.
    """
    with connected(name, path, program="mayfly schedule") as connection:
        yield Schedule(connection.call)
        if delivers:
            Administration(connection.call).run_due()
        status = Administration(connection.call).delay_processor_status()
        if status != "running":
            note(f"nothing is delivered on {name}, delay processor {status}")


def carry_out(action: ScheduleAction, request: ScheduleCommand) -> None:
    """Do ``action`` (cancel, reschedule, release) on delayed messages and print its receipts.

    ``request`` has the arguments of the command. Raises CommandFailed if a receipt is not a
    success, or if the options contradict each other.
    """
    _check(action, request)
    missed: Counter[Receipt] = Counter()
    delivers = Receipt.RELEASED in action.successes
    with opened_schedule(request.name, request.path, delivers=delivers) as waiting:
        if request.msg_ids:
            missed = _one_by_one(action, waiting, request.msg_ids, as_json=request.as_json)
        else:
            _all(action, waiting, request)
    if missed:
        reasons = ", ".join(f"{count} {receipt}" for receipt, count in sorted(missed.items()))
        text = (
            f"{missed.total()} of {len(request.msg_ids or ())} not {action.successes[0]}: {reasons}"
        )
        if missed[Receipt.UNKNOWN]:
            text += f"; mayfly why {request.name} ID tells more"
        raise CommandFailed(ExitCode.NOTHING, text)


def _check(action: ScheduleAction, request: ScheduleCommand) -> None:
    """Raise CommandFailed unless the options name messages either by ids, or by --all.

    ``action`` is the operation, which the error texts name. It is also raised for --all without a
    filter, without --yes and without a terminal to ask on.
    """
    has_filter = not request.selection.is_everything
    if request.msg_ids and (request.is_all or has_filter):
        raise CommandFailed(ExitCode.USAGE, "give ids, or a filter with --all, not both")
    if not request.msg_ids and not request.is_all:
        missing = "all that match: add --all" if has_filter else "what? Give ids, or --all"
        raise CommandFailed(ExitCode.USAGE, f"{action.verb} {missing}")
    if request.is_all and not has_filter and not request.is_sure and not sys.stdin.isatty():
        raise CommandFailed(
            ExitCode.USAGE, f"{action.verb} --all without a filter is everything: add --yes"
        )


def _one_by_one(
    action: ScheduleAction, waiting: Schedule, msg_ids: list[bytes], *, as_json: bool
) -> Counter[Receipt]:
    """Do the operation for each MsgId and print its receipt; return counts of failed receipts.

    ``action`` is the operation, ``waiting`` the schedule. The result is empty if all succeeded.
    Operations that are done stay done if a later message is refused.
    """
    missed: Counter[Receipt] = Counter()
    for msg_id in msg_ids:
        receipt = action.one(waiting, msg_id)
        count = receipt.message_count
        if as_json:
            row = {"msg_id": msg_id.hex(), "receipt": receipt, "message_count": count}
            print_json(row, indent=None)
        else:
            print(f"{msg_id.hex()}  {receipt}{f', {count:,} messages' if count > 1 else ''}")
        sys.stdout.flush()
        if receipt not in action.successes:
            missed[receipt] += 1
    return missed


def _all(action: ScheduleAction, waiting: Schedule, request: ScheduleCommand) -> None:
    """Do the operation for all messages that match, and print their number; 0 is a success.

    ``action`` is the operation, ``waiting`` the schedule. Asks for consent first if that is all
    messages. Raises CommandFailed if the user refuses.
    """
    if request.selection.is_everything and not request.is_sure:
        question = f"{action.verb} all {waiting.count():,} messages that wait on {request.name}?"
        if not is_confirmed(question):
            raise CommandFailed(ExitCode.NOTHING, "nothing was done")
    done = action.successes[0]
    count = _last(action.bulk(waiting, request.selection.at(waiting.now_ms())), done)
    if request.as_json:
        print_json({"receipt": done, "message_count": count}, indent=None)
    else:
        print(f"{count:,} {done}")


def _last(counts: Iterator[int], done: Receipt) -> int:
    """Return the last number that ``counts`` yields, 0 if it yields none.

    After a second a terminal shows each new number, with the word ``done``. If ``counts`` raises an
    error, the last number is printed first: the changes of that many messages stay.
    """
    count, is_shown, is_complete, start_seconds = 0, False, False, perf_counter()
    is_terminal = sys.stderr.isatty()
    try:
        for count in counts:
            if is_terminal and perf_counter() - start_seconds > _SILENT_SECONDS:
                typer.echo(f"\r{count:,} {done}", nl=False, err=True)
                is_shown = True
        is_complete = True
    finally:
        if is_shown:
            typer.echo("\r\033[K", nl=False, err=True)
        if count and not is_complete:
            # Interrupted, or the disk is full: batches before that stay done.
            note(f"{count:,} {done} until then")
    return count


def entry_lines(page: Sequence[Scheduled], *, has_head: bool) -> Iterator[str]:
    """Yield the delayed messages of a page as aligned lines, with delivery times to the second.

    With ``has_head`` a heading comes first.
    """
    rows = [
        (
            entry.msg_id.hex(),
            moment(entry.deliver_at_ms),
            entry.target,
            entry.user_identifier or "-",
            f"{entry.body_bytes:,}",
        )
        for entry in page
    ]
    return aligned([_LIST_HEAD, *rows] if has_head else rows, right=(4,))


def details(entry: Scheduled) -> dict[str, object]:
    """Return the fields of a delayed message by label, as texts or numbers for people.

    The labels are MsgId, CorrelId, queue, put (UTC), due (UTC), expires (UTC), priority,
    persistent, bytes, sender and position.
    """
    expire_at_ms = entry.expire_at_ms
    return {
        "MsgId": entry.msg_id.hex(),
        "CorrelId": entry.correl_id.hex(),
        "queue": entry.target,
        "put (UTC)": spelled_moment(entry.put_ms),
        "due (UTC)": spelled_moment(entry.deliver_at_ms),
        "expires (UTC)": "never" if expire_at_ms is None else spelled_moment(expire_at_ms),
        "priority": entry.priority,
        "persistent": "yes" if entry.persistent else "no",
        "bytes": entry.body_bytes,
        "sender": entry.user_identifier or "-",
        "position": entry.position,
    }


def audit_lines(entries: Sequence[AuditEntry]) -> Iterator[str]:
    """Yield a heading, and a line for each change of the schedule, with aligned columns."""
    rows = [
        (
            moment(entry.at_ms),
            entry.user or "-",
            entry.action,
            entry.receipt,
            f"{entry.message_count:,}",
            f"{entry.msg_id.hex()} {_MOMENT.sub(_spelled, entry.detail)}".strip(),
        )
        for entry in entries
    ]
    return aligned([_AUDIT_HEAD, *rows], right=(4,))


def _spelled(found: re.Match[str]) -> str:
    """Return the matched moment of an audit entry in ISO 8601, after its name.

    Example: ``due_from_ms=0`` -> ``due_from=1970-01-01T00:00:00.000Z``.
    """
    name = found[1].replace("_ms=", "=")
    return f"{name}{spelled_moment(int(found[2])).replace(' ', 'T')}Z"

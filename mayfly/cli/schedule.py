"""``mayfly schedule``: see and change what waits for its delivery time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import typer

from mayfly.cli.managers import JsonOption, Name, PlaceOption
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.schedule_actions import (
    Action,
    Request,
    carry_out,
    opened_schedule,
)
from mayfly.cli.schedule_filters import (
    LIMIT_COUNT,
    AfterOption,
    AllOption,
    AtOption,
    ByOption,
    DelayOption,
    DueBeforeOption,
    DueFromOption,
    LimitOption,
    MsgId,
    MsgIds,
    NewTime,
    PropertyOption,
    QueueOption,
    SenderOption,
    TargetOption,
    WithinOption,
    YesOption,
    filter_of,
    new_time,
)
from mayfly.cli.schedule_show import (
    audit_lines,
    details,
    entry_lines,
)
from mayfly.cli.show import print_json
from mayfly.client.connection import Schedule
from mayfly.client.connection.json_values import audit_as_json, scheduled_as_json
from mayfly.verbs.schedule import Receipt, Scheduled, ScheduleFilter

_PAGE_COUNT = 1_000

schedule = typer.Typer(
    name="schedule",
    help="See and change what waits for its delivery time.",
    epilog="Exit code 1 when nothing is there, or when a receipt is not the one asked for.",
    no_args_is_help=True,
    rich_markup_mode=None,
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
    wanted = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    last: Scheduled | None = None
    with opened_schedule(name, path) as waiting:
        where = wanted.at(waiting.now_ms())
        for page in _pages(waiting, where, LIMIT_COUNT if limit is None else limit, after):
            if as_json:
                for entry in page:
                    print_json(scheduled_as_json(entry), indent=None)
            else:
                print(*entry_lines(page, has_head=last is None), sep="\n")
            last = page[-1]
        if last is None:
            is_filtered = not wanted.is_everything or after is not None
            what = f"that waits on {name} matches" if is_filtered else f"waits on {name}"
            raise CommandFailed(ExitCode.NOTHING, f"nothing {what}")
        if waiting.list(where, limit=1, after=last.position):
            typer.echo(f"mayfly: there are more: --after {last.position}", err=True)


@schedule.command()
def show(
    name: Name, msg_id: MsgId, *, path: PlaceOption = None, as_json: JsonOption = False
) -> None:
    """Show one message that waits. Exit code 1 when it does not, or no longer.

    \b
    Example:
      mayfly schedule show QM1 414d5120514d31202020202020202020a10eb26700000001
    """
    with opened_schedule(name, path) as waiting:
        entry = waiting.show(msg_id)
    if entry is None:
        said = (
            f"{msg_id.hex()} does not wait on {name}; mayfly why {name} {msg_id.hex()} tells more"
        )
        raise CommandFailed(ExitCode.NOTHING, said)
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
    wanted = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    request = Request(name, path, msg_ids, wanted, is_all, is_sure, as_json)
    action = Action(
        "cancel",
        (Receipt.CANCELLED,),
        one=lambda waiting, msg_id: waiting.cancel(msg_id),
        bulk=lambda waiting, wanted: waiting.cancel_all(wanted),
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
    time = new_time(delay_ms, at_ms, by_ms, is_all=is_all)
    wanted = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    request = Request(name, path, msg_ids, wanted, is_all, is_sure, as_json)
    action = Action(
        "reschedule",
        (Receipt.RESCHEDULED, Receipt.RELEASED),
        one=partial(_reschedule, time),
        bulk=partial(_reschedule_all, time),
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
    wanted = filter_of(
        queue, sender, properties, due_from=due_from, due_before=due_before, within_ms=within_ms
    )
    request = Request(name, path, msg_ids, wanted, is_all, is_sure, as_json)
    action = Action(
        "release",
        (Receipt.RELEASED, Receipt.ALREADY_RELEASED),
        one=lambda waiting, msg_id: waiting.release(msg_id),
        bulk=lambda waiting, wanted: waiting.release_all(wanted),
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
    """Tell who changed what, the latest first.

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


def _reschedule(time: NewTime, waiting: Schedule, msg_id: bytes) -> Receipt:
    return waiting.reschedule(msg_id, delay_ms=time.delay_ms, deliver_at_ms=time.deliver_at_ms)


def _reschedule_all(time: NewTime, waiting: Schedule, wanted: ScheduleFilter) -> Iterator[int]:
    return waiting.reschedule_all(
        wanted, delay_ms=time.delay_ms, deliver_at_ms=time.deliver_at_ms, by_ms=time.by_ms
    )


def _pages(
    waiting: Schedule, wanted: ScheduleFilter, limit: int, after: int | None
) -> Iterator[list[Scheduled]]:
    """Yield up to ``limit`` entries, a page of them in memory at a time; none is empty."""
    while limit:
        asked = min(limit, _PAGE_COUNT)
        page = waiting.list(wanted, limit=asked, after=after)
        if page:
            yield page
        if len(page) < asked:
            return
        limit -= asked
        after = page[-1].position

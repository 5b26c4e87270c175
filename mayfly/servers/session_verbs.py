"""Calls of a session over Flight: MQSC, put, get, browse, the schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mayfly.contracts.reasons import BAD_REQUEST
from mayfly.contracts.sessions import LONGEST_WAIT_MS
from mayfly.engine import Message, ScheduleFilter, Session
from mayfly.mqi.constants import MQWI_UNLIMITED
from mayfly.mqsc import run_script
from mayfly.queue_manager import QueueManager
from mayfly.servers.flight_calls import CallRefused, Request, fields_of

_OPTIONAL_INT = (int, type(None))
_OPTIONAL_BYTES = (bytes, type(None))
_OPTIONAL_TEXT = (str, type(None))
_OPTIONAL_FLAG = (bool, type(None))

#: Is given the queue manager, the session and what the call asks for. An iterator that it answers
#: is a stream, whose parts the client asks for one by one.
SessionVerb = Callable[[QueueManager, Session, Request], Any]


def _mqsc(manager: QueueManager, _session: Session, request: Request) -> Any:
    (script,) = fields_of(request, script=str)
    result = run_script(manager.engine, script)
    commands = [
        (
            command.number,
            command.command,
            [(m.code, m.text, m.body, m.reason, m.line, m.column) for m in command.messages],
            command.rows,
        )
        for command in result.commands
    ]
    return result.text, commands


def _status(manager: QueueManager, _session: Session, request: Request) -> str:
    fields_of(request)
    return manager.delay_processor_status()


def _why(manager: QueueManager, _session: Session, request: Request) -> Any:
    return manager.why(*fields_of(request, identifier=bytes))


def _verify(manager: QueueManager, _session: Session, request: Request) -> Any:
    fields_of(request)
    return manager.verify()


def _own_time(manager: QueueManager, _session: Session, request: Request) -> Any:
    fields_of(request)
    return manager.own_time()


def _follow_wall(manager: QueueManager, _session: Session, request: Request) -> Any:
    fields_of(request)
    return manager.follow_wall()


def _put(_manager: QueueManager, session: Session, request: Request) -> bytes:
    fields_of(
        request,
        queue=str,
        body=bytes,
        time_to_live_ms=_OPTIONAL_INT,
        delay_ms=int,
        priority=_OPTIONAL_INT,
        persistent=_OPTIONAL_FLAG,
        msg_id=_OPTIONAL_BYTES,
        correl_id=_OPTIONAL_BYTES,
        report=int,
        reply_to_q=str,
    )
    return session.put(**request)


def _get(_manager: QueueManager, session: Session, request: Request) -> Message | None:
    queue, wait_ms, msg_id, correl_id = fields_of(
        request, queue=str, wait_ms=int, msg_id=_OPTIONAL_BYTES, correl_id=_OPTIONAL_BYTES
    )
    # A get outlives its client by its wait, and then takes a message that nobody receives.
    if wait_ms > LONGEST_WAIT_MS or wait_ms == MQWI_UNLIMITED:
        raise CallRefused(BAD_REQUEST, f"wait_ms {wait_ms} is more than {LONGEST_WAIT_MS}")
    return session.get(queue, wait_ms=wait_ms, msg_id=msg_id, correl_id=correl_id)


def _browse(_manager: QueueManager, session: Session, request: Request) -> Iterator[Message]:
    queue, msg_id, correl_id = fields_of(
        request, queue=str, msg_id=_OPTIONAL_BYTES, correl_id=_OPTIONAL_BYTES
    )
    return session.browse(queue, msg_id=msg_id, correl_id=correl_id)


def _commit(_manager: QueueManager, session: Session, request: Request) -> None:
    fields_of(request)
    session.commit()


def _backout(_manager: QueueManager, session: Session, request: Request) -> None:
    fields_of(request)
    session.backout()


def _audit(_manager: QueueManager, session: Session, request: Request) -> Any:
    return session.schedule.audit(*fields_of(request, limit=int))


def _now(_manager: QueueManager, session: Session, request: Request) -> int:
    fields_of(request)
    return session.schedule.now_ms()


def _list(_manager: QueueManager, session: Session, request: Request) -> Any:
    where, limit, after = fields_of(request, where=list, limit=int, after=_OPTIONAL_INT)
    return session.schedule.list(_filter(where), limit=limit, after=after)


def _show(_manager: QueueManager, session: Session, request: Request) -> Any:
    return session.schedule.show(*fields_of(request, msg_id=bytes))


def _count(_manager: QueueManager, session: Session, request: Request) -> int:
    return session.schedule.count(*fields_of(request, queue=_OPTIONAL_TEXT))


def _cancel(_manager: QueueManager, session: Session, request: Request) -> str:
    return session.schedule.cancel(*fields_of(request, msg_id=bytes))


def _reschedule(manager: QueueManager, session: Session, request: Request) -> str:
    msg_id, delay_ms, deliver_at_ms = fields_of(
        request, msg_id=bytes, delay_ms=_OPTIONAL_INT, deliver_at_ms=_OPTIONAL_INT
    )
    schedule = session.schedule
    receipt = schedule.reschedule(msg_id, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms)
    manager.run_due()
    return receipt


def _release(manager: QueueManager, session: Session, request: Request) -> str:
    receipt = session.schedule.release(*fields_of(request, msg_id=bytes))
    manager.run_due()
    return receipt


def _cancel_all(_manager: QueueManager, session: Session, request: Request) -> Iterator[int]:
    (where,) = fields_of(request, where=list)
    return session.schedule.cancel_all(_filter(where))


def _reschedule_all(manager: QueueManager, session: Session, request: Request) -> Iterator[int]:
    where, delay_ms, deliver_at_ms, by_ms = fields_of(
        request,
        where=list,
        delay_ms=_OPTIONAL_INT,
        deliver_at_ms=_OPTIONAL_INT,
        by_ms=_OPTIONAL_INT,
    )
    counts = session.schedule.reschedule_all(
        _filter(where), delay_ms=delay_ms, deliver_at_ms=deliver_at_ms, by_ms=by_ms
    )
    return _delivered(manager, counts)


def _release_all(manager: QueueManager, session: Session, request: Request) -> Iterator[int]:
    (where,) = fields_of(request, where=list)
    return _delivered(manager, session.schedule.release_all(_filter(where)))


def _delivered(manager: QueueManager, counts: Iterator[int]) -> Iterator[int]:
    """Yield the counts of a change, and let what is due by it go before the end is told."""
    yield from counts
    manager.run_due()


def _filter(values: list[Any]) -> ScheduleFilter:
    """Return a filter from its fields; raises CallRefused."""
    if len(values) != len(ScheduleFilter._fields):
        raise CallRefused(BAD_REQUEST, f"where cannot be {values!r}: it has five values")
    queue, sender, properties, *due = fields_of(
        ScheduleFilter(*values)._asdict(),
        queue=_OPTIONAL_TEXT,
        sender=_OPTIONAL_TEXT,
        properties=list,
        due_from_ms=_OPTIONAL_INT,
        due_before_ms=_OPTIONAL_INT,
    )
    pairs = tuple(tuple(pair) if isinstance(pair, list) else () for pair in properties)
    if not all(len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in pairs):
        raise CallRefused(BAD_REQUEST, f"properties cannot be {properties!r}: pairs of texts")
    return ScheduleFilter(queue, sender, pairs, *due)


SESSION_VERBS: dict[str, SessionVerb] = {
    "mqsc": _mqsc,
    "delay-processor-status": _status,
    "verify": _verify,
    "why": _why,
    "own-time": _own_time,
    "follow-wall": _follow_wall,
    "put": _put,
    "get": _get,
    "browse": _browse,
    "commit": _commit,
    "backout": _backout,
    "schedule-audit": _audit,
    "schedule-now": _now,
    "schedule-list": _list,
    "schedule-show": _show,
    "schedule-count": _count,
    "schedule-cancel": _cancel,
    "schedule-reschedule": _reschedule,
    "schedule-release": _release,
    "schedule-cancel-all": _cancel_all,
    "schedule-reschedule-all": _reschedule_all,
    "schedule-release-all": _release_all,
}

"""Helpers of the tests of many delayed messages: puts, pages, and delivery times."""

from typing import TypeAlias

from mayfly.client.connection import Schedule
from mayfly.engine import Session
from mayfly.engine.api.programs import SessionSchedule
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.verbs.schedule import Scheduled, ScheduleFilter
from tests.spec.scene import (
    START_MS,
    V2,
    put_md,
)

#: The schedule of a session of this process, or of a connection.
AnySchedule: TypeAlias = SessionSchedule | Schedule
EVERYTHING = ScheduleFilter()
#: More than two batches.
MANY = 2_600


def with_properties(usr: str, text: bytes = b"text") -> bytes:
    """Return a body behind an MQRFH2 with these properties."""
    return pack_header(pack_folder(f"<usr>{usr}</usr>"), "MQSTR") + text


def put_rfh2(session: Session, body: bytes, persistent: bool = False) -> bytes:
    """Put a body that begins with an MQRFH2."""
    md = V2._replace(format="MQHRF2", encoding=273, persistence=int(persistent))
    return put_md(session, "Q1", body, md, delay_ms=1_000).msg_id


def put_many(session: Session, count: int = MANY, spread_ms: int = 1) -> None:
    """Put numbered messages, in put order due after 10 s, at ``spread_ms`` times."""
    for n in range(count):
        session.put("Q1", b"%d" % n, delay_ms=10_000 + n % spread_ms, persistent=n % 5 == 0)


def pages(schedule: AnySchedule, limit: int, where: ScheduleFilter = EVERYTHING) -> list[Scheduled]:
    """Return everything, page by page."""
    found: list[Scheduled] = []
    while page := schedule.list(where, limit=limit, after=found[-1].position if found else None):
        assert len(page) <= limit
        found += page
    return found


def due(schedule: AnySchedule) -> list[int]:
    """Return the delivery times of the first messages, from the start."""
    return [m.deliver_at_ms - START_MS for m in schedule.list(limit=10)]


def order(schedule: AnySchedule) -> list[bytes]:
    """Return the MsgIds of all messages in due order."""
    return [m.msg_id for m in pages(schedule, 1_000)]

"""A slow and obvious model of queues, written from the rules alone, to be compared with the engine.

Everything is a list that is walked from the front. Calls return the reason code, gets and browses
also the message. It covers P7-P9, G1, G2, G8, B1-B6, C5, E4, E8-E18, D1-D21 and the schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc

STAGING = "SYSTEM.DDELAY.LOCAL.QUEUE"
#: Outcome of a staged life -> receipt of the schedule.
RECEIPTS = {"released": "already-released", "lost_at_restart": "lost-at-restart"}
#: How long a message stays on staging after a failed delivery, until the next try (D21).
RETRY_MS = 10_000


@dataclass(eq=False, kw_only=True)
class Put:
    """The values of a put. ``life_ms`` None is unlimited; ``priority`` is 0 .. 9."""

    msg_id: bytes
    correl_id: bytes = b""
    priority: int = 0
    persistent: bool = False
    life_ms: int | None = None
    delay_ms: int = 0
    report: int = 0
    reply_to_q: str = ""
    sender: str = ""


@dataclass(eq=False, kw_only=True)
class Held(Put):
    """A message on a queue: its place there and who holds it back from others.

    ``putter`` and ``getter`` are sessions with an open unit of work, ``locker`` a browsing cursor.
    On the staging queue ``msg_id`` is the original one, ``target`` where it will go, and
    ``first_queue`` what that was at the put; ``moved`` is what an open unit of work makes of it.
    """

    put_ms: int
    place: tuple[int, int] = (0, 0)
    expire_at_ms: int | None = None
    due_ms: int = 0
    target: str = ""
    first_queue: str = ""
    lives_from_release: bool = False
    moved: Held | None = None
    retry_at_ms: int = 0
    feedback: int = 0
    backout_count: int = 0
    putter: object = None
    getter: object = None
    locker: Cursor | None = None

    def is_visible(self) -> bool:
        """Return True if all programs may see it."""
        return self.putter is self.getter is self.locker is None


@dataclass(eq=False)
class Queue:
    """One queue; ``messages`` in any order, ``ended`` counts outcomes, ``fates`` are the last."""

    name: str
    is_fifo: bool = False
    max_depth: int = 5_000
    put_allowed: bool = True
    get_allowed: bool = True
    lives_from_release: bool = False
    messages: list[Held] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    fates: dict[bytes, str] = field(default_factory=dict)

    def depth(self) -> int:
        """Return CURDEPTH; a delayed message counts from its commit (D12)."""
        counts_puts = self.name != STAGING
        return sum(m.getter is None and (m.putter is None or counts_puts) for m in self.messages)

    def visible(self) -> list[Held]:
        """Return what everybody may see, expired ones included, in get order."""
        return sorted((m for m in self.messages if m.is_visible()), key=lambda m: m.place)

    def end(self, m: Held, outcome: str) -> None:
        """Remove a message and count its end."""
        self.messages.remove(m)
        self.ended[outcome] += 1
        self.fates[m.msg_id] = outcome


@dataclass(eq=False)
class Cursor:
    """The place of one browsing handle, before the first message at the start (B1)."""

    queue: Queue
    place: tuple[int, int] = (-1, 0)
    current: Held | None = None
    locked: Held | None = None


class Model:
    """Queues, units of work and time; ``owner`` None means outside of any unit of work."""

    def __init__(self, now_ms: int, scan_interval_ms: int | None = None) -> None:
        """Begin with the staging queue alone; with an interval, expired ones are scanned for."""
        self.now_ms = now_ms
        self.queues = {STAGING: Queue(STAGING)}
        self.aliases: dict[str, str] = {}
        self.scan_interval_ms = scan_interval_ms or 0
        self.next_scan_ms = now_ms + self.scan_interval_ms
        self._order = 0

    def put(self, owner: object, name: str, put: Put) -> int:
        """Put a message; a delayed one goes to staging, in a unit of work at its commit."""
        queue, staging = self._resolved(name), self.queues[STAGING]
        is_late = bool(put.delay_ms) and queue.lives_from_release
        if put.life_ms is not None and put.delay_ms > put.life_ms and not is_late:
            return rc.MQRC_EXPIRY_ERROR
        if reason := self._refusal(queue) or (self._refusal(staging) if put.delay_ms else 0):
            return reason
        held = Held(**vars(put), put_ms=self.now_ms, putter=owner, lives_from_release=is_late)
        if put.life_ms is not None:
            held.expire_at_ms = self.now_ms + put.life_ms + (put.delay_ms if is_late else 0)
        if put.delay_ms:
            held.due_ms, held.target = self.now_ms + put.delay_ms, name
            held.first_queue = queue.name
        self._place(staging if put.delay_ms else queue, held)
        return rc.MQRC_NONE

    def get(
        self,
        owner: object,
        name: str,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        *,
        cursor: Cursor | None = None,
    ) -> tuple[int, Held | None]:
        """Take the first live match; expired ones met before it are discarded (E9-E11).

        Through a handle, ``cursor`` is the handle's: it may get a message that it has locked (B5).
        """
        queue = self.queues[name]
        if not queue.get_allowed:
            return rc.MQRC_GET_INHIBITED, None
        lock = None if cursor is None else cursor.locked
        seen = [m for m in queue.messages if m.is_visible() or self._is_own(owner, m) or m is lock]
        seen.sort(key=lambda m: m.place)
        found = self._first_alive(queue, [m for m in seen if _matches(queue, m, msg_id, correl_id)])
        if cursor is not None and (lock is found or lock not in queue.messages):
            self.unlock(cursor)
        if found is None:
            return rc.MQRC_NO_MSG_AVAILABLE, None
        self._take(owner, queue, found)
        return rc.MQRC_NONE, found

    def browse(self, cursor: Cursor, *, first: bool, lock: bool) -> tuple[int, Held | None]:
        """Read the next message in its place, or the first one; the cursor's lock ends (B5)."""
        self.unlock(cursor)
        queue = cursor.queue
        if not queue.get_allowed:
            return rc.MQRC_GET_INHIBITED, None
        ahead = [m for m in queue.visible() if first or m.place > cursor.place]
        found = self._first_alive(queue, ahead)
        if found is None:
            return rc.MQRC_NO_MSG_AVAILABLE, None
        cursor.place, cursor.current = found.place, found
        cursor.locked, found.locker = (found, cursor) if lock else (None, None)
        return rc.MQRC_NONE, found

    def browse_under_cursor(self, cursor: Cursor, *, lock: bool) -> tuple[int, Held | None]:
        """Read the message at the cursor again (B4); it is locked from now on or no longer."""
        reason, found = self._at_cursor(cursor)
        if found is not None:
            self.unlock(cursor)
            cursor.locked, found.locker = (found, cursor) if lock else (None, None)
        return reason, found

    def get_under_cursor(self, owner: object, cursor: Cursor) -> tuple[int, Held | None]:
        """Take the message at the cursor, whatever its ids (B4)."""
        reason, found = self._at_cursor(cursor)
        if found is not None:
            self.unlock(cursor)
            self._take(owner, cursor.queue, found)
        return reason, found

    def unlock(self, cursor: Cursor) -> int:
        """Release what a cursor has locked (B6)."""
        if cursor.locked is None:
            return rc.MQRC_NO_MSG_LOCKED
        cursor.locked.locker, cursor.locked = None, None
        return rc.MQRC_NONE

    def commit(self, owner: object) -> None:
        """Make gets final and puts visible, unless expired (E17); release due messages (D12)."""
        for queue, m in self._work_of(owner):
            if m.getter is None:
                m.putter = None
                if not m.target and self._is_expired(m):
                    self._discard(queue, m)
            elif m.moved is None:
                self._take(None, queue, m)
            else:
                queue.messages[queue.messages.index(m)] = m.moved
        self.release_due()

    def backout(self, owner: object) -> None:
        """Withdraw puts, give gets back to their place with a higher backout count (G8)."""
        for queue, m in self._work_of(owner):
            m.backout_count += m.moved is None
            m.getter = m.moved = None
            if m.putter is not None:
                queue.messages.remove(m)
        self.release_due()

    def change(
        self, owner: object, msg_id: bytes, receipt: str, due_ms: int | None = None
    ) -> tuple[int, str]:
        """Cancel a delayed message (no time), or give it another time; reason and receipt."""
        staging = self.queues[STAGING]
        m = next((m for m in staging.messages if m.msg_id == msg_id and m.putter is None), None)
        if m is None:
            fate = staging.fates.get(msg_id, "unknown")
            return rc.MQRC_NONE, RECEIPTS.get(fate, fate)
        if not m.is_visible():
            is_own = owner is not None and m.getter == owner and m.moved is None
            return rc.MQRC_NONE, "cancelled" if is_own else "locked"
        if self._is_expired(m):
            return rc.MQRC_NONE, "expired"
        if receipt == "rescheduled" and _is_too_late(m, due_ms):
            return rc.MQRC_EXPIRY_ERROR, ""
        self._change(owner, m, due_ms)
        self.release_due()
        return rc.MQRC_NONE, receipt

    def change_all(
        self,
        owner: object,
        is_meant: Callable[[Held], bool],
        due_ms_of: Callable[[Held], int | None],
        *,
        checks: bool = False,
    ) -> tuple[int, int]:
        """Change all that is meant, alive and free, in due order; reason and how many."""
        staged = self.queues[STAGING].visible()
        meant = [m for m in staged if is_meant(m) and not self._is_expired(m)]
        if checks and any(_is_too_late(m, due_ms_of(m)) for m in meant):
            return rc.MQRC_EXPIRY_ERROR, 0
        for m in meant:
            self._change(owner, m, due_ms_of(m))
        self.release_due()
        return rc.MQRC_NONE, len(meant)

    def advance(self, ms: int) -> None:
        """Move time on, from moment to moment at which something is due."""
        target_ms = self.now_ms + ms
        while (moment := self._next_moment_ms()) is not None and moment <= target_ms:
            self.now_ms = max(self.now_ms, moment)
            self.release_due()
            self._scan()
        self.now_ms = target_ms

    def restart(self) -> None:
        """Back out all units of work; non-persistent messages are lost; failed ones are retried."""
        for queue in self.queues.values():
            for m in list(queue.messages):
                m.backout_count += m.getter is not None and m.moved is None
                m.retry_at_ms, m.getter, m.locker, m.moved = 0, None, None, None
                if m.putter is not None:
                    queue.messages.remove(m)
                elif not m.persistent:
                    queue.end(m, "lost_at_restart")
        self.next_scan_ms = self.now_ms + self.scan_interval_ms
        self.release_due()

    def _work_of(self, owner: object) -> list[tuple[Queue, Held]]:
        both = [(queue, m) for queue in self.queues.values() for m in queue.messages]
        both.sort(key=lambda found: found[1].place[1])
        return [(q, m) for q, m in both if owner is not None and owner in (m.putter, m.getter)]

    def _at_cursor(self, cursor: Cursor) -> tuple[int, Held | None]:
        queue, found = cursor.queue, cursor.current
        if not queue.get_allowed:
            return rc.MQRC_GET_INHIBITED, None
        if found is not None and (found in queue.visible() or found is cursor.locked):
            if not self._is_expired(found):
                return rc.MQRC_NONE, found
            self.unlock(cursor)
            self._discard(queue, found)  # by this very call (E16)
        return rc.MQRC_NO_MSG_UNDER_CURSOR, None

    def _change(self, owner: object, m: Held, due_ms: int | None) -> None:
        staging = self.queues[STAGING]
        if due_ms is None:
            self._take(owner, staging, m)
            return
        moved = Held(**{**vars(m), "due_ms": max(due_ms, self.now_ms), "retry_at_ms": 0})
        if m.lives_from_release and m.expire_at_ms is not None:
            moved.expire_at_ms = m.expire_at_ms + moved.due_ms - m.due_ms
        self._order += 1
        moved.place = (moved.due_ms, self._order)
        if owner is None:
            staging.messages[staging.messages.index(m)] = moved
        else:
            m.getter, m.moved = owner, moved

    def _resolved(self, name: str) -> Queue:
        return self.queues[self.aliases.get(name, name)]

    def _is_expired(self, m: Held) -> bool:
        return m.expire_at_ms is not None and self.now_ms >= m.expire_at_ms

    def _is_own(self, owner: object, m: Held) -> bool:
        """Return True if the owner put it in its unit of work and may get it (P9, E17, D12)."""
        is_put = owner is not None and m.putter == owner and m.getter is None
        return is_put and not m.target and not self._is_expired(m)

    def _refusal(self, queue: Queue) -> int:
        if not queue.put_allowed:
            return rc.MQRC_PUT_INHIBITED
        return rc.MQRC_Q_FULL if queue.depth() >= queue.max_depth else rc.MQRC_NONE

    def _place(self, queue: Queue, m: Held) -> None:
        self._order += 1
        rank = m.due_ms if m.target else 0 if queue.is_fifo else 9 - m.priority
        m.place = (rank, self._order)
        queue.messages.append(m)

    def _take(self, owner: object, queue: Queue, m: Held) -> None:
        if owner is None:
            queue.end(m, "cancelled" if queue.name == STAGING else "got")
        else:
            m.getter = owner

    def _first_alive(self, queue: Queue, candidates: list[Held]) -> Held | None:
        for m in candidates:
            if not self._is_expired(m):
                return m
            self._discard(queue, m)
        return None

    def _discard(self, queue: Queue, m: Held) -> None:
        """End a life for age and send its report; both are in nobody's unit of work (E13, E14)."""
        queue.end(m, "expired")
        reply = self.queues.get(m.reply_to_q)
        if not m.report & c.MQRO_EXPIRATION or reply is None or self._refusal(reply):
            return
        about = Put(msg_id=b"", correl_id=m.msg_id, priority=m.priority, persistent=m.persistent)
        self._place(reply, Held(**vars(about), put_ms=self.now_ms, feedback=c.MQFB_EXPIRATION))

    def release_due(self) -> None:
        """Deliver what is due: by delivery time, then put order; refused ones stay (D17-D21)."""
        staging = self.queues[STAGING]
        for m in staging.visible() if staging.get_allowed else ():
            if m.due_ms > self.now_ms or m.retry_at_ms > self.now_ms or not m.target:
                continue
            if self._is_expired(m):
                self._discard(staging, m)
            elif self._refusal(self._resolved(m.target)):
                if m.report & c.MQRO_DISCARD_MSG:
                    staging.end(m, "discarded")
                m.retry_at_ms = self.now_ms + RETRY_MS
            else:
                staging.end(m, "released")
                arrived = Held(**{**vars(m), "target": "", "backout_count": 0})
                self._place(self._resolved(m.target), arrived)

    def _scan(self) -> None:
        if not self.scan_interval_ms or self.next_scan_ms > self.now_ms:
            return
        self.next_scan_ms = self.now_ms + self.scan_interval_ms
        for queue in self.queues.values():
            for m in filter(self._is_expired, queue.visible()):
                self._discard(queue, m)

    def _next_moment_ms(self) -> int | None:
        staging = self.queues[STAGING]
        due = [max(m.due_ms, m.retry_at_ms) for m in staging.visible() if staging.get_allowed]
        scans = [self.next_scan_ms] if self.scan_interval_ms else []
        return min(due + scans, default=None)


def _matches(queue: Queue, m: Held, msg_id: bytes, correl_id: bytes) -> bool:
    """Return True if ids match, empty ones match all; a staged one is found by CorrelId (D3)."""
    if queue.name == STAGING:
        return not msg_id and correl_id in (b"", m.msg_id)
    return msg_id in (b"", m.msg_id) and correl_id in (b"", m.correl_id)


def _is_too_late(m: Held, due_ms: int | None) -> bool:
    """Return True if a message would be delivered after its end (D7)."""
    if due_ms is None or m.expire_at_ms is None or m.lives_from_release:
        return False
    return due_ms > m.expire_at_ms

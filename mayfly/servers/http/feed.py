"""The feed of live statistics of a queue manager: computed once a second, sent to all readers.

Live statistics are depths, rates and lateness. A feed works only while it has readers. Its frames
are server-sent events, encoded once. The first frame that a reader gets has all statistics; each
later frame has the statistics that changed since the frame before.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mayfly.engine import Engine
from mayfly.engine.api.operating import (
    BOUNDS_MS,
    PUT,
    LatenessCounts,
    LiveFigures,
    QueueFigures,
    Watch,
)
from mayfly.lifetime.life import State
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.errors import MQError

#: Number of queues that are shown one by one; the figures of all others are added up.
MAX_QUEUES: Final = 200
#: Frames kept for a reader that has not taken the one before.
_MAX_WAITING: Final = 4
_PREFIX_BYTES: Final = 4


class Frame(NamedTuple):
    """The server-sent events of one second, encoded; ``number`` rises by one each time."""

    number: int
    content: bytes


class FeedReader:
    """One client of a feed: the queue of frames up to the task that sends them to the client.

    All methods but ``offer_from_elsewhere`` are called in the event loop that made the reader.
    """

    def __init__(self) -> None:
        """Start without frames; call it in the event loop of the client."""
        self._loop = asyncio.get_running_loop()
        self._waiting = deque[Frame]()
        self._has_frames = asyncio.Event()
        #: The number of the last frame that was taken, or was left out.
        self._last = 0
        self.is_over = False
        #: Whether frames were dropped, so that the client needs a complete one.
        self.is_behind = False

    async def wait(self) -> None:
        """Return when a frame is waiting, frames were dropped, or the feed has ended."""
        await self._has_frames.wait()

    def take(self) -> Frame | None:
        """Remove and return the next frame to send; None if no frame is waiting."""
        frame = self._waiting.popleft() if self._waiting else None
        if frame is not None:
            self._last = frame.number
        if not (self._waiting or self.is_over):
            self._has_frames.clear()
        return frame

    def begin(self, frame: Frame) -> None:
        """Note that the client is sent ``frame``, which has all statistics.

        Waiting frames that are not newer are dropped; those with a higher number stay. The reader
        is then no longer ``is_behind``.
        """
        self._last, self.is_behind = frame.number, False
        while self._waiting and self._waiting[0].number <= frame.number:
            self._waiting.popleft()
        if not (self._waiting or self.is_over):
            self._has_frames.clear()

    def end(self) -> None:
        """Mark the reader as over and wake :meth:`wait`: no frame follows."""
        self.is_over = True
        self._has_frames.set()

    def offer_from_elsewhere(self, frame: Frame | None) -> None:
        """Queue a frame for the client, from any thread; None ends the reader.

        A reader with more than 4 waiting frames drops them all, and is ``is_behind`` until it gets
        a complete frame. Does nothing if the event loop is closed.
        """
        with contextlib.suppress(RuntimeError):
            # The loop is closed, and with it the connection.
            self._loop.call_soon_threadsafe(self._offer, frame)

    def _offer(self, frame: Frame | None) -> None:
        """Queue a frame, unless the client has it or needs a complete one; None ends the reader.

        Runs in the event loop.
        """
        if frame is None:
            self.end()
        elif frame.number > self._last and not self.is_behind:
            self._waiting.append(frame)
            if len(self._waiting) > _MAX_WAITING:
                self._waiting.clear()
                self.is_behind = True
            self._has_frames.set()


class Feed:
    """The live statistics of one queue manager; its clock calls the feed while it has readers.

    They are depths, rates and lateness, sent to the readers as frames of server-sent events. Any
    thread may call the methods. While statistics are being computed, :meth:`join`, :meth:`leave`
    and :meth:`complete_frame` wait.
    """

    def __init__(self, engine: Engine) -> None:
        """Start without readers; compute nothing yet."""
        self._engine = engine
        self._readers = set[FeedReader]()
        #: Held while readers come and go, and the clock with them.
        self._changing_readers = threading.Lock()
        #: Held for a look, and for what it changes.
        self._computing = threading.Lock()
        self._watch = Watch(engine, MAX_QUEUES)
        #: None before the first look.
        self._latest: StatisticsSnapshot | None = None
        self._prefix, self._number = "", 0
        self._complete: Frame | None = None
        self._due_ms = 0
        self._is_over = False

    def join(self, reader: FeedReader, last_id: str = "") -> Frame:
        """Add a reader; return the first frame for its client, with all statistics.

        The first reader starts the computing of statistics, once a second. If ``last_id`` is the id
        of the newest frame, the client has it, and the returned frame has no content. Raises
        MQRC_CONNECTION_BROKEN if the queue manager has stopped.
        """
        with self._changing_readers:
            is_first = not self._readers
            with self._computing:
                if is_first:
                    self._start()
                is_known = last_id == self._id(self._number)
                frame = Frame(self._number, b"") if is_known else self._encoded_complete()
                self._readers.add(reader)
                if self._is_over:
                    reader.offer_from_elsewhere(None)
            if is_first:
                self._engine.clock.attach(self)
        return frame

    def leave(self, reader: FeedReader) -> None:
        """Remove a reader; ignore an unknown one. Without readers no statistics are computed."""
        with self._changing_readers:
            with self._computing:
                self._readers.discard(reader)
                is_last = not self._readers
            if is_last:
                self._engine.clock.detach(self)

    def complete_frame(self) -> Frame:
        """Return the newest frame with all statistics, not only changed ones.

        At least one reader must have joined before.
        """
        with self._computing:
            return self._encoded_complete()

    def end(self) -> None:
        """End all readers, and those that join later: no frame follows."""
        with self._computing:
            self._is_over = True
            self._send(None)

    def next_due_ms(self) -> int | None:
        """Return when statistics are due, in ms since 1970, if that time has come; None before.

        Thus a feed never stops a virtual clock: an hour that passes in one step gets one frame. The
        system clock calls again after a second when the answer is None.
        """
        return self._due_ms if self._due_ms <= self._engine.clock.now_ms() else None

    def run_due(self) -> None:
        """Compute the statistics; send a frame to all readers if more than the time has changed.

        Without readers it does nothing. If the queue manager has stopped it ends all readers.
        """
        with self._computing:
            if not self._readers:
                return
            before = self._latest
            try:
                snapshot = self._take_snapshot()
            except MQError:
                # The queue manager has stopped. A client that asks anew gets the reason.
                self._send(None)
                return
            assert before is not None
            content = changed_events(before, snapshot, self._id(self._number + 1))
            if content:
                self._number += 1
                self._send(Frame(self._number, content))

    def _start(self) -> None:
        """Compute the first statistics, and choose a random prefix for the ids of frames.

        ``_computing`` must be held.
        """
        self._watch, self._latest = Watch(self._engine, MAX_QUEUES), None
        self._prefix = self._engine.runtime.random_bytes(_PREFIX_BYTES).hex()
        self._number = 1
        self._take_snapshot()

    def _take_snapshot(self) -> StatisticsSnapshot:
        """Compute, store and return the present statistics; the next ones are due a second later.

        Raises MQRC_CONNECTION_BROKEN if the queue manager has stopped.
        """
        figures, before = self._watch.look(), self._latest
        snapshot = StatisticsSnapshot(
            figures, _overview(None if before is None else before.figures, figures)
        )
        self._latest = snapshot
        self._complete = None
        self._due_ms = self._engine.clock.now_ms() + SECOND_MS
        return snapshot

    def _encoded_complete(self) -> Frame:
        """Return the frame with all statistics, encoded once for all readers that need it.

        ``_computing`` must be held.
        """
        if self._complete is None:
            assert self._latest is not None
            self._complete = Frame(
                self._number, complete_events(self._latest, self._id(self._number))
            )
        return self._complete

    def _id(self, number: int) -> str:
        """Return the id of a frame in the stream, random prefix and number: ``'9f2c01ab-17'``."""
        return f"{self._prefix}-{number}"

    def _send(self, frame: Frame | None) -> None:
        """Give a frame to all readers; None ends all readers."""
        for reader in self._readers:
            reader.offer_from_elsewhere(frame)


class Feeds:
    """The feeds of one server, one for each queue manager; any thread may call its methods."""

    def __init__(self) -> None:
        """Start without feeds; :meth:`of` creates them."""
        self._changing = threading.Lock()
        self._feeds: dict[Engine, Feed] = {}
        self._is_over = False

    def of(self, engine: Engine) -> Feed:
        """Return the feed of a queue manager; create it at the first call.

        After :meth:`end` a new feed is ended too.
        """
        with self._changing:
            found = self._feeds.get(engine)
            if found is None:
                found = self._feeds[engine] = Feed(engine)
                if self._is_over:
                    found.end()
            return found

    def forget(self, engine: Engine) -> None:
        """End the feed of a queue manager, which is about to be closed; ignored without one."""
        with self._changing:
            found = self._feeds.pop(engine, None)
        if found is not None:
            found.end()

    def end(self) -> None:
        """End all feeds, and those that are created from now on."""
        with self._changing:
            self._is_over = True
            feeds = list(self._feeds.values())
        for feed in feeds:
            feed.end()


_RATES: Final = {
    "put_per_s": PUT,
    "got_per_s": State.GOT.value,
    "released_per_s": State.RELEASED.value,
    "expired_per_s": State.EXPIRED.value,
}
#: Members that change with time alone.
_OF_TIME: Final = frozenset({"now_ms", "expired_as_of_ms", "interval_ms", "next_due_in_ms"})
_encode = msgspec.json.Encoder().encode


class StatisticsSnapshot(NamedTuple):
    """The statistics at one time; ``overview`` is the event with rates since the time before."""

    figures: LiveFigures
    overview: dict[str, Any]


def complete_events(snapshot: StatisticsSnapshot, frame_id: str) -> bytes:
    """Return the encoded events ``overview`` and ``queues`` with all statistics.

    The last event has ``frame_id``, by which a client that reconnects says which frame it has.
    """
    queues = {
        "whole": True,
        "queues": [_queue(name, one) for name, one in snapshot.figures.queues.items()],
        "others": _several(snapshot.figures.others),
    }
    return _event("overview", snapshot.overview) + _event("queues", queues, frame_id)


def changed_events(
    before: StatisticsSnapshot, snapshot: StatisticsSnapshot, frame_id: str
) -> bytes:
    """Return the encoded events with the statistics of ``snapshot`` that differ from ``before``.

    Empty if only time has passed. The last event has ``frame_id``, by which a client that
    reconnects says which frame it has.
    """
    old, new = before.figures, snapshot.figures
    events: list[tuple[str, Any]] = []
    if _without_time(snapshot.overview) != _without_time(before.overview):
        events.append(("overview", snapshot.overview))
    changed = [_queue(name, one) for name, one in new.queues.items() if old.queues.get(name) != one]
    if changed or new.others != old.others:
        content = {"whole": False, "queues": changed, "others": _several(new.others)}
        events.append(("queues", content))
    gone = sorted(old.queues.keys() - new.queues.keys())
    if gone:
        events.append(("gone", {"queues": gone}))
    # A client that has read a part of a frame asks for all that came behind the frame before.
    last = len(events) - 1
    return b"".join(
        _event(name, content, frame_id if place == last else "")
        for place, (name, content) in enumerate(events)
    )


def end_event(why: str) -> bytes:
    """Return the encoded event ``end``, the last of a stream, with the reason for its end."""
    return _event("end", {"why": why})


def _event(name: str, content: Any, frame_id: str = "") -> bytes:
    """Return one encoded server-sent event; an empty ``frame_id`` gives an event without id."""
    head = f"event: {name}\n" + (f"id: {frame_id}\n" if frame_id else "")
    return b"%bdata: %b\n\n" % (head.encode(), _encode(content))


def _queue(name: str, one: QueueFigures) -> dict[str, Any]:
    """Return the statistics of one queue for JSON.

    The keys are those of :func:`_several`, with ``name`` and ``oldest_put_ms`` (ms since 1970).
    """
    return {"name": name} | _several(one) | {"oldest_put_ms": one.oldest_put_ms}


def _several(one: QueueFigures) -> dict[str, Any]:
    """Return the statistics of one queue, or the sums of several queues, for JSON.

    The keys are depth, present, input_count, output_count (open handles), puts, and ended (numbers
    by outcome). ``present`` is None where messages were not counted by state.
    """
    return {
        "depth": one.depth,
        "present": None if one.present is None else one.present._asdict(),
        "input_count": one.input_count,
        "output_count": one.output_count,
        "puts": one.puts,
        "ended": dict(one.ended),
    }


def _without_time(overview: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ``overview`` without the members that change with time alone."""
    return {name: value for name, value in overview.items() if name not in _OF_TIME}


def _overview(before: LiveFigures | None, now: LiveFigures) -> dict[str, Any]:
    """Return the content of the ``overview`` event; rates and lateness are since ``before``.

    They are None for ``before`` None. All other numbers, such as ``dead_letters`` and
    ``connections``, are those of ``now``.
    """
    interval_ms = 0 if before is None else now.now_ms - before.now_ms
    due_ms = now.next_due_ms
    return {
        "now_ms": now.now_ms,
        **now.present._asdict(),
        "expired_as_of_ms": now.expired_as_of_ms,
        "first_expired_ms": now.first_expired_ms,
        "expiry_scan_ms": now.scan_interval_ms,
        "in_transit": now.in_transit_count,
        "dead_letters": now.dead_letter_count,
        "next_due_ms": due_ms,
        "next_due_in_ms": None if due_ms is None else due_ms - now.now_ms,
        "is_releasing": now.is_releasing,
        "interval_ms": interval_ms or None,
        "rates": _rates(before, now, interval_ms),
        "release_lateness": _lateness(before and before.release_lateness, now.release_lateness),
        "expiry_lateness": _lateness(before and before.expiry_lateness, now.expiry_lateness),
        "ledger_first": now.ledger_first,
        "ledger_last": now.ledger_last,
        "connections": now.connection_count,
        "queue_count": now.queue_count,
        "is_disk_full": now.is_disk_full,
    }


def _rates(
    before: LiveFigures | None, now: LiveFigures, interval_ms: int
) -> dict[str, float] | None:
    """Return puts and ended messages per second since ``before``; None without ``before``.

    ``interval_ms`` is the time between both; None also if it is 0. The keys are ``put_per_s``,
    ``got_per_s``, ``expired_per_s`` and so on, and ``ended_otherwise_per_s``.
    """
    if before is None or not interval_ms:
        return None
    flow = Counter(now.flow)
    flow.subtract(before.flow)
    rates = {name: flow.pop(word, 0) for name, word in _RATES.items()}
    rates["ended_otherwise_per_s"] = flow.total()
    return {name: round(n * SECOND_MS / interval_ms, 1) for name, n in rates.items()}


def _lateness(before: LatenessCounts | None, now: LatenessCounts) -> dict[str, Any] | None:
    """Return how late deliveries or expiries were since ``before``, for JSON.

    The keys are count, mean_ms and at_most_ms. None if none happened since, or without ``before``.
    ``at_most_ms`` is a bound that none exceeds; it is None above the highest bucket.
    """
    if before is None:
        return None
    counts = [b - a for a, b in zip(before.counts, now.counts, strict=True)]
    count = sum(counts)
    if not count:
        return None
    highest = max(place for place, n in enumerate(counts) if n)
    return {
        "count": count,
        "mean_ms": round((now.sum_ms - before.sum_ms) / count, 1),
        # The last bucket has no upper bound.
        "at_most_ms": BOUNDS_MS[highest] if highest < len(BOUNDS_MS) else None,
    }

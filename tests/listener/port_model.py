"""A model of a port without threads, which shares no line with the program.

Everything happens at its millisecond. Within one millisecond the order is: messages arrive,
transactions are late, receives end, recoveries try again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BOTHRESH = 2
RETRY_MS = 60_000


@dataclass(frozen=True)
class Terms:
    """The settings of a port; ``timeout_ms`` 0 is ASF."""

    sessions: int
    timeout_ms: int
    lifetime_ms: int
    max_retries: int | None
    has_selector: bool


@dataclass(eq=False)
class Letter:
    """A message: where it stands on its queue once it has arrived, and what it has been through."""

    label: str
    priority: int
    is_suitable: bool
    available_ms: int
    expire_ms: int | None
    place: int | None = None
    backout_count: int = 0

    def is_alive(self, now_ms: int) -> bool:
        """Whether its life has not ended."""
        return self.expire_ms is None or now_ms < self.expire_ms


@dataclass(eq=False)
class Unit:
    """A transaction, with the message that is being worked on in it."""

    begun_ms: int
    letter: Letter | None = None
    is_late: bool = False


@dataclass
class Counts:
    """The counts of a port."""

    idle_rollbacks: int = 0
    delivered: int = 0
    committed: int = 0
    rolled_back: int = 0
    timed_out: int = 0
    requeued: int = 0
    listener_retries: int = 0


@dataclass
class PortModel:
    """A port with its queue and its backout queue."""

    terms: Terms
    now_ms: int
    is_running: bool = False
    #: On the queue, delayed ones and those in work included.
    letters: list[Letter] = field(default_factory=list)
    moved: list[Letter] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    #: Non-ASF: transactions whose receive waits, who has waited longest first.
    receives: list[Unit] = field(default_factory=list)
    works: list[Unit] = field(default_factory=list)
    #: When sessions try again; in ASF all do together.
    pauses: list[int] = field(default_factory=list)
    _arrived: int = 0

    @property
    def is_asf(self) -> bool:
        """Whether messages are handed over."""
        return not self.terms.timeout_ms

    def start(self) -> None:
        """Let sessions receive."""
        self.is_running = True
        for _ in range(self.terms.sessions):
            self._receive_again()
        self._settle()

    def stop(self) -> None:
        """Take nothing more."""
        self.is_running = False
        self.receives.clear()
        self.pauses.clear()

    def put(self, letter: Letter) -> None:
        """Put a message, which may be delayed."""
        self.letters.append(letter)
        self._arrive()
        self._settle()

    def finish(self, unit: Unit, how: str) -> None:
        """Let an on_message end: good, bad, stop (which is good) or close (its own session)."""
        letter = unit.letter
        assert letter is not None
        if how == "stop":
            self.stop()
        if not self._mark_if_late(unit) and how in ("good", "stop"):
            self.counts.committed += 1
            self.letters.remove(letter)
            self.done.append(letter.label)
        else:
            self.counts.rolled_back += 1
            unit.letter = None
            letter.backout_count += 1
            # Others may have it before the session that gives it back receives again.
            self._settle()
            limit = self.terms.max_retries
            if how != "close" and limit is not None and letter.backout_count > limit:
                self.stop()
        self.works.remove(unit)
        if self.is_running and how == "close":
            if not (self.is_asf and self.pauses):
                self.pauses.append(self.now_ms + RETRY_MS)
        elif self.is_running:
            self._receive_again()
        self._settle()

    def next_event_ms(self) -> int | None:
        """Return when something happens by itself."""
        moments = [one.available_ms for one in self.letters if one.place is None]
        moments += self.receive_ends() + self.pauses
        if self.terms.lifetime_ms:
            units = self.receives + self.works
            moments += [one.begun_ms + self.terms.lifetime_ms for one in units if not one.is_late]
        return min(moments, default=None)

    def receive_ends(self) -> list[int]:
        """Return when the receives end that wait."""
        return [one.begun_ms + self.terms.timeout_ms for one in self.receives]

    def pass_to(self, now_ms: int) -> None:
        """Let time pass to the next event, or not so far."""
        self.now_ms = now_ms
        self._arrive()
        self._settle()
        for unit in self.receives + self.works:
            self._mark_if_late(unit)
        ended = [one for one in self.receives if one.begun_ms + self.terms.timeout_ms <= now_ms]
        for unit in ended:
            self.receives.remove(unit)
            self.counts.idle_rollbacks += 1
            self._receive_again()
        for until_ms in [one for one in self.pauses if one <= now_ms]:
            self.pauses.remove(until_ms)
            self.counts.listener_retries += 1
            self._receive_again()
        self._settle()

    def _arrive(self) -> None:
        for letter in self.letters:
            if letter.place is None and letter.available_ms <= self.now_ms:
                letter.place = self._arrived
                self._arrived += 1

    def _receive_again(self) -> None:
        if not self.is_asf:
            self.receives.append(Unit(self.now_ms))

    def _mark_if_late(self, unit: Unit) -> bool:
        lifetime_ms = self.terms.lifetime_ms
        if not unit.is_late and 0 < lifetime_ms <= self.now_ms - unit.begun_ms:
            unit.is_late = True
            self.counts.timed_out += 1
        return unit.is_late

    def _settle(self) -> None:
        """Let sessions take what there is."""
        while (unit := self._free_unit()) is not None and (letter := self._first()) is not None:
            if not self.is_asf:
                self.receives.remove(unit)
            if letter.backout_count < BOTHRESH:
                unit.letter = letter
                self.works.append(unit)
                self.counts.delivered += 1
                continue
            if self._mark_if_late(unit):
                letter.backout_count += 1
            else:
                self.counts.requeued += 1
                self.letters.remove(letter)
                self.moved.append(letter)
            self._receive_again()

    def _free_unit(self) -> Unit | None:
        if not self.is_asf:
            return self.receives[0] if self.receives else None
        is_free = self.is_running and not self.pauses and len(self.works) < self.terms.sessions
        return Unit(self.now_ms) if is_free else None

    def _first(self) -> Letter | None:
        in_work = {one.letter for one in self.works}
        there = [
            (-one.priority, one.place, one)
            for one in self.letters
            if one.place is not None
            and one not in in_work
            and one.is_alive(self.now_ms)
            and (one.is_suitable or not self.terms.has_selector)
        ]
        return min(there)[2] if there else None

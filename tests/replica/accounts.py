"""The accounts of programs whose servers failed: what their journals say must be so in the end."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

#: How a unit of work ended for its program. Of an unknown one all has taken effect, or nothing.
OK, UNKNOWN, REFUSED = "ok", "unknown", "refused"
#: Moments of several processes are whole milliseconds of one clock.
_ROUNDING_MS = 2


class Put(NamedTuple):
    """A message: its name, its delay and life (ms; 0 for none), whether it asks for a report."""

    name: str
    delay_ms: int
    life_ms: int
    asks: bool


class Got(NamedTuple):
    """A message that was handed out between two moments, by a get that began at the first."""

    name: str
    began_ms: int
    ended_ms: int


@dataclass
class Unit:
    """A unit of work: its messages, and when its puts began and ended at the latest."""

    puts: list[Put] = field(default_factory=list)
    gets: list[Got] = field(default_factory=list)
    first_ms: int = 0
    last_ms: int = 0
    #: The one server that it went to, empty for any.
    server: str = ""
    outcome: str = UNKNOWN
    at_ms: int = 0
    why: str = ""

    def stored(self) -> dict[str, object]:
        """Return what is known before it takes effect, as a journal has it."""
        return {
            "puts": self.puts,
            "gets": self.gets,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "server": self.server,
        }


class Ownership(NamedTuple):
    """Since when a server has been the owner."""

    server: str
    since_ms: float


def units_in(journals: Path) -> list[Unit]:
    """Return the units of work of all journals; one without an end is unknown."""
    found = list[Unit]()
    for journal in journals.iterdir():
        units: dict[int, Unit] = {}
        for line in journal.read_text().split("\n")[:-1]:
            said: dict[str, Any] = json.loads(line)
            number = said.pop("unit")
            if "outcome" in said:
                units[number].outcome, units[number].at_ms = said["outcome"], said["at_ms"]
                units[number].why = said["why"]
            else:
                said["puts"] = [Put(*each) for each in said["puts"]]
                said["gets"] = [Got(*each) for each in said["gets"]]
                units[number] = Unit(**said)
        found += units.values()
    return found


class Accounts:
    """All units of work, and the reports that came; :meth:`problems` is what must not be."""

    def __init__(self, units: Sequence[Unit], reports: Iterable[str]) -> None:
        self.units, self.reports = units, Counter(reports)
        self.puts = {put.name: (put, unit) for unit in units for put in unit.puts}
        #: Of each message, the units that have got it for certain, or may have.
        self.got, self.may_have_got = (
            defaultdict[str, list[tuple[Got, Unit]]](list),
            defaultdict[str, list[tuple[Got, Unit]]](list),
        )
        for unit in units:
            places = {OK: self.got, UNKNOWN: self.may_have_got}.get(unit.outcome)
            if places is not None:
                for get in unit.gets:
                    places[get.name].append((get, unit))

    def counts(self) -> dict[str, int]:
        """Return how many messages were put, got and reported, and how much is unknown."""
        outcomes = Counter(unit.outcome for _put, unit in self.puts.values())
        return {
            "put": outcomes[OK],
            "put unknown": outcomes[UNKNOWN],
            "got": len(self.got),
            "may have been got": len(self.may_have_got.keys() - self.got.keys()),
            "reported": len(self.reports),
        }

    def problems(self) -> list[str]:
        """Return what must not be, one text each; none when all is well."""
        return [
            *self._wrong_messages(),
            *self._wrong_moments(),
            *self._halves(),
        ]

    def _wrong_messages(self) -> Iterable[str]:
        for name in self.got.keys() | self.reports.keys() | self.may_have_got.keys():
            if name not in self.puts:
                yield f"{name} was never put"
        for name, (put, unit) in self.puts.items():
            count, report_count = len(self.got[name]), self.reports[name]
            is_seen = count or report_count
            if unit.outcome == REFUSED and (is_seen or self.may_have_got[name]):
                yield f"{name} is there, and its put was refused: {unit.why}"
            if count > 1:
                times = [(get.ended_ms, each.at_ms) for get, each in self.got[name]]
                yield f"{name} was got {count} times, at {times}: {put}"
            if report_count > put.asks:
                yield f"{name} has {report_count} reports: {put}"
            if count and report_count:
                yield f"{name} was got and reported: {put}"
            may_have_ended = self.may_have_got[name] or (put.life_ms and not put.asks)
            if unit.outcome == OK and not is_seen and not may_have_ended:
                yield f"{name} is lost: {put}, put until {unit.last_ms}, told at {unit.at_ms}"

    def _wrong_moments(self) -> Iterable[str]:
        for gets in (*self.got.values(), *self.may_have_got.values()):
            for get, _unit in gets:
                if get.name not in self.puts:
                    continue
                put, unit = self.puts[get.name]
                due_ms = unit.first_ms + put.delay_ms
                if get.ended_ms and get.ended_ms + _ROUNDING_MS < due_ms:
                    yield f"{get.name} was early by {due_ms - get.ended_ms} ms"
                end_ms = unit.last_ms + put.life_ms
                if unit.outcome != OK:
                    # It may have been put as late as its answer was waited for.
                    end_ms = unit.at_ms + put.life_ms
                elif not unit.gets and len(unit.puts) == 1:
                    end_ms = unit.at_ms + put.life_ms
                if put.life_ms and get.began_ms > end_ms + _ROUNDING_MS:
                    yield f"{get.name} was late by {get.began_ms - end_ms} ms"

    def _is_seen_beside(self, unit: Unit, put: Put) -> bool:
        """Return True if another unit of work has seen a put: a unit may get what it puts."""
        gets = (*self.got[put.name], *self.may_have_got[put.name])
        return any(each is not unit for _get, each in gets)

    def _halves(self) -> Iterable[str]:
        """Yield the units whose end is unknown, and that have taken effect in part."""
        for unit in self.units:
            if unit.outcome != UNKNOWN:
                continue
            own = {put.name for put in unit.puts}
            got_itself = {get.name for get in unit.gets} & own
            # One that may have ended by itself says nothing.
            flags = {
                put.name: self._is_seen_beside(unit, put)
                for put in unit.puts
                if not put.life_ms and put.name not in got_itself
            }
            for get in unit.gets:
                known = self.puts.get(get.name)
                if get.name in own or known is None or known[0].life_ms:
                    continue
                if len(self.may_have_got[get.name]) == 1:
                    flags[get.name] = not self.got[get.name]
            if len(set(flags.values())) > 1:
                yield f"a unit of work took effect in part: {flags}"


def acknowledged_by_others(units: Iterable[Unit], owners: Sequence[Ownership]) -> list[str]:
    """Return the puts that a server acknowledged wholly within the time of another owner."""
    problems = []
    ends = [each.since_ms for each in owners[1:]] + [float("inf")]
    for unit in units:
        if not unit.server or unit.outcome != OK:
            continue
        is_right = any(
            each.server == unit.server
            and unit.first_ms <= end_ms + _ROUNDING_MS
            and unit.at_ms >= each.since_ms - _ROUNDING_MS
            for each, end_ms in zip(owners, ends, strict=True)
        )
        if not is_right:
            problems.append(f"{unit.server} acknowledged {unit.puts} and was not the owner")
    return problems

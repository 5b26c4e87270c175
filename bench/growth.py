"""What each step costs as messages, queues and subscriptions grow; disk and memory a message.

The page shows the costs over the sizes. A step whose cost at the largest size is a multiple of the
cost at the smallest one grows with what it should not.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, ParamSpec, TypeVar

from bench.child import in_child
from bench.figures import Beside, Curve, Figure, Told, at_most, median, without_aim
from bench.growing import Grown, grown
from bench.growth_peers import Held, HeldBy, held_by_peers
from bench.many_queues import Peopled, peopled

P = ParamSpec("P")
T = TypeVar("T")

#: What disk a message needs at most, the log at its longest included.
_DISK_BYTES_EACH: Final = 1_200
#: A step may cost so many times what it costs at the smallest size: trees are deeper by then, and
#: their pages are in no cache of the processor.
_MAX_GROWTH: Final = 3.0
#: Measured with ``--most`` alone; else what is told of it follows from the largest size that was.
_FAR_COUNT: Final = 50_000_000
_MESSAGES, _QUEUES, _OURS = "messages", "queues", "Mayfly"
#: What is told of each make: its plot, what it is, its unit, and its rounds.
_KINDS: Final[tuple[tuple[str, str, str, Callable[[Held], Sequence[float]]], ...]] = (
    ("disk", "disk a message", " bytes", lambda held: [held.disk_bytes]),
    ("memory", "memory a message", " bytes", lambda held: [held.memory_bytes]),
    ("put", "put, 100 a unit of work", " µs", lambda held: held.put_us),
    ("get", "get, 100 a unit of work", " µs", lambda held: held.get_us),
)
#: Plots of costs, whose values span decades.
_LOG: Final = ("put", "get")


class Size(NamedTuple):
    """How much is measured."""

    counts: Sequence[int] = (10_000, 100_000, 1_000_000, 10_000_000)
    #: Queues and subscriptions; the first is left out of the ratio, as all messages are on it.
    queue_counts: Sequence[int] = (1, 100, 10_000)
    #: Into the peers, RabbitMQ last because it is slow to fill.
    peer_counts: Sequence[int] = (10_000, 100_000, 1_000_000)
    rounds: int = 5
    #: Messages of each step of a round.
    batch: int = 400
    #: Whether each is measured in a process of its own, so that its memory is known.
    has_processes: bool = True

    def up_to(self, most: int) -> Size:
        """Return the same with so many messages at most, those that are not usual included."""
        return self._replace(
            counts=[count for count in (*self.counts, _FAR_COUNT) if count <= most],
            peer_counts=[count for count in self.peer_counts if count <= most],
        )


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: What compares makes: disk and memory a message.
BESIDE: Final = Size((10_000, 100_000, 1_000_000), ())
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size([2_000, 2_500], [1, 2, 3], [], 1, 100, has_processes=False)


def figures(size: Size = USUAL) -> Iterator[Told]:
    """Measure everything of this file."""
    largest = size.counts[-1]
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < largest * _DISK_BYTES_EACH:
        note = f"{free / 1e9:.0f} GB free, {largest * _DISK_BYTES_EACH / 1e9:.0f} GB needed"
        yield Figure(f"growth to {largest:,} messages", "not measured", "", False, note)
        return
    run = in_child if size.has_processes else _here
    found = run(grown, size.counts, size.rounds, size.batch)
    yield from _steps(_MESSAGES, found, size.counts[0])
    yield from _held(found)
    if len(size.queue_counts) > 1:
        base = size.queue_counts[1]
        many = [run(peopled, n, base, size.rounds, size.batch) for n in size.queue_counts]
        yield from _steps(_QUEUES, many, base)
        last = many[-1]
        name = f"{last.size:,} queues, each with a subscription, memory"
        yield without_aim(name, last.bytes_each, " bytes each", is_rate=False)
    peers, missing = held_by_peers(size.peer_counts)
    yield from _beside({_OURS: {one.size: _own(one) for one in found}, **peers}, missing)


def _here(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return work(*args, **kwargs)


def _steps(
    what: str, found: Sequence[Grown] | Sequence[Peopled], base: int
) -> Iterator[Figure | Curve]:
    """Tell of each step how its cost at the largest size stands to the one at ``base``, in turn."""
    last = found[-1]
    for step in last.costs_us:
        points = [(one.size, median(one.costs_us[step])) for one in found]
        yield Curve(what, step, what, "µs", points, spans_decades=True)
        ratios = [(one.size, median(_ratios(one, step))) for one in found]
        label = f"times the cost at {base:,}, in turn"
        yield Curve(f"{what}-in-turn", step, what, label, ratios, spans_decades=False)
        each = _ratios(last, step)
        costs = ", ".join(f"{cost:,.3g}" for _, cost in points)
        name = f"{step}: {last.size:,} {what} against {base:,}"
        note = f"µs at {', '.join(f'{one.size:,}' for one in found)}: {costs}; "
        note += f"at {base:,} in turn with the last: {median(last.smallest_us[step]):,.3g}"
        yield at_most(name, median(each), _MAX_GROWTH, "x", note, samples=each)


def _ratios(one: Grown | Peopled, step: str) -> list[float]:
    """Return by round what a step costs at a size, as a multiple of the cost at the base."""
    return [a / b for a, b in zip(one.costs_us[step], one.smallest_us[step], strict=True)]


def _held(found: Sequence[Grown]) -> Iterator[Figure]:
    """Disk and memory a message, and what 50 million would take."""
    last = found[-1]
    name = f"{last.size:,} messages of 200 bytes, "
    note = (
        f"filled at {last.fill_rate:,.0f}/s; half delayed, half with a deadline; "
        "log and ledger included, an empty folder left out"
    )
    yield at_most(f"{name}disk", last.disk_bytes / last.size, 600, " bytes each", note)
    grown_mb = (last.resident_bytes - last.empty_bytes) / 1e6
    note = f"{grown_mb:,.0f} MB more than with none; caches of SQLite are most of it"
    yield at_most(f"{name}memory of the process", last.resident_bytes / 1e6, 200, " MB", note)
    if last.size < _FAR_COUNT:
        verify_s = median(last.costs_us["verify, a message"]) * _FAR_COUNT / 1e6
        open_ms = median(last.costs_us["open, depth and first get"]) / 1e3
        disk_gb = last.disk_bytes / last.size * _FAR_COUNT / 1e9
        note = f"EXTRAPOLATED from {last.size:,}, not measured: verify {verify_s:,.0f} s"
        name = f"{_FAR_COUNT:,} messages, disk"
        yield Figure(name, f"{disk_gb:,.0f} GB", "-", True, f"{note}, open {open_ms:.0f} ms")


def _own(one: Grown) -> Held:
    memory_bytes = (one.resident_bytes - one.empty_bytes) / one.size
    return Held(one.disk_bytes / one.size, memory_bytes, one.costs_us["put"], one.costs_us["get"])


def _beside(held: HeldBy, missing: list[str]) -> Iterator[Told]:
    """Draw what each make holds and costs over sizes; compare at the largest that all have."""
    common = max(set.intersection(*({*each} for each in held.values())))
    for plot, what, unit, values in _KINDS:
        for make, each in held.items():
            points = [(count, median(values(one))) for count, one in each.items()]
            yield Curve(plot, make, "messages", f"{what} ({unit.strip()})", points, plot in _LOG)
        # Makes are filled one after the other: only what no load changes is compared.
        if len(held) > 1 and plot not in _LOG:
            rounds = {make: values(each[common]) for make, each in held.items()}
            beside = Beside(f"{what}, {common:,} messages", unit, False, rounds)
            yield beside
            yield beside.figure(missing)

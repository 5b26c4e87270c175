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
from bench.figures import Curve, Figure, at_most, median
from bench.growing import Grown, grown
from bench.growth_peers import held_by_peers
from bench.many_queues import Peopled, peopled

P = ParamSpec("P")
T = TypeVar("T")

#: What disk a message needs at most, the log at its longest included.
_DISK_BYTES_EACH: Final = 1_200
#: A step may cost so many times what it costs at the smallest size: trees are deeper by then, and
#: their pages are in no cache of the processor.
_MOST_GROWTH: Final = 3.0
#: Not measured: what is told of it follows from the largest size that was.
_FAR_COUNT: Final = 50_000_000
_MESSAGES, _QUEUES, _HELD = "messages", "queues", "disk"


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
        """Return the same with so many messages at most."""
        return self._replace(
            counts=[count for count in self.counts if count <= most],
            peer_counts=[count for count in self.peer_counts if count <= most],
        )


#: What compares makes: disk and memory a message.
BESIDE: Final = Size((10_000, 100_000, 1_000_000), ())
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size([2_000, 2_500], [1, 2, 3], [], 1, 100, has_processes=False)


def figures(size: Size = Size()) -> Iterator[Figure | Curve]:  # noqa: B008  # it cannot be changed
    """Measure everything of this file."""
    largest = size.counts[-1]
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < largest * _DISK_BYTES_EACH:
        note = f"{free / 1e9:.0f} GB free, {largest * _DISK_BYTES_EACH / 1e9:.0f} GB needed"
        yield Figure(f"growth to {largest:,} messages", "not measured", "", False, note)
        return
    run = in_child if size.has_processes else _here
    found = run(grown, size.counts, size.rounds, size.batch)
    yield from _steps(_MESSAGES, found, 0)
    yield from _held(found)
    if size.queue_counts:
        many = [run(peopled, count, size.rounds, size.batch) for count in size.queue_counts]
        yield from _steps(_QUEUES, many, 1)
    yield from held_by_peers(size.peer_counts)


def _here(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return work(*args, **kwargs)


def _steps(
    what: str, found: Sequence[Grown] | Sequence[Peopled], base: int
) -> Iterator[Figure | Curve]:
    """Tell of each step how its cost at the largest size stands to the one at ``base``."""
    first, last = found[base], found[-1]
    for step in last.costs_us:
        points = [(one.size, median(one.costs_us[step])) for one in found]
        yield Curve(what, step, what, "µs", points, spans_decades=True)
        ratio = median(last.costs_us[step]) / median(first.costs_us[step])
        each = [cost / median(first.costs_us[step]) for cost in last.costs_us[step]]
        costs = ", ".join(f"{cost:,.3g}" for _, cost in points)
        name = f"{step}: {last.size:,} {what} against {first.size:,}"
        note = f"µs at {', '.join(f'{one.size:,}' for one in found)}: {costs}"
        yield at_most(name, ratio, _MOST_GROWTH, "x", note, samples=each)


def _held(found: Sequence[Grown]) -> Iterator[Figure | Curve]:
    """Disk and memory a message, and what 50 million would take."""
    last, points = found[-1], [(one.size, one.disk_bytes / one.size) for one in found]
    yield Curve(_HELD, "Mayfly", "messages", "bytes on disk a message", points, spans_decades=False)
    name = f"{last.size:,} messages of 200 bytes, "
    note = (
        f"filled at {last.fill_rate:,.0f}/s; half delayed, half with a deadline; "
        "log and ledger included, an empty folder left out"
    )
    yield at_most(f"{name}disk", last.disk_bytes / last.size, 600, " bytes each", note)
    grown_mb = (last.resident_bytes - found[0].resident_bytes) / 1e6
    note = f"{last.resident_bytes / 1e6:,.0f} MB, {grown_mb:,.0f} more than at {found[0].size:,}"
    yield at_most(f"{name}memory of the process", last.resident_bytes / 1e6, 200, " MB", note)
    verify_s = median(last.costs_us["verify, a message"]) * _FAR_COUNT / 1e6
    open_ms = median(last.costs_us["open, depth and first get"]) / 1e3
    disk_gb = last.disk_bytes / last.size * _FAR_COUNT / 1e9
    note = f"EXTRAPOLATED from {last.size:,}, not measured: verify {verify_s:,.0f} s"
    name = f"{_FAR_COUNT:,} messages, disk"
    yield Figure(name, f"{disk_gb:,.0f} GB", "-", True, f"{note}, open {open_ms:.0f} ms")

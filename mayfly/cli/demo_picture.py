"""The day on the machine's clock on a terminal: where the calls of each airport are."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mayfly.cli.airport.plots import AIRPORTS
from mayfly.cli.airport.wall_clock import QueueSeen, WallSeen
from mayfly.cli.show import moment

_BAR_WIDTH = 44
_TO_COME = "·"
#: The parts of a bar, from the left: ended calls first, staged ones last.
_PARTS = {"got": "green", "expired": "red", "available": "dodger_blue1", "staged": "grey62"}
_HEADINGS = {"put": "", "staged": "grey62", "available": "dodger_blue1"}
_HEADINGS |= {"got": "green", "expired": "red"}


def picture(seen: WallSeen) -> RenderableType:
    """Return the picture of one moment."""
    every = QueueSeen(
        "all", *(sum(column) for column in zip(*(q[1:] for q in seen.queues), strict=True))
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"  {moment(seen.day_ms)[-8:-3]}", style="bold")
    for name, style in _HEADINGS.items():
        table.add_column(name, justify="right", style=style, header_style=style, min_width=4)
    table.add_column("")
    for queue in (*seen.queues, every):
        name = AIRPORTS.get(queue.queue.rpartition(".")[2], queue.queue)
        counts = [f"{getattr(queue, part):,}" for part in _HEADINGS]
        table.add_row(f"  {name}", *counts, _bar(queue))
    told = Text(f"  reports {seen.reported:,}   rows in the lake {seen.lake_rows:,}", style="bold")
    return Group(table, told)


def _bar(queue: QueueSeen) -> Text:
    """Draw all calls of a queue's day as one bar; each kind that is there at all is seen."""
    bar = Text()
    done = drawn = 0
    for part, style in _PARTS.items():
        done += getattr(queue, part)
        until = round(_BAR_WIDTH * min(done / queue.calls, 1.0))
        bar.append("█" * (until - drawn), style=style)
        drawn = until
    return bar.append(_TO_COME * (_BAR_WIDTH - drawn), style="grey37")

"""The output of ``mayfly advise``: the verdict, the advice with its reasons, the cost of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from mayfly.cli.show import moment
from mayfly.lifetime.times import SECOND_MS

if TYPE_CHECKING:
    from mayfly.pipeline.advise.advice import Advice, Outlook
    from mayfly.pipeline.advise.arrivals import ArrivalSummary
    from mayfly.pipeline.advise.settings import Setting

_PROCESS = "1 is independent arrivals, more are bursts"
_TITLES = {
    "messages": "messages",
    "taken": "transactions with a message",
    "committed": "  committed",
    "needless": "  rolled back needlessly",
    "overlong": "  on_message as long as the lifetime",
    "messages_hit": "messages rolled back needlessly",
    "redeliveries": "redeliveries",
    "backouts_max": "most rollbacks of one message",
    "requeued": "messages past BOTHRESH",
    "expired": "messages that expired first",
    "left": "messages rolled back to the end",
    "idle_rollbacks": "idle rollbacks",
}


def print_advice(advice: Advice) -> None:
    """Print it all."""
    console = Console(highlight=False)
    for line in _lines(advice):
        console.print(line, markup=False, soft_wrap=True)
    if advice.arrivals is not None and advice.after is not None:
        for line in _arrival_lines(advice.arrivals):
            console.print(line, markup=False, soft_wrap=True)
        console.print()
        console.print(_table(advice.before, advice.after))


def as_json(advice: Advice) -> dict[str, Any]:
    """Return the same for JSON; ``is_safe`` is null when there is no present receive timeout."""
    is_decided = advice.present.receive_timeout_ms is not None
    return {
        "present": advice.present._asdict(),
        "longest_on_message_ms": advice.longest_on_message_ms,
        "is_safe": not advice.problems if is_decided else None,
        "problems": advice.problems,
        "recommended": advice.recommended._asdict(),
        "reasons": advice.reasons,
        "arrivals": None if advice.arrivals is None else advice.arrivals._asdict(),
        "before": _outlook_as_json(advice.before),
        "after": _outlook_as_json(advice.after),
    }


def _lines(advice: Advice) -> Iterator[str]:
    from mayfly.pipeline.advise.settings import spoken

    present, longest_ms = advice.present, advice.longest_on_message_ms
    yield f"present:     {_setting(present)}; longest on_message {spoken(longest_ms)}"
    for problem in advice.problems:
        yield f"  not safe: {problem}"
    if advice.problems:
        timeout_ms = present.timeout_ms
        yield (
            f"  a message at the very end of a receive: {spoken(timeout_ms)} + "
            f"{spoken(longest_ms)} = {spoken(timeout_ms + longest_ms)}, and at "
            f"{spoken(present.lifetime_ms)} the transaction is marked for rollback"
        )
    yield f"recommended: {_setting(advice.recommended)}"
    for reason in advice.reasons:
        yield f"  {reason}"


def _setting(setting: Setting) -> str:
    from mayfly.pipeline.advise.settings import spoken

    timeout, lifetime = "not said", "none"
    if setting.receive_timeout_ms is not None:
        timeout = spoken(setting.receive_timeout_ms)
    if setting.lifetime_ms:
        lifetime = spoken(setting.lifetime_ms)
    return (
        f"receive timeout {timeout}, transaction lifetime {lifetime}, sessions "
        f"{setting.max_sessions}, BOTHRESH {setting.bothresh}"
    )


def _arrival_lines(arrivals: ArrivalSummary) -> Iterator[str]:
    yield ""
    yield (
        f"arrivals on {arrivals.queue}: {arrivals.messages:,} messages from "
        f"{moment(arrivals.first_ms)} to {moment(arrivals.last_ms)} UTC"
    )
    if arrivals.per_hour is None:
        return
    gaps = [
        f"{name} {gap_ms / SECOND_MS:,.3f}"
        for name, gap_ms in (
            ("mean", arrivals.gap_mean_ms),
            ("p50", arrivals.gap_p50_ms),
            ("p95", arrivals.gap_p95_ms),
            ("p99", arrivals.gap_p99_ms),
            ("longest", arrivals.gap_max_ms),
        )
        if gap_ms is not None
    ]
    yield f"  {arrivals.per_hour:,.1f} an hour; gaps in s: {', '.join(gaps)}"
    yield f"  gaps vary by {arrivals.gap_variation:.2f} of their mean ({_PROCESS})"


def _table(before: Outlook | None, after: Outlook) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    columns = [_cells(after)]
    if before is not None:
        table.add_column("present", justify="right")
        columns.insert(0, _cells(before))
    table.add_column("recommended", justify="right")
    for title in columns[0]:
        table.add_row(title, *(column[title] for column in columns))
    return table


def _cells(outlook: Outlook) -> dict[str, str]:
    """Return the rows of the table: figures of the simulation, then those of the formula."""
    simulated, expected = outlook.simulated, outlook.estimate
    cells = {title: f"{getattr(simulated, name):,}" for name, title in _TITLES.items()}
    cells["needless share of transactions"] = f"{simulated.needless_share:.3%}"
    cells["idle rollbacks an hour"] = f"{simulated.idle_rollbacks_per_hour:,.1f}"
    cells["expected: messages hit"] = f"{expected.hit_share:.3%}"
    cells["expected: idle rollbacks an hour"] = f"{expected.idle_rollbacks_per_hour:,.1f}"
    cells["sessions busy"] = f"{expected.busy_share:.1%}"
    return cells


def _outlook_as_json(outlook: Outlook | None) -> dict[str, Any] | None:
    if outlook is None:
        return None
    simulated = outlook.simulated
    return {
        "estimate": outlook.estimate._asdict(),
        "simulated": simulated._asdict() | {"needless_share": simulated.needless_share},
    }

"""The console in a browser: the last week of queues, and when their messages expire, by keys."""

from __future__ import annotations

import os
import re

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.pages import DOCS
from tests.servers.console.conftest import Console, sync_api
from tests.servers.console.test_messages import WRITES_PICTURES

pytestmark = pytest.mark.pages

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
#: A whole hour in all zones of whole hours: 24 November 2023, 12:00 UTC, 13:00 in Berlin.
NOON_MS = 1_700_827_200_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOON_MS)


def lose(
    queue_manager: QueueManager, clock: VirtualClock, queue: str, *, lost: int, got: int
) -> None:
    """Put messages of which some expire half a second later, and get the others."""
    with queue_manager.session() as session:
        for number in range(lost + got):
            session.put(queue, b"x", time_to_live_ms=500 if number < lost else DAY_MS)
        clock.advance(1_000)
        while session.get(queue) is not None:
            pass


def picture_of(console: Console, name: str) -> bytes:
    """Return a picture of the page, written where docs/ have theirs if pictures are wanted."""
    console.page.emulate_media(reduced_motion="reduce")
    wanted = DOCS / "images" / f"{name}.png" if os.environ.get(WRITES_PICTURES) else None
    taken: bytes = console.page.screenshot(path=wanted)
    return taken


@pytest.mark.parametrize("width", [1280, 360])
def test_the_queue_that_loses_most_and_its_hour_are_found_by_keys_alone(
    console: Console, queue_manager: QueueManager, clock: VirtualClock, width: int
) -> None:
    lose(queue_manager, clock, "REPORTS", lost=3, got=1)
    clock.advance(2 * DAY_MS + HOUR_MS)
    lose(queue_manager, clock, "ORDERS", lost=5, got=15)
    clock.advance(HOUR_MS)
    lose(queue_manager, clock, "ORDERS", lost=2, got=0)
    clock.advance(DAY_MS)
    page = console.page
    page.set_viewport_size({"width": width, "height": 740})
    page.keyboard.press("g")
    page.keyboard.press("h")
    console.heading("Over time")
    cells = page.get_by_role("grid", name="Queues by expired messages").locator("tbody tr td")
    sync_api.expect(cells.first).to_have_text("ORDERS")
    sync_api.expect(cells.nth(1)).to_have_text("7")
    sync_api.expect(cells.nth(2)).to_have_text("31.8 %")
    sync_api.expect(console.row("ORDERS")).to_be_focused()
    page.keyboard.press("ArrowDown")
    sync_api.expect(console.row("REPORTS")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    console.heading("ORDERS")
    said = "7 expired. Worst was Sun 26 Nov, 14:00 to 15:00: 5 (25 % of what ended then)."
    console.sees(page.get_by_text(said, exact=True))
    picture = page.get_by_role("img", name=said, exact=True)
    assert picture.locator(".dies title").all_text_contents() == [
        "Sun 26 Nov 14:00 to 15:00: 5 of 20 expired (25 %)",
        "Sun 26 Nov 15:00 to 16:00: 2 of 2 expired (100 %)",
    ]
    if width == 360:
        picture.scroll_into_view_if_needed()
        taken = picture_of(console, "console-over-time-phone")
        assert len(taken) < 100_000
    page.get_by_label("Days").select_option("month")
    console.sees(page.get_by_text("Worst was Sunday, 14:00 to 15:00: 5"))


def test_an_hour_of_the_day_that_is_bad_on_several_days_is_named(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    lose(queue_manager, clock, "ORDERS", lost=2, got=0)
    clock.advance(DAY_MS - 1_000)
    lose(queue_manager, clock, "ORDERS", lost=3, got=0)
    console.open("#/queue/ORDERS")
    worst = r"5 expired\. Worst was \w+ \d+ Nov, (\d\d:00 to \d\d:00): 3 "
    share = r"\(100 % of what ended then\)\. "
    daily = r"By hour of the day: 5 \(100 % of all\) from \1, on 2 days\."
    console.reads(console.page.locator(".worst"), re.compile(worst + share + daily))


def test_a_page_that_is_opened_now_has_a_past(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            for _ in range(30):
                session.put("ORDERS", b"x")
            clock.advance(10_000)
    console.open("#/queue/ORDERS")
    console.heading("ORDERS")
    page = console.page
    console.sees(page.get_by_role("img", name=re.compile("^Messages a minute: Put at most 180,")))
    console.sees(page.get_by_role("img", name=re.compile("^Depth at most: Depth at most 90,")))
    console.sees(page.locator(".over-time canvas").first)
    page.get_by_label("Span of time").select_option("day")
    console.sees(page.get_by_role("img", name=re.compile("^Messages a minute: Put at most 180,")))
    page.reload()
    sync_api.expect(page.get_by_label("Span of time")).to_have_value("day")
    console.open("#/overview")
    console.heading("Overview")
    console.sees(page.get_by_role("region", name="Put").locator("canvas"))


def test_a_channel_that_has_stopped_is_a_problem(
    console: Console, queue_manager: QueueManager
) -> None:
    script = (
        "DEFINE QLOCAL(QM2) USAGE(XMITQ)\n"
        "DEFINE CHANNEL(QM1.QM2) CHLTYPE(SDR) XMITQ(QM2) TRPTYPE(TCP) CONNAME('127.0.0.1(1)')\n"
        "STOP CHANNEL(QM1.QM2)"
    )
    result = queue_manager.mqsc(script)
    assert result.ok, result.text
    console.sees(console.page.get_by_text("Channel QM1.QM2 is stopped."))
    console.page.get_by_role("link", name="Channel QM1.QM2").click()
    console.heading("QM1.QM2")

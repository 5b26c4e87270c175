"""Messages in the console: found, looked at and changed, also by keyboard alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.pages import DOCS
from tests.servers.console.conftest import Console, sync_api

pytestmark = pytest.mark.pages

HOUR_MS = 3_600_000
#: Set it to write the pictures of docs/ anew.
WRITES_PICTURES = "MAYFLY_WRITE_PICTURES"
MOST_TABS = 60
#: Widths in px at which tasks are done: of a desk, and of a phone.
DESK, PHONE = 1280, 360


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[Console, str, int], None]:
    """Takes a picture of what a console shows, by the name that docs/ give it."""

    def take(console: Console, name: str, height: int) -> None:
        folder = DOCS / "images" if os.environ.get(WRITES_PICTURES) else tmp_path
        console.page.emulate_media(reduced_motion="reduce")
        size = console.page.viewport_size
        assert size is not None
        is_phone = size["width"] == PHONE
        seen = {"x": 0, "y": 0, "width": size["width"], "height": height}
        file = folder / f"{name}{'-phone' if is_phone else ''}.png"
        written = console.page.screenshot(path=file, clip=seen)
        assert len(written) < 100_000

    return take


def tab_to(console: Console, name: str | re.Pattern[str]) -> None:
    """Press Tab until what has the focus has a name: its label, or its text."""
    page, seen = console.page, list[str]()
    pattern = re.compile(re.escape(name)) if isinstance(name, str) else name
    told = (
        "(e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent)"
        "(document.activeElement)"
    )
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(told).strip())
        if pattern.match(seen[-1]):
            return
    raise AssertionError(f"{name!r} is none of {seen}")


def notice(console: Console, text: str) -> None:
    console.sees(console.page.locator(".notice").get_by_text(text))


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_order_4242_is_found_by_a_property_and_cancelled_by_keyboard_alone(
    console: Console,
    queue_manager: QueueManager,
    picture: Callable[[Console, str, int], None],
    width: int,
) -> None:
    with queue_manager.session(user="anna") as session:
        for number in (4241, 4242, 4243):
            body = f'{{"order": {number}, "to": "Lisbon", "items": [1, 2]}}'.encode()
            properties = {"order": str(number)}
            session.put("ORDERS", body, delay_ms=HOUR_MS, properties=properties)
    page = console.page
    page.set_viewport_size({"width": width, "height": 740})
    page.keyboard.press("/")
    page.keyboard.type("order=4242")
    page.keyboard.press("Enter")
    console.heading("Found")
    console.sees(page.get_by_text("1 message found; 1 queue searched."))
    # The row has the focus: Enter opens it.
    sync_api.expect(page.locator("tbody tr")).to_be_focused()
    picture(console, "console-found", 320)
    page.keyboard.press("Enter")
    console.heading("Message")
    console.sees(page.get_by_text('"to": "Lisbon"'))
    picture(console, "console-message", 640)
    tab_to(console, "Cancel…")
    page.keyboard.press("Enter")
    console.sees(page.get_by_role("dialog", name="Cancel 1 message?"))
    tab_to(console, "Cancel 1 message")
    page.keyboard.press("Enter")
    notice(console, "Message cancelled. It was for ORDERS, due ")
    console.heading("Messages of ORDERS")
    sync_api.expect(page.locator("tbody tr")).to_have_count(2)
    assert queue_manager.counts("ORDERS").staged == 2
    tab_to(console, "Undo")
    page.keyboard.press("Enter")
    notice(console, "1 message restored.")
    assert queue_manager.counts("ORDERS").staged == 3
    sync_api.expect(page.locator("tbody tr")).to_have_count(3)


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_poison_letter_is_understood_mended_and_redriven_by_keyboard_alone(
    console: Console,
    queue_manager: QueueManager,
    clock: VirtualClock,
    picture: Callable[[Console, str, int], None],
    width: int,
) -> None:
    with queue_manager.session(user="anna") as session:
        reply = b'<reply order="4242"><state>shipped</state></reply>'
        session.put("REPORTS", reply, delay_ms=1_000, time_to_live_ms=HOUR_MS)
    assert queue_manager.mqsc("ALTER QLOCAL(REPORTS) PUT(DISABLED)").ok
    clock.advance(1_000)
    page = console.page
    page.set_viewport_size({"width": width, "height": 740})
    page.keyboard.press("g")
    page.keyboard.press("d")
    console.heading("Dead letters")
    console.sees(page.locator("tbody tr").get_by_text("2051 MQRC_PUT_INHIBITED"))
    tab_to(console, re.compile("2051 MQRC_PUT_INHIBITED"))
    page.keyboard.press("Enter")
    console.heading("Message")
    why = "It could not be put on REPORTS@QM1: MQRC_PUT_INHIBITED (2051). Puts are inhibited"
    console.sees(page.get_by_text(why))
    console.sees(page.get_by_text('<reply order="4242">'))
    picture(console, "console-poison", 640)
    tab_to(console, "The queue REPORTS")
    page.keyboard.press("Enter")
    console.heading("REPORTS")
    inhibited = page.get_by_text("Programs cannot put: PUT(DISABLED).")
    console.sees(inhibited)
    tab_to(console, "Change PUT…")
    page.keyboard.press("Enter")
    console.sees(page.get_by_role("dialog", name="Change PUT of REPORTS"))
    page.keyboard.type("enabled")
    tab_to(console, re.compile("Change$"))
    page.keyboard.press("Enter")
    notice(console, "PUT of REPORTS is enabled.")
    sync_api.expect(inhibited).to_have_count(0)
    page.keyboard.press("Escape")
    sync_api.expect(page.locator(".notice")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("d")
    console.heading("Dead letters")
    console.sees(page.get_by_text("1 letter to the queues they were meant for."))
    tab_to(console, "Redrive…")
    page.keyboard.press("Enter")
    console.sees(page.get_by_role("dialog", name="Redrive 1 letter?"))
    tab_to(console, "Redrive 1 letter")
    page.keyboard.press("Enter")
    notice(console, "1 letter put to the queue it was meant for.")
    picture(console, "console-redriven", 800)
    sync_api.expect(page.get_by_role("button", name="Open REPORTS")).to_have_count(1)
    with queue_manager.session() as session:
        message = session.get("REPORTS")
        assert message is not None
        assert (message.body, message.remaining_ms) == (reply, HOUR_MS - 1_000)


def choose(console: Console, *rows: int) -> None:
    for row in rows:
        console.page.locator("tbody tr").nth(row).get_by_role("checkbox").check()


def press(console: Console, *names: str) -> None:
    for name in names:
        console.page.get_by_role("button", name=name, exact=True).click()


def test_messages_are_moved_and_put_back_copied_and_deleted_by_their_count(
    console: Console, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("ORDERS", b"x")
        session.put("ORDERS", b"x", delay_ms=HOUR_MS)
    console.open("#/messages/ORDERS")
    page = console.page
    rows = page.locator("tbody tr")
    sync_api.expect(rows).to_have_count(4)
    choose(console, 0, 1)
    assert page.get_by_role("button", name="Cancel…").is_disabled()
    press(console, "Move…")
    page.get_by_label("To the queue").fill("REPORTS")
    press(console, "Move 2 messages")
    notice(console, "2 messages moved.")
    sync_api.expect(rows).to_have_count(2)
    assert queue_manager.counts("REPORTS").live == 2
    press(console, "Undo")
    notice(console, "2 messages restored.")
    sync_api.expect(rows).to_have_count(4)
    choose(console, 0)
    press(console, "Copy…")
    page.get_by_label("To the queue").fill("REPORTS")
    press(console, "Copy 1 message")
    notice(console, "1 message copied.")
    choose(console, 1)
    press(console, "Delete…")
    page.get_by_label("How many messages are deleted").fill("3")
    press(console, "Delete 2 messages")
    notice(console, "Nothing is deleted: 2 messages would be, and you typed 3.")
    press(console, "Delete…")
    page.get_by_label("How many messages are deleted").fill("2")
    press(console, "Delete 2 messages")
    notice(console, "2 messages deleted.")
    sync_api.expect(rows).to_have_count(2)
    assert (queue_manager.counts("ORDERS").live, queue_manager.counts("REPORTS").live) == (1, 1)


def test_a_message_is_put_by_a_form_with_delay_and_lifetime_in_words(
    console: Console, queue_manager: QueueManager
) -> None:
    console.open("#/put/ORDERS")
    page = console.page
    page.get_by_label("Text", exact=True).fill("hello")
    page.get_by_label("Delay").fill("soon")
    console.sees(page.get_by_text("delay: 'soon' is not a duration"))
    page.get_by_label("Delay").fill("in 3 days")
    page.get_by_label("Lifetime").fill("lives 73 h")
    console.sees(page.get_by_text("in 3 d, expires"))
    page.get_by_label("Properties").fill("order=17")
    console.excused = "400"
    press(console, "Put the message")
    console.heading("Messages of ORDERS")
    notice(console, "Message put on")
    row = console.page.locator("tbody tr")
    sync_api.expect(row).to_have_count(1)
    row.click()
    console.sees(page.get_by_role("gridcell", name="order", exact=True))
    console.sees(page.get_by_text("It waits for"))
    assert queue_manager.counts("ORDERS").staged == 1


def test_data_is_shown_as_text_json_xml_and_hexadecimal_in_a_chosen_ccsid(
    console: Console, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        session.put("ORDERS", "Grüße".encode("cp500"))
    console.open("#/messages/ORDERS")
    page = console.page
    page.locator("tbody tr").click()
    data = page.get_by_label("Content", exact=True)
    sync_api.expect(data).to_contain_text("000000  c7 99 dc")
    press(console, "Text")
    page.get_by_label("Character set").select_option("500")
    console.reads(data, "Grüße")
    press(console, "JSON")
    console.sees(page.get_by_text("It is no JSON"))


def test_a_row_chosen_stays_chosen_after_a_look_aside(
    console: Console, queue_manager: QueueManager
) -> None:
    with queue_manager.session(user="anna") as session:
        for hours in (1, 2, 3):
            session.put("ORDERS", b"x", delay_ms=hours * HOUR_MS)
    console.open("#/schedule")
    page = console.page
    choose(console, 1)
    console.sees(page.get_by_text("1 message chosen:"))
    page.locator("tbody tr").nth(2).click()
    console.heading("Trace of a message")
    page.go_back()
    console.heading("Schedule")
    console.sees(page.get_by_text("1 message chosen:"))
    chosen = [row.is_checked() for row in page.locator("tbody input").all()]
    assert chosen == [False, True, False]


def test_the_schedule_is_filtered_at_each_key_by_id_sender_and_property(
    console: Console, queue_manager: QueueManager
) -> None:
    with queue_manager.session(user="anna") as session:
        session.put("ORDERS", b"x", delay_ms=HOUR_MS, properties={"order": "1"})
        msg_id = session.put("ORDERS", b"x", delay_ms=HOUR_MS).hex()
    with queue_manager.session(user="bert") as session:
        session.put("REPORTS", b"x", delay_ms=HOUR_MS)
    console.open("#/schedule")
    page, rows = console.page, console.page.locator("tbody tr")
    sync_api.expect(rows).to_have_count(3)
    find = page.get_by_label("Part of MsgId or sender, or property=value")
    find.press_sequentially("be")
    sync_api.expect(rows).to_have_count(1)
    find.fill(msg_id[-4:])
    sync_api.expect(rows).to_have_count(1)
    find.fill("order=1")
    sync_api.expect(rows).to_have_count(1)
    press(console, "Cancel…")
    console.sees(page.get_by_text("All delayed messages with order=1"))
    press(console, "Cancel 1 message")
    notice(console, "1 message cancelled.")
    assert queue_manager.counts("ORDERS").staged == 1


def test_a_trace_acts_on_a_delayed_message(console: Console, queue_manager: QueueManager) -> None:
    with queue_manager.session() as session:
        msg_id = session.put("ORDERS", b"x", delay_ms=HOUR_MS).hex()
    console.open(f"#/trace/{msg_id}")
    press(console, "Release…", "Release 1 message")
    notice(console, "Message released.")
    console.sees(console.page.get_by_text("It is on ORDERS and can be got"))
    assert queue_manager.counts("ORDERS").live == 1
    console.page.get_by_role("link", name="Its content on ORDERS").click()
    console.heading("Messages of ORDERS")
    sync_api.expect(console.page.locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize("place", ["messages/ORDERS", "message", "put/ORDERS", "find?text=4242"])
def test_pages_of_messages_fit_a_phone(
    console: Console, queue_manager: QueueManager, place: str
) -> None:
    with queue_manager.session() as session:
        body = b'{"order": "4242", "text": "' + b"x" * 300 + b'"}'
        session.put("ORDERS", body, properties={"order": "4242"}, delay_ms=HOUR_MS)
    page = console.page
    page.set_viewport_size({"width": 360, "height": 740})
    try:
        console.open(f"#/{'messages/ORDERS' if place == 'message' else place}")
        sync_api.expect(page.locator("tbody tr, form.put").first).to_be_visible()
        if place == "message":
            page.locator("tbody tr").first.click()
            console.heading("Message")
        console.sees(page.locator("main .panel, main .table").first)
        over = "(e => e.scrollWidth - e.clientWidth)(document.getElementById('main'))"
        assert page.evaluate(over) == 0
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})

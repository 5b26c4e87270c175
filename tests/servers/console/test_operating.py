"""The console in a browser: traces, the schedule and dead letters, looked at and changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import ConnectionBroken
from mayfly.testing import VirtualClock
from tests.pages import part
from tests.servers.console.conftest import Console, looking, sync_api
from tests.servers.http.conftest import Site

pytestmark = pytest.mark.pages

HOUR_MS = 3_600_000
CONSOLE_MD = part("METRICS.md", "The console")


@pytest.fixture
def delayed(queue_manager: QueueManager) -> list[bytes]:
    """Messages that are due on ORDERS and REPORTS in 1, 2, 3 and 4 hours."""
    with queue_manager.session(user="anna") as session:
        return [
            session.put(queue, b"x", delay_ms=hours * HOUR_MS)
            for hours, queue in enumerate(("ORDERS", "REPORTS", "ORDERS", "ORDERS"), 1)
        ]


def due_hours(queue_manager: QueueManager) -> list[float]:
    """Return in how many hours messages are due."""
    with queue_manager.session() as session:
        now_ms = session.schedule.now_ms()
        return [(one.deliver_at_ms - now_ms) / HOUR_MS for one in session.schedule.list()]


def buttons(console: Console, *names: str) -> None:
    """Press buttons one after the other."""
    for name in names:
        console.page.get_by_role("button", name=name, exact=True).click()


def test_a_story_is_a_sentence_a_picture_and_steps(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session(user="anna") as session:
        msg_id = session.put("ORDERS", b"x", delay_ms=HOUR_MS, time_to_live_ms=2 * HOUR_MS)
        clock.advance(2 * HOUR_MS)
        assert session.get("ORDERS") is None
    page = console.page
    page.get_by_role("searchbox").fill(msg_id.hex())
    page.keyboard.press("Enter")
    console.sees(page.get_by_text("It expired on ORDERS at"))
    console.sees(page.get_by_text("2 h after its put, and nobody had got it"))
    lives = page.get_by_role("img", name="2 lives: SYSTEM.DDELAY.LOCAL.QUEUE released, ORDERS")
    console.sees(lives)
    steps = page.get_by_role("grid", name="Steps").locator("tbody tr td:nth-child(3)")
    sync_api.expect(steps).to_have_text(["put", "released", "expired"])
    # The sentence speaks of UTC; the page shows the zone of the browser, and UTC as title.
    shown = page.locator(".sentence time")
    utc = shown.get_attribute("title")
    assert utc.startswith(shown.inner_text()[:8])
    assert utc.endswith(" UTC")
    assert shown.inner_text()[11:13] != utc[11:13]


def test_messages_are_found_by_a_property(console: Console, queue_manager: QueueManager) -> None:
    with queue_manager.session() as session:
        session.put("ORDERS", b"x", properties={"order": "17"})
        msg_id = session.put("REPORTS", b"x", properties={"order": "18"})
    console.open("#/trace")
    page = console.page
    page.get_by_label("Property").fill("order")
    page.get_by_label("is", exact=True).fill("18")
    buttons(console, "Find messages")
    row = console.row(msg_id.hex())
    console.sees(row.get_by_text("It is on REPORTS and can be got"))
    row.click()
    console.sees(page.get_by_role("grid", name="Steps"))


def test_an_unknown_message_is_said_to_be_unknown(console: Console) -> None:
    console.excused = "400"
    console.open("#/trace/c3")
    console.sees(console.page.get_by_text("QM1 knows no message with this MsgId or CorrelId"))
    console.page.get_by_label("MsgId or CorrelId in hexadecimal").fill("no id")
    console.page.get_by_role("button", name="Find").click()
    console.reads(console.page.get_by_role("alert"), re.compile("2026 MQRC_MD_ERROR"))


def test_what_is_due_is_seen_on_a_timeline_that_zooms_by_keys(
    console: Console, delayed: list[bytes]
) -> None:
    page = console.page
    page.keyboard.press("g")
    page.keyboard.press("s")
    console.heading("Schedule")
    rows = page.get_by_role("grid", name="Delayed messages").locator("tbody tr")
    sync_api.expect(rows).to_have_count(4)
    console.sees(page.get_by_role("img", name=re.compile("^4 messages due from ")))
    line = page.get_by_role("group", name="Due.")
    line.press("+")
    sync_api.expect(rows).to_have_count(3)
    line.press("+")
    sync_api.expect(rows).to_have_count(1)
    line.press("0")
    sync_api.expect(rows).to_have_count(4)
    page.get_by_label("Queue", exact=True).fill("REPORTS")
    page.keyboard.press("Enter")
    sync_api.expect(rows).to_have_count(1)
    console.sees(rows.get_by_text("anna"))


def test_one_message_is_rescheduled_and_put_back(
    console: Console, delayed: list[bytes], queue_manager: QueueManager
) -> None:
    console.open("#/schedule")
    page = console.page
    page.get_by_role("row").nth(2).get_by_role("checkbox").check()
    console.sees(page.get_by_text("1 message chosen:"))
    buttons(console, "Reschedule…")
    dialog = page.get_by_role("dialog", name="Reschedule 1 message?")
    console.sees(dialog.get_by_text("For REPORTS, due "))
    dialog.get_by_label("Time to move by", exact=True).fill("10")
    buttons(console, "Reschedule 1 message")
    console.sees(page.locator(".notice").get_by_text("Message rescheduled."))
    assert due_hours(queue_manager) == [1, 3, 4, 12]
    buttons(console, "Undo")
    notice = page.locator(".notice").get_by_text("1 message back at the former delivery time.")
    console.sees(notice)
    assert due_hours(queue_manager) == [1, 2, 3, 4]


def test_all_that_a_filter_finds_is_released_or_cancelled_after_a_question(
    console: Console, delayed: list[bytes], queue_manager: QueueManager
) -> None:
    console.open("#/schedule?queue=ORDERS")
    page = console.page
    console.sees(page.get_by_text("All 3 shown above:"))
    buttons(console, "Cancel…")
    console.sees(page.get_by_role("dialog", name="Cancel 3 messages?"))
    console.sees(page.get_by_text("will never be delivered. For ten minutes this can be undone."))
    assert page.evaluate("document.activeElement.textContent") == "Leave it"
    page.keyboard.press("Enter")
    assert due_hours(queue_manager) == [1, 2, 3, 4]
    buttons(console, "Release…", "Release 3 messages")
    console.sees(page.locator(".notice").get_by_text("3 messages released."))
    assert due_hours(queue_manager) == [2]
    console.sees(page.get_by_text("Nothing is due here."))


def test_dead_letters_have_reasons_and_are_redriven(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(SHUT)").ok
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("SHUT", b"x", delay_ms=1_000)
        assert queue_manager.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)").ok
        clock.advance(1_000)
    # The figures are looked at again when the release is over.
    clock.advance(1_000)
    page = console.page
    console.reads(console.tile("dead_letters"), "3")
    console.tile("dead_letters").click()
    console.heading("Dead letters")
    rows = page.get_by_role("grid", name="Dead letters").locator("tbody tr")
    sync_api.expect(rows).to_have_count(3)
    console.sees(rows.nth(0).get_by_text("2051 MQRC_PUT_INHIBITED"))
    assert queue_manager.mqsc("ALTER QLOCAL(SHUT) PUT(ENABLED)").ok
    page.get_by_label("Reason").select_option("2051")
    buttons(console, "Redrive…")
    dialog = page.get_by_role("dialog", name="Redrive 3 letters?")
    console.sees(dialog.get_by_text("Letters with REASON(2051)."))
    buttons(console, "Redrive 3 letters")
    console.sees(
        page.locator(".notice").get_by_text("3 letters put to the queues they were meant for.")
    )
    sync_api.expect(rows).to_have_count(0)
    assert queue_manager.counts("SHUT").live == 3


@pytest.fixture
def onlooker(
    page: Any, site: Site, delayed: list[bytes], queue_manager: QueueManager
) -> Iterator[Console]:
    """The console of a user who may look, and no more."""
    [command] = re.findall(r'^\$ mayfly mqsc QM1 -c "(.*)"$', CONSOLE_MD, re.MULTILINE)
    assert queue_manager.mqsc(command).ok
    yield from looking(page, site, "otto")


def test_who_may_only_look_is_offered_no_change_and_told_why(onlooker: Console) -> None:
    onlooker.open("#/schedule")
    page = onlooker.page
    onlooker.sees(page.get_by_text("otto · looks only"))
    onlooker.sees(page.get_by_text("Needs authority CHG on QM1."))
    for name in ("Release…", "Reschedule…", "Cancel…"):
        assert page.get_by_role("button", name=name).is_disabled()


def test_an_attribute_is_changed_and_put_back_and_no_change_of_another_is_lost(
    console: Console, queue_manager: QueueManager
) -> None:
    def depth() -> str:
        [shown] = queue_manager.mqsc("DISPLAY QLOCAL(ORDERS) MAXDEPTH").commands
        return str(shown.rows[0]["MAXDEPTH"])

    def change(value: str) -> None:
        console.row("maxdepth").click()
        page.get_by_label("MAXDEPTH", exact=True).fill(value)
        buttons(console, "Change")

    console.excused = "412"
    console.open("#/queue/ORDERS")
    page, notices = console.page, console.page.locator(".notice")
    change("7")
    console.sees(notices.get_by_text("MAXDEPTH of ORDERS is 7."))
    assert depth() == "7"
    buttons(console, "Undo")
    console.sees(notices.get_by_text("MAXDEPTH of ORDERS is 5000."))
    assert depth() == "5000"
    assert queue_manager.mqsc("ALTER QLOCAL(ORDERS) MAXDEPTH(11)").ok
    change("8")
    console.sees(page.locator(".notice.problem"))
    console.sees(console.row("maxdepth").get_by_text("11"))
    assert depth() == "11"


def test_users_and_authority_records_are_managed(
    console: Console, queue_manager: QueueManager
) -> None:
    console.open("#/users")
    page, notices = console.page, console.page.locator(".notice")
    buttons(console, "Add a user…")
    dialog = page.get_by_role("dialog", name="Add a user")
    dialog.get_by_label("User").fill("vera")
    dialog.get_by_label("Groups").fill("staff, sales")
    dialog.get_by_label("Password").fill("a new password")
    buttons(console, "Add")
    console.sees(notices.get_by_text("User vera is added."))
    console.sees(console.row("vera").get_by_text("staff, sales"))
    buttons(console, "Add a record…")
    dialog = page.get_by_role("dialog", name="Add an authority record")
    dialog.get_by_label("Profile").fill("ORDERS")
    dialog.get_by_label("Name").fill("vera")
    buttons(console, "Add")
    record = console.row("queue/ORDERS/principal/vera")
    console.sees(record)
    record.click()
    buttons(console, "Remove…")
    console.sees(page.get_by_text("DELETE AUTHREC"))
    page.get_by_label("Its name, to be sure").fill("vera")
    buttons(console, "Remove")
    sync_api.expect(record).to_have_count(0)
    buttons(console, "Undo")
    console.sees(record)
    console.row("vera").click()
    buttons(console, "Remove…")
    page.get_by_label("Its name, to be sure").fill("vera")
    buttons(console, "Remove")
    sync_api.expect(console.row("vera")).to_have_count(0)


def test_a_channel_is_stopped_and_started_and_a_connection_is_stopped(
    console: Console, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("DEFINE CHANNEL(CLIENTS) CHLTYPE(SVRCONN)").ok
    console.open("#/channels/CLIENTS")
    page, notices = console.page, console.page.locator(".notice")
    buttons(console, "Stop…", "Stop")
    console.sees(notices.get_by_text("CLIENTS is stopped."))
    console.sees(page.get_by_role("region", name="Channel").get_by_text("stopped"))
    buttons(console, "Start")
    console.sees(notices.get_by_text("CLIENTS is started."))
    session = queue_manager.session(user="anna", transacted=True)
    session.put("ORDERS", b"x")
    console.open("#/connections?find=anna")
    rows = page.get_by_role("grid", name="Connections").locator("tbody tr")
    sync_api.expect(rows).to_have_count(1)
    rows.get_by_role("checkbox").check()
    buttons(console, "Stop…", "Stop 1 connection")
    console.sees(notices.get_by_text("1 connection stopped."))
    sync_api.expect(rows).to_have_count(0)
    assert queue_manager.counts("ORDERS").uncommitted == 0
    with pytest.raises(ConnectionBroken):
        session.commit()


def test_expired_messages_and_the_ledger_are_searched(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session(user="anna") as session:
        for _ in range(3):
            session.put("ORDERS", b"x", time_to_live_ms=1_000)
        session.put("REPORTS", b"x", time_to_live_ms=1_000)
        got = session.put("REPORTS", b"x")
        clock.advance(3_000)
        assert session.get("ORDERS") is None
        message = session.get("REPORTS")
        assert message is not None
        session.put("ORDERS", b"x", time_to_live_ms=1_000)
        clock.advance(2_000)
    console.open("#/expired")
    page = console.page
    console.sees(page.get_by_text("1 message still there, the latest 4 discarded"))
    console.sees(console.row("ORDERS").get_by_text("1 s ago"))
    latest = page.get_by_role("grid", name="Latest expired").locator("tbody tr")
    sync_api.expect(latest).to_have_count(4)
    console.sees(latest.first.get_by_role("gridcell", name="2 s", exact=True))
    console.sees(latest.first.get_by_text("found by get, of anna"))
    console.open("#/ledger")
    console.sees(page.get_by_text("5 lives in rows"))
    page.get_by_label("Outcome", exact=True).select_option("got")
    lives = page.get_by_role("grid", name="Lives", exact=True).locator("tbody tr")
    sync_api.expect(lives).to_have_count(1)
    page.get_by_label("Outcome", exact=True).select_option("")
    console.row("ORDERS expired").click()
    sync_api.expect(lives).to_have_count(3)
    page.get_by_label("Queue", exact=True).fill("")
    page.get_by_label("Outcome", exact=True).select_option("")
    page.get_by_label("MsgId or CorrelId", exact=True).fill(got.hex())
    page.keyboard.press("Enter")
    sync_api.expect(lives).to_have_count(1)
    lives.first.click()
    console.sees(page.get_by_text("It was got from REPORTS"))


def test_lives_are_replayed_and_a_listener_is_advised(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("ORDERS", b"x")
        for _ in range(3):
            clock.advance(2_000)
            assert session.get("ORDERS") is not None
    console.open("#/whatif?queue=ORDERS")
    page = console.page
    page.get_by_label("Cap", exact=True).fill("3")
    buttons(console, "Replay")
    after = page.get_by_role("img", name="after: 1 got, 2 expired, 0 refused, 0 left")
    console.sees(after)
    console.sees(page.get_by_text("2 messages would end otherwise."))
    buttons(console, "Advise")
    console.sees(page.get_by_text("The setting is not safe."))
    console.sees(page.get_by_text("receive timeout 1 min 44 s, transaction lifetime 120 s"))

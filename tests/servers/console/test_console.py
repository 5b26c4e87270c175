"""The console in a browser: sign-in, overview, queues, keys and colours."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.relay import relaying
from tests.servers.console.conftest import Console, looking, sync_api
from tests.servers.http.conftest import Site

pytestmark = pytest.mark.pages


def test_a_user_signs_in_and_is_still_signed_in_after_a_reload(visited: Console) -> None:
    visited.open()
    visited.sign_in()
    visited.heading("Overview")
    visited.sees(visited.page.get_by_text("admin · administrator"))
    visited.page.reload()
    visited.heading("Overview")
    visited.page.get_by_role("button", name="Sign out").click()
    visited.heading("Sign in")
    visited.page.reload()
    visited.heading("Sign in")


def test_a_wrong_password_is_said_with_its_reason(visited: Console) -> None:
    visited.excused = "401"
    visited.open()
    visited.sign_in(password="wrong")
    alert = visited.page.get_by_role("alert")
    visited.reads(alert, re.compile(r"user or password are refused.*2035"))


def test_a_program_that_may_not_look_is_told_so(visited: Console) -> None:
    visited.open()
    visited.sign_in(user="app")
    visited.reads(visited.page.get_by_role("alert"), re.compile("app may put and get messages"))


def test_the_overview_counts_messages_by_state_and_follows_them(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(REPORTS) MAXDEPTH(1)").ok
    for state in ("staged", "live", "expired_present", "dead_letters"):
        console.reads(console.tile(state), "0")
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("ORDERS", b"x", delay_ms=60_000)
        session.put("ORDERS", b"x", time_to_live_ms=500)
        session.put("REPORTS", b"x")
        clock.advance(1_000)
    console.reads(console.tile("staged"), "3")
    console.reads(console.tile("expired_present"), "1")
    console.reads(console.tile("live"), "1")
    console.sees(console.page.get_by_text("in 59 s"))
    console.sees(console.page.get_by_text("not discarded yet: no get, browse or scan has found"))
    full = console.page.get_by_text("REPORTS is full: 100 % of its 1 message at most.")
    console.sees(full)
    console.row("ORDERS").click()
    console.heading("ORDERS")
    console.reads(console.tile("staged"), "3")
    console.sees(console.page.get_by_role("row", name="DEFPSIST YES"))


def test_expired_messages_between_two_scans_are_no_problem_and_too_many_delayed_ones_are(
    console: Console, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("ALTER QMGR EXPRYINT(10)\nALTER QLOCAL(REPORTS) MAXDEPTH(2)").ok
    page = console.page
    problems = page.get_by_role("region", name="Problems")
    with queue_manager.session() as session:
        session.put("ORDERS", b"x", time_to_live_ms=500)
        for _ in range(3):
            session.put("REPORTS", b"x", delay_ms=60_000)
        clock.advance(1_000)
        console.reads(console.tile("expired_present"), "1")
        console.sees(problems.get_by_text("3 messages delayed for REPORTS, which takes 2 at most."))
        sync_api.expect(problems.get_by_text("not discarded yet")).to_have_count(0)
        assert queue_manager.mqsc("ALTER QMGR EXPRYINT(OFF)").ok
        clock.advance(1_000)
        console.sees(problems.get_by_text("not discarded yet: no get, browse or scan has found"))


def test_queues_are_found_and_sorted_and_rows_are_opened_by_keys(
    console: Console, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        session.put("REPORTS", b"x")
    page = console.page
    page.keyboard.press("g")
    page.keyboard.press("q")
    console.heading("Queues")
    names = page.locator("tbody tr td:first-child")
    assert_texts(names, ["DLQ", "ORDERS", "REPORTS"])
    page.get_by_role("button", name="Depth").click()
    assert_texts(names, ["REPORTS", "DLQ", "ORDERS"])
    page.get_by_label("Part of the name").fill("or")
    assert_texts(names, ["REPORTS", "ORDERS"])
    page.get_by_label("Part of the name").press("Escape")
    console.row("REPORTS").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    console.heading("ORDERS")


def assert_texts(locator: Any, texts: str | list[str]) -> None:
    """Wait until elements have these texts, in this order."""
    sync_api.expect(locator).to_have_text(texts)


def test_a_thousand_queues_are_a_table_of_some_dozen_rows(
    console: Console, queue_manager: QueueManager
) -> None:
    script = "\n".join(f"DEFINE QLOCAL(A.{number:04d})" for number in range(1_000))
    assert queue_manager.mqsc(script).ok
    console.open("#/queues")
    console.sees(console.page.get_by_text("1,003 queues"))
    console.row("A.0000").focus()
    assert console.page.locator("tbody tr").count() < 100
    console.page.keyboard.press("End")
    console.sees(console.row("REPORTS"))
    assert console.page.locator("tbody tr").count() < 100
    assert console.page.get_by_role("grid").get_attribute("aria-rowcount") == "1004"


def test_keys_lead_everywhere_and_escape_closes(console: Console) -> None:
    page = console.page
    page.keyboard.press("?")
    console.sees(page.get_by_role("dialog", name="Keys"))
    page.keyboard.press("Escape")
    assert_texts(page.get_by_role("dialog"), [])
    page.keyboard.press("/")
    page.keyboard.type("ORDERS")
    page.keyboard.press("Enter")
    console.heading("ORDERS")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("a")
    console.heading("About")


def test_keys_lead_to_the_first_row_of_a_page_and_from_a_filter_to_its_rows(
    console: Console,
) -> None:
    page = console.page
    page.keyboard.press("g")
    page.keyboard.press("q")
    sync_api.expect(console.row("DLQ")).to_be_focused()
    page.keyboard.press("ArrowDown")
    sync_api.expect(console.row("ORDERS")).to_be_focused()
    page.get_by_label("Part of the name").fill("rep")
    sync_api.expect(console.row("ORDERS")).to_have_count(0)
    page.keyboard.press("ArrowDown")
    sync_api.expect(console.row("REPORTS")).to_be_focused()
    page.keyboard.press("Enter")
    console.heading("REPORTS")


def test_on_a_phone_the_menu_folds_and_rows_are_cards(
    console: Console, queue_manager: QueueManager
) -> None:
    script = "\n".join(f"DEFINE QLOCAL(A.{number:04d})" for number in range(100))
    assert queue_manager.mqsc(script).ok
    page = console.page
    page.set_viewport_size({"width": 360, "height": 740})
    try:
        menu, pages = page.get_by_role("button", name="Menu"), page.get_by_label("Pages")
        sync_api.expect(pages).to_be_hidden()
        menu.click()
        sync_api.expect(pages.get_by_role("link", name="Overview")).to_be_focused()
        console.sees(pages.get_by_role("button", name="Sign out"))
        page.keyboard.press("Escape")
        sync_api.expect(pages).to_be_hidden()
        sync_api.expect(menu).to_be_focused()
        menu.press("Enter")
        for name in ("Over time", "Fleet", "Queues"):
            page.keyboard.press("ArrowDown")
            sync_api.expect(pages.get_by_role("link", name=name)).to_be_focused()
        page.keyboard.press("Enter")
        console.heading("Queues")
        sync_api.expect(pages).to_be_hidden()
        cards = page.locator("tbody tr")
        sync_api.expect(cards).to_have_count(40)
        assert cards.first.evaluate("card => card.clientHeight") > 100
        page.get_by_label("Order of Queues").select_option("-name")
        assert_texts(cards.first.locator("td").first, "REPORTS")
        cards.first.focus()
        page.keyboard.press("End")
        sync_api.expect(console.row("A.0000")).to_be_focused()
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})


def test_the_colours_are_those_of_the_system_until_they_are_chosen(console: Console) -> None:
    page = console.page
    scheme = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(scheme)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(scheme)
    assert light != dark
    page.get_by_role("button", name="Light colours").click()
    assert page.evaluate(scheme) == light
    page.reload()
    console.heading("Overview")
    assert page.evaluate(scheme) == light


def test_a_server_that_is_lost_is_said_calmly_and_found_again(page: Any, site: Site) -> None:
    with relaying("127.0.0.1", site.web.port) as relay:
        for console in looking(page, site, "admin", port=relay.port):
            # The browser notes each request that has failed.
            console.excused = "net::ERR"
            console.open()
            pulse, banner = console.page.locator("#pulse"), console.page.locator("#banner")
            console.reads(pulse, "live")
            relay.cut()
            console.reads(banner, re.compile("does not answer"))
            console.reads(pulse, "reconnecting")
            relay.mend()
            console.reads(pulse, "live")
            sync_api.expect(banner).to_be_hidden()

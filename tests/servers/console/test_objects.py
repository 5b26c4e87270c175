"""The console in a browser: objects defined, altered, cleared and deleted; users, records; MQSC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.admin.security.users import users_of
from tests.servers.console.conftest import Console, looking, sync_api
from tests.servers.http.conftest import Site

pytestmark = pytest.mark.pages


def values(queue_manager: QueueManager, command: str) -> Any:
    """Return the attributes of the one object that a DISPLAY shows."""
    [row] = queue_manager.mqsc(command).rows
    return row


def test_a_queue_is_defined_by_a_form_that_shows_its_mqsc(
    console: Console, queue_manager: QueueManager
) -> None:
    console.excused = "400"
    console.open("#/objects")
    page = console.page
    page.get_by_role("button", name="Define…").click()
    dialog = page.get_by_role("dialog", name="Define a QLOCAL")
    dialog.get_by_label("Name", exact=True).fill("NEW.ORDERS")
    depth = dialog.get_by_label("MAXDEPTH", exact=True)
    assert depth.get_attribute("placeholder") == "5000"
    depth.fill("-5")
    hint = dialog.locator("#attribute-maxdepth-hint")
    console.reads(hint, re.compile("how many messages fit on the queue; 0 to 999"))
    dialog.locator("#attribute-boqname").focus()
    dialog.locator("#attribute-boqname-names option[value='ORDERS']").wait_for(state="attached")
    assert dialog.locator("#attribute-boqname").get_attribute("list") == "attribute-boqname-names"
    error = dialog.locator("#attribute-maxdepth-hint .error")
    console.reads(error, re.compile(r"a number from 0 to 999999999 \(4005 MQRCCF_ATTR_VALUE_ERR"))
    depth.fill("7")
    dialog.get_by_label("PUT", exact=True).select_option("DISABLED")
    shown = dialog.get_by_label("In MQSC")
    console.reads(
        shown, re.compile(r"DEFINE QLOCAL\(NEW\.ORDERS\) \+\s+PUT\(DISABLED\) \+\s+MAXDEPTH\(7\)")
    )
    assert not queue_manager.mqsc("DISPLAY QLOCAL(NEW.ORDERS)").rows
    dialog.get_by_role("button", name="Define", exact=True).click()
    console.heading("NEW.ORDERS")
    found = values(queue_manager, "DISPLAY QLOCAL(NEW.ORDERS) MAXDEPTH PUT DEFPSIST")
    assert (found["MAXDEPTH"], found["PUT"], found["DEFPSIST"]) == (7, "DISABLED", "NO")


def test_a_name_that_is_taken_and_an_attribute_that_is_missing_are_said_in_the_form(
    console: Console, queue_manager: QueueManager
) -> None:
    console.excused = "of 4"
    console.open("#/objects/channel")
    page = console.page
    page.get_by_role("button", name="Define…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("CHLTYPE", exact=True).select_option("SDR")
    console.sees(dialog.get_by_label("XMITQ", exact=True))
    dialog.get_by_label("CHLTYPE", exact=True).select_option("SVRCONN")
    sync_api.expect(dialog.get_by_label("XMITQ", exact=True)).to_have_count(0)
    dialog.get_by_label("Name", exact=True).fill("APP.SVRCONN")
    dialog.get_by_role("button", name="Define", exact=True).click()
    console.heading("APP.SVRCONN")
    page.get_by_role("button", name="Define like this…").click()
    dialog.get_by_label("Name", exact=True).fill("APP.SVRCONN")
    dialog.get_by_role("button", name="Define", exact=True).click()
    console.sees(dialog.get_by_text("APP.SVRCONN is there already"))
    dialog.get_by_label("Name", exact=True).fill("APP.2")
    console.reads(dialog.get_by_label("In MQSC"), re.compile(r"LIKE\(APP\.SVRCONN\)"))
    dialog.get_by_role("button", name="Define", exact=True).click()
    console.heading("APP.2")
    assert queue_manager.mqsc("DISPLAY CHANNEL(APP.2)").ok


def test_an_object_is_altered_whole_and_the_change_undone(
    console: Console, queue_manager: QueueManager
) -> None:
    console.open("#/objects/qlocal/ORDERS")
    page = console.page
    page.get_by_role("button", name="Alter…").click()
    dialog = page.get_by_role("dialog", name="Alter ORDERS")
    sync_api.expect(dialog.get_by_role("button", name="Change")).to_be_disabled()
    dialog.get_by_label("DESCR", exact=True).fill("What customers want")
    dialog.get_by_label("Find an attribute").fill("bothresh")
    dialog.get_by_label("BOTHRESH", exact=True).fill("3")
    console.reads(
        dialog.get_by_label("In MQSC"),
        re.compile(
            r"ALTER QLOCAL\(ORDERS\) \+\s+DESCR\('What customers want'\) \+\s+BOTHRESH\(3\)"
        ),
    )
    dialog.get_by_role("button", name="Change").click()
    notice = page.locator(".notice")
    console.sees(notice.get_by_text("DESCR of ORDERS is What customers want. BOTHRESH of ORDERS"))
    found = values(queue_manager, "DISPLAY QLOCAL(ORDERS) DESCR BOTHRESH")
    assert (found["DESCR"], found["BOTHRESH"]) == ("What customers want", 3)
    notice.get_by_role("button", name="Undo").click()
    console.sees(notice.get_by_text("BOTHRESH of ORDERS is 0."))
    assert values(queue_manager, "DISPLAY QLOCAL(ORDERS) DESCR BOTHRESH")["DESCR"] == ""


def test_a_queue_is_cleared_and_deleted_and_asked_for_by_its_name(
    console: Console, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("ORDERS", b"x")
        session.put("REPORTS", b"x")
    console.open("#/objects/qlocal/ORDERS")
    page = console.page
    page.get_by_role("button", name="Clear…").click()
    console.sees(page.get_by_role("dialog").get_by_text("ORDERS: 3 messages on it."))
    console.sees(page.get_by_role("dialog").get_by_text("CLEAR QLOCAL(ORDERS)"))
    page.get_by_role("button", name="Clear 3 messages").click()
    console.sees(page.locator(".notice").get_by_text("AMQ8022I: IBM MQ queue cleared."))
    assert queue_manager.curdepth("ORDERS") == 0
    console.open("#/objects/qlocal/REPORTS")
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog", name="Delete REPORTS?")
    deletes = dialog.get_by_role("button", name="Delete", exact=True)
    dialog.get_by_label("Its name, to be sure").fill("REPORT")
    sync_api.expect(deletes).to_be_disabled()
    dialog.get_by_label("With the messages on it").check()
    console.reads(dialog.get_by_label("In MQSC"), "DELETE QLOCAL(REPORTS) PURGE")
    dialog.get_by_label("Its name, to be sure").fill("REPORTS")
    page.keyboard.press("Enter")
    console.sees(page.locator(".notice").get_by_text("REPORTS is deleted."))
    console.heading("Objects")
    assert not queue_manager.mqsc("DISPLAY QLOCAL(REPORTS)").ok


def test_a_user_and_a_record_are_shown_as_the_commands_that_make_them(
    console: Console, queue_manager: QueueManager
) -> None:
    console.open("#/users")
    page = console.page
    page.get_by_role("button", name="Add a user…").click()
    dialog = page.get_by_role("dialog", name="Add a user")
    dialog.get_by_label("User", exact=True).fill("vera")
    dialog.get_by_label("Groups", exact=True).fill("staff, sales")
    shown = dialog.get_by_label("On the command line")
    console.reads(shown, "mayfly user add QM1 vera --group staff --group sales")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Add a record…").click()
    dialog = page.get_by_role("dialog", name="Add an authority record")
    dialog.get_by_label("Profile", exact=True).fill("ORDERS")
    dialog.get_by_label("Name", exact=True).fill("vera")
    dialog.get_by_label("BROWSE", exact=True).uncheck()
    mqsc = re.compile(r"SET AUTHREC .*PRINCIPAL\('vera'\) \+\s+AUTHADD\(GET,INQ,PUT\)", re.DOTALL)
    console.reads(dialog.get_by_label("In MQSC"), mqsc)
    dialog.get_by_role("button", name="Add").click()
    console.sees(console.row("queue/ORDERS/principal/vera"))
    found = values(queue_manager, "DISPLAY AUTHREC PRINCIPAL('vera')")
    assert found["AUTHLIST"] == "GET,INQ,PUT"


@pytest.fixture
def onlooker(page: Any, site: Site, queue_manager: QueueManager) -> Iterator[Console]:
    """The console of otto, who may look and no more."""
    users_of(queue_manager.engine).add("otto", "a password")
    record = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('otto') AUTHADD(CONNECT,DSP)"
    assert queue_manager.mqsc(record).ok
    yield from looking(page, site, "otto")


def test_who_may_only_look_changes_no_object_and_is_told_that_users_are_not_for_him(
    onlooker: Console, queue_manager: QueueManager
) -> None:
    onlooker.excused = "403"
    onlooker.open("#/objects/qlocal/ORDERS")
    page = onlooker.page
    onlooker.sees(page.get_by_text("Needs an administrator, member of mqm."))
    for name in ("Alter…", "Define like this…", "Clear…", "Delete…"):
        assert page.get_by_role("button", name=name).is_disabled()
    onlooker.open("#/users")
    onlooker.sees(page.get_by_text("otto may not look at users and authority records. Needs an"))
    sync_api.expect(page.get_by_role("grid")).to_have_count(0)
    onlooker.open("#/mqsc")
    box = page.get_by_label("MQSC commands")
    box.fill("CLEAR QLOCAL(ORDERS)")
    box.press("Enter")
    onlooker.reads(page.get_by_role("alert"), re.compile("'otto' is no administrator.*2035"))
    box.fill("DISPLAY QLOCAL(ORDERS) MAXDEPTH")
    box.press("Enter")
    onlooker.sees(page.get_by_text("MAXDEPTH(5000)"))


def test_mqsc_is_completed_run_and_remembered_without_secrets(
    console: Console, queue_manager: QueueManager
) -> None:
    console.open("#/mqsc")
    page = console.page
    box = page.get_by_label("MQSC commands")
    offered = page.get_by_role("group", name="What may come next").get_by_role("button")

    def completed(typed: str, word: str) -> None:
        """Type, wait for a word that is offered, and take it by Tab."""
        box.press_sequentially(typed)
        sync_api.expect(offered.first).to_have_text(word)
        box.press("Tab")

    completed("def", "DEFINE")
    completed("ql", "QLOCAL")
    completed("(NEW.ORDERS) maxd", "MAXDEPTH")
    box.press_sequentially("(7)")
    box.press("Enter")
    console.sees(page.get_by_text("AMQ8006I: IBM MQ queue created."))
    sync_api.expect(box).to_have_value("")
    assert values(queue_manager, "DISPLAY QLOCAL(NEW.ORDERS) MAXDEPTH")["MAXDEPTH"] == 7
    for command, reply in (
        ("ALTER QMGR KEYRPWD('tiger')", "ALTER QMGR KEYRPWD"),
        ("ALTER AUTHINFO(A) LDAPPW('tiger')", "AMQ8405E"),
        ("DISPLAY QLOCAL(NEW.ORDERS) +\n  DESCR", "AMQ8409I"),
    ):
        box.fill(command)
        box.press("Enter")
        console.sees(page.get_by_role("log").locator("pre").first.get_by_text(reply))
    kept = page.evaluate("localStorage.getItem('mayfly.mqsc')")
    assert "tiger" not in kept
    page.reload()
    console.heading("MQSC")
    box.press("ArrowUp")
    sync_api.expect(box).to_have_value("DISPLAY QLOCAL(NEW.ORDERS) +\n  DESCR")
    page.keyboard.press("Control+Home")
    box.press("ArrowUp")
    sync_api.expect(box).to_have_value("DEFINE QLOCAL(NEW.ORDERS) MAXDEPTH(7)")
    page.get_by_role("button", name="Forget the history").click()
    assert page.evaluate("localStorage.getItem('mayfly.mqsc')") is None

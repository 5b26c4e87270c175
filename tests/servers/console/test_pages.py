"""Every page of the console, in both colours, looked at by axe-core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.servers.console.conftest import Console, sync_api
from tests.servers.http.conftest import Site

pytestmark = pytest.mark.pages

#: ``make pages`` fetches it from npm, once.
AXE = Path(__file__).parents[3] / ".venv" / "axe-core" / "package" / "axe.min.js"
HOUR_MS = 3_600_000
#: Pages by their headings; ID is a message with a trace.
PAGES = {
    "overview": "Overview",
    "history": "Over time",
    "fleet": "Fleet",
    "queues": "Queues",
    "queue/ORDERS": "ORDERS",
    "schedule": "Schedule",
    "trace/ID": "Trace of a message",
    "deadletters": "Dead letters",
    "expired": "Expired",
    "ledger": "Ledger",
    "whatif": "What if",
    "channels": "Channels",
    "channels/SYSTEM.DEF.SVRCONN": "SYSTEM.DEF.SVRCONN",
    "connections": "Connections",
    "claims": "Consumers",
    "objects": "Objects",
    "objects/channel/SYSTEM.DEF.SVRCONN": "SYSTEM.DEF.SVRCONN",
    "users": "Users",
    "about": "About",
}


@pytest.fixture
def busy(site: Site, queue_manager: QueueManager, clock: VirtualClock) -> str:
    """A queue manager with messages in each state; the MsgId of one that has expired."""
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(SHUT)\nDEFINE CHANNEL(SYSTEM.DEF.SVRCONN) +\n CHLTYPE(SVRCONN) REPLACE"
    ).ok
    with queue_manager.session(user="anna") as session:
        msg_id = session.put("ORDERS", b"x", delay_ms=HOUR_MS, time_to_live_ms=2 * HOUR_MS)
        session.put("SHUT", b"x", delay_ms=HOUR_MS)
        assert queue_manager.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)").ok
        clock.advance(2 * HOUR_MS)
        assert session.get("ORDERS") is None
        for hours in (1, 2, 30):
            session.put("ORDERS", b"x", delay_ms=hours * HOUR_MS)
        session.put("REPORTS", b"x", time_to_live_ms=1_000)
        session.put("REPORTS", b"x")
        clock.advance(2_000)
    return msg_id.hex()


def test_axe_finds_no_violation_on_any_page_in_either_colours(busy: str, console: Console) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not there: make fetches it where npm is")
    page = console.page
    page.evaluate(AXE.read_text("utf-8"))
    found: list[str] = []
    for place, heading in PAGES.items():
        page.evaluate(f"location.hash = '#/{place.replace('ID', busy)}'")
        console.heading(heading)
        sync_api.expect(page.locator("main .panel, main .table").first).to_be_visible()
        page.emulate_media(color_scheme="light")
        found += [f"{place} {each}" for each in violations(page)]
        page.emulate_media(color_scheme="dark")
        found += [f"{place} dark {each}" for each in violations(page, "color-contrast")]
    page.keyboard.press("?")
    found += violations(page)
    assert found == []
    page.evaluate("document.querySelector('dialog').append(new Image())")
    assert [each.partition(":")[0] for each in violations(page)] == ["image-alt"]


def violations(page: Any, *rules: str) -> list[str]:
    """Return what axe-core finds, by some rules or all, with the first element of each kind."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    told = page.evaluate("options => axe.run(document, options)", options)
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in told["violations"]]

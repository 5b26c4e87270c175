"""The console in a browser: queue managers of two servers in one page, each with its sign-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import DEFINITIONS, PASSWORD_VARIABLES, developer_users
from mayfly.admin.security.users import users_of
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.servers.console.conftest import PASSWORD, Console, log_in, looking, sync_api
from tests.servers.http.conftest import Site, listening

pytestmark = pytest.mark.pages


@contextmanager
def fleet_of(here: list[QueueManager], elsewhere: QueueManager) -> Iterator[tuple[Site, Site]]:
    """Have a server for some queue managers, and one that asks for passwords; both name both."""
    fleet: dict[str, str] = {}
    users = {PASSWORD_VARIABLES[user]: PASSWORD for user in ("admin", "app")}
    developer_users(users_of(elsewhere.engine), None, users)
    assert elsewhere.mqsc(DEFINITIONS).ok
    everybody = AdmitEverybody(operators=frozenset({"admin"}))
    with closing(Admission([elsewhere.engine], token="t" * 43)) as by_password:
        served = contextmanager(listening)
        with (
            served(*here, admission=everybody, fleet=fleet) as north,
            served(elsewhere, admission=by_password, fleet=fleet) as south,
        ):
            for name, site in (("north", north), ("south", south)):
                fleet[name] = f"http://127.0.0.1:{site.web.port}"
            yield north, south


@pytest.fixture
def managers(clock: VirtualClock) -> Iterator[list[QueueManager]]:
    made = [QueueManager(f"QM{number}", clock=clock) for number in (1, 2, 3)]
    for manager in made:
        assert manager.mqsc("DEFINE QLOCAL(ORDERS)").ok
    yield made
    for manager in made:
        manager.close()


def test_queue_managers_of_two_servers_are_one_page_and_each_asks_for_its_own_sign_in(
    page: Any, managers: list[QueueManager], clock: VirtualClock
) -> None:
    one, two, three = managers
    with fleet_of([one, two], three) as (north, south):
        with two.session() as session:
            session.put("ORDERS", b"x", time_to_live_ms=1_000)
            clock.advance(2_000)
            assert session.get("ORDERS") is None
            session.put("ORDERS", b"x", delay_ms=3_600_000)
            session.put("ORDERS", b"x")
        with three.session() as session:
            msg_id = session.put("ORDERS", b"x")
        clock.advance(20_000)
        for console in looking(page, north, "admin"):
            console.open("#/overview")
            console.heading("Overview")
            page.keyboard.press("g")
            page.keyboard.press("f")
            console.heading("Fleet")
            console.sees(page.get_by_text("3 queue managers of 2 servers"))
            cells = console.row(" QM2").locator("td")
            texts = ["QM2", "this one", "ready", "", "1", "1", "0", "1", "100.0 %", "20 s", ""]
            sync_api.expect(cells).to_have_text(texts)
            foreign = console.row(f"http://127.0.0.1:{south.web.port} QM3").locator("td")
            sync_api.expect(foreign.nth(2)).to_have_text("ready")
            sync_api.expect(foreign.nth(4)).to_have_text("")
            link = foreign.get_by_role("link", name="Sign in at south")
            assert link.get_attribute("href") == (
                f"http://127.0.0.1:{south.web.port}/console/#/overview?qmgr=QM3"
            )
            console.open(f"#/trace/{msg_id.hex()}")
            console.sees(page.get_by_text("south was not asked: nobody has signed in there"))

            log_in(Console(page, f"http://127.0.0.1:{south.web.port}"), south.web, "admin")
            console.open("#/fleet")
            console.heading("Fleet")
            sync_api.expect(foreign.nth(4)).to_have_text("1")
            console.open(f"#/trace/{msg_id.hex()}")
            console.sees(page.get_by_text("At south: "))
            steps = page.get_by_role("grid", name="Steps").locator("tbody tr")
            console.sees(steps.first.get_by_text("ORDERS@QM3"))

            console.open("#/fleet")
            sync_api.expect(console.row(" QM1")).to_be_focused()
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")
            console.heading("Overview")
            sync_api.expect(page.get_by_label("Queue manager")).to_have_value("QM2")
            console.open("#/queues?qmgr=QM1")
            console.heading("Queues")
            sync_api.expect(page.get_by_label("Queue manager")).to_have_value("QM1")
            # Requests to the other server, and its refusals before the sign-in there.
            allowed = (f"http://127.0.0.1:{south.web.port}/", "401 (Unauthorized)")
            assert [one for one in console.complaints if not any(a in one for a in allowed)] == []
            console.complaints.clear()
            console.open("#/about")
            console.heading("About")
            console.excused = allowed[0]

"""The console in a browser: a replica with its standbys, and the page of a standby."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.runtime import Runtime
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.settings import Listen
from mayfly.servers.standby import OwnerPlace, StandbyPorts
from mayfly.store.replica.log import Ownership, PostgresLog, StandbyNote
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until
from tests.postgres import Postgres
from tests.servers.console.conftest import looking, sync_api
from tests.servers.http.conftest import Site, listening

pytestmark = pytest.mark.pages

#: No machine is so slow that an owner does not renew it.
LEASE_MS = 30_000


class Followed:
    """A queue manager with a replica, its server, and its log, in which a test plays standby."""

    def __init__(
        self, manager: QueueManager, site: Site, log: PostgresLog, fleet: dict[str, str]
    ) -> None:
        self.manager, self.site, self._log, self.fleet = manager, site, log, fleet

    def standing(self) -> Ownership:
        standing = self._log.standing()
        assert standing is not None
        return standing

    def follows(self, name: str, lacked_rows: int, lag_ms: int) -> None:
        """Let a standby be seen that is so far behind; the owner has heard of it on return."""
        now = self.standing()
        addresses = {"mq": f"{name}:1414", "http": f"{name}:9443"}
        note = StandbyNote(name, now.last - lacked_rows, now.now_ms - lag_ms, addresses)
        self._log.follow(now.instance, note)
        replica = self.manager.engine.replica
        assert replica is not None
        replica.lease.announce({})
        known = (name, lacked_rows)
        wait_until(lambda: known in [(each.name, each.lag_rows) for each in replica.standbys()])


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    with (
        closing(Postgres()) as server,
        QueueManager("QM1", tmp_path, replica=server.url, replica_lease_ms=LEASE_MS) as manager,
        closing(PostgresLog(server.url, "QM1", Runtime())) as log,
    ):
        assert manager.mqsc("DEFINE QLOCAL(ORDERS)").ok
        everybody = AdmitEverybody(operators=frozenset({"admin"}))
        fleet: dict[str, str] = {}
        for site in listening(manager, admission=everybody, fleet=fleet):
            yield Followed(manager, site, log, fleet)


def test_the_overview_shows_the_replica_with_its_standbys_and_warns_of_what_is_missing(
    page: Any, followed: Followed
) -> None:
    for console in looking(page, followed.site, "admin"):
        console.open()
        console.heading("Overview")
        replica = page.get_by_role("region", name="Replica")
        console.sees(replica.get_by_text("owner, no standby"))
        problems = page.get_by_role("region", name="Problems")
        console.sees(problems.get_by_text("No standby follows: nobody takes over"))
        followed.follows("two", 0, 100)
        followed.follows("three", 2, 60_000)
        console.sees(replica.get_by_text("owner, 2 standbys"))
        cells = console.row("two").locator("td")
        sync_api.expect(cells.nth(1)).to_have_text("two:9443")
        sync_api.expect(cells.nth(2)).to_have_text("0")
        sync_api.expect(cells.nth(3)).to_have_text("0 ms")
        sync_api.expect(console.row("three").locator("td").nth(2)).to_have_text("2")
        console.sees(problems.get_by_text("Standby three is 2 rows and 1 min"))
        console.open("#/fleet")
        console.heading("Fleet")
        sync_api.expect(console.row(" QM1").locator("td").nth(3)).to_have_text("2")


def standby_ports(port: int, followed: Followed) -> StandbyPorts:
    """Return the ports of a standby of the server of ``followed``, which reads in its fleet."""
    here = f"127.0.0.1:{followed.site.web.port}"
    owner = OwnerPlace("one, process 7", {"http": here})
    ports = StandbyPorts("QM1", None, owner, Runtime(), {f"http://{here}"})
    told = ports.listen(Listen(http=ListenAddress("127.0.0.1", port)))["http"]
    followed.fleet["south"] = f"http://{told}"
    return ports


def test_a_browser_at_a_standby_sees_its_owner_and_follows_the_link(
    page: Any, followed: Followed
) -> None:
    with closing(standby_ports(0, followed)):
        page.goto(f"{followed.fleet['south']}/console/")
        page.get_by_role("heading", name="This is a standby of QM1").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("link").click()
        page.get_by_role("button", name="Sign in").wait_for()
        page.goto("about:blank")


def test_a_fleet_shows_a_standby_with_its_owner(page: Any, followed: Followed) -> None:
    with closing(standby_ports(0, followed)):
        south = followed.fleet["south"]
        for console in looking(page, followed.site, "admin"):
            console.open("#/fleet")
            console.heading("Fleet")
            cells = console.row(f"{south} QM1").locator("td")
            sync_api.expect(cells.nth(2)).to_have_text("standby")
            sync_api.expect(cells.nth(4)).to_have_text("")
            sync_api.expect(cells.last).to_contain_text("owned by one, process 7")
            console.open("#/about")
            console.heading("About")
            # Requests to the other server, which answers 503.
            allowed = (f"{south}/", "503 (Service Unavailable)")
            assert [one for one in console.complaints if not any(a in one for a in allowed)] == []
            console.complaints.clear()
            console.excused = allowed[0]


def test_a_console_whose_server_becomes_a_standby_shows_the_page_of_one(
    page: Any, queue_manager: QueueManager
) -> None:
    everybody = AdmitEverybody(operators=frozenset({"admin"}))
    with ExitStack() as stack:
        site = stack.enter_context(contextmanager(listening)(queue_manager, admission=everybody))
        for console in looking(page, site, "admin"):
            console.open()
            console.heading("Overview")
            stack.close()
            owner = OwnerPlace("another, process 7")
            with closing(StandbyPorts("QM1", None, owner, Runtime())) as ports:
                ports.listen(Listen(http=ListenAddress("127.0.0.1", site.web.port)))
                console.heading("This is a standby of QM1")
                console.sees(page.get_by_text("Its owner is another, process 7"))
                page.goto("about:blank")
            # The server was away for a moment.
            console.complaints.clear()

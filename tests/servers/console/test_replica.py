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
from mayfly.servers.figure_history import FigureHistory
from mayfly.servers.listeners import HttpListener
from mayfly.servers.managers import ManagerTable, OwnerPlace
from mayfly.servers.settings import TlsFiles
from mayfly.servers.status import ServerStatus, ServingState
from mayfly.store.replica.log import Ownership, PostgresLog, StandbyNote
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until
from tests.postgres import Postgres
from tests.servers.console.conftest import looking, sync_api
from tests.servers.http.conftest import CHANNEL, Site, Web, listening

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


@contextmanager
def served(table: ManagerTable, fleet: dict[str, str]) -> Iterator[Site]:
    """Have a server of these queue managers, whose roles a test changes."""
    status = ServerStatus(table)
    status.state = ServingState.READY
    with ExitStack() as stack:
        histories = {name: stack.enter_context(FigureHistory(each)) for name, each in table.items()}
        listener = HttpListener(
            table,
            AdmitEverybody(operators=frozenset({"admin"})),
            ListenAddress("127.0.0.1", 0),
            channel=CHANNEL,
            admin_channel=CHANNEL,
            tls=TlsFiles(),
            server_status=status,
            histories=histories,
            fleet=fleet,
            runtime=Runtime(),
        )
        port = int(listener.start().rpartition(":")[2])
        stack.callback(listener.stop)
        yield Site(listener, status, Web(port))


@contextmanager
def standby_of(followed: Followed) -> Iterator[str]:
    """Have a server that follows that of ``followed``, which reads in its fleet; return its URL."""
    here = f"127.0.0.1:{followed.site.web.port}"
    table = ManagerTable((), ["QM1"])
    table.stand_by("QM1", OwnerPlace("one, process 7", {"http": here}), is_following=True)
    with served(table, {"north": f"http://{here}"}) as site:
        followed.fleet["south"] = f"http://127.0.0.1:{site.web.port}"
        yield followed.fleet["south"]


def test_a_browser_at_a_standby_sees_its_owner_and_follows_the_link(
    page: Any, followed: Followed
) -> None:
    with standby_of(followed) as south:
        page.goto(f"{south}/console/")
        page.get_by_role("heading", name="This is a standby of QM1").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("link").click()
        page.get_by_role("button", name="Sign in").wait_for()
        page.goto("about:blank")


def test_a_fleet_shows_a_standby_with_its_owner(page: Any, followed: Followed) -> None:
    with standby_of(followed) as south:
        for console in looking(page, followed.site, "admin"):
            console.open("#/fleet")
            console.heading("Fleet")
            cells = console.row(f"{south} QM1").locator("td")
            sync_api.expect(cells.nth(2)).to_have_text("standby")
            sync_api.expect(cells.nth(4)).to_have_text("")
            sync_api.expect(cells.last).to_contain_text("its owner is one, process 7 at 127.0.0.1:")
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
    table = ManagerTable([queue_manager])
    with served(table, {}) as site:
        for console in looking(page, site, "admin"):
            console.open()
            console.heading("Overview")
            table.stand_by("QM1", OwnerPlace("another, process 7"))
            site.listener.close_manager(queue_manager, 0, "QM1 is given up here")
            console.heading("This is a standby of QM1")
            console.sees(page.get_by_text("Its owner is another, process 7"))
            page.goto("about:blank")
            # Requests that were answered by 503, or ended.
            console.complaints.clear()


def test_a_console_shows_another_queue_manager_when_that_it_shows_is_given_up(
    page: Any, queue_manager: QueueManager
) -> None:
    loads = list[str]()

    def note(loaded: Any) -> None:
        loads.append(loaded.url)

    with ExitStack() as stack:
        other = stack.enter_context(QueueManager("QM2"))
        table = ManagerTable([queue_manager, other])
        site = stack.enter_context(served(table, {}))
        for console in looking(page, site, "admin"):
            console.open()
            console.heading("Overview")
            choice = page.get_by_label("Queue manager")
            sync_api.expect(choice).to_have_value("QM1")
            page.on("load", note)
            table.stand_by("QM1", OwnerPlace("another, process 7"))
            site.listener.close_manager(queue_manager, 0, "QM1 is given up here")
            sync_api.expect(choice).to_have_value("QM2")
            console.heading("Overview")
            console.sees(page.locator("#pulse", has_text="live"))
            standby = choice.get_by_role("option", name="QM1, standby")
            sync_api.expect(standby).to_be_disabled()
            console.open("#/fleet")
            console.heading("Fleet")
            cells = console.row(" QM1").locator("td")
            sync_api.expect(cells.nth(2)).to_have_text("standby")
            sync_api.expect(cells.last).to_contain_text("its owner is another, process 7")
            # It was loaded again once, and works.
            assert len(loads) == 1
            page.remove_listener("load", note)
            page.goto("about:blank")
            console.complaints.clear()

"""What a server that owns no queue manager answers to browsers, programs, probes and Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.users import Users
from mayfly.runtime import Runtime
from mayfly.runtime.virtual_clock import VirtualClock
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.listeners import HttpListener
from mayfly.servers.managers import ManagerTable, OwnerPlace
from mayfly.servers.settings import TlsFiles
from mayfly.servers.status import ServerStatus, ServingState

pytest.importorskip("uvicorn", reason="HTTP needs mayfly-mq[http]")

from mayfly.servers.http.standby_page import standby_page
from tests.servers.http.conftest import TOKEN, Answer, Web

OWNER = OwnerPlace("one<1>, process 7", {"http": "one:9443"})
SAID = "QM1 is a standby here; its owner is one<1>, process 7 at one:9443"
PROBES = ("live", "ready", "replica")
SCRAPER = ("scraper", "a password")
NORTH = "https://north:9443"


class Standby:
    """A server of QM1, which it follows, and whose user ``scraper`` is in its folder."""

    def __init__(self, folder: Path) -> None:
        self.table = ManagerTable((), ["QM1"])
        self.table.stand_by("QM1", OWNER, is_following=True)
        self.status = ServerStatus(self.table)
        self.status.state = ServingState.READY
        Users(folder).add(*SCRAPER)
        self.clock = VirtualClock(0)
        self._admission = Admission(
            (), token=TOKEN, clock=self.clock, runtime=Runtime(), folders={"QM1": folder}
        )
        self._listener = HttpListener(
            self.table,
            self._admission,
            ListenAddress("127.0.0.1", 0),
            channel="DEV.APP.SVRCONN",
            admin_channel="DEV.ADMIN.SVRCONN",
            tls=TlsFiles(),
            server_status=self.status,
            histories={},
            fleet={"north": NORTH},
            identify=self._admission.identify,
            runtime=Runtime(),
        )
        self._web = Web(int(self._listener.start().rpartition(":")[2]))

    def get(self, path: str, user: tuple[str, str] | None = None, **headers: str) -> Answer:
        return self._web.ask("GET", path, user=user, **headers)

    def probes(self) -> list[int]:
        """Return the statuses of the probes, in the order of PROBES."""
        return [self.get(f"/health/{name}?").status for name in PROBES]

    def close(self) -> None:
        self._listener.stop()
        self._admission.close()


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[Standby]:
    with closing(Standby(tmp_path)) as it:
        yield it


def page_of(table: ManagerTable, scheme: str = "https") -> str:
    """Return the page of a standby in HTML."""
    return bytes(standby_page(table, scheme).body).decode()


def test_a_browser_gets_a_page_with_a_link_to_the_console_of_the_owner(standby: Standby) -> None:
    for path in ("/", "/console", "/console/"):
        answer = standby.get(path, accept="text/html,*/*;q=0.8")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        assert answer.headers["content-security-policy"] == policy
        links = re.findall(r'href="(.*?)">(.*?)<', answer.content)
        shown = "http://one:9443/console/"
        assert links == [(f"{shown}#/overview?qmgr=QM1", shown)]
        assert "<h1>This is a standby of QM1</h1>" in answer.content
        assert "Its owner is one&lt;1&gt;, process 7" in answer.content
        assert "takes over when that is lost" in answer.content
    # Its scripts and the description of operations are served as ever.
    assert standby.get("/console/main.js", accept="*/*").status == 200
    assert standby.get("/mayfly/v1/docs/", accept="text/html").status == 200


def test_the_page_says_what_is_not_known_and_what_the_owner_does_not_have() -> None:
    table = ManagerTable((), ["QM1"])
    assert "Nobody is known to own QM1 at the moment." in page_of(table)
    table.stand_by("QM1", OwnerPlace())
    assert "Nobody is known to own QM1 at the moment." in page_of(table)
    table.stand_by("QM1", OwnerPlace("one", {"mq": "one:1414"}))
    assert "which does not listen for HTTP." in page_of(table)
    table.stand_by("QM1", OWNER)
    assert 'href="https://one:9443/console/#/overview?qmgr=QM1"' in page_of(table)
    assert "does not have all that the owner has committed yet" in page_of(table)
    table.fail("QM1")
    assert "QM1 is served no more here." in page_of(table)


def test_the_page_names_the_owner_of_each_of_several_queue_managers() -> None:
    table = ManagerTable((), ["QM1", "QM2"])
    table.stand_by("QM1", OWNER, is_following=True)
    table.stand_by("QM2", OwnerPlace("two", {"http": "two:9443"}))
    page = page_of(table)
    assert "<h1>This is a standby of QM1, QM2</h1>" in page
    assert re.findall(r'<h2>(.*?)</h2>|href="(.*?)"', page) == [
        ("QM1", ""),
        ("", "https://one:9443/console/#/overview?qmgr=QM1"),
        ("QM2", ""),
        ("", "https://two:9443/console/#/overview?qmgr=QM2"),
    ]


def test_a_browser_gets_the_console_while_one_queue_manager_is_open(tmp_path: Path) -> None:
    with QueueManager("QM2") as manager, closing(Standby(tmp_path)) as standby:
        standby.table.names = ("QM1", "QM2")
        standby.table.put(manager)
        assert standby.get("/console/", accept="text/html").status == 200
        assert standby.get("/", accept="text/html").headers["location"] == "/console/"
        standby.table.stand_by("QM2", OWNER)
        assert standby.get("/console/", accept="text/html").status == 503


def test_a_program_gets_the_owner_as_json_and_a_probe_the_state_as_well(standby: Standby) -> None:
    answer = standby.get("/mayfly/v1/clock", accept="text/html")
    assert answer.said == (503, SAID, None)
    told = {"queue_manager": "QM1", "role": "standby", "owner": OWNER.name, "address": "one:9443"}
    assert told.items() <= answer.content.items()
    answer = standby.get("/health/ready", accept="text/html")
    assert answer.content == {
        "queue_managers": {"QM1": "standby"},
        "owners": {"QM1": {"owner": OWNER.name, "address": "one:9443"}},
        "gone": [],
    }


def test_a_queue_manager_whose_role_is_not_known_or_has_failed_is_no_standby(
    standby: Standby,
) -> None:
    # The console loads itself again where it is told of a standby, and finds the page of one.
    standby.table.fail("QM1")
    answer = standby.get("/mayfly/v1/qmgr/QM1/queues")
    assert (answer.status, answer.content["role"], answer.content["owner"]) == (503, None, None)
    assert standby.get("/health/ready").content["owners"] == {}
    standby.table.names = ("QM1", "QM2")
    assert standby.get("/mayfly/v1/qmgr/QM2/queues").content["role"] is None


def test_probes_tell_that_it_lives_and_whether_it_could_take_over(standby: Standby) -> None:
    assert standby.probes() == [200, 503, 200]
    standby.table.stand_by("QM1", OWNER, is_following=False)
    assert standby.probes() == [200, 503, 503]
    with QueueManager("QM1") as manager:
        standby.table.put(manager)
        assert standby.probes() == [200, 200, 200]
        # It gives the queue manager up, and has to follow first.
        standby.table.stand_by("QM1", OWNER)
        assert standby.probes() == [200, 503, 503]


def test_a_probe_for_a_replica_wants_each_queue_manager_to_be_served_or_followed(
    standby: Standby,
) -> None:
    standby.table.names = ("QM1", "QM2")
    with QueueManager("QM2") as manager:
        assert standby.probes() == [200, 503, 503]
        standby.table.put(manager)
        assert standby.probes() == [200, 200, 200]
        standby.table.stand_by("QM1", OWNER, is_following=False)
        assert standby.probes() == [200, 200, 503]


def test_a_scrape_by_a_user_of_the_folder_or_by_the_token_sees_that_it_is_up_as_a_standby(
    standby: Standby,
) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    scraped = [standby.get("/metrics", SCRAPER) for _ in range(2)]
    scraped.append(standby.get("/metrics", authorization=f"Bearer {TOKEN}"))
    for answer in scraped:
        assert answer.status == 200
        families = parser.text_string_to_metric_families(answer.content)
        [up] = [sample for family in families for sample in family.samples]
        assert (up.name, up.value) == ("mayfly_queue_manager_up", 1)
        assert up.labels == {"queue_manager": "QM1", "state": "standby"}


def test_a_scrape_with_a_wrong_password_is_refused_and_by_nobody_as_well(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.admin.security.admission._FAILURE_DELAY_MS", 0)
    wrong = (SCRAPER[0], "another password")
    refused = [standby.get("/metrics", user) for user in (None, ("nobody", "a password"), wrong)]
    refused += [standby.get("/metrics", wrong) for _ in range(4)]
    # After five in a row passwords of a user are not looked at for a second.
    refused.append(standby.get("/metrics", SCRAPER))
    assert [each.status for each in refused] == [401] * 8
    assert {each.headers["www-authenticate"][:5] for each in refused} == {"Basic"}
    standby.clock.advance(1_000)
    assert standby.get("/metrics", SCRAPER).status == 200
    # What needs an authority needs an open queue manager.
    assert standby.get("/mayfly/v1/clock", SCRAPER).status == 503


def test_a_page_of_the_fleet_may_read_its_answers_and_no_other(standby: Standby) -> None:
    name = "access-control-allow-origin"
    for path in ("/health/ready", "/mayfly/v1/qmgr/QM1/summary"):
        answer = standby.get(path, origin=NORTH)
        assert (answer.status, answer.headers[name]) == (503, NORTH)
    assert name not in standby.get("/health/ready", origin="https://elsewhere").headers
    assert name not in standby.get("/health/ready").headers

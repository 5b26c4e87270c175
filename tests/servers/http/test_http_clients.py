"""Clients of HTTP as an operator sees them: DISPLAY CONN and CHSTATUS, STOP, MAXINST; monitors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission, Admitted
from mayfly.admin.security.users import users_of
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until
from tests.servers.http.conftest import (
    ADMIN,
    CHANNEL,
    PROGRAMS,
    TOKEN,
    Answer,
    Site,
    Web,
    listening,
)
from tests.servers.http.rest_client import RestClient, error_of

ONE = Admitted(user="anna", is_operator=True)
LOGIN = "/ibmmq/rest/v3/login"
MONITOR = f"""
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('monitor') AUTHADD(CONNECT,DSP)
SET CHLAUTH({CHANNEL}) TYPE(USERMAP) CLNTUSER('monitor') USERSRC(CHANNEL)
"""
#: Users of mqm come in by the channel of administrators, with a password.
OPEN = f"""
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(0)
REFRESH SECURITY
DEFINE QLOCAL(Q1)
DEFINE CHANNEL({CHANNEL}) CHLTYPE(SVRCONN)
DEFINE CHANNEL({PROGRAMS}) CHLTYPE(SVRCONN)
SET CHLAUTH({CHANNEL}) TYPE(BLOCKUSER) USERLIST('nobody')
"""


@contextmanager
def client_of(site: Site, user: tuple[str, str] | None = None) -> Iterator[RestClient]:
    """Have a client that sends all requests over one connection."""
    with site.web.connected() as web:
        yield RestClient(web, user=user)


@pytest.fixture
def limited(queue_manager: QueueManager) -> Iterator[Site]:
    """Two clients at a time come in by each channel."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    admission = AdmitEverybody(replace(ONE, max_instances=2), frozenset({"admin"}))
    yield from listening(queue_manager, admission=admission)


def shown(qm: QueueManager, channel: str = PROGRAMS) -> list[tuple[object, ...]]:
    rows = qm.mqsc(f"DISPLAY CONN(*) ALL WHERE(CHANNEL EQ {channel})").rows
    return [tuple(row[name] for name in ("APPLTAG", "USERID", "CONNAME")) for row in rows]


def instances(qm: QueueManager, channel: str = PROGRAMS) -> list[dict[str, object]]:
    return [dict(row) for row in qm.mqsc(f"DISPLAY CHSTATUS({channel}) ALL").rows]


def test_DISPLAY_CONN_and_CHSTATUS_show_clients(site: Site, queue_manager: QueueManager) -> None:
    with client_of(site) as program:
        assert program.put("Q1", "two teas").status == 201
        assert program.get("Q1").status == 200
        assert shown(queue_manager) == [("HTTP", "", "127.0.0.1")]
        [status] = instances(queue_manager)
        told = {
            "CONNAME": "127.0.0.1",
            "RAPPLTAG": "HTTP",
            "STATUS": "RUNNING",
            "CURSHCNV": 1,
            "MSGS": 2,
        }
        assert {name: status[name] for name in told} == told
        assert int(str(status["BYTSRCVD"])) > 0
        assert int(str(status["BYTSSENT"])) > 0
    wait_until(lambda: not instances(queue_manager))
    assert shown(queue_manager) == []


def test_an_administrator_has_an_instance_without_a_conversation(
    site: Site, queue_manager: QueueManager
) -> None:
    with site.web.connected() as web:
        assert web.ask("GET", "/mayfly/v1/clock").status == 200
        [status] = instances(queue_manager, CHANNEL)
        assert (status["MCAUSER"], status["CURSHCNV"]) == ("admin", 1)
        assert shown(queue_manager, CHANNEL) == []
        metrics = web.ask("GET", "/metrics").content
    labels = f'channel="{CHANNEL}",queue_manager="QM1"'
    assert f"mayfly_client_connections{{{labels}}} 1.0" in metrics


def test_clients_of_several_protocols_are_instances_of_their_own(
    site: Site, queue_manager: QueueManager
) -> None:
    with client_of(site) as one, client_of(site) as other:
        for each in (one, other):
            assert each.put("Q1").status == 201
        assert len(instances(queue_manager)) == 2


@pytest.mark.parametrize(
    "admitted",
    [replace(ONE, max_instances=2), replace(ONE, max_instances_per_client=2)],
    ids=["MAXINST", "MAXINSTC"],
)
def test_one_instance_too_many_is_refused(
    queue_manager: QueueManager, admitted: Admitted, caplog: pytest.LogCaptureFixture
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    for site in listening(queue_manager, admission=AdmitEverybody(admitted, frozenset({"admin"}))):
        with client_of(site) as first:
            with client_of(site) as second:
                for _ in range(2):
                    assert [each.put("Q1").status for each in (first, second)] == [201, 201]
                refused = RestClient(site.web, user=None).put("Q1")
                assert error_of(refused)[::2] == (503, 2537)
                # Administrators come in by another channel, which has room.
                assert site.web.ask("GET", "/mayfly/v1/clock").status == 200
            wait_until(lambda: len(instances(queue_manager)) == 1)
            assert RestClient(site.web, user=None).put("Q1").status == 201
    assert "AMQ9489E" in caplog.text


def test_a_login_counts_as_well(limited: Site, queue_manager: QueueManager) -> None:
    given = {"username": "anna", "password": "x"}
    with limited.web.connected() as one, limited.web.connected() as other:
        for web in (one, other):
            assert web.ask("POST", LOGIN, given, user=None).status == 204
        assert limited.web.ask("POST", LOGIN, given, user=None).status == 503


def test_STOP_CONN_ends_a_client(site: Site, queue_manager: QueueManager) -> None:
    with client_of(site) as program:
        assert program.put("Q1", "stays").status == 201
        [row] = queue_manager.mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'HTTP')").rows
        assert queue_manager.mqsc(f"STOP CONN({row['CONN']})").ok
        wait_until(lambda: not shown(queue_manager))
        with pytest.raises(OSError):
            program.put("Q1")
    assert queue_manager.curdepth("Q1") == 1


def test_STOP_CHANNEL_ends_waits_and_then_the_connections(
    site: Site, queue_manager: QueueManager
) -> None:
    """A quiesced wait is told so, and its connection closed behind the answer."""
    assert queue_manager.mqsc(f"DEFINE CHANNEL({PROGRAMS}) CHLTYPE(SVRCONN)").ok
    answers: list[Answer] = []
    with client_of(site) as waiting, client_of(site) as idle:
        assert idle.put("Q1").status == 201
        assert idle.get("Q1").status == 200
        path = waiting.queue("Q1") + "?wait=1000000"
        thread = threading.Thread(target=lambda: answers.append(waiting.ask("DELETE", path)))
        thread.start()
        # The request is under way: whether it waits yet makes no difference.
        wait_until(lambda: queue_manager.mqsc("DISPLAY QSTATUS(Q1)").rows[0]["IPPROCS"] == 1)
        assert queue_manager.mqsc(f"STOP CHANNEL({PROGRAMS})").ok
        thread.join()
        wait_until(lambda: not shown(queue_manager))
    [answer] = answers
    assert error_of(answer)[::2] == (503, 2202)
    assert answer.headers["connection"] == "close"


def test_a_client_that_goes_while_it_is_let_in_leaves_no_instance(
    limited: Site, queue_manager: QueueManager
) -> None:
    for _ in range(20):
        with limited.web.connected() as web:
            assert web.kept is not None
            web.kept.connect()
            web.kept.sock.sendall(b"GET /mayfly/v1/clock HTTP/1.1\r\nhost: x\r\n\r\n")
    wait_until(lambda: not instances(queue_manager, CHANNEL))
    assert limited.web.ask("GET", "/mayfly/v1/clock").status == 200


# Monitors, and users of several queue managers


@pytest.fixture
def monitored(developed: QueueManager) -> QueueManager:
    """QM1 with the user monitor, as docs/METRICS.md makes it."""
    users_of(developed.engine).add("monitor", "scrape-password")
    assert developed.mqsc(MONITOR).ok
    return developed


def test_a_monitor_reads_metrics_and_changes_nothing(monitored: QueueManager, guarded: Web) -> None:
    monitor = ("monitor", "scrape-password")
    assert guarded.ask("GET", "/metrics", user=monitor).status == 200
    assert guarded.ask("GET", "/metrics", user=("monitor", "")).status == 401
    bearer = guarded.ask("GET", "/metrics", user=None, authorization=f"Bearer {TOKEN}")
    assert bearer.status == 200
    for method, path, body in (
        ("POST", "/mayfly/v1/clock", {"advance_ms": 1}),
        ("POST", "/mayfly/v1/qmgr/QM1/schedule", {"action": "release", "where": {}, "all": True}),
    ):
        assert guarded.ask(method, path, body, user=monitor).status == 403
    take = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('monitor') AUTHRMV(DSP)"
    assert monitored.mqsc(take).ok
    refused = guarded.ask("GET", "/metrics", user=monitor)
    assert refused.status == 403
    assert "DSP" in refused.said[1]


@pytest.fixture
def two(clock: VirtualClock) -> Iterator[Web]:
    """QM1 and QM2; bea is known at QM2 alone, carl at both, with other passwords."""
    with QueueManager("QM1", clock=clock) as one, QueueManager("QM2", clock=clock) as other:
        for manager in (one, other):
            result = manager.mqsc(OPEN)
            assert result.ok, result.text
        first, second = users_of(one.engine), users_of(other.engine)
        first.add(*ADMIN, ["mqm"])
        first.add("carl", "first-password", ["mqm"])
        second.add("carl", "second-password", ["mqm"])
        second.add("bea", "bea-password", ["mqm"])
        second.add("dora", "dora-password")
        look = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('dora') AUTHADD(CONNECT,DSP)"
        assert other.mqsc(look).ok
        admission = Admission([one.engine, other.engine], token=TOKEN)
        try:
            for site in listening(one, other, admission=admission):
                yield site.web
        finally:
            admission.close()


def logged_in(web: Web, user: str, password: str) -> str | None:
    """Return the cookie of a login, None for one that is refused."""
    answer = web.ask("POST", LOGIN, {"username": user, "password": password}, user=None)
    if answer.status != 204:
        assert answer.status == 401
        return None
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_login_is_for_users_of_any_queue_manager_of_the_server(two: Web) -> None:
    cookie = logged_in(two, "bea", "bea-password")
    assert cookie is not None
    there = two.ask("GET", "/mayfly/v1/qmgr/QM2/queues", user=None, cookie=cookie)
    assert there.status == 200
    [told] = two.ask("GET", LOGIN, user=None, cookie=cookie).content["user"]
    assert (told["name"], told["role"]) == ("bea", ["MQWebAdmin"])
    watcher = logged_in(two, "dora", "dora-password")
    assert watcher is not None
    [told] = two.ask("GET", LOGIN, user=None, cookie=watcher).content["user"]
    # Of the queue manager that knows her, not of the first one.
    assert (told["name"], told["role"]) == ("dora", ["MQWebAdminRO"])
    # QM1 knows nobody of this name, and resources of the whole server are for its users.
    for path in ("/mayfly/v1/qmgr/QM1/queues", "/metrics", "/mayfly/v1/clock"):
        assert two.ask("GET", path, user=None, cookie=cookie).status == 401


def test_the_same_name_with_another_password_is_another_user(two: Web) -> None:
    for password, known in (("first-password", "QM1"), ("second-password", "QM2")):
        cookie = logged_in(two, "carl", password)
        assert cookie is not None
        allowed = [
            name
            for name in ("QM1", "QM2")
            if two.ask("GET", f"/mayfly/v1/qmgr/{name}/queues", user=None, cookie=cookie).status
            == 200
        ]
        assert allowed == [known]
    assert logged_in(two, "carl", "guessed") is None
    assert logged_in(two, "nobody", "guessed") is None


@pytest.mark.parametrize("connauth", ["SYSTEM.DEFAULT.AUTHINFO.IDPWOS", " "])
def test_a_user_who_is_only_named_is_refused(
    queue_manager: QueueManager, connauth: str, caplog: pytest.LogCaptureFixture
) -> None:
    """CHCKCLNT(OPTIONAL), or no CONNAUTH, lets a program say who it is; over HTTP all prove it."""
    assert queue_manager.mqsc(f"{OPEN}\nALTER QMGR CONNAUTH('{connauth}')").ok
    loose = "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKCLNT(OPTIONAL)"
    assert queue_manager.mqsc(f"{loose}\nREFRESH SECURITY").ok
    users_of(queue_manager.engine).add(*ADMIN, ["mqm"])
    admission = Admission([queue_manager.engine], token=TOKEN)
    for site in listening(queue_manager, admission=admission):
        asked = [
            site.web.ask("GET", "/mayfly/v1/clock", user=user).status
            for user in (("admin", ""), ("admin", "guessed"), ("unknown", "x"), ADMIN)
        ]
    admission.close()
    assert asked == [401, 401, 401, 200]
    assert "user and password are missing, which HTTP asks for" in caplog.text


def test_passwords_are_those_of_the_queue_manager_in_the_path(two: Web) -> None:
    """Right ones go through, and a guess at one queue manager closes the door of all."""
    for user, name in ((ADMIN, "QM1"), (("bea", "bea-password"), "QM2")):
        path = f"/mayfly/v1/qmgr/{name}/queues"
        assert two.ask("GET", path, user=user).status == 200
    for _ in range(7):
        assert two.ask("GET", "/mayfly/v1/qmgr/QM1/queues", user=("bea", "guess")).status == 401
    # On one machine a source is a user.
    assert two.ask("GET", "/mayfly/v1/qmgr/QM2/queues", user=("bea", "bea-password")).status == 401
    assert two.ask("GET", "/mayfly/v1/qmgr/QM1/queues", user=ADMIN).status == 200

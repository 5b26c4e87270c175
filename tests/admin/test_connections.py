"""DISPLAY CONN and STOP CONN for programs of this process, and what a server tells of clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from mayfly import QueueManager, admin
from mayfly.admin import CHSTATUS, CONN, HANDLE, Filter
from mayfly.channel import ClientConnection, clients_known
from mayfly.client.connection import LocalConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.facts import wait_until

START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_MS)


@pytest.fixture
def qm(clock: VirtualClock) -> Iterator[QueueManager]:
    with QueueManager("QM1", clock=clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        yield manager


def connected(qm: QueueManager, user: str, application: str) -> LocalConnection:
    return LocalConnection(qm.session(user, True, application), qm)


def test_each_connection_is_shown_with_its_unit_of_work_and_its_age(
    qm: QueueManager, clock: VirtualClock
) -> None:
    idle, busy = connected(qm, "anna", "orders.py"), connected(qm, "bert", "billing.py")
    handle = busy.call(ask.Open("Q1", c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)).handle
    assert admin.inquire(qm.engine, (CONN,), "*")[1].values["UOWSTATE"] == 0
    clock.advance(5_000)
    with qm.session() as program:
        program.put("Q1", b"x")
    busy.get(handle, c.MQGMO_SYNCPOINT)
    clock.advance(61_500)
    first, second = admin.inquire(qm.engine, (CONN,), "*")
    assert first.values == {
        "APPLTAG": "orders.py",
        "APPLTYPE": c.MQAT_USER,
        "USERID": "anna",
        "CHANNEL": "",
        "CONNAME": "",
        "HANDLES": 0,
        "UOWSTATE": 0,
        "UOWSTDA": "",
        "UOWSTTI": "",
        "UOWAGE": 0,
    }
    assert (second.values["USERID"], second.values["HANDLES"]) == ("bert", 1)
    assert (second.values["UOWSTATE"], second.values["UOWAGE"]) == (1, 61)
    # 1,700,000,005 s is 22:13:25 UTC.
    assert (second.values["UOWSTDA"], second.values["UOWSTTI"]) == ("2023-11-14", "22.13.25")
    busy.call(ask.Commit())
    assert admin.inquire(qm.engine, (CONN,), second.name)[0].values["UOWSTATE"] == 0
    idle.close()
    busy.close()
    assert admin.inquire(qm.engine, (CONN,), "*") == []


def test_a_unit_of_work_begins_with_its_first_put_or_publication(
    qm: QueueManager, clock: VirtualClock
) -> None:
    qm.mqsc("DEFINE SUB(S) TOPICSTR(t) DEST(Q1)")
    with qm.session(None, True) as session:
        for put in (lambda: session.put("Q1", b"x"), lambda: session.publish("t", b"x")):
            put()
            clock.advance(7_000)
            put()
            [shown] = admin.inquire(qm.engine, (CONN,), "*")
            assert shown.values["UOWAGE"] == 7
            session.backout()


def test_mqsc_shows_connections_and_who_has_a_queue_open(qm: QueueManager) -> None:
    qm.mqsc("DEFINE TOPIC(T1) TOPICSTR(prices)")
    one, two = connected(qm, "anna", "a.py"), connected(qm, "bert", "b.py")
    one.call(ask.Open("Q1", c.MQOO_OUTPUT | c.MQOO_FAIL_IF_QUIESCING))
    two.call(ask.Open("T1", c.MQOO_OUTPUT, kind=c.MQOT_TOPIC))
    two.call(ask.Open("", c.MQOO_INQUIRE, kind=c.MQOT_Q_MGR))
    shown = qm.mqsc("DISPLAY CONN(*) APPLTAG UOWSTATE")
    assert [(row["TYPE"], row["APPLTAG"], row["UOWSTATE"]) for row in shown.rows] == [
        ("CONN", "a.py", "NONE"),
        ("CONN", "b.py", "NONE"),
    ]
    assert "AMQ8276I: Display Connection details.\n   CONN(0000" in shown.text
    [row] = qm.mqsc("DISPLAY CONN(*) TYPE(HANDLE) WHERE(OBJNAME EQ Q1)").rows
    assert (row["TYPE"], row["OBJTYPE"], row["USERID"]) == ("HANDLE", "QUEUE", "anna")
    assert row["OPENOPTS"] == "MQOO_OUTPUT,MQOO_FAIL_IF_QUIESCING"
    number = shown.rows[1]["CONN"]
    handles = qm.mqsc(f"DIS CONN({number}) TYPE(HANDLE)").rows
    assert sorted((row["OBJTYPE"], row["OBJNAME"]) for row in handles) == [
        ("QMGR", ""),
        ("TOPIC", "PRICES"),
    ]
    everything = qm.mqsc("DISPLAY CONN(*) TYPE(ALL)").rows
    assert [row["TYPE"] for row in everything] == ["CONN", "HANDLE", "CONN", "HANDLE", "HANDLE"]
    assert admin.inquire(qm.engine, (CONN,), "*", Filter("HANDLES", "GT", 1))[0].name == number
    assert len(admin.inquire(qm.engine, (HANDLE,), "*")) == 3


def test_stop_conn_backs_out_and_ends_waits(qm: QueueManager) -> None:
    stopped, other = qm.session(None, True, "a.py"), qm.session(None, True, "b.py")
    other.put("Q1", b"stays")
    other.commit()
    stopped.put("Q1", b"goes")
    outcomes: list[int] = []

    def wait() -> None:
        try:
            stopped.get("Q1", msg_id=b"none", wait_ms=-1)
        except MQError as error:
            outcomes.append(error.reason)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: qm.mqsc("DISPLAY QSTATUS(Q1)").ok and thread.is_alive())
    [row] = qm.mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'a.py')").rows
    assert row["UOWSTATE"] == "ACTIVE"
    ended = qm.mqsc(f"STOP CONN({row['CONN']})")
    assert "AMQ8457I: IBM MQ connection stopped." in ended.text
    thread.join()
    assert outcomes == [rc.MQRC_CONNECTION_BROKEN]
    with pytest.raises(MQError) as caught:
        stopped.put("Q1", b"late")
    assert caught.value.reason == rc.MQRC_CONNECTION_BROKEN
    assert f"connection {int(str(row['CONN']), 16)} was stopped" in caught.value.detail
    assert [message.body for message in other.browse("Q1")] == [b"stays"]
    again = qm.mqsc(f"STOP CONN({row['CONN']})\nDISPLAY CONN({row['CONN']})\nSTOP CONN(X)")
    assert again.text.count("AMQ8461E: Connection identifier ") == 3
    stopped.close()
    assert qm.verify().ok


def client(
    number: int,
    instance: int,
    channel: str,
    *,
    address: str = "10.0.0.7",
    queue_manager: str = "QM1",
    sending_manager: str = "",
) -> ClientConnection:
    """Return what a server tells of a conversation."""
    return ClientConnection(
        number,
        instance,
        queue_manager,
        channel,
        user="app",
        address=address,
        application="orders.py",
        has_tls=False,
        connected_ms=START_MS,
        request_count=20,
        heartbeat_ms=30_000,
        sent_bytes=700,
        received_bytes=900,
        sending_manager=sending_manager,
    )


@dataclass
class Server:
    """A server of some clients, which notes those that it is told to end."""

    clients: list[ClientConnection]
    ended: list[int] = field(default_factory=list)

    def connections(self) -> list[ClientConnection]:
        return self.clients

    def end(self, number: int) -> bool:
        instances = {client.instance for client in self.clients if client.number == number}
        self.ended += [client.number for client in self.clients if client.instance in instances]
        self.clients = [client for client in self.clients if client.instance not in instances]
        return bool(instances)

    def quiesce(self, number: int) -> bool:
        return self.end(number)


def test_clients_of_a_server_are_shown_by_channel_and_stopped_with_it(qm: QueueManager) -> None:
    qm.mqsc("DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)\nDEFINE CHANNEL(OTHER) CHLTYPE(SVRCONN)")
    session = qm.session("app", True, "orders.py")
    clients = [
        client(session.number, 1, "APP"),
        client(session.number + 1_000, 1, "APP"),
        client(session.number + 1_001, 2, "APP", address="10.0.0.8"),
        client(session.number + 1_002, 3, "OTHER"),
        client(session.number + 1_003, 4, "APP", queue_manager="QM2"),
        # A message channel is not shown as a client.
        client(session.number + 1_004, 5, "FROM.QM3", sending_manager="QM3"),
    ]
    server = Server(clients)
    with clients_known(qm.engine, server):
        [shown] = qm.mqsc("DISPLAY CONN(*)").rows
        assert (shown["CHANNEL"], shown["CONNAME"]) == ("APP", "10.0.0.7")
        rows = qm.mqsc("DISPLAY CHSTATUS(APP)").rows
        assert [
            (row["CONNAME"], row["STATUS"], row["MCAUSER"], row["CURSHCNV"], row["MSGS"])
            for row in rows
        ] == [("10.0.0.7", "RUNNING", "app", 2, 40), ("10.0.0.8", "RUNNING", "app", 1, 20)]
        assert (rows[0]["CHLTYPE"], rows[0]["CHSTATI"]) == ("SVRCONN", "22.13.20")
        traffic = rows[0]["HBINT"], rows[0]["BYTSSENT"], rows[0]["BYTSRCVD"]
        assert traffic == (30, 700, 900)
        assert len(admin.inquire(qm.engine, (CHSTATUS,), "*")) == 3
        assert qm.mqsc("STOP CHANNEL(APP) MODE(TERMINATE)").ok
        assert server.ended == [clients[0].number, clients[1].number, clients[2].number]
        [stopped] = qm.mqsc("DISPLAY CHSTATUS(APP)").rows
        assert stopped == {"CHANNEL": "APP", "CHLTYPE": "SVRCONN", "STATUS": "STOPPED"}
        assert qm.mqsc("START CHANNEL(APP)").ok
        assert "Channel Status not found" in qm.mqsc("DISPLAY CHSTATUS(APP)").text
        assert qm.mqsc(f"STOP CONN({shown['CONN']})").ok
    assert qm.mqsc("DISPLAY CONN(*)").rows == []


def test_wrong_words_are_refused(qm: QueueManager) -> None:
    for command, said in (
        ("DISPLAY CONN(*) TYPE(FOO)", "it must be CONN or HANDLE or ALL"),
        ("DISPLAY CONN(*) OBJNAME", "OBJNAME"),
        ("DISPLAY CONN", "CONN"),
        ("STOP CONN(*) FOO(1)", "FOO is not a keyword of STOP CONN"),
        ("STOP CHANNEL(X) MODE(NOW)", "it must be QUIESCE or FORCE or TERMINATE"),
    ):
        answer = qm.mqsc(command)
        assert not answer.commands[0].is_valid, command
        assert said in answer.text

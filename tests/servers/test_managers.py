"""A server gives one of its queue managers up, and has it again; clients of others stay."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.client.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect
from mayfly.mqi.errors import MQError
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.listeners import AmqpListener, Host, HttpListener, MqListener
from mayfly.servers.managers import ManagerTable, OwnerPlace
from mayfly.servers.settings import ClientLimits, TlsFiles
from mayfly.servers.status import ServerStatus
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until

pytest.importorskip("proton", reason="python-qpid-proton is built by a C compiler")
pytest.importorskip("uvicorn", reason="HTTP needs mayfly-mq[http]")

from tests.servers.amqp.client import Client as AmqpClient
from tests.servers.http.conftest import Answer, Web

ANY_PORT = ListenAddress("127.0.0.1", 0)
CHANNEL = "DEV.APP.SVRCONN"
PLACE = OwnerPlace("elsewhere", {"mq": "other:1414", "http": "other:9443"})


class Hosted:
    """QM1 and QM2 behind listeners of three protocols."""

    def __init__(self, one: QueueManager, two: QueueManager) -> None:
        self.one, admits = one, AdmitEverybody()
        table = ManagerTable([one, two])
        status = ServerStatus(table)
        listeners = [
            MqListener(table, admits, ANY_PORT, tls=TlsFiles(), limits=ClientLimits()),
            HttpListener(
                table,
                admits,
                ANY_PORT,
                channel=CHANNEL,
                admin_channel=CHANNEL,
                tls=TlsFiles(),
                server_status=status,
                histories={},
            ),
            AmqpListener(table, admits, ANY_PORT, channel=CHANNEL, tls=TlsFiles()),
        ]
        self.admission = Admission([one.engine, two.engine])
        self.host = Host(table, listeners, self.admission, status)
        addresses = self.host.start()
        self.ports = {name: int(text.rpartition(":")[2]) for name, text in addresses.items()}
        self.web = Web(self.ports["http"])

    def client(self, name: str) -> Client:
        endpoint = Endpoint((Address("127.0.0.1", self.ports["mq"]),), CHANNEL, name)
        return Client(connect(endpoint._replace(share_conversations=1), "app"), transacted=True)

    def get(self, name: str, wait_ms: int = 0) -> Answer:
        """Get a message by HTTP."""
        path = f"/ibmmq/rest/v3/messaging/qmgr/{name}/queue/Q1/message?wait={wait_ms}"
        return self.web.ask("DELETE", path, ibm_mq_rest_csrf_token="any")

    def close(self) -> None:
        self.host.stop()
        self.admission.close()


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    with QueueManager("QM1") as one, QueueManager("QM2") as two:
        for manager in (one, two):
            manager.define_queue("Q1")
        it = Hosted(one, two)
        yield it
        it.close()


def reason(client: Client) -> int:
    with pytest.raises(MQError) as caught:
        client.get("Q1")
    return caught.value.reason


def test_clients_of_a_queue_manager_that_gives_way_are_ended_and_those_of_another_stay(
    hosted: Hosted,
) -> None:
    idle, busy, other = hosted.client("QM1"), hosted.client("QM1"), hosted.client("QM2")
    busy.put("Q1", b"not committed")
    by_amqp = AmqpClient(hosted.ports["amqp"], hostname="QM1")
    answers = list[Answer]()
    waiting = threading.Thread(target=lambda: answers.append(hosted.get("QM1", 60_000)))
    waiting.start()
    wait_until(lambda: int(hosted.one.mqsc("DISPLAY QLOCAL(Q1) IPPROCS").rows[0]["IPPROCS"]))
    hosted.host.close_manager(hosted.one, PLACE, 100, "QM1 is given up here")
    assert (reason(idle), reason(busy)) == (2161, 2009)
    by_amqp.until(lambda: by_amqp.connection.remote_condition is not None)
    assert by_amqp.connection.remote_condition.description == "QM1 is given up here"
    waiting.join()
    assert (answers[0].status, answers[0].content["error"][0]["reasonCode"]) == (503, 2202)
    other.put("Q1", b"x")
    other.backout()
    assert hosted.get("QM2").status == 204
    refused = hosted.get("QM1")
    assert refused.status == 503
    assert "its owner is elsewhere at other:9443" in refused.content["error"][0]["message"]
    with pytest.raises(MQError, match=r"2538.*its owner is elsewhere at other:1414"):
        hosted.client("QM1")
    # And when it is the owner again, they come back.
    hosted.host.open_manager(hosted.one)
    with hosted.client("QM1") as again:
        assert again.get("Q1") is None
        shown = hosted.one.mqsc("DISPLAY CONN(*) WHERE(CHANNEL EQ DEV.APP.SVRCONN)").rows
        assert [row["USERID"] for row in shown] == ["app"]
    by_amqp.cut()

"""Users of a served queue manager after a restart: their messages outlive their connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.users import Users
from mayfly.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect
from mayfly.mqi import constants as c
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE
from tests.cli.test_processes import serving
from tests.facts import wait_until

SCRIPT = """
DEFINE QLOCAL(Q1)
DEFINE QLOCAL(REPLIES)
DEFINE QLOCAL(DEAD)
ALTER QMGR DEADQ(DEAD)
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)
SET CHLAUTH(APP) TYPE(BLOCKUSER) USERLIST('nobody')
SET AUTHREC OBJTYPE(QMGR) GROUP('staff') AUTHADD(CONNECT)
SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) GROUP('staff') AUTHADD(PUT)
SET AUTHREC PROFILE(REPLIES) OBJTYPE(QUEUE) GROUP('staff') AUTHADD(PUT)
ALTER QMGR AUTHCHK(RELEASE)
"""
PASSWORD = "secret"
SENDERS = ("anna", "boss", "the-operator")


def put(session: Client) -> bytes:
    """Put a message that expires at once and is to be reported; return the id of a late one."""
    session.put(
        "Q1",
        b"short",
        time_to_live_ms=1,
        persistent=True,
        report=c.MQRO_EXPIRATION,
        reply_to_q="REPLIES",
    )
    return session.put("Q1", b"late", delay_ms=3_600_000, persistent=True)


@pytest.mark.slow
def test_R6_and_D13_a_server_that_was_killed_knows_the_users_of_before(tmp_path: Path) -> None:
    """A user of a group, a member of mqm, and the name under which the token has come in."""
    home, folder = tmp_path, tmp_path / "QM1"
    with QueueManager("QM1", folder) as qm:
        assert qm.mqsc(SCRIPT).ok
    Users(folder).add("anna", PASSWORD, ["staff"])
    Users(folder).add("boss", PASSWORD, ["mqm"])
    here = Endpoint((folder / MQ_SOCKET_FILE,), "", "QM1")
    late = []
    with serving(home, "QM1") as (_process, served):
        host, port = served["mq"].split(":")
        token = Path(served["token_file"]).read_text().strip()
        away = Endpoint((Address(host, int(port)),), "APP", "QM1")
        for user, endpoint in (*((user, away) for user in SENDERS[:2]), (SENDERS[2], here)):
            password = token if endpoint is here else PASSWORD
            with Client(connect(endpoint, user, password)) as session:
                late.append(put(session))
    with serving(home, "QM1") as (_process, served):
        token = Path(served["token_file"]).read_text().strip()
        with Client(connect(here, "watcher", token)) as session:
            for msg_id in late:
                assert session.schedule.release(msg_id).value == "released"
            found = [session.get("Q1", wait_ms=60_000) for _ in SENDERS]
            assert [one and one.body for one in found] == [b"late"] * 3
            assert session.get("Q1") is None
            depths = [0, 0]

            def are_told() -> bool:
                rows = [*session.browse("REPLIES")], [*session.browse("DEAD")]
                depths[:] = map(len, rows)
                return sum(depths) == len(SENDERS)

            wait_until(are_told)
            assert depths == [3, 0]

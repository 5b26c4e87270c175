"""Stories of messages over HTTP: all queue managers of the server at which the user may look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.servers.http.conftest import Web, listening

BOB = ("bob", "bob-password")


@pytest.fixture
def both(queue_manager: QueueManager, clock: VirtualClock) -> Iterator[tuple[Web, str]]:
    """QM1 and QM2 behind HTTP, and the path of a message that went from one to the other."""
    with QueueManager("QM2", clock=clock) as two:
        assert two.mqsc(
            "DEFINE QLOCAL(IN)\nDEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(RCVR) TRPTYPE(LOCAL)\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)"
        ).ok
        assert queue_manager.mqsc(
            "DEFINE QLOCAL(QM2) USAGE(XMITQ)\nDEFINE QREMOTE(ORDERS) RNAME(IN) RQMNAME(QM2)\n"
            "DEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(SDR) TRPTYPE(LOCAL) XMITQ(QM2) CONNAME(QM2)\n"
            "START CHANNEL(QM1.TO.QM2)\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT, DSP)"
        ).ok
        with queue_manager.session() as session:
            msg_id = session.put("ORDERS", b"x", persistent=True)
        clock.advance(0)
        admission = AdmitEverybody(operators=frozenset({"admin"}))
        for site in listening(queue_manager, two, admission=admission):
            yield site.web, f"/mayfly/v1/qmgr/QM1/messages/{msg_id.hex()}/story"


def test_an_operator_is_told_of_all_queue_managers_of_the_server(both: tuple[Web, str]) -> None:
    web, path = both
    told = web.ask("GET", path).content
    assert told["sentence"] == "It is on IN@QM2 and can be got; it never expires."
    assert [(step["queue_manager"], step["what"], step["queue"]) for step in told["steps"]] == [
        ("QM1", "put", "QM2"),
        ("QM1", "transmitted", "QM2"),
        ("QM2", "arrived", "IN"),
        ("QM2", "available", "IN"),
    ]
    assert (told["queue_manager"], told["notes"]) == ("QM1", [])


def test_a_user_is_told_of_the_queue_managers_at_which_the_user_may_look(
    both: tuple[Web, str],
) -> None:
    web, path = both
    told = web.ask("GET", path, user=BOB).content
    assert told["sentence"].startswith("It was sent to another queue manager")
    assert {step["queue_manager"] for step in told["steps"]} == {"QM1"}
    assert told["notes"] == ["QM2 was not asked: that takes authority."]
    assert web.ask("GET", path.replace("qmgr/QM1", "qmgr/QM2"), user=BOB).status == 403

"""Stories of messages over HTTP: all queue managers of the server at which the user may look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.servers.http.conftest import Web, listening
from tests.spec.scene import START_MS

BOB = ("bob", "bob-password")
QM1 = "/mayfly/v1/qmgr/QM1"


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
            msg_id = session.put("ORDERS", b"x", persistent=True, properties={"order": 17})
        clock.advance(0)
        admission = AdmitEverybody(operators=frozenset({"admin"}))
        for site in listening(queue_manager, two, admission=admission):
            yield site.web, f"/mayfly/v1/qmgr/QM1/messages/{msg_id.hex()}/trace"


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


def test_traces_are_found_by_a_property(both: tuple[Web, str]) -> None:
    web, path = both
    told = web.ask("GET", f"{QM1}/traces?property=order&value=17").content
    [trace] = told["traces"]
    assert f"/{trace['id']}/" in path
    assert trace == web.ask("GET", path).content
    assert told["is_cut"] is False
    assert "the ledger keeps no properties" in told["notes"][0]
    more = f"from_ms={START_MS}&before_ms={START_MS + 1}&limit=1"
    assert web.ask("GET", f"{QM1}/traces?property=order&value=17&{more}").content == told
    late = web.ask("GET", f"{QM1}/traces?property=order&value=17&from_ms={START_MS + 1}")
    assert late.content["traces"] == []
    # Bob may not look at QM2, where it is.
    told = web.ask("GET", f"{QM1}/traces?property=order&value=17", user=BOB).content
    assert told["traces"] == []
    assert told["notes"][1] == "QM2 was not asked: that takes authority."


def test_a_search_by_property_takes_browse_on_the_queue_and_is_audited(
    both: tuple[Web, str], queue_manager: QueueManager
) -> None:
    web, _path = both
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with queue_manager.session() as session:
        session.put("Q1", b"x", properties={"order": 18})
        session.put("Q1", b"x", properties={"order": 18}, delay_ms=60_000)
    asked = f"{QM1}/traces?property=order&value=18"
    assert len(web.ask("GET", asked).content["traces"]) == 2
    told = web.ask("GET", asked, user=BOB).content
    assert told["traces"] == []
    assert told["notes"][-1] == "Messages on queues that you may not browse are not among them."
    assert queue_manager.mqsc(
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(BROWSE)"
    ).ok
    assert len(web.ask("GET", asked, user=BOB).content["traces"]) == 1
    changes = web.ask("GET", f"{QM1}/schedule/audit").content["changes"]
    searches = [(each["user"], each["action"], each["message_count"]) for each in changes]
    assert searches == [("bob", "search", 1), ("bob", "search", 0), ("admin", "search", 2)]
    assert {each["detail"] for each in changes} == {"property order=18"}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("value=17", "property"),
        ("property=order", "value"),
        ("property=order&value=17&limit=101", "limit '101' is not a whole number from 1 to 100"),
        ("property=order&value=17&from_ms=-1", "from_ms '-1' is not a whole number"),
        ("property=order&value=17&name=order", "name"),
        ("property=order&value=17&from_ms=5&before_ms=5", "from_ms 5 is not before before_ms 5"),
    ],
)
def test_400_a_wrong_question_is_refused_with_its_parameter(
    both: tuple[Web, str], query: str, said: str
) -> None:
    status, detail, _reason = both[0].ask("GET", f"{QM1}/traces?{query}").said
    assert (status, said in detail) == (400, True), detail

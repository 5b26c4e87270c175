"""Channels, connections and claims as resources: shown, stopped, settled, given back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    XMITQ,
    bodies,
    cut_once,
    put,
    receiving,
    sending,
    through,
)
from tests.connection.serving import AdmitEverybody
from tests.servers.http.conftest import Site, Web, listening

QM1 = "/mayfly/v1/qmgr/QM1"
ONE = f"{QM1}/channels/{CHANNEL}"


# Channels


@pytest.fixture
def two(clock: VirtualClock) -> Iterator[QueueManager]:
    """QM2, which receives."""
    with receiving(clock) as manager:
        yield manager


@pytest.fixture
def one(clock: VirtualClock, two: QueueManager) -> Iterator[QueueManager]:
    """QM1, which sends; the channel is not started."""
    with sending(clock) as manager:
        yield manager


@pytest.fixture
def both(one: QueueManager, two: QueueManager) -> Iterator[Web]:
    """A client of both."""
    admission = AdmitEverybody(operators=frozenset({"admin"}))
    for site in listening(one, two, admission=admission):
        yield site.web


def test_a_channel_is_started_shown_and_stopped(
    both: Web, one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    before = both.ask("GET", ONE).content
    assert (before["type"], before["transmission_queue"], before["is_stopped"]) == (
        "SDR",
        XMITQ,
        False,
    )
    [partner] = before["partners"]
    assert (partner["status"], partner["last_message_ms"]) == ("INACTIVE", None)
    clock.advance(5)
    put(one, b"hello")
    [partner] = both.ask("POST", f"{ONE}/start").content["partners"]
    clock.advance(1_000)
    [partner] = both.ask("GET", ONE).content["partners"]
    assert (partner["status"], partner["message_count"], partner["batch_count"]) == (
        "RUNNING",
        1,
        1,
    )
    sent_ms = partner["last_message_ms"]
    assert clock.now_ms() - 1_000 <= sent_ms <= clock.now_ms()
    assert bodies(two) == [b"hello"]
    [received] = both.ask("GET", f"/mayfly/v1/qmgr/QM2/channels/{CHANNEL}").content["partners"]
    assert (received["partner"], received["message_count"]) == ("QM1", 1)
    assert received["last_message_ms"] == sent_ms
    stopped = both.ask("POST", f"{ONE}/stop", {"mode": "quiesce"}).content
    assert (stopped["is_stopped"], stopped["partners"][0]["status"]) == (True, "STOPPED")
    listed = both.ask("GET", f"{QM1}/channels").content["channels"]
    assert next(each for each in listed if each["name"] == CHANNEL) == stopped


def test_a_batch_in_doubt_is_settled(both: Web, one: QueueManager, two: QueueManager) -> None:
    through(one, cut_once("before confirm"))
    put(one, b"a")
    both.ask("POST", f"{ONE}/start")
    [partner] = both.ask("GET", ONE).content["partners"]
    assert (partner["status"], partner["is_in_doubt"]) == ("RETRYING", True)
    assert partner["failure"] != ""
    assert both.ask("POST", f"{ONE}/stop", {"mode": "force"}).status == 200
    status, _said, reason = both.ask("POST", f"{ONE}/reset", {"sequence": 7}).said
    assert (status, reason) == (409, rc.MQRC_CHANNEL_CONFIG_ERROR)
    [partner] = both.ask("POST", f"{ONE}/resolve", {"action": "backout"}).content["partners"]
    assert partner["is_in_doubt"] is False
    assert one.counts(XMITQ).live == 1
    [partner] = both.ask("POST", f"{ONE}/reset", {"sequence": 7}).content["partners"]
    assert partner["sequence"] == 6
    both.ask("POST", f"{ONE}/start")
    assert bodies(two) == [b"a"]


def test_a_sender_that_is_stopped_as_inactive_is_not_stopped_until_a_start(both: Web) -> None:
    assert both.ask("POST", f"{ONE}/stop", {"inactive": True}).status == 200
    shown = both.ask("GET", ONE).content
    assert (shown["is_stopped"], shown["partners"][0]["status"]) == (False, "INACTIVE")


def test_a_channel_that_is_not_there_or_wrong_is_refused(both: Web) -> None:
    assert both.ask("GET", f"{QM1}/channels/NONE").said == (404, "'NONE' is no channel", None)
    assert both.ask("POST", f"{QM1}/channels/NONE/start").status == 404
    assert both.ask("GET", f"{QM1}/channels/QM1.*").status == 404
    status, said, _reason = both.ask("POST", f"{ONE}/stop", {"mode": "now"}).said
    assert (status, said) == (400, "mode 'now' is not force or quiesce")
    assert both.ask("POST", f"{ONE}/reset", {"sequence": 0}).status == 400


# Connections


def test_a_connection_is_shown_and_stopped(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    since_ms = clock.now_ms()
    with queue_manager.session(user="anna", transacted=True, program="till") as session:
        clock.advance(500)
        session.open("Q1", c.MQOO_OUTPUT)
        session.put("Q1", b"x")
        [found] = web.ask("GET", f"{QM1}/connections").content["connections"]
        assert found == {
            "id": found["id"],
            "user": "anna",
            "application": "till",
            "channel": "",
            "address": "",
            "has_tls": False,
            "connected_ms": since_ms,
            "unit_of_work_ms": since_ms + 500,
            "handles": [{"kind": "QUEUE", "name": "Q1", "options": ["MQOO_OUTPUT"]}],
        }
        path = f"{QM1}/connections/{found['id']}/stop"
        assert web.ask("POST", path).content == {"id": found["id"]}
        assert web.ask("GET", f"{QM1}/connections").content == {"connections": []}
        assert queue_manager.curdepth("Q1") == 0
        with pytest.raises(MQError, match="stopped by an operator"):
            session.put("Q1", b"x")
        assert web.ask("POST", path).status == 404


# Claims


def test_claimed_messages_are_shown_and_given_back(
    site: Site, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    web = site.web
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"x")
    epoch = queue_manager.claims.attach("reader", "Q1").epoch
    queue_manager.claims.claim("reader", epoch, 0, ClaimLimit(2, 2**20))
    shown = {
        "consumer": "reader",
        "queue": "Q1",
        "epoch": epoch,
        "closed": 0,
        "last": 1,
        "message_count": 2,
        "oldest_claimed_ms": clock.now_ms(),
    }
    assert web.ask("GET", f"{QM1}/claims").content == {"claims": [shown]}
    assert web.ask("GET", f"{QM1}/claims/reader").content == shown
    path = f"{QM1}/claims/reader/release"
    tried = web.ask("POST", path, {"dry_run": True}).content
    assert tried == {"consumer": "reader", "message_count": 2, "dry_run": True}
    assert queue_manager.counts("Q1").live == 1
    assert web.ask("POST", path, {}).content == tried | {"dry_run": False}
    assert queue_manager.counts("Q1").live == 3
    assert web.ask("POST", path, {}).content["message_count"] == 0
    assert web.ask("POST", f"{QM1}/claims/nobody/release", {}).said == (
        404,
        "no consumer is called 'nobody'",
        None,
    )

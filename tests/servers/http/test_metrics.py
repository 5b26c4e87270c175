"""``/metrics``: each figure is that of the queue manager at the moment of the scrape."""

from __future__ import annotations

import base64
import http.client
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mayfly import QueueManager
from mayfly.channel import clients_known
from mayfly.client.connection import LocalConnection
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.engine.queues import BOUNDS_MS, Lateness
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.runtime import SystemClock
from mayfly.servers.http.resources import metrics
from mayfly.servers.http.resources.metrics import OTHERS, metrics_text
from mayfly.servers.status import ServerStatus, ServingState
from mayfly.store.followers import NO_LOG, FollowerFile
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.connection.serving import serving
from tests.servers.http.conftest import ADMIN, APP, Web

_LABELS = ("consumer", "queue", "state", "outcome", "le", "channel", "partner", "status")
Samples = dict[tuple[str, tuple[str, ...]], float]


def scraped(web: Web) -> Samples:
    """Return the values of a scrape by name and labels other than the queue manager."""
    status, text = asked(web, ADMIN)
    assert status == 200
    return samples_of(text)


def samples_of(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["queue_manager"] == "QM1"
            labels = tuple(sample.labels[name] for name in _LABELS if name in sample.labels)
            assert len(labels) == len(sample.labels) - 1
            assert (sample.name, labels) not in found
            found[sample.name, labels] = sample.value
    return found


def asked(web: Web, user: tuple[str, str] | None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    headers = {}
    if user is not None:
        headers["authorization"] = f"Basic {base64.b64encode(':'.join(user).encode()).decode()}"
    try:
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_E8_messages_are_counted_by_where_they_stand(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as one, queue_manager.session(transacted=True) as unit:
        one.put("Q1", b"delayed", delay_ms=9_000)
        one.put("Q1", b"short", time_to_live_ms=1_000)
        one.put("Q1", b"to be got", priority=9)
        one.put("Q1", b"stays")
        clock.advance(1_000)
        unit.put("Q1", b"not committed")
        got = unit.get("Q1")
        assert got is not None
        assert got.body == b"to be got"
        found = scraped(web)
        states = {
            labels[1]: value
            for (name, labels), value in found.items()
            if name == "mayfly_queue_messages" and labels[0] == "Q1"
        }
        assert states == {
            "staged": 1,
            "live": 1,
            "uncommitted": 1,
            "locked": 1,
            "expired_present": 1,
        }
        assert found["mayfly_queue_depth", ("Q1",)] == queue_manager.curdepth("Q1") == 3
        # The expired one is still there, and so the oldest.
        assert found["mayfly_queue_oldest_message_age_seconds", ("Q1",)] == 1
        assert found["mayfly_queue_oldest_message_age_seconds", ("Q2",)] == 0
        assert found["mayfly_next_delivery_seconds", ()] == 8
        assert found["mayfly_delay_processor_up", ()] == 1


class Listed(dict[int, object]):
    """Hidden messages that count how many of them were listed, and how many keys were asked for."""

    looked_at = asked_for = 0

    def __contains__(self, key: object) -> bool:
        self.asked_for += 1
        return super().__contains__(key)

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.looked_at += 1
            yield key


def test_E15_a_scrape_lists_hidden_messages_once_however_many_queues_there_are(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    names = [f"H{number}" for number in range(20)]
    assert queue_manager.mqsc("".join(f"DEFINE QLOCAL({name})\n" for name in names)).ok
    hidden = queue_manager.engine.hidden = Listed()
    with queue_manager.session() as session, queue_manager.session(transacted=True) as unit:
        for name in names:
            for persistent in (False, True):
                for _ in range(2):
                    session.put(name, b"x", time_to_live_ms=1_000, persistent=persistent)
            for _ in range(3):
                assert unit.get(name) is not None
        clock.advance(1_000)
        assert len(hidden) == 60
        hidden.looked_at = 0
        found = scraped(web)
        assert hidden.looked_at == 60
        for name in names:
            assert found["mayfly_queue_messages", (name, "locked")] == 3
            assert found["mayfly_queue_messages", (name, "expired_present")] == 1
            assert found["mayfly_queue_messages", (name, "live")] == 0
        unit.backout()


def test_the_oldest_message_is_searched_for_in_each_priority_that_is_there(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    hidden = queue_manager.engine.hidden = Listed()
    with queue_manager.session() as session:
        puts = ((4, False), (0, True), (9, True), (0, False), (9, False))
        for number, (priority, persistent) in enumerate(puts):
            session.put("Q1", bytes([number]), priority=priority, persistent=persistent)
            clock.advance(1_000)
    for oldest_age in (5, 4, 3):
        hidden.asked_for = 0
        found = scraped(web)
        assert found["mayfly_queue_oldest_message_age_seconds", ("Q1",)] == oldest_age
        # The first row of each side is looked at, where the side has one from there on.
        assert hidden.asked_for <= 6
        with queue_manager.session() as session:
            oldest = min(session.browse("Q1"), key=lambda message: message.body)
            assert session.get("Q1", msg_id=oldest.msg_id) is not None


def test_ended_lives_are_counted_by_outcome(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"x", persistent=True)
        session.put("Q1", b"x", persistent=True, time_to_live_ms=100)
        session.get("Q1")
        session.get("Q1")
        clock.advance(100)
        session.get("Q1")
        assert session.get("Q1") is None
    found = scraped(web)
    assert found["mayfly_messages_put_total", ("Q1",)] == 4
    assert found["mayfly_lives_ended_total", ("Q1", "got")] == 3
    assert found["mayfly_lives_ended_total", ("Q1", "expired")] == 1
    assert found["mayfly_ledger_last_position", ()] >= 4
    assert found["mayfly_committed_units_total", ()] >= found["mayfly_transactions_total", ()] > 0
    assert ("mayfly_ledger_reader_position", ()) not in found


def test_E10_a_deadline_that_is_met_late_is_counted_by_how_late(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x", time_to_live_ms=1_000)
        clock.advance(1_025)
        assert session.get("Q1") is None
        found = scraped(web)
        assert found["mayfly_expiry_lateness_seconds_count", ()] == 1
        assert found["mayfly_expiry_lateness_seconds_sum", ()] == 0.025
        assert found["mayfly_expiry_lateness_seconds_bucket", ("0.01",)] == 0
        assert found["mayfly_expiry_lateness_seconds_bucket", ("0.025",)] == 1
        assert found["mayfly_expiry_lateness_seconds_bucket", ("+Inf",)] == 1


def test_D28_a_release_that_was_hindered_is_counted_by_how_late(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    staging = "SYSTEM.DDELAY.LOCAL.QUEUE"
    with queue_manager.session() as session:
        for persistent in (False, True):
            session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        session.put("Q1", b"on time", delay_ms=500)
        clock.advance(500)
        assert queue_manager.mqsc(f"ALTER QLOCAL({staging}) GET(DISABLED)").ok
        clock.advance(2_500)
        hindered = scraped(web)
        assert hindered["mayfly_delay_processor_up", ()] == 0
        assert hindered["mayfly_next_delivery_seconds", ()] == -2
        assert queue_manager.mqsc(f"ALTER QLOCAL({staging}) GET(ENABLED)").ok
        clock.advance(0)
        found = scraped(web)
    assert found["mayfly_delay_processor_up", ()] == 1
    assert ("mayfly_next_delivery_seconds", ()) not in found
    assert found["mayfly_release_lateness_seconds_count", ()] == 3
    assert found["mayfly_release_lateness_seconds_sum", ()] == 4
    assert found["mayfly_queue_release_lateness_seconds_count", ("Q1",)] == 3
    assert found["mayfly_queue_release_lateness_seconds_sum", ("Q1",)] == 4
    assert found["mayfly_release_lateness_seconds_bucket", ("0.001",)] == 1
    assert found["mayfly_release_lateness_seconds_bucket", ("1.0",)] == 1
    assert found["mayfly_release_lateness_seconds_bucket", ("5.0",)] == 3


@pytest.mark.parametrize("place", range(len(BOUNDS_MS)))
def test_lateness_counts_a_moment_within_its_bound(place: int) -> None:
    bound_ms, now_ms = BOUNDS_MS[place], 10**12
    for late_ms, expected in ((bound_ms, place), (bound_ms + 1, place + 1)):
        lateness = Lateness()
        lateness.note([now_ms - late_ms], now_ms)
        found = lateness.counts()
        assert (found.counts.index(1), sum(found.counts), found.sum_ms) == (expected, 1, late_ms)


def test_dynamic_queues_and_those_beyond_the_limit_are_added_up(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels without end would fill the memory of whoever scrapes."""
    connection_names = [f"A{number}" for number in range(3)]
    for name in connection_names:
        assert queue_manager.mqsc(f"DEFINE QLOCAL({name})").ok
    with queue_manager.session() as session:
        for name in connection_names:
            session.put(name, b"x")
        connection = LocalConnection(queue_manager.session(), queue_manager)
        dynamic = connection.call(ask.Open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_OUTPUT))
        connection.put(dynamic.handle, b"y", Descriptor())
        monkeypatch.setattr(metrics, "MAX_QUEUES", 2)
        server_status = ServerStatus([queue_manager])
        found = samples_of(metrics_text({"QM1": queue_manager}, server_status).decode())
    depth = {key[1][0]: value for key, value in found.items() if key[0] == "mayfly_queue_depth"}
    assert depth == {"A0": 1, "A1": 1, OTHERS: 2}
    assert found["mayfly_messages_put_total", (OTHERS,)] == 2
    assert ("mayfly_queue_messages", (OTHERS, "live")) not in found


def test_metrics_are_for_those_who_are_let_in(guarded: Web) -> None:
    assert asked(guarded, None)[0] == 401
    assert asked(guarded, ("admin", "wrong"))[0] == 401
    assert asked(guarded, APP)[0] == 401
    assert asked(guarded, ADMIN)[0] == 200


def test_a_queue_manager_that_has_stopped_is_down_and_has_no_figures(tmp_path: Path) -> None:
    manager = QueueManager("QM1", tmp_path)
    server_status = ServerStatus([manager])
    server_status.state = ServingState.READY
    text = metrics_text({"QM1": manager}, server_status)
    assert samples_of(text.decode())["mayfly_queue_manager_up", ("ready",)] == 1
    manager.close()
    text = metrics_text({"QM1": manager}, server_status)
    assert samples_of(text.decode()) == {("mayfly_queue_manager_up", ("failed",)): 0}


def test_E15_claimed_messages_are_locked_and_counted_by_consumer(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"")
    claims = queue_manager.claims
    epoch = claims.attach("billing", "Q1").epoch
    claims.claim("billing", epoch, 0, ClaimLimit(2, 2**30))
    clock.advance(5_000)
    found = scraped(web)
    assert found["mayfly_queue_messages", ("Q1", "locked")] == 2
    assert found["mayfly_queue_depth", ("Q1",)] == 1
    assert found["mayfly_claimed_messages", ("billing", "Q1")] == 2
    assert found["mayfly_oldest_claim_age_seconds", ("billing", "Q1")] == 5
    claims.end("billing", epoch, 1)
    found = scraped(web)
    assert found["mayfly_claimed_messages", ("billing", "Q1")] == 0
    assert found["mayfly_oldest_claim_age_seconds", ("billing", "Q1")] == 0


def channels_up(web: Web) -> dict[tuple[str, ...], float]:
    """Return the values of channels by name, partner and status."""
    return {
        labels: value
        for (name, labels), value in scraped(web).items()
        if name == "mayfly_channel_up"
    }


def test_a_channel_that_retries_or_has_stopped_is_down(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Its partner is not there; an operator stops it, and one for clients."""
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(X) USAGE(XMITQ)\n"
        "DEFINE CHANNEL(A.B) CHLTYPE(SDR) CONNAME(NOWHERE) XMITQ(X) SHORTRTY(1) LONGRTY(0)\n"
        "DEFINE CHANNEL(B.A) CHLTYPE(RCVR)\nDEFINE CHANNEL(APPS) CHLTYPE(SVRCONN)"
    ).ok
    assert channels_up(web) == {("A.B", "", "INACTIVE"): 1}
    queue_manager.channels.start("A.B")
    assert channels_up(web) == {("A.B", "", "RETRYING"): 0}
    clock.advance(60_000)
    # After all retries.
    assert channels_up(web) == {("A.B", "", "STOPPED"): 0}
    for name in ("APPS", "B.A"):
        assert queue_manager.mqsc(f"STOP CHANNEL({name})").ok
    stopped = {(name, "", "STOPPED"): 0.0 for name in ("A.B", "APPS", "B.A")}
    assert channels_up(web) == stopped
    assert queue_manager.mqsc("DELETE CHANNEL(APPS)").ok
    del stopped["APPS", "", "STOPPED"]
    assert channels_up(web) == stopped


def test_channels_that_are_down_come_first_and_their_number_has_a_bound(
    web: Web, queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_CHANNELS", 2)
    for name in "ABC":
        assert queue_manager.mqsc(
            f"DEFINE QLOCAL(X{name}) USAGE(XMITQ)\n"
            f"DEFINE CHANNEL({name}) CHLTYPE(SDR) CONNAME(NOWHERE) XMITQ(X{name})"
        ).ok
    queue_manager.channels.start("C")
    assert channels_up(web) == {("C", "", "RETRYING"): 0, ("A", "", "INACTIVE"): 1}


def test_clients_are_counted_by_channel(web: Web, queue_manager: QueueManager) -> None:
    with (
        serving(queue_manager) as served,
        clients_known(queue_manager.engine, served.server),
    ):
        first, second = served.connect(), served.connect()
        assert scraped(web)["mayfly_client_connections", ("CH",)] == 2
        second.close()
        assert scraped(web)["mayfly_client_connections", ("CH",)] == 1
        first.close()
        assert ("mayfly_client_connections", ("CH",)) not in scraped(web)


def test_a_backup_that_follows_says_what_a_loss_would_cost(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path) as qm:
        file = FollowerFile(tmp_path, "/backups/QM1")
        file.write(NO_LOG, SystemClock().now_ms() - 90_000)
        status = ServerStatus([qm])
        labels = '{queue_manager="QM1",target="/backups/QM1"}'
        found = metrics_text({"QM1": qm}, status).decode()
        assert f"mayfly_backup_running{labels} 1.0" in found
        [loss] = re.findall(rf"mayfly_backup_loss_seconds{re.escape(labels)} (.*)", found)
        assert float(loss) >= 90
        file.close()
        assert f"mayfly_backup_running{labels} 0.0" in metrics_text({"QM1": qm}, status).decode()

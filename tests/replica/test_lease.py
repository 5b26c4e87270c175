"""The lease: an owner that cannot renew it closes, and a stopped one acknowledges nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import ConnectionBroken, LostAnswer
from mayfly.runtime import Runtime
from mayfly.servers.status import ServerStatus
from mayfly.store.replica.log import Owned, PostgresLog, StandbyNote
from tests.facts import wait_until
from tests.postgres import Postgres
from tests.replica.test_gate import caught_up, check_nothing_is_missing
from tests.replica.test_replica import bodies, opened, put
from tests.store.kills import lines_in, started

#: An owner of it that a slow machine keeps from renewing is a stopped one.
LEASE_MS = 1_000
#: No machine is so slow that an owner does not renew it.
KEPT_LEASE_MS = 30_000


@pytest.fixture
def paused(server: Postgres) -> Iterator[Postgres]:
    """A server that goes on when the test is over, whatever it has done."""
    yield server
    server.resume()


def test_a_database_that_answers_nothing_is_waited_for_no_longer_than_the_lease(
    paused: Postgres, url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    qm = opened(url, folder, LEASE_MS)
    put(qm, b"first")
    with qm.session() as session:
        paused.pause()
        with pytest.raises((LostAnswer, ConnectionBroken), match=r"not answered for|stopped"):
            session.put("Q1", b"second", persistent=True)
        wait_until(lambda: qm.is_stopped)
        with pytest.raises(ConnectionBroken, match="queue manager QM1 has stopped"):
            session.put("Q1", b"not even this", persistent=False)
    qm.close()
    paused.resume()
    # PostgreSQL may have read the append, and carries it out now, or never.
    with opened(url, folder) as again:
        assert bodies(again) in ([b"first"], [b"first", b"second"])
        put(again, b"third")
        assert again.verify().ok
    assert caught_up(url, tmp_path / "other") == (folder / "mayfly.db").read_bytes()


def test_an_owner_that_cannot_renew_its_lease_fails_those_that_wait(
    paused: Postgres, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    qm = opened(url, tmp_path / "QM1", LEASE_MS)
    with qm.session() as session:
        paused.pause()
        with pytest.raises(ConnectionBroken, match="QM1 has stopped: its lease is over"):
            session.get("Q1", wait_ms=60_000_000)
    assert "queue manager QM1 stops: its lease is over" in caplog.text
    qm.close()


def test_an_owner_that_was_stopped_past_its_lease_acknowledges_nothing(
    url: str, tmp_path: Path
) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    [old] = started(("tests.replica.units", url, tmp_path / "old", journals, "0", 2 * LEASE_MS))
    try:
        wait_until(lambda: lines_in(journals) >= 3)
        os.kill(old.pid, signal.SIGSTOP)
        # The opening waits for the end of the lease.
        with QueueManager("QM1", tmp_path / "new", replica=url, replica_lease_ms=30_000) as qm:
            os.kill(old.pid, signal.SIGCONT)
            assert old.wait() != 0
            put(qm, b"still the owner")
    finally:
        old.kill()
        old.communicate()
    # Whatever the old owner has acknowledged is in the log.
    caught_up(url, tmp_path / "third")
    check_nothing_is_missing(tmp_path / "third", journals)


def test_an_owner_that_renews_its_lease_is_not_replaced(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "QM1", KEPT_LEASE_MS) as qm:
        with pytest.raises(Owned, match=r"QM1 is owned by .*, process \d+, whose lease runs for"):
            opened(url, tmp_path / "other")
        put(qm, b"still the owner")
    # A queue manager that was closed has given its lease up.
    with opened(url, tmp_path / "other") as other:
        assert bodies(other) == [b"still the owner"]


def test_metrics_show_the_epoch_of_an_owner_and_how_far_its_standby_is_behind(
    url: str, tmp_path: Path
) -> None:
    pytest.importorskip("prometheus_client")
    from mayfly.servers.http.resources.metrics import metrics_text

    with opened(url, tmp_path / "QM1", KEPT_LEASE_MS) as qm:
        log = PostgresLog(url, "QM1", Runtime())
        standing = log.standing()
        assert standing is not None
        assert standing.last > 1
        note = StandbyNote("two", 1, standing.now_ms - 60_000, {"http": "two:9443"})
        log.follow(standing.instance, note)
        log.follow(standing.instance, note._replace(name="three", number=standing.last))
        replica = qm.engine.replica
        assert replica is not None
        wait_until(lambda: len(replica.standbys()) == 2)
        three, two = replica.standbys()
        assert (three.lag_rows, three.lag_ms, two.lag_rows) == (0, 0, standing.last - 1)
        assert two.addresses == note.addresses
        assert two.seen_ms < 60_000 <= two.lag_ms
        text = metrics_text({"QM1": qm}, ServerStatus([qm])).decode()
        of = '{queue_manager="QM1"'
        for line in (
            f"mayfly_replica_epoch{of}}} 2.0",
            f"mayfly_replica_lease_age_seconds{of}}} ",
            f"mayfly_replica_lease_seconds{of}}} {KEPT_LEASE_MS / 1000}",
            f"mayfly_replica_standbys{of}}} 2.0",
            f'mayfly_replica_standby_lag_rows{of},standby="two"}} {standing.last - 1}.0',
            f'mayfly_replica_standby_lag_seconds{of},standby="two"}} ',
            f'mayfly_replica_standby_lag_seconds{of},standby="three"}} 0.0',
        ):
            assert line in text
        log.close()


def test_a_lease_of_less_than_a_second_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="replica_lease_ms: 999 is less than 1000"):
        opened(url, tmp_path / "QM1", 999)

"""The transaction service by itself, with sessions of JMS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager, jms
from mayfly.listener import Status, Transaction, TransactionRolledBack, TransactionService
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.listener.scene import backout_count, put


@pytest.fixture
def context(manager: QueueManager) -> Iterator[jms.JMSContext]:
    """A transacted context."""
    with jms.ConnectionFactory(manager).create_context(jms.SESSION_TRANSACTED) as opened:
        yield opened


@pytest.fixture
def service(manager: QueueManager) -> Iterator[TransactionService]:
    """A service with the timeout of 120 s."""
    with TransactionService(manager) as opened:
        yield opened


def refused(transaction: Transaction, why: str) -> None:
    """Commit a transaction that is rolled back instead."""
    with pytest.raises(TransactionRolledBack, match=why) as caught:
        transaction.commit()
    assert caught.value.reason == rc.MQRC_BACKED_OUT == 2003
    assert transaction.status is Status.ROLLED_BACK


@pytest.mark.parametrize("elapsed_ms", [0, 119_999])
def test_before_its_timeout_a_transaction_commits(
    service: TransactionService,
    context: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
    elapsed_ms: int,
) -> None:
    transaction = service.begin(context)
    context.create_producer().send(context.create_queue("Q1"), "x")
    clock.advance(elapsed_ms)
    assert transaction.status is Status.ACTIVE
    transaction.commit()
    assert (transaction.status, manager.curdepth("Q1")) == (Status.COMMITTED, 1)


@pytest.mark.parametrize("elapsed_ms", [120_000, 120_001])
def test_from_its_timeout_on_a_commit_is_refused_and_rolled_back(
    service: TransactionService,
    context: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
    elapsed_ms: int,
) -> None:
    put(manager, "got")
    transaction = service.begin(context)
    consumer = context.create_consumer(context.create_queue("Q1"))
    assert consumer.receive_no_wait() is not None
    context.create_producer().send(context.create_queue("Q2"), "sent")
    clock.advance(elapsed_ms)
    assert (transaction.status, manager.counts("Q1").locked) == (Status.MARKED_ROLLBACK, 1)
    refused(transaction, "total transaction lifetime timeout of 120000 ms is over")
    assert (manager.curdepth("Q1"), manager.curdepth("Q2"), backout_count(manager)) == (1, 0, 1)
    with pytest.raises(jms.IllegalStateException, match="that is rolled back"):
        transaction.commit()


def test_each_timeout_is_told_once_at_its_moment(
    manager: QueueManager, context: jms.JMSContext, clock: VirtualClock
) -> None:
    told: list[tuple[int, int]] = []
    start_ms = clock.now_ms()

    def tell(transaction: Transaction) -> None:
        told.append((transaction.begun_ms - start_ms, clock.now_ms() - start_ms))

    with TransactionService(manager, total_tran_lifetime_timeout_s=2, on_timeout=tell) as service:
        late = service.begin(context)
        clock.advance(500)
        service.begin(context)
        service.begin(context).rollback()
        clock.advance(10_000)
        assert late.status is Status.MARKED_ROLLBACK
    assert told == [(0, 2_000), (500, 2_500)]


def test_inactivity_runs_from_the_last_use(
    manager: QueueManager, context: jms.JMSContext, clock: VirtualClock
) -> None:
    with TransactionService(manager, inactivity_timeout_s=60) as service:
        transaction = service.begin(context)
        clock.advance(59_999)
        transaction.use()
        clock.advance(59_999)
        assert transaction.status is Status.ACTIVE
        # The total lifetime ends at 120 s whatever is done.
        transaction.use()
        clock.advance(2)
        refused(transaction, "total transaction lifetime timeout")
        idle = service.begin(context)
        clock.advance(60_000)
        idle.use()
        refused(idle, "inactivity timeout of 60000 ms is over")


def test_no_timeout_never_comes(
    manager: QueueManager, context: jms.JMSContext, clock: VirtualClock
) -> None:
    with TransactionService(manager, total_tran_lifetime_timeout_s=0) as service:
        transaction = service.begin(context)
        clock.advance(10 * 365 * 86_400_000)
        transaction.commit()
    assert transaction.status is Status.COMMITTED


def test_set_rollback_only(service: TransactionService, context: jms.JMSContext) -> None:
    transaction = service.begin(context)
    transaction.set_rollback_only()
    assert transaction.status is Status.MARKED_ROLLBACK
    refused(transaction, "the application has set it")


def test_a_commit_that_ends_in_a_rollback_says_so(
    service: TransactionService, context: jms.JMSContext, manager: QueueManager
) -> None:
    assert manager.mqsc("ALTER QLOCAL(POISONED) BOQNAME(NOWHERE)").ok
    put(manager, "x", name="POISONED")
    consumer = context.create_consumer(context.create_queue("POISONED"))
    for _ in range(2):
        transaction = service.begin(context)
        assert consumer.receive_no_wait() is not None
        transaction.rollback()
    transaction = service.begin(context)
    with pytest.raises(jms.JMSRuntimeException):
        consumer.receive_no_wait()
    refused(transaction, "MQRC_BACKOUT_THRESHOLD_REACHED")
    assert manager.curdepth("POISONED") == 1


def test_a_commit_that_fails_leaves_the_outcome_unknown(
    service: TransactionService, manager: QueueManager
) -> None:
    connection = jms.ConnectionFactory(manager).create_connection()
    session = connection.create_session(jms.SESSION_TRANSACTED)
    transaction = service.begin(session)
    session.close()
    with pytest.raises(jms.IllegalStateException):
        transaction.commit()
    assert transaction.status is Status.UNKNOWN
    connection.close()


def test_a_service_that_is_closed_times_nothing(
    manager: QueueManager, context: jms.JMSContext, clock: VirtualClock
) -> None:
    service = TransactionService(manager)
    transaction = service.begin(context)
    service.close()
    service.close()
    clock.advance(119_999)
    transaction.commit()


def test_a_negative_timeout_is_refused(manager: QueueManager) -> None:
    with pytest.raises(ValueError, match="total_tran_lifetime_timeout_s -1 is negative"):
        TransactionService(manager, total_tran_lifetime_timeout_s=-1)
    with pytest.raises(ValueError, match="inactivity_timeout_s -2 is negative"):
        TransactionService(manager, inactivity_timeout_s=-2)

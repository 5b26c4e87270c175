"""Keys order messages as gets take them; sequences and ids are never given twice."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.store.keys import (
    LARGEST_QUEUE_NUMBER,
    SEQUENCE_BITS,
    STAGING_NUMBER,
    STAGING_ORDER_BITS,
    delayed_id,
    due_ms_of,
    generated_id,
    id_hash,
    key_of_generated_id,
    may_hold_key,
    next_priority,
    optional_id_hash,
    order_key,
    queue_number_of,
    queue_range,
    staging_key,
    start_of_ids,
)
from mayfly.testing import VirtualClock
from tests.store.scene import opened

numbers = st.integers(1, LARGEST_QUEUE_NUMBER)
priorities = st.integers(0, 9)
sequences = st.integers(0, 2**SEQUENCE_BITS - 1)
dues = st.integers(0, 2**42 - 1)
orders = st.integers(0, 2**STAGING_ORDER_BITS - 1)


@given(numbers, priorities, sequences)
def test_G1_the_next_priority_begins_behind_the_last_key_of_one(
    number: int, priority: int, sequence: int
) -> None:
    following = None if priority == 0 else order_key(number, priority - 1, 0)
    assert next_priority(order_key(number, priority, sequence)) == following


@given(dues, orders)
def test_a_staged_message_has_no_next_priority(due_ms: int, order: int) -> None:
    assert next_priority(staging_key(due_ms, order)) is None


@given(numbers, priorities, sequences, priorities, sequences)
def test_G1_higher_priority_first_then_sequence(
    number: int, one: int, first: int, other: int, second: int
) -> None:
    assert (order_key(number, one, first) < order_key(number, other, second)) == (
        (-one, first) < (-other, second)
    )


@given(numbers, priorities, sequences)
def test_a_key_lies_in_the_range_of_its_queue_and_64_bits(
    number: int, priority: int, sequence: int
) -> None:
    key = order_key(number, priority, sequence)
    low, high = queue_range(number)
    assert low <= key < high <= 2**63
    assert queue_number_of(key) == number


@given(dues, orders, dues, orders)
def test_staged_messages_are_ordered_by_delivery_time_then_order(
    due_ms: int, order: int, other_ms: int, other: int
) -> None:
    key = staging_key(due_ms, order)
    low, high = queue_range(STAGING_NUMBER)
    assert low <= key < high == 0
    assert (due_ms_of(key), queue_number_of(key)) == (due_ms, STAGING_NUMBER)
    assert (key < staging_key(other_ms, other)) == ((due_ms, order) < (other_ms, other))


def test_ranges_of_queues_touch_and_do_not_overlap() -> None:
    ranges = [queue_range(number) for number in range(1, LARGEST_QUEUE_NUMBER + 1)]
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ranges))
    assert ranges[-1][1] == 2**63


def test_a_full_millisecond_of_staging_passes_on_to_the_next() -> None:
    clock = VirtualClock()
    with QueueManager("QM1", clock=clock) as manager, manager.session() as session:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        due_ms = clock.now_ms() + 100
        manager.engine.staging.order._last[due_ms] = 2**STAGING_ORDER_BITS - 2
        for body in (b"last place", b"next", b"next but one"):
            session.put("Q1", body, delay_ms=100)
        clock.advance(100)
        assert [message.body for message in session.browse("Q1")] == [b"last place"]
        clock.advance(1)
        assert [m.body for m in session.browse("Q1")] == [b"last place", b"next", b"next but one"]


@pytest.mark.parametrize("instance", [0, 5, 2**15, 2**16 - 1])
@pytest.mark.parametrize("number", [1, 2**15 - 1])
@pytest.mark.parametrize("sequence", [1, 2**44 - 1])
@pytest.mark.parametrize("priority", [0, 9])
def test_a_generated_id_tells_the_key_of_its_message(
    instance: int, number: int, sequence: int, priority: int
) -> None:
    key = order_key(number, priority, sequence)
    msg_id = generated_id(start_of_ids("QM1", instance), key)
    place = (9 - priority << 44) + sequence
    assert msg_id == b"AMQ QM1         " + ((instance << 48) + place).to_bytes(8, "big")
    assert key_of_generated_id(msg_id, number) == key
    assert may_hold_key(id_hash(msg_id), key)
    assert not may_hold_key(id_hash(msg_id), key ^ 1)


def test_an_id_that_was_not_generated_for_an_ordinary_queue_tells_no_key_of_one() -> None:
    assert key_of_generated_id(delayed_id("QM1", staging_key(5, 0), 1, 1), 1) is None
    assert key_of_generated_id(generated_id(start_of_ids("QM1", 1), 1), STAGING_NUMBER) is None
    for msg_id in (b"x" * 24, bytes(24), b""):
        assert key_of_generated_id(msg_id, 1) is None


def test_generated_ids_have_24_bytes_and_are_unique_over_reopening(tmp_path: Path) -> None:
    seen: set[bytes] = set()
    for _ in range(3):
        with QueueManager("A.LONG.NAME.OF.A.QUEUE.MANAGER", tmp_path, VirtualClock()) as manager:
            sequence = manager.engine.store.sequence
            start = start_of_ids(manager.name, sequence.instance)
            new = [generated_id(start, sequence.next()) for _ in range(1_000)]
            assert {len(msg_id) for msg_id in new} == {24}
            assert all(msg_id.startswith(b"AMQ A.LONG.NAME.") for msg_id in new)
            assert not seen & set(new)
            seen.update(new)
            assert len({id_hash(msg_id) for msg_id in new}) == len(new)
    assert len(seen) == 3_000


def test_index_values_of_foreign_ids_fit_64_bits_and_zeros_are_not_indexed() -> None:
    for msg_id in (b"x" * 24, b"AMQ " + b"\xff" * 20, bytes(24)):
        assert -(2**63) <= id_hash(msg_id) < 2**63
    assert optional_id_hash(bytes(24)) is None
    assert optional_id_hash(b"x" * 24) == id_hash(b"x" * 24)


@pytest.mark.slow
def test_a_sequence_is_never_given_twice_over_kill_9(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from tests.store.scene import opened
store = opened(Path({str(tmp_path)!r}))
print(*(store.sequence.next() for _ in range(1000)), flush=True)
sys.stdin.read()
"""
    given_out: list[int] = []
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        given_out += [int(word) for word in process.stdout.readline().split()]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    store = opened(tmp_path)
    given_out.append(store.sequence.next())
    store.close()
    assert len(given_out) == 3_001
    assert given_out == sorted(set(given_out))

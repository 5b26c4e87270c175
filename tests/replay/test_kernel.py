"""The kernel: against a model that walks through time, and compiled against plain."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from mayfly.pipeline.errors import ReplayError
from mayfly.pipeline.replay import kernel
from mayfly.pipeline.replay.run import EXPIRED, GOT, replay_in_process
from mayfly.pipeline.replay.settings import FIFO, Settings, WhatIf
from tests.examples import examples
from tests.replay import walk
from tests.replay.walk import End, Message, ends_of, trace_of

PUT_MS = 1_700_000_000_000


def _message(seq: int, get_ms: int | None = None, **fields: Any) -> Message:
    message = {"queue": "Q1", "seq": seq, "put_ms": PUT_MS, "delay_ms": None, "life_ms": None}
    message |= {"correl_id": b"", "get_ms": get_ms, "priority": None, "recorded": None}
    return message | fields


def _ends(messages: list[Message], what_if: Settings) -> list[End]:
    return list(ends_of(replay_in_process(trace_of(messages), what_if)).values())


@given(walk.messages, walk.what_ifs)
def test_gets_that_wait_take_what_a_walk_through_time_says(
    messages: list[Message], what_if: WhatIf
) -> None:
    """Windows, waits, keys and priorities; the model shares no line with the kernel."""
    outcomes = replay_in_process(trace_of(messages), what_if)
    assert ends_of(outcomes) == walk.walked(messages, what_if)


@given(walk.messages, walk.consumer_what_ifs)
def test_consumers_take_what_a_walk_through_time_says(
    messages: list[Message], what_if: WhatIf
) -> None:
    """Several consumers, each busy with a message for its service time."""
    outcomes = replay_in_process(trace_of(messages), what_if)
    assert ends_of(outcomes) == walk.walked(messages, what_if)


@pytest.mark.slow
@pytest.mark.long
@given(walk.messages, walk.what_ifs | walk.consumer_what_ifs)
@hypothesis_settings(max_examples=examples(100))
def test_numba_and_python_give_the_same_table(messages: list[Message], what_if: WhatIf) -> None:
    """One source run two ways: equal in every column, ties included."""
    trace = trace_of(messages)
    plain = replay_in_process(trace, what_if, with_kernel=kernel.PLAIN)
    assert replay_in_process(trace, what_if, with_kernel=kernel.compiled()) == plain


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "what_if",
    [
        WhatIf(),
        WhatIf(receive_timeout_ms=500, delay_ms=1_000),
        WhatIf(consumers=7, service_ms=33, cap_ms=4_000),
        WhatIf(consumers=2, service_ms=0, sequence=FIFO),
    ],
)
def test_numba_and_python_agree_on_many_messages_with_many_ties(what_if: WhatIf) -> None:
    """20,000 messages within ten seconds on three queues, the rows shuffled for one of the two."""
    chance = random.Random(2026)
    messages = [
        _message(
            seq,
            chance.choice([None, PUT_MS + chance.randrange(10_000)]),
            queue=f"Q{chance.randrange(3)}",
            put_ms=PUT_MS + chance.randrange(0, 10_000, 10),
            delay_ms=chance.choice([None, 0, 10, 1_000]),
            life_ms=chance.choice([None, 1_000, 5_000]),
            correl_id=b"%d" % chance.randrange(50),
            priority=chance.randrange(10),
        )
        for seq in range(20_000)
    ]
    in_order = trace_of(messages)
    chance.shuffle(messages)
    plain = replay_in_process(in_order, what_if, with_kernel=kernel.PLAIN)
    assert replay_in_process(trace_of(messages), what_if, with_kernel=kernel.compiled()) == plain
    assert set(plain["outcome"].to_pylist()) >= {GOT, EXPIRED}


@pytest.mark.parametrize(
    ("timeout_ms", "end"),
    [
        (4_999, ("left", None, None)),
        (5_000, (GOT, PUT_MS + 5_000, 5_000)),
        (5_001, (GOT, PUT_MS + 5_000, 5_000)),
    ],
)
def test_a_message_at_the_very_end_of_a_wait_wins(timeout_ms: int, end: End) -> None:
    """A get at the put waits for a message that is delivered 5 s later: T-1, T, T+1."""
    what_if = WhatIf(delay_ms=5_000, receive_timeout_ms=timeout_ms)
    assert _ends([_message(1, PUT_MS)], what_if) == [end]


@pytest.mark.parametrize(
    ("service_ms", "second"),
    [
        (999, (GOT, PUT_MS + 999, 0)),
        (1_000, (EXPIRED, PUT_MS + 1_000, None)),
        (1_001, (EXPIRED, PUT_MS + 1_000, None)),
    ],
)
def test_E4_a_consumer_that_is_busy_until_the_deadline_comes_too_late(
    service_ms: int, second: End
) -> None:
    """Two messages of 1 s, one consumer: the second is got only if the first takes less."""
    messages = [_message(1, life_ms=1_000), _message(2, life_ms=1_000)]
    one = WhatIf(consumers=1, service_ms=service_ms)
    assert _ends(messages, one) == [(GOT, PUT_MS, 0), second]
    both = [(GOT, PUT_MS, 0), (GOT, PUT_MS, 0)]
    assert _ends(messages, WhatIf(consumers=2, service_ms=service_ms)) == both


def test_priority_goes_before_delivery_order_and_fifo_does_not() -> None:
    """MSGDLVSQ: of three that wait, the get takes 9 first; FIFO takes the oldest."""
    now_ms = PUT_MS + 10
    messages = [
        _message(seq, now_ms if seq == 1 else None, priority=priority)
        for seq, priority in ((1, 4), (2, None), (3, 9))
    ]
    by_priority = replay_in_process(trace_of(messages), WhatIf())
    assert by_priority["outcome"].to_pylist() == ["left", "left", GOT]
    fifo = replay_in_process(trace_of(messages), WhatIf(sequence=FIFO))
    assert fifo["outcome"].to_pylist() == [GOT, "left", "left"]


def test_D31_ttl_from_release_saves_what_the_delay_would_have_used_up() -> None:
    """Delay 5 s, life 4 s: refused from the put; from the release it lives until 9 s."""
    message = _message(1, PUT_MS + 8_999, delay_ms=5_000, life_ms=4_000)
    assert _ends([message], WhatIf()) == [("refused", PUT_MS, None)]
    assert _ends([message], WhatIf(from_release=True)) == [(GOT, PUT_MS + 8_999, 0)]
    late = message | {"get_ms": PUT_MS + 9_000}
    assert _ends([late], WhatIf(from_release=True)) == [(EXPIRED, PUT_MS + 9_000, None)]


def test_settings_by_queue_leave_the_others_as_they_were() -> None:
    """A named queue has its own, EVERY_OTHER the rest; without it the rest is as it was."""
    messages = [_message(seq, PUT_MS + 1_000, queue=f"Q{seq}", life_ms=5_000) for seq in (1, 2, 3)]
    capped = {"Q2": WhatIf(cap_ms=1_000)}
    assert [end[0] for end in _ends(messages, capped)] == [GOT, EXPIRED, GOT]
    others = {"Q2": WhatIf(), "*": WhatIf(cap_ms=1_000)}
    assert [end[0] for end in _ends(messages, others)] == [EXPIRED, GOT, EXPIRED]


@pytest.mark.parametrize(
    ("what_if", "text"),
    [
        ({"Q9": WhatIf()}, "no message of the trace is on queue 'Q9'; it has Q1"),
        (WhatIf(delay_ms=-1), r"delay_ms of queue '\*' is -1, not a number from 0 to"),
        ({"Q1": WhatIf(cap_ms=0)}, "cap_ms of queue 'Q1' is 0, not a number from 1 to"),
        (WhatIf(consumers=0), "consumers of queue .* is 0, not a number from 1 to 100000"),
        (WhatIf(service_ms=5), "service_ms of queue .* needs consumers"),
        (WhatIf(consumers=1, receive_timeout_ms=0), "its consumers never wait"),
        (WhatIf(sequence="lifo"), "is 'lifo', not priority or fifo"),
    ],
)
def test_settings_that_make_no_sense_are_named(what_if: Settings, text: str) -> None:
    """The queue, the setting and the value."""
    with pytest.raises(ReplayError, match=text):
        replay_in_process(trace_of([_message(1)]), what_if)


def test_an_empty_trace_has_no_outcomes() -> None:
    """No queue, no row."""
    assert len(replay_in_process(trace_of([]))) == 0


@pytest.mark.slow
def test_the_compiled_kernel_keeps_no_reference_to_what_it_was_given() -> None:
    """It runs without reference counts: what is handed in can be freed again."""
    column = kernel.blank(4)
    nobody = np.arange(0)
    messages = kernel.ReplayedMessages(column, column, column, nobody, 1, column, column, column)
    gets = kernel.Gets(column, column, nobody, 0, column, column, column)
    compiled = kernel.compiled()
    compiled.serve_gets(messages, gets, kernel.Found(column, column))
    held = _references(column)
    for _ in range(100):
        compiled.serve_gets(messages, gets, kernel.Found(column, column))
    assert _references(column) == held


def _references(value: Any) -> int:
    import sys

    return sys.getrefcount(value)


def test_rows_of_equal_time_in_other_order_give_the_same_table() -> None:
    """Sorted by (time, seq), whatever order they come in and however many queues there are."""
    messages = [_message(seq, PUT_MS, queue=f"Q{seq % 4}") for seq in range(40)]
    expected = replay_in_process(trace_of(messages))
    random.Random(1).shuffle(messages)
    assert replay_in_process(trace_of(messages)) == expected
    halves = pa.concat_tables([trace_of(messages[:20]), trace_of(messages[20:])])
    assert replay_in_process(halves) == expected

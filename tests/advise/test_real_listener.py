"""The simulation against a real listener port on a virtual clock."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mayfly import QueueManager
from mayfly.jms import Message, TextMessage
from mayfly.listener import ListenerPort, Statistics
from mayfly.pipeline.advise.settings import ListenSettings
from mayfly.pipeline.advise.simulate import simulate
from mayfly.testing import VirtualClock
from tests.advise import made
from tests.listener.scene import started, until


def _is_waiting(done: int, now: Statistics) -> bool:
    """So many messages are done with, and the session receives again."""
    return now.committed >= done and now.receiving == 1


@pytest.mark.slow
def test_L5_L9_L11_one_session_does_what_a_real_port_does() -> None:
    """Forty messages, work of up to 30 s, lifetime 60 s and timeout 55 s: to the last rollback."""
    setting = ListenSettings(55_000, 60)
    chance = np.random.default_rng(5)
    arrive_ms = np.cumsum(chance.integers(1, 90_000, 40)).tolist()
    work_ms = chance.integers(0, 30_000, 40)
    clock = VirtualClock(made.START_MS)
    with QueueManager("QM1", clock=clock) as manager, manager.session() as session:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        for at_ms, number in zip(arrive_ms, range(40), strict=True):
            session.put("Q1", str(number).encode(), delay_ms=at_ms, format_name="MQSTR")
        clock.advance(arrive_ms[0])

        def work(message: Message) -> None:
            assert isinstance(message, TextMessage)
            assert message.text is not None
            clock.advance(int(work_ms[int(message.text)]))

        port = ListenerPort(
            manager,
            destination="Q1",
            on_message=work,
            properties={"NON.ASF.RECEIVE.TIMEOUT": str(setting.receive_timeout_ms)},
            total_tran_lifetime_timeout_s=setting.total_tran_lifetime_timeout_s,
        )
        with started(port):
            for number, at_ms in enumerate(arrive_ms, 1):
                while (left_ms := made.START_MS + at_ms - clock.now_ms()) > 0:
                    # No further than to the end of a receive: the thread begins the next then.
                    due_ms = manager.engine.due_work.next_due_ms()
                    to_due_ms = left_ms if due_ms is None else max(due_ms - clock.now_ms(), 1)
                    clock.advance(min(left_ms, to_due_ms))
                    until(port, lambda now: now.receiving == 1)
                until(port, partial(_is_waiting, number))
            real = port.statistics()
    found = simulate(made.arrivals_at(arrive_ms), setting, work_ms)
    assert (real.committed, real.rolled_back) == (found.committed, found.needless)
    assert (real.delivered, real.idle_rollbacks) == (found.taken, found.idle_rollbacks)
    assert found.needless >= 3
    assert found.idle_rollbacks > 5

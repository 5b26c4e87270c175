"""The simulation against the model of a port that a real one is held to, for any sessions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mayfly.pipeline.advise.settings import ListenSettings
from mayfly.pipeline.advise.simulate import simulate
from tests.advise import made
from tests.listener.port_model import BOTHRESH, Counts, Letter, PortModel, Terms, Unit

#: Tenths of a second around a lifetime of one, so that all ties come up.
_GAPS_MS = st.integers(0, 12).map(lambda n: n * 100)
_WORK_MS = st.integers(1, 12).map(lambda n: n * 100)


def listened(arrive_ms: list[int], work_ms: list[int], terms: Terms) -> Counts:
    """Return what a port does until all is done; within a millisecond work ends first."""
    model = PortModel(terms, arrive_ms[0])
    model.start()
    for number, at_ms in enumerate(arrive_ms):
        model.put(Letter(str(number), 0, is_suitable=True, available_ms=at_ms, expire_ms=None))
    ends_ms: dict[Unit, int] = {}
    while True:
        for unit in model.works:
            assert unit.letter is not None
            ends_ms.setdefault(unit, model.now_ms + work_ms[int(unit.letter.label)])
        events = [ends_ms[unit] for unit in model.works]
        next_ms = model.next_event_ms()
        model.now_ms = min(events if next_ms is None else [*events, next_ms])
        ended = [one for one in model.works if ends_ms[one] == model.now_ms]
        # Of two that end at once a port ends one first, the simulation both.
        assume(len(ended) <= 1)
        for unit in ended:
            model.finish(unit, "good")
        if not model.letters:
            return model.counts
        model.pass_to(model.now_ms)


@pytest.mark.slow
@given(
    st.lists(st.tuples(_GAPS_MS, _WORK_MS), min_size=1, max_size=12),
    st.sampled_from([1, 99, 100, 300, 700, 1_000, 1_300]),
    st.sampled_from([0, 1]),
    st.integers(1, 3),
)
def test_L3_to_L11_are_what_the_model_of_a_port_says(
    messages: list[tuple[int, int]], timeout_ms: int, lifetime_s: int, sessions: int
) -> None:
    """Each count; work that takes no time is left out, as its end and its begin would be one."""
    gaps_ms, work_ms = (list(column) for column in zip(*messages, strict=True))
    arrive_ms = (np.cumsum(gaps_ms) - gaps_ms[0]).tolist()
    terms = Terms(sessions, timeout_ms, lifetime_s * 1_000, None, has_selector=False)
    expected = listened(arrive_ms, work_ms, terms)
    setting = ListenSettings(timeout_ms, lifetime_s, sessions, BOTHRESH)
    found = simulate(made.arrivals_at(arrive_ms), setting, np.array(work_ms))
    assert found.taken == expected.delivered
    assert found.committed == expected.committed
    assert found.needless + found.overlong == expected.rolled_back
    assert (found.requeued, found.left) == (expected.requeued, 0)
    assert found.idle_rollbacks == expected.idle_rollbacks

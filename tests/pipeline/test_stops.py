"""The end of a pipeline is asked for by signals; one request may be two of them."""

from __future__ import annotations

import os
import signal

from mayfly.pipeline.supervise import Stops


class At(Stops):
    """Asked at given times."""

    time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms


def test_timeout_signals_its_child_twice_and_means_one_request() -> None:
    stops = At()
    with stops.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        stops.time_ms = 499
        os.kill(os.getpid(), signal.SIGTERM)
        assert stops.stop_request_count == 1
        stops.time_ms = 998
        os.kill(os.getpid(), signal.SIGINT)
        assert stops.stop_request_count == 1
        stops.time_ms = 1_498
        os.kill(os.getpid(), signal.SIGINT)
        assert stops.stop_request_count == 2

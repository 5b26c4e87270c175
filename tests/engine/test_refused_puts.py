"""A put that is refused leaves nothing of its message in memory."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from mayfly import MQError, QueueManager
from mayfly.testing import VirtualClock


class _Body(bytes):
    """Bytes that say when nobody has them any more."""

    gone: list[bool]

    def __del__(self) -> None:
        self.gone.append(True)


@pytest.mark.parametrize("delay", [{}, {"delay_ms": 1_000}], ids=["at once", "delayed"])
@pytest.mark.parametrize("refuses", ["MAXMSGL(3)", "MAXDEPTH(0)", "PUT(DISABLED)"])
def test_a_refused_put_leaves_no_message_until_python_looks_for_circles(
    refuses: str, delay: dict[str, Any]
) -> None:
    """A server looks seldom: long messages that are refused would add up."""
    gone: list[bool] = []
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        assert qm.mqsc(f"DEFINE QLOCAL(Q1) {refuses}").ok
        gc.disable()
        try:
            body = _Body(b"long")
            body.gone = gone
            with pytest.raises(MQError):
                session.put("Q1", body, **delay)
            del body
            assert gone
        finally:
            gc.enable()

"""docs/CHANNELS.md says what is so."""

from __future__ import annotations

from mayfly import QueueManager
from mayfly.channel.hierarchy import REQUESTS, RETRY_QUEUE
from mayfly.engine.api.transit import PUBLICATIONS
from mayfly.testing import VirtualClock
from tests.pages import part

DOCS = part("CHANNELS.md", "Publish/subscribe between queue managers")


def test_the_commands_connect_a_child_with_its_parent() -> None:
    first, second = DOCS.split("```\n")[1].splitlines()
    clock = VirtualClock()
    with QueueManager("TOP", clock=clock) as top, QueueManager("CHILD", clock=clock) as child:
        assert top.mqsc(first).ok
        assert child.mqsc(second).ok
        row = child.mqsc("DISPLAY PUBSUB").rows[1]
        assert (row["QMNAME"], row["TYPE"]) == ("TOP", "PARENT")
        for name in (PUBLICATIONS, RETRY_QUEUE, REQUESTS):
            assert f"`{name}`" in DOCS
            assert top.curdepth(name) == 0

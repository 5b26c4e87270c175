"""A durable commit that the disk delays holds up nothing else of its connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs import requests as ask
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS
from tests.connection.serving import serving
from tests.facts import wait_until
from tests.store.scene import Disk, forget_checksum_vfs

DURABLE = Descriptor(persistence=c.MQPER_PERSISTENT)


class SlowDisk(Disk):
    """A disk whose syncs, once it is slow, end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def check(self, call: str, name: str) -> None:
        super().check(call, name)
        if self.is_slow and call == "sync":
            self.has_begun.set()
            assert self.may_end.wait(JOIN_SECONDS)


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    """A disk under the databases that the test opens."""
    forget_checksum_vfs()
    disk = SlowDisk()
    yield disk
    disk.may_end.set()
    disk.unregister()
    forget_checksum_vfs()


def test_a_slow_commit_holds_up_no_cancel_and_no_put_of_its_connection(
    disk: SlowDisk, tmp_path: Path
) -> None:
    puts: list[object] = []
    gets: list[object] = []
    with QueueManager("QM1", tmp_path) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2) DEFPSIST(NO)").ok
        with serving(manager) as served, closing(served.connect()) as connection:
            durable = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
            other = connection.call(ask.Open("Q2", BOTH_WAYS)).handle
            waiting = connection.begin(ask.GetAny([other], c.MQGMO_WAIT), gets.append)
            disk.is_slow = True
            connection.begin(ask.Put.of(durable, b"durable", DURABLE), puts.append)
            assert disk.has_begun.wait(JOIN_SECONDS)
            # Each is answered while the sync of the put goes on, not behind it.
            assert waiting.cancel()
            connection.call(ask.Put.of(other, b"x", Descriptor()))
            assert connection.call(ask.Get(other)).message.data == b"x"
            assert not puts, "the put has ended before they were answered"
            assert manager.curdepth("Q1") == 1
            disk.may_end.set()
            wait_until(lambda: puts)
            assert not gets
            assert connection.call(ask.Get(durable)).message.data == b"durable"

"""The reader of a file has no lock of SQLite's own: one thread at a time reads, by ours."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.store.scene import NUMBER, new_row, opened, put_unit


def test_a_read_waits_for_the_lock_that_another_thread_holds(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store, new_row(store))])
    begun, counts = threading.Event(), list[int]()

    def read() -> None:
        begun.set()
        counts.append(store.persistent.count(NUMBER << 48, (NUMBER + 1) << 48))

    with store.engine_lock:
        thread = threading.Thread(target=read)
        thread.start()
        begun.wait()
        thread.join(0.05)
        assert thread.is_alive()
        assert counts == []
    thread.join()
    assert counts == [1]
    store.close()

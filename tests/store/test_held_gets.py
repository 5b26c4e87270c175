"""The file of gets that are not settled: what a killed process leaves, and what is not believed."""

from __future__ import annotations

import logging
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly.store.held_gets import HELD_GETS_FILE, HeldGet, HeldGets

ONE, OTHER = "1" * 32, "2" * 32
ENTRY_BYTES = 16


def noted(folder: Path, *gets: tuple[int, int], instance_id: str = ONE) -> HeldGets:
    """Return the notes of a store in which these messages are held."""
    held = HeldGets(folder, instance_id)
    for key, backout_count in gets:
        held.note(key, backout_count)
    return held


def left(folder: Path, instance_id: str = ONE) -> list[HeldGet]:
    """Return what the next opening finds."""
    return sorted(HeldGets(folder, instance_id).leftovers())


def test_what_is_noted_is_found_without_a_close(tmp_path: Path) -> None:
    gets = [(-(2**63), 0), (-5, 7), (1, 2**31 - 1), (2**63 - 1, 3)]
    held = noted(tmp_path, *gets)
    assert left(tmp_path) == gets
    held.settle([1, 99])
    assert left(tmp_path) == [gets[0], gets[1], gets[3]]
    held.close()


def test_it_is_private_and_gone_after_a_close_in_order(tmp_path: Path) -> None:
    file = tmp_path / HELD_GETS_FILE
    held = noted(tmp_path, (1, 0))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    held.settle([1])
    held.close()
    assert not file.exists()
    # What is still held at the close has not been backed out.
    noted(tmp_path, (1, 0)).close()
    assert left(tmp_path) == [(1, 0)]


def test_a_file_of_another_store_says_nothing(tmp_path: Path) -> None:
    noted(tmp_path, (1, 0))
    assert (left(tmp_path, OTHER), left(tmp_path)) == ([], [(1, 0)])


@pytest.mark.parametrize("byte_count", range(ENTRY_BYTES))
def test_an_entry_that_is_not_whole_is_not_believed(tmp_path: Path, byte_count: int) -> None:
    """A kill may come between any two bytes that are written, and that are cleared."""
    noted(tmp_path, (0x0102030405060708, 0x01020304))
    file = tmp_path / HELD_GETS_FILE
    entry = file.read_bytes().strip(b"\0")
    assert len(entry) == ENTRY_BYTES
    for cut in (entry[:byte_count], bytes(8) + entry[8:], entry[:8] + bytes(8)):
        file.write_bytes(cut.ljust(2 * ENTRY_BYTES, b"\0"))
        assert left(tmp_path) == []


@pytest.mark.parametrize("data", [b"", b"\xff" * 15, b"\xff" * 4_099, os.urandom(4_096)])
def test_any_bytes_are_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / HELD_GETS_FILE).write_bytes(data)
    assert left(tmp_path) == []


@contextmanager
def no_room_beyond(size_bytes: int) -> Iterator[None]:
    """Let no file become longer than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_without_room_stops_the_notes_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mayfly.store"), no_room_beyond(65_536):
        held = noted(tmp_path, *((key, 0) for key in range(1, 4_100)))
    assert len(caplog.records) == 1
    assert len(left(tmp_path)) == 4_096
    held.settle(range(1, 4_100))
    assert left(tmp_path) == []
    held.note(5, 1)
    assert left(tmp_path) == [(5, 1)]
    held.close()

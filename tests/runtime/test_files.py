"""The files beside SQLite's are lengthened by room that they really have."""

from pathlib import Path

import pytest

from mayfly.runtime import Files


@pytest.mark.parametrize("count_bytes", [1, 4_096, 1_024 * 4_120])
def test_a_file_is_lengthened_by_zeros_that_take_room(tmp_path: Path, count_bytes: int) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"what was there")
    begin = file.stat().st_size
    open_files = len([*Path("/proc/self/fd").iterdir()])
    assert Files().append_zeros(file, count_bytes) == begin + count_bytes
    assert file.read_bytes() == b"what was there" + bytes(count_bytes)
    assert file.stat().st_blocks * 512 >= begin + count_bytes
    assert len([*Path("/proc/self/fd").iterdir()]) == open_files


def test_a_file_that_is_not_there_cannot_be_lengthened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Files().append_zeros(tmp_path / "log", 1)

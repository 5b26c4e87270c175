"""A file of the persistent messages that open units of work have got, which survives a kill.

The mapped file beside the database has one entry for each of them. It is never synced: the kernel
keeps its pages when the process is killed, so that the next opening can count those gets as backed
out (G8). After a power cut entries may be missing or old. An entry has the backout count at the
get; an old entry no longer agrees with the message, and is ignored.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from mayfly.runtime.files import FILE_MODE

HELD_GETS_FILE = "mayfly.db-gets"
#: Key, backout count, and a mark, which is written last: an entry without it is incomplete or free.
#: No entry crosses a sector of the disk.
_ENTRY = struct.Struct("=qii")
_ENTRY_BYTES: Final = 16
#: The file grows by this many bytes, the entries of 4,096 messages.
_STEP_BYTES = 65_536
_LOG = logging.getLogger("mayfly.store")


class HeldGet(NamedTuple):
    """A message that an open unit of work had got: its key, and its backout count at the get."""

    key: int
    backout_count: int


class HeldGets:
    """A file that records which persistent messages open units of work have got.

    Guarded by the queue manager's lock once it is open.
    """

    def __init__(self, folder: Path | None, instance_id: str) -> None:
        """Write no file before the first get; without a folder, none at all.

        ``instance_id`` is that of the store: the entries of a file copied from another store are
        ignored.
        """
        self._file = None if folder is None else folder / HELD_GETS_FILE
        #: Never 0, nor is it when combined with a count.
        self._mark = zlib.crc32(instance_id.encode()) % 2**31 - 2**31
        #: Count and mark of a message that was never backed out, as a half of an entry.
        fresh = int.from_bytes(struct.pack("=ii", 0, self._mark), sys.byteorder, signed=True)
        #: Any: compiled code would make a new integer of it for each get.
        self._fresh: Any = fresh
        self._descriptor = -1
        self._map: mmap.mmap | None = None
        self._area = memoryview(bytearray())
        #: The same in units of 8 bytes: half an entry.
        self._halves = self._area.cast("q")
        #: Offset of the entry of each message by key, and offsets of free entries.
        self._places: dict[int, int] = {}
        self._free: list[int] = []

    def leftovers(self) -> list[HeldGet]:
        """Return the messages that a killed process held; call it before the first get.

        The list is empty without the file, and, with a warning in the log, if the file cannot be
        read.
        """
        if self._file is None:
            return []
        try:
            found = self._file.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            _LOG.warning("%s cannot be read, backout counts may be too low: %s", self._file, error)
            return []
        entries = memoryview(found)[: len(found) // _ENTRY_BYTES * _ENTRY_BYTES]
        return [
            HeldGet(key, backout_count)
            for key, backout_count, mark in _ENTRY.iter_unpack(entries)
            if key and mark == self._mark ^ backout_count
        ]

    def delete_leftovers(self) -> None:
        """Delete the file; call it when the backouts of its entries are counted durably."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def note(self, key: int, backout_count: int) -> None:
        """Add an entry for a message that was got; the queue manager's lock is held.

        ``backout_count`` is the message's count before this get. When the file cannot grow, the get
        is not recorded and nothing is raised: its backout is not counted if the process is killed.
        """
        if not self._free and not self._grow():
            return
        place = self._places[key] = self._free.pop()
        if backout_count:
            _ENTRY.pack_into(self._area, place, key, backout_count, self._mark ^ backout_count)
        else:
            # The mark last, as there.
            self._halves[place >> 3] = key
            self._halves[(place >> 3) + 1] = self._fresh

    def settle(self, keys: Iterable[int]) -> None:
        """Delete the entries of messages whose gets were committed or backed out.

        Keys without an entry are skipped. The queue manager's lock is held.
        """
        places, halves, free = self._places, self._halves, self._free
        for key in keys:
            place = places.get(key)
            if place is not None:
                del places[key]
                # Count and mark at once.
                halves[(place >> 3) + 1] = 0
                free.append(place)

    def check(self) -> list[str]:
        """Return a list with one text if the file is damaged, else an empty list.

        The queue manager's lock is held.
        """
        wrong = [place for key, place in self._places.items() if not self._is_complete(place, key)]
        free = (_ENTRY.unpack_from(self._area, place)[2] for place in self._free)
        if not wrong and not any(free):
            return []
        return [f"{self._file} is damaged: backout counts may be too low after a kill"]

    def _is_complete(self, place: int, key: int) -> bool:
        """Return True if the entry at the file offset ``place`` has this key and a valid mark.

        The mark is made of the backout count and a value of the store. It is written last, so an
        entry that a kill has cut short lacks it.
        """
        found, backout_count, mark = _ENTRY.unpack_from(self._area, place)
        return bool(found == key and mark == self._mark ^ backout_count)

    def close(self) -> None:
        """Close the file, and delete it unless a message is still held."""
        if self._map is not None:
            if not self._places:
                self.delete_leftovers()
            self._unmap()
            os.close(self._descriptor)
        self.stop_in_child()

    def stop_in_child(self) -> None:
        """Stop recording in a forked child, whose mapped memory belongs to its parent as well."""
        self._file = self._map = None
        self._area = memoryview(bytearray())
        self._halves = self._area.cast("q")
        self._places, self._free = {}, []

    def _grow(self) -> bool:
        """Add space for more entries to the file; return False without a file, or on a full disk.

        The get continues all the same: at worst a backout count is too low after a kill.
        """
        if self._file is None:
            return False
        size_bytes = len(self._area)
        try:
            if self._map is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
                self._descriptor = os.open(self._file, flags, FILE_MODE)
            # Allocated, not only longer: to write into a hole on a full disk kills the process.
            os.posix_fallocate(self._descriptor, size_bytes, _STEP_BYTES)
            grown = mmap.mmap(self._descriptor, size_bytes + _STEP_BYTES)
        except OSError as error:
            _LOG.warning("%s: further gets are not noted: %s", self._file, error)
            if self._map is None and self._descriptor >= 0:
                os.close(self._descriptor)
            self._file = None
            return False
        self._unmap()
        self._map, self._area = grown, memoryview(grown)
        self._halves = self._area.cast("q")
        self._free += range(size_bytes, size_bytes + _STEP_BYTES, _ENTRY_BYTES)
        return True

    def _unmap(self) -> None:
        """Release the mapped memory of the file; does nothing when the file is not mapped."""
        if self._map is not None:
            self._halves.release()
            self._area.release()
            self._map.close()

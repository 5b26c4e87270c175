"""The segments of a message put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor, pack_descriptor, unpack_descriptor
from mayfly.store.units import StoredMessage


class Whole(NamedTuple):
    """A message of several rows as one row; ``row_count`` of them are in it.

    ``warning`` is 0, or MQRC_INCONSISTENT_CCSIDS, MQRC_INCONSISTENT_ENCODINGS when only the first
    of them have the character set and encoding of the first one.
    """

    row: StoredMessage
    row_count: int
    warning: int


def reassembled(rows: Sequence[StoredMessage]) -> Whole:
    """Return the message that segments are, in their order.

    Its descriptor is that of the first one, which is now the only segment; it lives as long as the
    segment that expires first.
    """
    if len(rows) == 1:
        return Whole(rows[0], 1, rc.MQRC_NONE)
    parts = [unpack_descriptor(row.descriptor) for row in rows]
    count, warning = _alike(parts)
    rows, parts = rows[:count], parts[:count]
    first, last = parts[0], parts[-1]
    flags = first.msg_flags | c.MQMF_SEGMENT
    if not warning:
        flags |= c.MQMF_LAST_SEGMENT
    whole = first._replace(msg_flags=flags)
    if first.msg_type == c.MQMT_REPORT:
        whole = whole._replace(original_length=last.offset + last.original_length)
    deadlines = [row.expire_at_ms for row in rows if row.expire_at_ms is not None]
    row = rows[0]._replace(
        descriptor=pack_descriptor(whole),
        body=_data(rows, parts),
        expire_at_ms=min(deadlines, default=None),
    )
    return Whole(row, count, warning)


def _alike(parts: Sequence[Descriptor]) -> tuple[int, int]:
    first = parts[0]
    for count, part in enumerate(parts):
        if part.coded_char_set_id != first.coded_char_set_id:
            return count, rc.MQRC_INCONSISTENT_CCSIDS
        if part.encoding != first.encoding:
            return count, rc.MQRC_INCONSISTENT_ENCODINGS
    return len(parts), rc.MQRC_NONE


def _data(rows: Sequence[StoredMessage], parts: Sequence[Descriptor]) -> bytes:
    """Return the data, each segment at its offset: reports hold less of it than their originals."""
    data = bytearray()
    for row, part in zip(rows, parts, strict=True):
        if row.body:
            data += bytes(max(part.offset - len(data), 0))
            data += row.body
    return bytes(data)

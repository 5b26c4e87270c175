"""Pages in the log: the images of pages as bytes, compressed, each with a checksum of its own."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from mayfly.mqi.errors import StoreDamaged
from mayfly.store.write_ahead_log import PAGE_BYTES

#: Number of a page, and the CRC-32 of its image.
_HEAD: Final = struct.Struct(">II")
_STEP: Final = _HEAD.size + PAGE_BYTES


def packed(pages: Mapping[int, bytes]) -> bytes:
    """Return the images of pages, by page number, as bytes; empty for no pages.

    Only runs of one byte are shortened and rare bytes coded longer: a page is half empty, and the
    search for repeated data takes five times as long as a commit.
    """
    body = b"".join(
        [_HEAD.pack(number, zlib.crc32(pages[number])) + pages[number] for number in sorted(pages)]
    )
    compressor = zlib.compressobj(1, strategy=zlib.Z_RLE)
    return compressor.compress(body) + compressor.flush() if body else b""


def unpacked(content: bytes, source: str) -> Iterator[tuple[int, bytes]]:
    """Yield (page number, image) of packed pages.

    ``source`` names the row of the log for errors. Raises StoreDamaged if the bytes are not those
    of :func:`packed`, or a checksum is wrong.
    """
    if not content:
        return
    try:
        body = zlib.decompress(content)
    except zlib.error as error:
        raise StoreDamaged(f"{source} is damaged: {error}", source) from error
    if len(body) % _STEP:
        raise StoreDamaged(f"{source} is damaged: it ends inside of a page", source)
    for at in range(0, len(body), _STEP):
        number, checksum = _HEAD.unpack_from(body, at)
        page = body[at + _HEAD.size : at + _STEP]
        if zlib.crc32(page) != checksum:
            raise StoreDamaged(
                f"{source} is damaged: the checksum of page {number} is wrong", source
            )
        yield number, page

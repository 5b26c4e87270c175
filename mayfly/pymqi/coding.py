"""The coding of data, as a descriptor or a header tells it, and text in it."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import MANAGER_CCSID, codec_name
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import is_big_endian

#: A character that is cut in the middle leaves fewer bytes than this.
_LONGEST_CHARACTER_BYTES = 4


class Coding(NamedTuple):
    """Encoding and CodedCharSetId, that of the queue manager spelled out."""

    encoding: int
    ccsid: int

    @classmethod
    def of(cls, encoding: int, ccsid: int) -> Self:
        """Return the coding that these two fields say."""
        return cls(encoding, MANAGER_CCSID if ccsid == c.MQCCSI_Q_MGR else ccsid)

    @property
    def order(self) -> Literal["big", "little"]:
        """The byte order of numbers."""
        return "big" if is_big_endian(self.encoding) else "little"

    def codec(self, reason: int) -> str:
        """Return the name of the codec of text; raises the reason code for one not known."""
        name = codec_name(self.ccsid, self.encoding)
        if name is None:
            raise mq_error(reason, f"CodedCharSetId {self.ccsid}")
        return name


def decoded(raw: bytes, codec: str, *, is_cut: bool) -> str:
    """Return text; ``is_cut`` allows half a character at its end, which is left out.

    Raises UnicodeError for bytes that are not of the character set.
    """
    try:
        return raw.decode(codec)
    except UnicodeDecodeError as error:
        is_half = error.end == len(raw) and error.end - error.start < _LONGEST_CHARACTER_BYTES
        if not (is_cut and is_half):
            raise
        return raw[: error.start].decode(codec)


def cut_to(raw: bytes, room_bytes: int, codec: str) -> bytes:
    """Return as many whole characters of a text as there is room for."""
    return decoded(raw[:room_bytes], codec, is_cut=True).encode(codec)


def padded(name: str, text: str, length: int, codec: str) -> bytes:
    """Return text as it fills a field of so many bytes.

    Raises MQRC_CONVERTED_STRING_TOO_BIG when it is longer, MQRC_NOT_CONVERTED for a letter that the
    character set does not have.
    """
    try:
        raw, blank = text.encode(codec), " ".encode(codec)
    except UnicodeError as error:
        raise mq_error(rc.MQRC_NOT_CONVERTED, f"{name}: {error}") from None
    if len(raw) > length:
        raise mq_error(rc.MQRC_CONVERTED_STRING_TOO_BIG, f"{name} {text!r}")
    return raw + blank * ((length - len(raw)) // len(blank))

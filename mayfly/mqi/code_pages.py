"""Code pages: the Python codec of each CodedCharSetId, with the byte order of UTF-16."""

from __future__ import annotations

import codecs

from mayfly.mqi.constants import MQCCSI_Q_MGR
from mayfly.mqi.layout import is_big_endian

#: The character set of a queue manager's own texts: UTF-8.
MANAGER_CCSID = 1208
#: Big-endian here; see :func:`codec_name`.
_UTF_16 = "utf-16-be"
CODECS = {
    MQCCSI_Q_MGR: "utf-8",  # this queue manager's own
    37: "cp037",
    273: "cp273",
    367: "ascii",
    424: "cp424",
    437: "cp437",
    500: "cp500",
    813: "iso8859-7",
    819: "iso8859-1",
    850: "cp850",
    852: "cp852",
    855: "cp855",
    857: "cp857",
    858: "cp858",
    866: "cp866",
    875: "cp875",
    912: "iso8859-2",
    915: "iso8859-5",
    916: "iso8859-8",
    920: "iso8859-9",
    923: "iso8859-15",
    932: "cp932",
    943: "cp932",
    949: "cp949",
    950: "cp950",
    954: "euc_jp",
    970: "euc_kr",
    1026: "cp1026",
    1047: "cp1047",
    1089: "iso8859-6",
    1140: "cp1140",
    1200: _UTF_16,
    1202: _UTF_16,
    1208: "utf-8",
    1209: "utf-8",  # without IBM's private letters, which are letters of Unicode here
    1250: "cp1250",
    1251: "cp1251",
    1252: "cp1252",
    1253: "cp1253",
    1254: "cp1254",
    1255: "cp1255",
    1256: "cp1256",
    1257: "cp1257",
    1381: "gb2312",
    1386: "gbk",
    5348: "cp1252",
    5488: "gb18030",
    13488: _UTF_16,
    17584: _UTF_16,
}


def codec_name(coded_char_set_id: int, encoding: int) -> str | None:
    """Return the Python codec for a CodedCharSetId: 819 -> ``iso8859-1``; None if unknown.

    For UTF-16, ``encoding`` decides the byte order.
    """
    name = CODECS.get(coded_char_set_id)
    return "utf-16-le" if name == _UTF_16 and not is_big_endian(encoding) else name


def _cp1047() -> codecs.CodecInfo:
    """Return a codec for code page 1047 (Unix on z/OS), which Python lacks.

    It equals code page 37 with three pairs of characters swapped.
    """
    letters = list(bytes(range(256)).decode("cp037"))
    for one, other in (("¬", "^"), ("[", "Ý"), ("]", "¨")):
        a, b = letters.index(one), letters.index(other)
        letters[a], letters[b] = other, one
    table = "".join(letters)
    by_letter = codecs.charmap_build(table)

    return codecs.CodecInfo(
        name="cp1047",
        encode=lambda text, errors="strict": codecs.charmap_encode(text, errors, by_letter),
        decode=lambda raw, errors="strict": codecs.charmap_decode(raw, errors, table),
    )


_CP1047 = _cp1047()
codecs.register(lambda name: _CP1047 if name == "cp1047" else None)

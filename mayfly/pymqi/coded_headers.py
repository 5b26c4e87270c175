"""An MQ header in any coding: read from the start of data, written in another coding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import Field, Layout
from mayfly.mqi.structures import DLH, IIH, MDE, RFH2, TM, XQH
from mayfly.pymqi.coding import Coding, decoded, padded

#: Format -> the header it announces, of those that are converted.
HEADERS: dict[str, Layout] = {
    "MQDEAD": DLH,
    "MQHMDE": MDE,
    "MQHRF2": RFH2,
    "MQIMS": IIH,
    "MQTRIG": TM,
    "MQXMIT": XQH,
}
_VERSION_AT, _LENGTH_BYTES = 4, 4
#: Character sets of the folders of an MQRFH2 whose bytes follow the order of numbers.
_UTF_16 = (1200, 13488, 17584)


class CodedHeader:
    """The header at the start of data, and what it says of the data behind it."""

    def __init__(self, layout: Layout, raw: memoryview, source: Coding) -> None:
        """Read it.

        Raises MQRC_SOURCE_CCSID_ERROR, MQRC_NOT_CONVERTED when it is damaged or cut.
        """
        self._layout = layout
        self._source = source
        version = int.from_bytes(
            raw[_VERSION_AT : _VERSION_AT + _LENGTH_BYTES], source.order, signed=True
        )
        if version not in layout.versions or len(raw) < layout.length(version):
            raise self._damaged(f"version {version}, {len(raw)} bytes")
        self._fixed = bytes(raw[: layout.length(version)])
        codec = source.codec(rc.MQRC_SOURCE_CCSID_ERROR)
        self._values = {
            field.name: self._value(field, data, codec)
            for field, data in self._fields()
            if field.kind != "byte"
        }
        if self._values["StrucId"] != layout.struc_id.decode().rstrip():
            raise self._damaged(f"StrucId {self._values['StrucId']!r}")
        #: Where the data behind it begin.
        self.length = self._number("StrucLength", len(self._fixed))
        if not len(self._fixed) <= self.length <= len(raw):
            raise self._damaged(f"StrucLength {self.length}")
        self._area = bytes(raw[len(self._fixed) : self.length])

    @property
    def format_behind(self) -> str:
        """The format of the data behind it."""
        return str(self._values.get(self._named("Format"), ""))

    @property
    def coding_behind(self) -> Coding:
        """The coding of the data behind it."""
        encoding = self._number(self._named("Encoding"), self._source.encoding)
        ccsid = self._number(self._named("CodedCharSetId"), c.MQCCSI_INHERIT)
        return Coding.of(encoding, self._source.ccsid if ccsid == c.MQCCSI_INHERIT else ccsid)

    def packed(self, wanted: Coding, behind: Coding | None) -> bytes:
        """Return it in another coding; the data ``behind`` it, if any, are coded as told.

        Raises MQRC_TARGET_CCSID_ERROR, MQRC_NOT_CONVERTED, MQRC_CONVERTED_STRING_TOO_BIG.
        """
        codec = wanted.codec(rc.MQRC_TARGET_CCSID_ERROR)
        changed = {} if behind is None else self._changed(wanted, behind)
        made = b""
        for field, data in self._fields():
            value = changed.get(field.name, self._values.get(field.name))
            if value is None:
                made += data
            elif isinstance(value, int):
                made += value.to_bytes(field.length, wanted.order, signed=True)
            else:
                made += padded(field.name, value, field.length, codec)
        if self._layout is RFH2 and wanted.order != self._source.order:
            return made + self._turned_folders()
        return made + self._area

    def _changed(self, wanted: Coding, behind: Coding) -> dict[str, int]:
        """Return the fields that must say something else of the data behind it."""
        encoding, ccsid = self._named("Encoding"), self._named("CodedCharSetId")
        if ccsid not in self._values:
            return {}
        changed = {} if behind == self.coding_behind else {encoding: behind.encoding}
        if self._values[ccsid] == c.MQCCSI_INHERIT:
            return changed if behind.ccsid == wanted.ccsid else {**changed, ccsid: behind.ccsid}
        return {**changed, ccsid: behind.ccsid} if changed else {}

    def _turned_folders(self) -> bytes:
        """Return the folders with the other byte order."""
        made, at = b"", 0
        ccsid = self._number("NameValueCCSID", 0)
        turned: Literal["big", "little"] = "big" if self._source.order == "little" else "little"
        while at < len(self._area):
            length = int.from_bytes(self._area[at : at + _LENGTH_BYTES], self._source.order)
            at += _LENGTH_BYTES
            folder = self._area[at : at + length]
            if len(folder) < length or (ccsid in _UTF_16 and length % 2):
                raise self._damaged(f"folder of {length} bytes")
            if ccsid in _UTF_16:
                turned_folder = bytearray(folder)
                turned_folder[::2], turned_folder[1::2] = folder[1::2], folder[::2]
                folder = bytes(turned_folder)
            made += length.to_bytes(_LENGTH_BYTES, turned) + folder
            at += length
        return made

    def _fields(self) -> Iterator[tuple[Field, bytes]]:
        at = 0
        for field in self._layout.fields:
            if at < len(self._fixed):
                yield field, self._fixed[at : at + field.length]
            at += field.length

    def _value(self, field: Field, data: bytes, codec: str) -> int | str:
        if field.kind != "char":
            return int.from_bytes(data, self._source.order, signed=True)
        try:
            text = decoded(data, codec, is_cut=False)
        except UnicodeError as error:
            raise self._damaged(f"{field.name}: {error}") from None
        return text.partition("\0")[0].rstrip(" ")

    def _named(self, field: str) -> str:
        """Return the name of a field about what follows; an MQXQH has them in its MQMD."""
        return f"MsgDesc.{field}" if self._layout.name == "MQXQH" else field

    def _number(self, field: str, default: int) -> int:
        value = self._values.get(field, default)
        assert isinstance(value, int)
        return value

    def _damaged(self, what: str) -> MQError:
        return mq_error(rc.MQRC_NOT_CONVERTED, f"{self._layout.name}: {what}")

"""Headers before the data of a message: pymqi's RFH2, and MQ headers that pymqi does not have.

The folders of an RFH2 are fields of it.
"""

from __future__ import annotations

import struct
from typing import Any, Self

from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.properties import parse
from mayfly.pymqi.errors import PYIFError
from mayfly.pymqi.structures import MD, FieldValue, MQOpts

_MD_1_BYTES = structures.MD.length(c.MQMD_VERSION_1)
_MD_AT = structures.XQH.offset_of("MsgDesc.StrucId")


class Header(MQOpts):
    """An MQ header as structure; ``body[header.get_length():]`` is the data after it.

    ``encoding``, that of the MD or of the header before, gives the byte order of its numbers.
    """

    def pack(self, encoding: int = c.MQENC_NATIVE) -> bytes:
        """Return the header as bytes, with numbers in the byte order of ``encoding``."""
        return self._numbers_as(encoding).pack(*(vars(self)[name] for name in self.members))

    def unpack(self, buff: bytes, encoding: int = c.MQENC_NATIVE) -> None:
        """Set the fields from the header at the start of ``buff``.

        ``encoding`` gives the byte order of the numbers. Raises PYIFError if ``buff`` is too short,
        or has another StrucId or Version; the fields then stay unchanged.
        """
        name, size = type(self).__name__, self._codec.size
        if len(buff) < size:
            raise PYIFError(f"{name} has {size} bytes, the buffer {len(buff)}")
        found = self._numbers_as(encoding).unpack_from(buff)
        fields = dict(zip(self.members, found, strict=True))
        for field in ("StrucId", "Version"):
            if fields[field] != self._initial[field]:
                raise PYIFError(
                    f"{name} - {field} {fields[field]!r} is not {self._initial[field]!r}"
                )
        vars(self).update(fields)

    def get_header(self, buf: bytes) -> Self:
        """Set the fields as ``unpack`` does, with native numbers, and return the header itself.

        Raises PYIFError if ``buf`` does not begin with such a header.
        """
        self.unpack(buf)
        return self

    def _numbers_as(self, encoding: int) -> struct.Struct:
        """Return the struct format of the header, with the byte order of ``encoding``."""
        return self._ordered(">" if is_big_endian(encoding) else "<")


class DLH(Header, layout=structures.DLH):
    """The dead-letter header, MQDLH."""


class XQH(Header, layout=structures.XQH):
    """The transmission queue header, MQXQH; ``MsgDescExpiry`` is Expiry of the MD in it."""

    def get_embedded_md(self, buf: bytes) -> MD:
        """Return the version 1 MD in the transmission queue header at the start of ``buf``.

        The fields of version 2 have their initial values. The header itself is not changed. Raises
        ValueError if ``buf`` ends before the end of the MD.
        """
        md = MD()
        # A get fills in what version 2 has besides; here those fields keep their initial values.
        md.unpack(buf[_MD_AT : _MD_AT + _MD_1_BYTES] + md.pack()[_MD_1_BYTES:])
        return md


class DDH(Header, layout=structures.DDH):
    """The header of a delayed message on the staging queue, format MQHDDLY; specific to Mayfly.

    Its numbers are always little-endian; ``DueTime`` is in ms since 1970, UTC.
    """

    def _numbers_as(self, encoding: int) -> struct.Struct:
        """Return the struct format of the header, little-endian whatever ``encoding`` says."""
        return self._ordered("<")


class MDE(Header, layout=structures.MDE):
    """The message descriptor extension, MQMDE."""


class IIH(Header, layout=structures.IIH):
    """The IMS information header, MQIIH; the IMS bridge reads it (docs/LISTENERS.md)."""


class TM(Header, layout=structures.TM):
    """The trigger message, MQTM, which is the whole data of a message with format MQTRIG."""


class TMC2(Header, layout=structures.TMC2):
    """The trigger message in characters, MQTMC2, which a started program gets as its argument."""


_FIXED_BYTES = 36
_LENGTH_BYTES = 4
#: Encodings with the high byte of a number first, as pymqi counts them.
_BIG_ENDIAN = frozenset((1, 16, 17, 256, 257, 272, 273, 768))


class RFH2(
    MQOpts,
    layout=structures.RFH2,
    initial={"StrucLength": 0, "CodedCharSetId": 0, "NameValueCCSID": 0},
):
    """An MQRFH2; ``rfh2["usr"]`` is a folder as bytes, ``rfh2["usrLength"]`` its length.

    Its numbers are little-endian unless ``pack`` or ``unpack`` gets a big-endian encoding.
    """

    __slots__ = ("_folders", "_is_big_endian")

    _folders: list[str]
    _is_big_endian: bool

    def __init__(self, **kw: object) -> None:
        """Set initial values without a folder, then the fields that ``kw`` names."""
        object.__setattr__(self, "_folders", [])
        object.__setattr__(self, "_is_big_endian", False)
        super().__init__(**kw)

    def add_folder(self, folder_data: bytes) -> None:
        """Add a folder, one XML element, padded with blanks to 4 bytes; updates StrucLength.

        Raises PYIFError for malformed XML, TypeError for a value that is not bytes.
        """
        if not isinstance(folder_data, bytes):
            raise TypeError(f"a folder is bytes, not {type(folder_data).__name__}")
        name = _folder_name(folder_data)
        self._hold(name, folder_data + b" " * (-len(folder_data) % _LENGTH_BYTES))
        self.StrucLength = self.get_length()

    def pack(self, encoding: int | None = None) -> bytes:
        """Return the header with its folders as bytes.

        An ``encoding`` (that of the MD) of big-endian integers makes numbers big-endian, also in
        later calls. Otherwise they have the order of :meth:`unpack`, at first little-endian.
        """
        if encoding in _BIG_ENDIAN:
            object.__setattr__(self, "_is_big_endian", True)
        fields = vars(self)
        order = ">" if self._is_big_endian else "<"
        packed = self._ordered(order).pack(*(fields[name] for name in type(self).members))
        for name in self._folders:
            packed += struct.pack(f"{order}i", fields[f"{name}Length"]) + fields[name]
        return packed

    def unpack(self, buff: bytes, encoding: int | None = None) -> None:
        """Set fields and folders from the header at the start of ``buff``.

        Earlier folders are removed. Without an ``encoding``, the Version field shows the byte
        order. Raises PYIFError for a damaged header; nothing is changed then. Raises TypeError if
        ``buff`` is not bytes.
        """
        if not isinstance(buff, bytes):
            raise TypeError(f"a buffer is bytes, not {type(buff).__name__}")
        if buff[:4] != c.MQRFH_STRUC_ID:
            raise PYIFError(f"RFH2 - StrucId not MQRFH_STRUC_ID. Value: {buff[:4]!r}")
        if len(buff) < _FIXED_BYTES:
            raise PYIFError(
                f"RFH2 - Buffer too short. Should be {_FIXED_BYTES}+ bytes instead of {len(buff)}"
            )
        is_big = buff[4:5] == b"\0" if encoding is None else encoding in _BIG_ENDIAN
        order = ">" if is_big else "<"
        fixed = dict(zip(type(self).members, self._ordered(order).unpack_from(buff), strict=True))
        folders = _folders_in(buff, fixed["StrucLength"], order)
        for name in self._folders:
            vars(self).pop(name, None)
            vars(self).pop(f"{name}Length", None)
        object.__setattr__(self, "_folders", [])
        object.__setattr__(self, "_is_big_endian", is_big)
        vars(self).update(fixed)
        for name, data in folders:
            self._hold(name, data)

    def get_length(self) -> int:
        """Return the length of the packed header in bytes."""
        folders = sum(_LENGTH_BYTES + len(vars(self)[name]) for name in self._folders)
        return _FIXED_BYTES + folders

    def get_folders(self) -> list[str]:
        """Return the names of the folders, in their order; as in ibmmq."""
        return list(self._folders)

    def __setattr__(self, name: str, value: object) -> None:
        if name in type(self).members or name == "_StrucId":
            super().__setattr__(name, value)
            return
        self._check_field(name)
        if name in self._folders:
            if not isinstance(value, bytes):
                raise TypeError(f"RFH2.{name} takes bytes, not {type(value).__name__}")
        elif not isinstance(value, int):
            raise TypeError(f"RFH2.{name} takes an integer, not {type(value).__name__}")
        vars(self)[name] = value

    def __getitem__(self, key: str) -> Any:
        key = "StrucId" if key == "_StrucId" else key
        self._check_field(key)
        return vars(self)[key]

    def set(self, **kw: object) -> None:
        """Set fields by name, one after the other; a wrong one raises and leaves the rest unset."""
        for name, value in kw.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"RFH2({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def _hold(self, name: str, data: bytes) -> None:
        """Add a folder and its length as fields; ``data`` is the XML as bytes, padded."""
        fields: dict[str, FieldValue] = vars(self)
        fields[f"{name}Length"], fields[name] = len(data), data
        self._folders.append(name)

    def _check_field(self, name: str) -> None:
        """Raise AttributeError if the header has no field or folder of this name."""
        if name not in vars(self):
            raise AttributeError(f"RFH2 has no field {name!r}")


def put_parts(msg: str | bytes, opts: tuple[Any, ...]) -> tuple[str | bytes, tuple[Any, ...]]:
    """Return the message and options of a put, after adding the RFH2 headers to the message.

    ``opts`` are MD, PMO and optionally the list of headers; MD and PMO are returned. The MD gives
    the encoding of the first header, each header that of the next. Raises TypeError if the third
    option is no list of RFH2.
    """
    encoding = opts[0]["Encoding"] if opts and opts[0] is not None else c.MQENC_NATIVE
    packed = b""
    for header in header_list(opts) or ():
        packed += header.pack(encoding)
        encoding = header["Encoding"]
    if packed:
        msg = packed + (msg.encode() if isinstance(msg, str) else msg)
    return msg, opts[:2]


def take_headers(msg: bytes, md: MD, headers: list[RFH2]) -> bytes:
    """Move the RFH2 headers at the start of a message to ``headers``; return the data after them.

    The Format of the MD, then that of each header, shows whether a header follows. Raises PYIFError
    for a damaged header; ``headers`` is then unchanged.
    """
    found: list[RFH2] = []
    data_format, encoding = md["Format"], md["Encoding"]
    while data_format == c.MQFMT_RF_HEADER_2:
        header = RFH2()
        header.unpack(msg, encoding)
        found.append(header)
        msg = msg[max(header["StrucLength"], _FIXED_BYTES) :]
        data_format, encoding = header["Format"], header["Encoding"]
    headers += found
    return msg


def header_list(opts: tuple[Any, ...]) -> list[RFH2] | None:
    """Return the third option of a verb, a list of RFH2 headers; None if the option is missing.

    Raises TypeError for any other value.
    """
    headers = opts[2] if len(opts) > 2 else None
    if headers is None:
        return None
    if not isinstance(headers, list):
        raise TypeError("Third item of opts should be a list.")
    for header in headers:
        if not isinstance(header, RFH2):
            raise TypeError(f"RFH2 expected, not {type(header).__name__}")
    return headers


def _folders_in(buff: bytes, struc_length: int, order: str) -> list[tuple[str, bytes]]:
    """Return the folders of a packed MQRFH2, as name and bytes, in order.

    ``order`` is ``<`` or ``>`` for the byte order. Raises PYIFError for wrong lengths or malformed
    XML.
    """
    if struc_length < 0:
        raise PYIFError("RFH2 - 'StrucLength' is negative. Check numeric encoding.")
    if len(buff) > _FIXED_BYTES and struc_length > len(buff):
        raise PYIFError(
            f"RFH2 - Buffer too short. Expected: {struc_length} Buffer Length: {len(buff)}"
        )
    folders: list[tuple[str, bytes]] = []
    area, at = buff[_FIXED_BYTES:struc_length], 0
    while at < len(area):
        if len(area) - at < _LENGTH_BYTES:
            raise PYIFError(f"RFH2 - {len(area) - at} bytes are left behind the last folder.")
        (length,) = struct.unpack_from(f"{order}i", area, at)
        at += _LENGTH_BYTES
        if not 0 <= length <= len(area) - at:
            raise PYIFError(f"RFH2 - folder length {length}, {len(area) - at} bytes are left.")
        data = area[at : at + length]
        folders.append((_folder_name(data), data))
        at += length
    return folders


def _folder_name(folder: bytes) -> str:
    """Return the name of a folder's XML element; raises PYIFError for malformed XML."""
    try:
        roots = parse(folder.decode())
    except (MQError, UnicodeDecodeError) as error:
        raise PYIFError(f"RFH2 - XML Folder not well formed. Exception: {error}") from None
    if len(roots) != 1:
        raise PYIFError(f"RFH2 - XML Folder not well formed. Exception: {len(roots)} elements")
    return roots[0].name

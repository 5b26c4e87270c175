"""MQGMO_CONVERT: data returned in the character set and the encoding of the getter's MD (G7).

Text (MQSTR) is converted. So are MQ headers and the data behind them, each by the fields of the
header before it. Data without a format are never converted; other formats need an exit, which
Mayfly has not (MQRC_FORMAT_ERROR). Data that cannot be converted are returned as they were put,
with a warning, and the MD describes them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi.coded_headers import HEADERS, CodedHeader
from mayfly.pymqi.coding import Coding, cut_to, decoded
from mayfly.verbs.messages import GetResult

_TEXT = "MQSTR"


class Returned(NamedTuple):
    """The result of a get: data, the descriptor that tells their form, their length, a warning."""

    body: bytes
    descriptor: Descriptor
    data_length: int
    reason: int


class _Made(NamedTuple):
    """Data converted as far as possible; the last ``text_bytes`` of them are converted text."""

    body: bytes
    coding: Coding
    reason: int = rc.MQRC_NONE
    text_bytes: int = 0


class _Placed(NamedTuple):
    """A header, where it begins in the data, and what it is coded in."""

    start: int
    coding: Coding
    header: CodedHeader


def converted(result: GetResult, wanted: Coding, room_bytes: int | None, options: int) -> Returned:
    """Return what a get with MQGMO_CONVERT returns of a message, into a buffer of a length.

    ``reason`` is the get's own, MQRC_TRUNCATED_MSG_ACCEPTED where the data have grown beyond the
    buffer and may be cut, or says why not all is converted: MQRC_FORMAT_ERROR,
    MQRC_SOURCE_CCSID_ERROR, MQRC_TARGET_CCSID_ERROR, MQRC_NOT_CONVERTED,
    MQRC_CONVERTED_STRING_TOO_BIG, MQRC_CONVERTED_MSG_TOO_BIG.
    """
    body, descriptor = result.message.body, result.message.descriptor
    as_it_is = Returned(body, descriptor, result.data_length, result.warning)
    source = Coding.of(descriptor.encoding, descriptor.coded_char_set_id)
    if not body or source == wanted or result.stays:
        return as_it_is
    is_cut = len(body) < result.data_length
    try:
        made = _part(descriptor.format, body, source, wanted, is_cut=is_cut)
    except MQError as error:
        return as_it_is._replace(reason=error.reason)
    described = descriptor._replace(
        encoding=made.coding.encoding, coded_char_set_id=made.coding.ccsid
    )
    if room_bytes is None or len(made.body) <= room_bytes:
        length = result.data_length if is_cut else len(made.body)
        return Returned(made.body, described, length, made.reason or result.warning)
    if not options & c.MQGMO_ACCEPT_TRUNCATED_MSG:
        return as_it_is._replace(reason=rc.MQRC_CONVERTED_MSG_TOO_BIG)
    shown = _fitting(made, room_bytes, wanted)
    return Returned(shown, described, result.data_length, rc.MQRC_TRUNCATED_MSG_ACCEPTED)


def _part(format_name: str, raw: bytes, source: Coding, wanted: Coding, *, is_cut: bool) -> _Made:
    """Convert data of a format and what follows; raises why nothing of it is converted."""
    headers: list[_Placed] = []
    start, coding, view = 0, source, memoryview(raw)
    try:
        while start < len(raw) and coding != wanted and format_name in HEADERS:
            header = CodedHeader(HEADERS[format_name], view[start:], coding)
            headers.append(_Placed(start, coding, header))
            start += header.length
            format_name, coding = header.format_behind, header.coding_behind
        made = _last(format_name, raw[start:], coding, wanted, is_cut=is_cut)
    except MQError as error:
        if not start:
            raise
        made = _Made(raw[start:], coding, error.reason)
    return _behind(headers, raw, made, wanted)


def _behind(headers: Sequence[_Placed], raw: bytes, made: _Made, wanted: Coding) -> _Made:
    """Return data behind their headers, which raise where the first of them cannot be converted.

    Another that cannot is left as it was, with all that follows it.
    """
    parts = [made.body]
    for start, coding, header in reversed(headers):
        has_rest = start + header.length < len(raw)
        try:
            packed = header.packed(wanted, made.coding if has_rest else None)
        except MQError as error:
            if not start:
                raise
            made = _Made(b"", coding, error.reason)
            parts = [raw[start:]]
        else:
            made = made._replace(coding=wanted)
            parts.append(packed)
    return made._replace(body=b"".join(reversed(parts)))


def _last(format_name: str, raw: bytes, source: Coding, wanted: Coding, *, is_cut: bool) -> _Made:
    """Convert data that begin with no header."""
    if not (raw and format_name) or source == wanted:
        return _Made(raw, source)
    if format_name != _TEXT:
        raise mq_error(rc.MQRC_FORMAT_ERROR, f"format {format_name!r}")
    text = _text(raw, source, wanted, is_cut=is_cut)
    return _Made(text, wanted, text_bytes=len(text))


def _text(raw: bytes, source: Coding, wanted: Coding, *, is_cut: bool) -> bytes:
    codec = source.codec(rc.MQRC_SOURCE_CCSID_ERROR)
    target = wanted.codec(rc.MQRC_TARGET_CCSID_ERROR)
    try:
        return decoded(raw, codec, is_cut=is_cut).encode(target)
    except UnicodeError as error:
        raise mq_error(rc.MQRC_NOT_CONVERTED, str(error)) from None


def _fitting(made: _Made, room_bytes: int, wanted: Coding) -> bytes:
    """Return what fits a buffer, no half character at its end."""
    start = len(made.body) - made.text_bytes
    if room_bytes <= start:
        return made.body[:room_bytes]
    codec = wanted.codec(rc.MQRC_TARGET_CCSID_ERROR)
    return made.body[:start] + cut_to(made.body[start:], room_bytes - start, codec)

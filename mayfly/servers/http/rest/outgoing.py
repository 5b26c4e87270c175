"""A message as the answer to a get: its text in UTF-8, fields of its descriptor as headers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from mayfly.mqi import constants as c
from mayfly.mqi.code_pages import MANAGER_CCSID, codec_name
from mayfly.mqi.constants import report_names
from mayfly.mqi.errors import MQError
from mayfly.properties.folders import Parts, parts_of
from mayfly.properties.selectors.names import correlation_text, id_text
from mayfly.servers.http.rest import user_properties
from mayfly.servers.http.rest.answers import Answer
from mayfly.servers.http.rest.errors import FAILED, RestError
from mayfly.servers.http.rest.incoming import (
    CORRELATION_ID,
    EXPIRY,
    FEEDBACK,
    MESSAGE_ID,
    PERSISTENCE,
    PERSISTENCES,
    PRIORITY,
    REPLY_TO,
    REPORT,
    TEXT_FORMAT,
    TYPED_VERSION,
    UNLIMITED,
)
from mayfly.verbs.messages import Message

_TEXT_TYPE: Final = b"text/plain;charset=utf-8"
_PERSISTENCE_NAMES: Final = {number: name for name, number in PERSISTENCES.items()}
_JMS_TEXT: Final = "jms_text"


def answer_of(message: Message, version: int) -> Answer:
    """Return a message as an answer.

    Raises RestError (501) for one that is no text, or has an id, a queue or a property that no
    header can hold.
    """
    descriptor = message.descriptor
    parts = _parts(message)
    text = _text(parts)
    headers = [
        (MESSAGE_ID, shown_id(message.msg_id, version)),
        (EXPIRY, UNLIMITED if message.remaining_ms is None else str(message.remaining_ms)),
        (PERSISTENCE, _PERSISTENCE_NAMES[int(message.persistent)]),
    ]
    correlation = shown_correlation(message.correl_id, version, _property(parts, "jms.Cid"))
    if correlation:
        user_properties.check_header(CORRELATION_ID, correlation)
        headers.append((CORRELATION_ID, correlation))
    queue, manager = descriptor.reply_to_q.strip(), descriptor.reply_to_q_mgr.strip()
    if queue:
        reply_to = f"{queue}@{manager}" if manager else queue
        user_properties.check_header(REPLY_TO, reply_to)
        headers.append((REPLY_TO, reply_to))
    if descriptor.report and (reports := report_names(descriptor.report)):
        headers.append((REPORT, ", ".join(reports)))
    if descriptor.msg_type == c.MQMT_REPORT:
        headers.append((FEEDBACK, str(descriptor.feedback)))
    if version >= TYPED_VERSION:
        headers.append((PRIORITY, str(descriptor.priority)))
        usr = user_properties.written(parts.properties)
        headers += [(user_properties.HEADER, value) for value in usr]
    packed = tuple((name.lower().encode(), value.encode()) for name, value in headers)
    return Answer(HTTPStatus.OK, packed, text, _TEXT_TYPE)


def shown_id(identifier: bytes, version: int) -> str:
    """Return a MsgId as a version shows it."""
    return f"ID:{identifier.hex()}" if version >= TYPED_VERSION else identifier.hex()


def shown_correlation(correl_id: bytes, version: int, text: str | None = None) -> str:
    """Return a CorrelId, or the text that it was made of; "" for none."""
    if version >= TYPED_VERSION:
        return correlation_text(correl_id, text) or ""
    return (id_text(correl_id) or "").removeprefix("ID:")


def _parts(message: Message) -> Parts:
    try:
        return parts_of(message.descriptor, message.body)
    except MQError as error:
        raise _no_text(f"its MQRFH2 is damaged: {error}") from error


def _property(parts: Parts, name: str) -> str | None:
    value = next((p.typed.value for p in parts.properties if p.name == name), None)
    return value if isinstance(value, str) else None


def _text(parts: Parts) -> bytes:
    """Return the text of a message in UTF-8; raises RestError (501)."""
    kind = _property(parts, "mcd.Msd") or _JMS_TEXT
    data_format = parts.data_format.strip()
    if kind != _JMS_TEXT or (data_format != TEXT_FORMAT and parts.data):
        shown = data_format or "blank"
        raise _no_text(f"its format is {shown}, and it is no TextMessage of JMS")
    ccsid = parts.data_coded_char_set_id
    if ccsid in (MANAGER_CCSID, c.MQCCSI_Q_MGR):
        codec: str | None = "utf-8"
    else:
        codec = codec_name(ccsid, parts.data_encoding)
    if codec is None:
        raise _no_text(f"its character set {ccsid} is not known")
    try:
        return parts.data.decode(codec).encode()
    except UnicodeError as error:
        raise _no_text(f"its data are no text in character set {ccsid}: {error}") from error


def _no_text(why: str) -> RestError:
    said = f"the message stays on its queue, as it cannot be made an answer: {why}"
    return RestError(HTTPStatus.NOT_IMPLEMENTED, FAILED, said)

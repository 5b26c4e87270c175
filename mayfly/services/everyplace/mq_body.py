"""A message of MQ Everyplace as the body of an MQ message: JSON, not as MQ Everyplace wrote it."""

from __future__ import annotations

import base64
import json
from typing import Any

from mayfly.lifetime.everyplace import LONG_RANGE
from mayfly.mqi.reasons import MQRC_FORMAT_ERROR
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.fields import (
    Field,
    FieldType,
    MessageFields,
    MessageUid,
    check_field,
    restored,
)

#: The field for the body of an MQ message that is not of Everyplace's types.
MQ_DATA = "MQ_Data"


def fields_as_body(message: MessageFields) -> bytes:
    """Return a message as the body of an MQ message, its identity included."""
    fields = {name: [kind, _json_of(value)] for name, (kind, value) in message.fields().items()}
    return json.dumps({"uid": message.uid, "fields": fields}).encode()


def fields_of_body(body: bytes) -> MessageFields:
    """Return the message that a body holds.

    Raises EveryplaceError with MQRC_FORMAT_ERROR when ``fields_as_body`` has not written it.
    """
    try:
        uid, fields = _told(body)
        _check_uid(uid)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        EveryplaceError,
    ) as error:
        raise EveryplaceError(
            MQRC_FORMAT_ERROR, f"body {body[:40]!r} holds no Everyplace fields: {error!r}"
        ) from error
    return restored(uid, fields)


def fields_of_row(body: bytes) -> MessageFields:
    """Return the message that `fields_as_body` has written to the tables of a queue manager."""
    message = restored(*_told(body))
    message.was_put = True
    return message


def _told(body: bytes) -> tuple[MessageUid, dict[str, Field]]:
    told: dict[str, Any] = json.loads(body)
    fields = {name: _field(name, *field) for name, field in told["fields"].items()}
    return MessageUid(*told["uid"]), fields


def _check_uid(uid: MessageUid) -> None:
    origin, *numbers = uid
    if type(origin) is not str:
        raise ValueError(f"origin {origin!r}")
    for value in numbers:
        if type(value) is not int or not 0 <= value <= LONG_RANGE[1]:
            raise ValueError(f"uid number {value!r} is not within 0 .. {LONG_RANGE[1]}")


def _field(name: str, kind_name: str, told: Any) -> Field:
    kind = FieldType(kind_name)
    value = base64.b64decode(told, validate=True) if kind is FieldType.BYTES else told
    check_field(name, kind, value)
    return Field(kind, value)


def _json_of(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value

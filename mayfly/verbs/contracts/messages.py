"""A message with its lifetime, as sources of the bulk plane give it.

``expire_at_ms`` null is unlimited, ``persistence`` an MQPER_* value, ``report`` the MQRO_* options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mayfly.verbs.contracts.bulk import Column, Kind, always

VERSION = 1
COLUMNS: tuple[Column, ...] = (
    Column("manager", Kind.TEXT),
    always("queue", Kind.TEXT),
    Column("msg_id", Kind.BYTES),
    Column("correl_id", Kind.BYTES),
    always("put_ms", Kind.INT64),
    Column("deliver_at_ms", Kind.INT64),
    Column("expire_at_ms", Kind.INT64),
    Column("priority", Kind.INT32),
    Column("persistence", Kind.INT32),
    Column("report", Kind.INT32),
    Column("reply_to_q", Kind.TEXT),
    Column("reply_to_q_mgr", Kind.TEXT),
    Column("msg_type", Kind.INT32),
    Column("format", Kind.TEXT),
    Column("encoding", Kind.INT32),
    Column("coded_char_set_id", Kind.INT32),
    Column("backout_count", Kind.INT32),
    Column("user_identifier", Kind.TEXT),
    always("payload", Kind.BYTES),
)
#: The columns that a descriptor says, by the names of its fields: many messages have one in common.
DESCRIBED = (
    "priority",
    "persistence",
    "report",
    "reply_to_q",
    "reply_to_q_mgr",
    "msg_type",
    "format",
    "encoding",
    "coded_char_set_id",
    "user_identifier",
)


class MessageColumns(NamedTuple):
    """Messages on their way into COLUMNS: one descriptor, packed, in the place of DESCRIBED.

    In columns, since they leave in columns: a row of Python values for each would cost more than
    reading it. A CorrelId is None when none was given.
    """

    msg_id: Sequence[bytes]
    correl_id: Sequence[bytes | None]
    put_ms: Sequence[int]
    deliver_at_ms: Sequence[int | None]
    expire_at_ms: Sequence[int | None]
    backout_count: Sequence[int]
    descriptor: Sequence[bytes]
    payload: Sequence[bytes]


NO_MESSAGES = MessageColumns(*((),) * len(MessageColumns._fields))
#: The columns that each message has for itself, as MessageColumns has them.
OWN = MessageColumns._fields[: MessageColumns._fields.index("descriptor")]

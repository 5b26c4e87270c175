"""Messages with their times of delivery and expiry, as rows of the bulk plane (Arrow Flight).

``expire_at_ms`` null is no expiry, ``persistence`` an MQPER_* value, ``report`` the MQRO_* options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mayfly.verbs.contracts.bulk import Column, Kind, not_null

VERSION = 1
COLUMNS: tuple[Column, ...] = (
    Column("manager", Kind.TEXT),
    not_null("queue", Kind.TEXT),
    Column("msg_id", Kind.BYTES),
    Column("correl_id", Kind.BYTES),
    not_null("put_ms", Kind.INT64),
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
    not_null("payload", Kind.BYTES),
)
#: The columns that are fields of the descriptor, which many messages share.
DESCRIPTOR_COLUMNS = (
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
    """Messages before they become COLUMNS: one packed descriptor replaces DESCRIPTOR_COLUMNS.

    They are kept by column because a Python row for each message would cost more than reading it. A
    CorrelId is None when the putter gave none.
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
#: The columns of MessageColumns other than the descriptor and the payload.
OWN_COLUMNS = MessageColumns._fields[: MessageColumns._fields.index("descriptor")]

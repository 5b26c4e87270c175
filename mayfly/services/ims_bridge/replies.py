"""The reply to a request: its descriptor, header and lifetime, as the IMS bridge makes them."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.mqi.descriptor import Descriptor
from mayfly.services.ims_bridge.requests import IMS_FORMAT, Asked
from mayfly.verbs.messages import Message

_APPLICATION_NAME_BYTES = 28


class Reply(NamedTuple):
    """A reply as it is put; a life of None is unlimited, an empty MsgId a new one."""

    body: bytes
    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    time_to_live_ms: int | None


def reply_to(message: Message, asked: Asked, answer: bytes) -> Reply:
    """Return the reply, with an MQIIH if the request had one.

    Its life is unlimited. With MQIIH_PASS_EXPIRATION it is what was left of the request's when the
    bridge got it: the time in the bridge is not deducted; the expiration report options go along,
    with the ReplyToQ that such a report needs (E30).
    """
    original = message.descriptor
    passes_expiry = _flags(asked) & c.MQIIH_PASS_EXPIRATION
    report = original.report & c.MQRO_EXPIRATION_WITH_FULL_DATA if passes_expiry else c.MQRO_NONE
    descriptor = Descriptor(
        report=report,
        msg_type=c.MQMT_REPLY,
        format=asked.format_name,
        priority=original.priority,
        persistence=original.persistence,
        reply_to_q=original.reply_to_q if report else "",
        reply_to_q_mgr=original.reply_to_q_mgr if report else "",
        user_identifier=original.user_identifier,
        accounting_token=original.accounting_token,
        appl_identity_data=original.appl_identity_data,
        put_appl_type=c.MQAT_XCF,
        put_appl_name=message.queue[:_APPLICATION_NAME_BYTES],
    )
    correl_id = message.msg_id
    if original.report & c.MQRO_PASS_CORREL_ID:
        correl_id = message.correl_id if message.correl_id.strip(b"\0") else b""
    return Reply(
        _header(asked) + answer,
        descriptor,
        message.msg_id if original.report & c.MQRO_PASS_MSG_ID else b"",
        correl_id,
        message.remaining_ms if passes_expiry else None,
    )


def _header(asked: Asked) -> bytes:
    """Return the MQIIH of the reply; its Flags are 0, whatever the request's."""
    if asked.format_name != IMS_FORMAT:
        return b""
    header = asked.header
    is_formatless = _flags(asked) & c.MQIIH_REPLY_FORMAT_NONE
    return structures.IIH.pack(
        {
            "Encoding": c.MQENC_NATIVE,
            "Format": "" if is_formatless else header["ReplyToFormat"],
            "LTermOverride": header["LTermOverride"],
            "MFSMapName": header["MFSMapName"],
            "CommitMode": header["CommitMode"],
            "SecurityScope": "",
        }
    )


def _flags(asked: Asked) -> int:
    flags = asked.header["Flags"]
    assert isinstance(flags, int)
    return flags

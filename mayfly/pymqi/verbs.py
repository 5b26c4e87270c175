"""MQPUT and MQGET on pymqi's structures: they are read, checked, and updated in place."""

from __future__ import annotations

from functools import lru_cache
from typing import TypedDict

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi.coding import Coding
from mayfly.pymqi.converting import converted
from mayfly.pymqi.descriptors import (
    check_md,
    descriptor_of,
    fields_of,
    put_fields_of,
    put_moment,
)
from mayfly.pymqi.errors import mqmi_error, warning
from mayfly.pymqi.extension import honoured
from mayfly.pymqi.message_handle import handle_of_get, note_put, properties_of_put
from mayfly.pymqi.structures import GMO, MD, PMO
from mayfly.pymqi.variable_strings import Fields
from mayfly.verbs.checks import stored_id
from mayfly.verbs.messages import token_of
from mayfly.verbs.requests import Opened

_GMO_VERSIONS = (c.MQGMO_VERSION_1, c.MQGMO_VERSION_2, c.MQGMO_VERSION_3, c.MQGMO_VERSION_4)
_PMO_VERSIONS = (c.MQPMO_VERSION_1, c.MQPMO_VERSION_2, c.MQPMO_VERSION_3)
_MATCH_IDS = c.MQMO_MATCH_MSG_ID | c.MQMO_MATCH_CORREL_ID
_MATCH_GROUP = c.MQMO_MATCH_GROUP_ID | c.MQMO_MATCH_MSG_SEQ_NUMBER | c.MQMO_MATCH_OFFSET
_NO_ID = bytes(24)
_NAME_BYTES = 48
_BLANK = ord(" ")


class Match(TypedDict, total=False):
    """The conditions of a get: parameters of ``Connection.get``."""

    msg_id: bytes
    correl_id: bytes
    token: bytes
    group_id: bytes
    sequence_number: int
    offset: int


def put_message(connection: Connection, opened: Opened, body: bytes, md: MD, pmo: PMO) -> None:
    """MQPUT to a queue or a topic.

    Raises MQMIError, for a warning too: the message is on the queue, or published, then. With
    MQPMO_ASYNC_RESPONSE what the queue says is not raised but told by MQSTAT; when it refuses the
    message, MD and PMO stay as they are.
    """
    fields, given = vars(md), vars(pmo)
    options = given["Options"]
    try:
        _check_pmo(given)
        asked = descriptor_of(fields, options & c.MQPMO_SET_ALL_CONTEXT)
        given_format = asked.format
        asked, body = honoured(asked, body)
        properties = properties_of_put(given, publishes=opened.kind == c.MQOT_TOPIC)
        result = connection.put(
            opened.handle,
            body,
            asked,
            options,
            msg_id=stored_id(fields["MsgId"]),
            correl_id=stored_id(fields["CorrelId"]),
            expiry_tenths=fields["Expiry"],
            properties=properties,
            context=given["Context"],
        )
    except MQError as error:
        raise mqmi_error(error) from error
    if result is None:
        return
    final = result.descriptor
    if properties:
        note_put(given, properties)
    if final.format != given_format:
        # The MD tells of the data, as its program gave them.
        final = final._replace(format=given_format)
    if not options & c.MQPMO_MD_FOR_OUTPUT_ONLY:
        fields.update(put_fields_of(final, fields["Version"]))
        fields["MsgId"] = result.msg_id
        fields["CorrelId"] = result.correl_id or _NO_ID
        moment = put_moment(result.descriptor, result.window.put_ms)
        fields["PutDate"], fields["PutTime"] = moment
    given.update(_destination(result.queue, result.manager, connection.name))
    if result.warning:
        raise warning(result.warning)


def get_message(
    connection: Connection, handle: int, max_length: int | None, md: MD, gmo: GMO
) -> bytes:
    """MQGET; ``max_length`` in bytes, None takes a message of any length.

    Raises MQMIError. For a warning it holds the body, and MD and GMO are filled in all the same:
    MQRC_TRUNCATED_MSG_ACCEPTED, MQRC_TRUNCATED_MSG_FAILED (the message stays), those of
    ``converted``, and MQRC_NO_MSG_LOCKED for an unlock.
    """
    fields, given = vars(md), vars(gmo)
    options = given["Options"]
    try:
        _check_gmo(given)
        check_md(fields)
        if options & c.MQGMO_UNLOCK:
            return _unlock(connection, handle, options)
        if max_length is not None and max_length < 0:
            raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"length {max_length} is negative")
        target = handle_of_get(given)
        result = connection.get(
            handle,
            options,
            wait_ms=given["WaitInterval"],
            max_length=max_length,
            in_handle=target is not None,
            with_extension=fields["Version"] < c.MQMD_VERSION_2,
            **_match(fields, given),
        )
    except MQError as error:
        raise mqmi_error(error) from error
    message, length, reason = result.message, result.data_length, result.warning
    body, descriptor = message.body, message.descriptor
    if options & c.MQGMO_CONVERT:
        wanted = Coding.of(fields["Encoding"], fields["CodedCharSetId"])
        body, descriptor, length, reason = converted(result, wanted, max_length, options)
    if target is not None and result.handed is not None:
        target.fill(*result.handed, message)
    fields.update(fields_of(descriptor, fields["Version"]))
    fields["Expiry"] = message.remaining_tenths
    fields["BackoutCount"] = message.backout_count
    fields["MsgId"], fields["CorrelId"] = message.msg_id, message.correl_id
    fields["PutDate"], fields["PutTime"] = put_moment(descriptor, message.put_ms)
    given["ResolvedQName"] = padded_name(message.queue)
    if given["Version"] >= c.MQGMO_VERSION_2:
        _fill_in_status(given, descriptor.msg_flags, len(body))
    if given["Version"] >= c.MQGMO_VERSION_3:
        given["MsgToken"] = token_of(message)
    if reason:
        raise warning(reason, body, length)
    return body


def _check_gmo(given: Fields) -> None:
    if given["StrucId"] != c.MQGMO_STRUC_ID or given["Version"] not in _GMO_VERSIONS:
        raise _wrong_structure(rc.MQRC_GMO_ERROR, given)


def _check_pmo(given: Fields) -> None:
    """Raise MQRC_PMO_ERROR, and MQRC_RECS_PRESENT_ERROR for a distribution list: there are none."""
    if given["StrucId"] != c.MQPMO_STRUC_ID or given["Version"] not in _PMO_VERSIONS:
        raise _wrong_structure(rc.MQRC_PMO_ERROR, given)
    if given["RecsPresent"] and given["Version"] >= c.MQPMO_VERSION_2:
        said = f"RecsPresent {given['RecsPresent']}: distribution lists are not supported"
        raise mq_error(rc.MQRC_RECS_PRESENT_ERROR, said)


@lru_cache(maxsize=4096)
def _destination(queue: str, manager: str, own_manager: str) -> Fields:
    """Return what a PMO says of where a message went; a publication has no queue of its own."""
    is_here = manager == own_manager
    return {
        "ResolvedQName": padded_name(queue),
        "ResolvedQMgrName": padded_name(manager),
        "KnownDestCount": int(is_here and bool(queue)),
        "UnknownDestCount": int(not is_here),
        "InvalidDestCount": 0,
    }


@lru_cache(maxsize=4096)
def padded_name(name: str) -> bytes:
    """Return an object name as its 48 bytes."""
    return name.encode().ljust(_NAME_BYTES)


def _match(fields: Fields, given: Fields) -> Match:
    """Return what is asked for (G2); raises the reason codes of G3, also for logical order."""
    version, wanted = given["Version"], given["MatchOptions"]
    if given["Options"] & c.MQGMO_LOGICAL_ORDER:
        _check_knows_groups(fields["Version"], version, "MQGMO_LOGICAL_ORDER")
    if wanted & ~_MATCH_IDS:
        _check_match_options(fields["Version"], version, wanted)
    if version == c.MQGMO_VERSION_1:
        wanted = _MATCH_IDS
    if wanted == _MATCH_IDS:
        return {"msg_id": stored_id(fields["MsgId"]), "correl_id": stored_id(fields["CorrelId"])}
    match: Match = {}
    if wanted & c.MQMO_MATCH_MSG_ID:
        match["msg_id"] = stored_id(fields["MsgId"])
    if wanted & c.MQMO_MATCH_CORREL_ID:
        match["correl_id"] = stored_id(fields["CorrelId"])
    if wanted & c.MQMO_MATCH_MSG_TOKEN:
        match["token"] = given["MsgToken"]
    if wanted & c.MQMO_MATCH_GROUP_ID:
        match["group_id"] = stored_id(fields["GroupId"])
    if wanted & c.MQMO_MATCH_MSG_SEQ_NUMBER:
        match["sequence_number"] = fields["MsgSeqNumber"]
    if wanted & c.MQMO_MATCH_OFFSET:
        match["offset"] = fields["Offset"]
    return match


def _check_match_options(md_version: int, gmo_version: int, wanted: int) -> None:
    if wanted & ~(_MATCH_IDS | _MATCH_GROUP | c.MQMO_MATCH_MSG_TOKEN):
        raise mq_error(rc.MQRC_MATCH_OPTIONS_ERROR, f"GMO.MatchOptions {wanted:#x}")
    what = f"MatchOptions {wanted:#x}"
    if wanted & c.MQMO_MATCH_MSG_TOKEN:
        _check_gmo_version(gmo_version, c.MQGMO_VERSION_3, what)
    if wanted & _MATCH_GROUP:
        _check_knows_groups(md_version, gmo_version, what)


def _check_knows_groups(md_version: int, gmo_version: int, what: str) -> None:
    _check_gmo_version(gmo_version, c.MQGMO_VERSION_2, what)
    if md_version < c.MQMD_VERSION_2:
        raise mq_error(rc.MQRC_WRONG_MD_VERSION, f"{what} needs MD.Version 2")


def _check_gmo_version(version: int, needed: int, what: str) -> None:
    if version < needed:
        raise mq_error(rc.MQRC_WRONG_GMO_VERSION, f"{what} needs GMO.Version {needed}")


def _unlock(connection: Connection, handle: int, options: int) -> bytes:
    reason = connection.unlock(handle, options)
    if reason:
        raise warning(reason)
    return b""


def _fill_in_status(given: Fields, flags: int, returned_length: int) -> None:
    """Set the fields of GMO version 2 and 3; a last message or segment is one of its group, too."""
    given["GroupStatus"] = given["SegmentStatus"] = given["Segmentation"] = _BLANK
    if flags & c.MQMF_LAST_MSG_IN_GROUP:
        given["GroupStatus"] = c.MQGS_LAST_MSG_IN_GROUP[0]
    elif flags & c.MQMF_MSG_IN_GROUP:
        given["GroupStatus"] = c.MQGS_MSG_IN_GROUP[0]
    if flags & c.MQMF_LAST_SEGMENT:
        given["SegmentStatus"] = c.MQSS_LAST_SEGMENT[0]
    elif flags & c.MQMF_SEGMENT:
        given["SegmentStatus"] = c.MQSS_SEGMENT[0]
    if flags & c.MQMF_SEGMENTATION_ALLOWED:
        given["Segmentation"] = c.MQSEG_ALLOWED[0]
    if given["Version"] >= c.MQGMO_VERSION_3:
        given["ReturnedLength"] = returned_length


def _wrong_structure(reason: int, given: Fields) -> MQError:
    return mq_error(reason, f"StrucId {given['StrucId']!r}, Version {given['Version']}")

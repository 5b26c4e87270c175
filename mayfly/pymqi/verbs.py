"""MQPUT and MQGET on pymqi's structures: they are read, checked, and updated in place."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from mayfly.engine.delivery import stored_id
from mayfly.engine.get import GetRequest, GetResult
from mayfly.engine.inquire import MANAGER_CCSID
from mayfly.engine.properties.putting import with_properties
from mayfly.engine.pubsub.topic_handle import TopicHandle
from mayfly.engine.put import PutRequest
from mayfly.engine.search import ANY, Match
from mayfly.engine.verb_options import check_get_options
from mayfly.lifetime.window import life_ms_of_expiry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi.descriptors import (
    check_md,
    descriptor_of,
    fields_of,
    put_moment,
    resolved_fields_of,
)
from mayfly.pymqi.errors import mqmi_error, warning
from mayfly.pymqi.message_handle import handle_of_get, note_put, properties_of_put
from mayfly.pymqi.structures import GMO, MD, PMO, Fields

if TYPE_CHECKING:
    from mayfly.engine.core import Core
    from mayfly.engine.handles import Handle

_GMO_VERSIONS = (c.MQGMO_VERSION_1, c.MQGMO_VERSION_2, c.MQGMO_VERSION_3, c.MQGMO_VERSION_4)
_PMO_VERSIONS = (c.MQPMO_VERSION_1, c.MQPMO_VERSION_2, c.MQPMO_VERSION_3)
_MATCH_IDS = c.MQMO_MATCH_MSG_ID | c.MQMO_MATCH_CORREL_ID
_MATCH_GROUP = c.MQMO_MATCH_GROUP_ID | c.MQMO_MATCH_MSG_SEQ_NUMBER | c.MQMO_MATCH_OFFSET
_NO_ID = bytes(24)
_NAME_BYTES = 48
_BLANK = ord(" ")
_TEXT_FORMAT = "MQSTR"


def put_message(core: Core, handle: Handle | TopicHandle, body: bytes, md: MD, pmo: PMO) -> None:
    """MQPUT to a queue or a topic.

    Raises MQMIError, for a warning too: the message is on the queue, or published, then.
    """
    fields, given = vars(md), vars(pmo)
    options = given["Options"]
    try:
        if given["StrucId"] != c.MQPMO_STRUC_ID or given["Version"] not in _PMO_VERSIONS:
            raise _wrong_structure(rc.MQRC_PMO_ERROR, given)
        settings = core.settings
        life_ms = life_ms_of_expiry(
            fields["Expiry"],
            enforce_maximum=settings.is_maximum_enforced,
            refuse_zero=settings.is_zero_refused,
        )
        asked = descriptor_of(fields, options & c.MQPMO_SET_ALL_CONTEXT)
        properties = properties_of_put(given, publishes=isinstance(handle, TopicHandle))
        descriptor, body = with_properties(core, asked, body, properties)
        request = PutRequest(
            descriptor,
            stored_id(fields["MsgId"]),
            stored_id(fields["CorrelId"]),
            life_ms,
        )
        result = handle.put(body, request, options)
    except MQError as error:
        raise mqmi_error(error) from error
    final = result.descriptor
    if properties:
        note_put(given, properties)
        # The MD tells of the data, as its program gave them.
        final = final._replace(format=asked.format)
    if not options & c.MQPMO_MD_FOR_OUTPUT_ONLY:
        fields.update(resolved_fields_of(final))
        fields["MsgId"] = result.msg_id
        fields["CorrelId"] = result.correl_id or _NO_ID
        moment = put_moment(result.descriptor, result.window.put_ms)
        fields["PutDate"], fields["PutTime"] = moment
    given["ResolvedQName"] = padded_name(result.queue)
    given["ResolvedQMgrName"] = padded_name(core.name)
    if result.warning:
        raise warning(result.warning)


def get_message(handle: Handle, max_length: int | None, md: MD, gmo: GMO) -> bytes:
    """MQGET; ``max_length`` in bytes, None takes a message of any length.

    Raises MQMIError. For a warning it holds the body, and MD and GMO are filled in all the same:
    MQRC_TRUNCATED_MSG_ACCEPTED, MQRC_TRUNCATED_MSG_FAILED (the message stays), MQRC_NOT_CONVERTED,
    and MQRC_NO_MSG_LOCKED for an unlock.
    """
    fields, given = vars(md), vars(gmo)
    options = given["Options"]
    try:
        if given["StrucId"] != c.MQGMO_STRUC_ID or given["Version"] not in _GMO_VERSIONS:
            raise _wrong_structure(rc.MQRC_GMO_ERROR, given)
        check_md(fields)
        if options & c.MQGMO_UNLOCK:
            return _unlock(handle, options)
        if max_length is not None and max_length < 0:
            raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"length {max_length} is negative")
        target = handle_of_get(given)
        view = handle.view(options, has_handle=target is not None)
        request = GetRequest(_match(fields, given), given["WaitInterval"], max_length, view=view)
        result = handle.get(request, options)
    except MQError as error:
        raise mqmi_error(error) from error
    message = result.message
    if target is not None and result.handed is not None:
        target.fill(*result.handed, message)
    reason = result.warning
    if options & c.MQGMO_CONVERT and not reason and not _is_converted(fields, result):
        reason = rc.MQRC_NOT_CONVERTED
    descriptor = message.descriptor
    fields.update(fields_of(descriptor, fields["Version"]))
    fields["Expiry"] = message.remaining_tenths
    fields["BackoutCount"] = message.backout_count
    fields["MsgId"] = message.msg_id
    fields["CorrelId"] = message.correl_id
    fields["PutDate"], fields["PutTime"] = put_moment(descriptor, message.put_ms)
    given["ResolvedQName"] = padded_name(message.queue)
    if given["Version"] >= c.MQGMO_VERSION_2:
        _fill_in_status(given, descriptor.msg_flags, len(message.body))
    if reason:
        raise warning(reason, message.body, result.data_length)
    return message.body


@lru_cache(maxsize=4096)
def padded_name(name: str) -> bytes:
    """Return an object name as its 48 bytes."""
    return name.encode().ljust(_NAME_BYTES)


def _match(fields: Fields, given: Fields) -> Match:
    """Return what is asked for (G2); raises the reason codes of G3."""
    version, wanted = given["Version"], given["MatchOptions"]
    if wanted & ~_MATCH_IDS:
        _check_match_options(fields["Version"], version, wanted)
    if version == c.MQGMO_VERSION_1:
        wanted = _MATCH_IDS
    msg_id = stored_id(fields["MsgId"]) if wanted & c.MQMO_MATCH_MSG_ID else b""
    correl_id = stored_id(fields["CorrelId"]) if wanted & c.MQMO_MATCH_CORREL_ID else b""
    if wanted & _MATCH_GROUP:
        return Match(
            msg_id or None,
            correl_id or None,
            stored_id(fields["GroupId"]) if wanted & c.MQMO_MATCH_GROUP_ID else None,
            fields["MsgSeqNumber"] if wanted & c.MQMO_MATCH_MSG_SEQ_NUMBER else None,
            fields["Offset"] if wanted & c.MQMO_MATCH_OFFSET else None,
        )
    return Match(msg_id or None, correl_id or None) if msg_id or correl_id else ANY


def _check_match_options(md_version: int, gmo_version: int, wanted: int) -> None:
    if wanted & ~(_MATCH_IDS | _MATCH_GROUP):
        raise mq_error(rc.MQRC_MATCH_OPTIONS_ERROR, f"GMO.MatchOptions {wanted:#x}")
    if gmo_version < c.MQGMO_VERSION_2:
        raise mq_error(rc.MQRC_WRONG_GMO_VERSION, f"MatchOptions {wanted:#x} need GMO.Version 2")
    if md_version < c.MQMD_VERSION_2:
        raise mq_error(rc.MQRC_WRONG_MD_VERSION, f"MatchOptions {wanted:#x} need MD.Version 2")


def _unlock(handle: Handle, options: int) -> bytes:
    check_get_options(options)
    reason = handle.unlock()
    if reason:
        raise warning(reason)
    return b""


def _is_converted(wanted: Fields, result: GetResult) -> bool:
    """Tell whether the data are as CodedCharSetId and Encoding of the getter's MD want them (G7).

    Nothing is converted here: other data are returned as they are. Data without a format are never
    converted, and texts (MQSTR) have no numbers in them.
    """
    descriptor = result.message.descriptor
    if not descriptor.format:
        return True
    same_text = _ccsid(descriptor.coded_char_set_id) == _ccsid(wanted["CodedCharSetId"])
    same_numbers = descriptor.encoding == wanted["Encoding"]
    return same_text and (same_numbers or descriptor.format == _TEXT_FORMAT)


def _ccsid(ccsid: int) -> int:
    return MANAGER_CCSID if ccsid == c.MQCCSI_Q_MGR else ccsid


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

"""Channels: their definitions, and how they stand; ``channels_of`` starts and stops them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayfly.admin.errors import AdminError, WrongObject, fixed_attribute, missing_attribute
from mayfly.admin.model import CHANNEL_STATUS, CHSTATUS, NO, YES, Record
from mayfly.admin.values import checked_all, named
from mayfly.channel import ChannelStatus, addresses_of, channels_of
from mayfly.engine import Manager, Value, find_channel
from mayfly.engine.face.administration import (
    ANY_TLS,
    CHANNEL,
    RECEIVER_ONLY,
    SENDER_ONLY,
    Attribute,
    alter_named,
    attributes_of,
    define_named,
    delete_named,
    view_channels,
    view_named,
)
from mayfly.mqi.attribute_selectors import MQCHT_RECEIVER, MQCHT_SENDER, MQXPT_TCP
from mayfly.mqi.command_constants import (
    MQIACH_MSG_SEQUENCE_NUMBER,
    MQRCCF_ATTR_VALUE_ERROR,
    MQRCCF_LIKE_OBJECT_WRONG_TYPE,
    MQRCCF_PARM_CONFLICT,
    MQRCCF_PARM_MISSING,
)

_TYPE: Final = "CHLTYPE"
_NEEDED: Final = ("XMITQ", "CONNAME")
#: SEQNUM of RESET CHANNEL, the number of the next message.
SEQUENCE: Final[Attribute] = attributes_of(CHANNEL)["SEQWRAP"]._replace(
    keyword="SEQNUM", selector=MQIACH_MSG_SEQUENCE_NUMBER, low=1
)


def define(
    manager: Manager,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define a channel of a type; what is left out is as in the model, else the default."""
    if _TYPE not in attributes:
        raise missing_attribute(_TYPE, "SDR or RCVR")
    given = checked_all(kind, attributes)
    models = [] if like is None else [find_channel(manager, like)]
    if replace and like is None:
        models = [found for found in view_channels(manager, name) if found.name == name]
    model = models[0] if models else None
    if model is not None and model.chltype != given[_TYPE]:
        said = f"{model.name} is a channel of another {_TYPE}"
        raise AdminError(MQRCCF_LIKE_OBJECT_WRONG_TYPE, _TYPE, given[_TYPE], said)
    _check_type(given, given[_TYPE])
    given = {**({} if model is None else model.attributes), **given}
    if given[_TYPE] == MQCHT_SENDER:
        for keyword in _NEEDED:
            if not given.get(keyword):
                raise missing_attribute(keyword, "a sender needs it")
        _check_network(given)
    define_named(manager, kind, name, given, replace=replace)


def alter(manager: Manager, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a channel, which count from its next start on."""
    given = checked_all(kind, attributes)
    existing = find_channel(manager, name)
    if given.setdefault(_TYPE, existing.chltype) != existing.chltype:
        raise fixed_attribute(_TYPE, given[_TYPE])
    _check_type(attributes, existing.chltype)
    if existing.chltype == MQCHT_SENDER:
        for keyword in _NEEDED:
            if given.get(keyword) == "":
                said = f"{keyword} is missing: a sender needs it"
                raise AdminError(MQRCCF_PARM_MISSING, keyword, "", said)
        _check_network({**existing.attributes, **given})
    alter_named(manager, kind, name, given)


def delete(manager: Manager, kind: str, name: str) -> None:
    """Delete a channel, which must not be started."""
    find_channel(manager, name)
    channels_of(manager).forget(name)
    delete_named(manager, kind, name)


def inquire(manager: Manager, pattern: str) -> list[Record]:
    """Return the channels whose names match, with the attributes that their type has."""
    records = []
    for definition in view_channels(manager, pattern):
        others = _of_other_type(definition.chltype)
        values = {k: v for k, v in definition.attributes.items() if k not in others}
        records.append(Record(CHANNEL, definition.name, values))
    return records


def inquire_status(manager: Manager, pattern: str) -> list[Record]:
    """Return how the channels stand that were ever started and whose names match."""
    known = {state.name for state in manager.shipments.states()}
    return [
        _status(standing)
        for definition in view_named(manager, CHANNEL, pattern)
        for standing in channels_of(manager).status(definition.name)
        if definition.name in known or not standing.is_sender
    ]


def _of_other_type(channel_type: Value) -> frozenset[str]:
    return RECEIVER_ONLY if channel_type == MQCHT_SENDER else SENDER_ONLY


def _check_type(given: Mapping[str, Value], channel_type: Value) -> None:
    """Refuse attributes that only the other type of channel has."""
    others = _of_other_type(channel_type)
    word = named(attributes_of(CHANNEL)[_TYPE], channel_type)
    for keyword, value in given.items():
        if keyword in others:
            said = f"{keyword} is not a keyword of {CHANNEL} {_TYPE}({word})"
            raise AdminError(MQRCCF_PARM_CONFLICT, keyword, value, said)


def _check_network(attributes: Mapping[str, Value]) -> None:
    """Check what a sender says of the way to its partner."""
    cipher = attributes.get("SSLCIPH", "")
    if cipher not in ("", ANY_TLS):
        said = f"SSLCIPH must be blank or {ANY_TLS}"
        raise WrongObject(MQRCCF_ATTR_VALUE_ERROR, "SSLCIPH", cipher, said)
    if attributes.get("TRPTYPE") == MQXPT_TCP:
        address = str(attributes["CONNAME"])
        try:
            addresses_of(address)
        except ValueError as error:
            said = f"CONNAME: {error}"
            raise WrongObject(MQRCCF_ATTR_VALUE_ERROR, "CONNAME", address, said) from error


def _status(standing: ChannelStatus) -> Record:
    values: dict[str, Value] = {
        _TYPE: MQCHT_SENDER if standing.is_sender else MQCHT_RECEIVER,
        "STATUS": CHANNEL_STATUS[standing.status],
        "CONNAME": standing.connection,
        "RQMNAME": standing.partner,
        "XMITQ": standing.transmission_queue,
        "MSGS": standing.message_count,
        "BATCHES": standing.batch_count,
        "CURSEQNO": standing.current_sequence,
        "LSTSEQNO": standing.sequence,
        "CURLUWID": standing.current_luw,
        "LSTLUWID": standing.luw,
        "INDOUBT": YES if standing.is_in_doubt else NO,
        "SHORTRTS": standing.short_retries_left,
        "LONGRTS": standing.long_retries_left,
        "FAILURE": standing.failure,
    }
    return Record(CHSTATUS, standing.name, values)

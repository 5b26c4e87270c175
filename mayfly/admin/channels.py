"""Channels: their definitions, their status, and the table of client channels (CCDT) in JSON.

``channels_of`` starts and stops channels. The CCDT is a file in the folder of the queue manager, in
the JSON of IBM MQ; a program finds it by MQCCDTURL. It is written again whenever a channel of type
CLNTCONN changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mayfly.admin.connections import inquire_instances
from mayfly.admin.model import (
    CHANNEL_STATUS,
    CHSTATUS,
    NO,
    YES,
    AdminError,
    Record,
    WrongObject,
    check_type,
    checked_all,
    fixed_attribute,
    missing_attribute,
    shown_values,
    type_of,
)
from mayfly.admin.standard_objects import CHANNEL_MODELS_OF_MESSAGES, STANDARD_OBJECTS, source_of
from mayfly.channel import ChannelStatus, channels_of
from mayfly.engine import Engine, manager_folder
from mayfly.engine.api.administration import (
    ANY_TLS,
    CHANNEL,
    CHANNEL_MODELS,
    CLNTCONN,
    KEPT_CHANNEL_TYPES,
    Attribute,
    ChannelDefinition,
    alter_named,
    attributes_of,
    define_named,
    delete_named,
    find_named,
    has_attribute,
    kept_attributes_of,
    view_named,
)
from mayfly.mqi import channel_names
from mayfly.mqi.channel_names import places_of
from mayfly.mqi.command_constants import (
    MQCAFTY_NONE,
    MQCAFTY_PREFERRED,
    MQIACH_MSG_SEQUENCE_NUMBER,
    MQRCCF_ATTR_VALUE_ERROR,
    MQRCCF_LIKE_OBJECT_WRONG_TYPE,
    MQRCCF_PARM_MISSING,
    MQRCN_DISABLED,
    MQRCN_NO,
    MQRCN_Q_MGR,
    MQRCN_YES,
)
from mayfly.mqi.constants import (
    MQCHT_CLNTCONN,
    MQCHT_RECEIVER,
    MQCHT_SENDER,
    MQCHT_SVRCONN,
    MQXPT_TCP,
)
from mayfly.verbs.facts import Value

_TYPE: Final = "CHLTYPE"
_MODELS: Final[Mapping[int, str]] = {**CHANNEL_MODELS, **CHANNEL_MODELS_OF_MESSAGES}
#: Attributes of a new channel that depend on its type.
_DEFAULTS: Final[Mapping[int, Mapping[str, Value]]] = {
    MQCHT_CLNTCONN: {"TRPTYPE": MQXPT_TCP},
    MQCHT_SVRCONN: {"TRPTYPE": MQXPT_TCP, "DISCINT": 0},
    **{number: {"TRPTYPE": MQXPT_TCP} for number in KEPT_CHANNEL_TYPES.values()},
}
#: The types whose CipherSpec Mayfly itself uses.
_CHECKED: Final = (MQCHT_SENDER, MQCHT_RECEIVER, MQCHT_SVRCONN)
_CIPHER: Final = re.compile(r"ANY(_TLS1[23](_OR_HIGHER)?)?|(TLS|ECDHE)_\w+")
_NEEDED: Final = {MQCHT_SENDER: ("XMITQ", "CONNAME"), MQCHT_CLNTCONN: ("CONNAME",)}
_TYPE_ROW: Final = attributes_of(CHANNEL)[_TYPE]
_TYPE_WORDS: Final = ", ".join(word for word, _ in _TYPE_ROW.words)
#: SEQNUM of RESET CHANNEL, the number of the next message.
SEQUENCE: Final[Attribute] = attributes_of(CHANNEL)["SEQWRAP"]._replace(
    keyword="SEQNUM", selector=MQIACH_MSG_SEQUENCE_NUMBER, low=1
)
CLIENT_TABLE: Final = "ccdt.json"
_AFFINITIES: Final = {MQCAFTY_NONE: "none", MQCAFTY_PREFERRED: "preferred"}
_RECONNECTS: Final = {
    MQRCN_NO: "no",
    MQRCN_YES: "yes",
    MQRCN_Q_MGR: "queueManager",
    MQRCN_DISABLED: "disabled",
}


def define(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    like: str | None,
    *,
    replace: bool,
) -> None:
    """Define a channel of the type in CHLTYPE; store it, and write the CCDT for a client channel.

    ``kind`` is CHANNEL, or CLNTCONN for client channels. Attributes left out come from the channel
    ``like``. Without ``like`` they come from the existing channel (with ``replace``), else from
    SYSTEM.DEF.* of its type if that exists, else from the defaults. Raises
    AdminError for a wrong or missing attribute, UnknownLikeObject for an unknown ``like``,
    MQRC_OBJECT_NAME_ERROR, and MQRC_OBJECT_ALREADY_EXISTS without ``replace``.
    """
    if kind == CLNTCONN:
        attributes = {_TYPE: MQCHT_CLNTCONN, **attributes}
    if _TYPE not in attributes:
        raise missing_attribute(_TYPE, _TYPE_WORDS)
    given = checked_all(kind, attributes)
    channel_type = int(given[_TYPE])
    if (channel_type == MQCHT_CLNTCONN) != (kind == CLNTCONN):
        raise fixed_attribute(_TYPE, channel_type)
    defaults = [name] if replace else []
    defaults += [_MODELS[channel_type]] if channel_type in _MODELS else []
    source = source_of(manager, kind, like, defaults)
    inherited = {} if source is None else source.every_attribute
    if source is not None and inherited[_TYPE] != channel_type:
        text = f"{source.name} is a channel of another {_TYPE}"
        raise AdminError(MQRCCF_LIKE_OBJECT_WRONG_TYPE, _TYPE, channel_type, text)
    check_type(kind, type_of(kind, given), given)
    given = {**_DEFAULTS.get(channel_type, {}), **inherited, **given}
    for keyword in _needed(kind, name, channel_type):
        if not given.get(keyword):
            raise missing_attribute(keyword, _why_needed(channel_type))
    _check_network(kind, name, given)
    define_named(manager, kind, name, given, replace=replace)
    _write_client_table(manager, kind)


def default_values(manager: Engine, kind: str, type_word: str) -> dict[str, Value]:
    """Return what DEFINE gives the attributes that a channel with a CHLTYPE has, by keyword."""
    channel_type = dict(_TYPE_ROW.words)[type_word]
    rows = {**attributes_of(kind), **kept_attributes_of(kind)}
    model = [_MODELS[channel_type]] if channel_type in _MODELS else []
    source = source_of(manager, kind, None, model)
    values = {
        **{keyword: row.default for keyword, row in rows.items()},
        **_DEFAULTS.get(channel_type, {}),
        **({} if source is None else source.every_attribute),
        _TYPE: channel_type,
    }
    return {k: v for k, v in values.items() if has_attribute(kind, type_word, k)}


def needed_attributes(kind: str, type_word: str) -> tuple[str, ...]:
    """Return the keywords without which no channel with a CHLTYPE can be defined."""
    return (_TYPE, *_needed(kind, "", dict(_TYPE_ROW.words)[type_word]))


def alter(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a channel; they take effect at its next start.

    ``kind`` is CHANNEL, or CLNTCONN for client channels. Attributes left out do not change. Writes
    the CCDT for a client channel. Raises MQRC_UNKNOWN_OBJECT_NAME, and AdminError for a wrong
    attribute or another CHLTYPE.
    """
    given = checked_all(kind, attributes)
    existing = find_named(manager, kind, name).every_attribute
    channel_type = int(existing[_TYPE])
    if given.get(_TYPE, channel_type) != channel_type:
        raise fixed_attribute(_TYPE, given[_TYPE])
    check_type(kind, type_of(kind, existing), given)
    for keyword in _needed(kind, name, channel_type):
        if given.get(keyword) == "":
            text = f"{keyword} is missing: {_why_needed(channel_type)}"
            raise AdminError(MQRCCF_PARM_MISSING, keyword, "", text)
    _check_network(kind, name, {**existing, **given})
    alter_named(manager, kind, name, given)
    _write_client_table(manager, kind)


def delete(manager: Engine, kind: str, name: str) -> None:
    """Delete a channel with its status; write the CCDT for a client channel.

    ``kind`` is CHANNEL, or CLNTCONN for client channels. Raises MQRC_UNKNOWN_OBJECT_NAME, and
    MQRC_OBJECT_IN_USE while the channel is started or has a batch in doubt.
    """
    find_named(manager, kind, name)
    if kind == CHANNEL:
        channels_of(manager).forget(name)
    delete_named(manager, kind, name)
    _write_client_table(manager, kind)


def inquire(manager: Engine, kind: str, pattern: str) -> list[Record]:
    """Return the channels whose names match, each with the attributes that its CHLTYPE has.

    ``kind`` is CHANNEL, or CLNTCONN for client channels. ``pattern`` is a name, or the start of
    names followed by ``*``. Returns an empty list for no match.
    """
    found = view_named(manager, kind, pattern)
    return [Record(kind, each.name, shown_values(each)) for each in found]


def inquire_status(manager: Engine, pattern: str) -> list[Record]:
    """Return CHSTATUS records of the channels that were ever started and whose names match.

    ``pattern`` is a name, or the start of names followed by ``*``. A sender has one record, a
    receiver one for each sending queue manager. A SVRCONN channel has one for each socket of its
    clients, and one more while it is stopped.
    """
    known = {state.name for state in manager.channel_states.states()}
    records = [
        _status(definition.attributes[_TYPE], status)
        for definition in view_named(manager, CHANNEL, pattern)
        for status in channels_of(manager).status(definition.name)
        if definition.name in known or not status.is_sender
    ]
    return [*inquire_instances(manager, pattern), *records]


def _why_needed(channel_type: Value) -> str:
    """Return the end of an error text: why a channel of the type must have the attribute."""
    return f"a {'sender' if channel_type == MQCHT_SENDER else 'client'} needs it"


def _needed(kind: str, name: str, channel_type: int) -> tuple[str, ...]:
    """Return the keywords of the attributes that a channel must have.

    Returns an empty tuple for the channels that IBM MQ makes as models for others.
    """
    is_model = name in _MODELS.values() or (kind, name) in STANDARD_OBJECTS
    return () if is_model else _NEEDED.get(channel_type, ())


def _check_network(kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Raise WrongObject for an invalid SSLCIPH, TRPTYPE, CONNAME or SSLPEER.

    ``attributes`` are all attributes of the channel, with CHLTYPE. SSLCIPH is not checked for a
    client channel, and for a channel of a type that Mayfly stores but cannot run.
    """
    channel_type = attributes[_TYPE]
    cipher = attributes.get("SSLCIPH", "")
    # The table of clients goes to programs that know more ciphers; a server knows versions alone.
    if channel_type in _CHECKED and cipher and not _CIPHER.fullmatch(str(cipher)):
        text = f"SSLCIPH must be blank or {ANY_TLS}, or a CipherSpec of TLS"
        raise WrongObject(MQRCCF_ATTR_VALUE_ERROR, "SSLCIPH", cipher, text)
    transport = attributes.get("TRPTYPE")
    if channel_type in CHANNEL_MODELS and transport != MQXPT_TCP:
        text = "TRPTYPE must be TCP: clients connect over a network"
        raise WrongObject(MQRCCF_ATTR_VALUE_ERROR, "TRPTYPE", transport or 0, text)
    if transport == MQXPT_TCP and _needed(kind, name, int(channel_type)):
        address = str(attributes["CONNAME"])
        try:
            places_of(address)
        except ValueError as error:
            text = f"CONNAME: {error}"
            raise WrongObject(MQRCCF_ATTR_VALUE_ERROR, "CONNAME", address, text) from error
    peer = str(attributes.get("SSLPEER", ""))
    try:
        channel_names.check_pattern(peer)
    except ValueError as error:
        raise WrongObject(MQRCCF_ATTR_VALUE_ERROR, "SSLPEER", peer, f"SSLPEER: {error}") from error


def _status(channel_type: Value, status: ChannelStatus) -> Record:
    """Return the CHSTATUS record of a channel; for SVRCONN it has only CHLTYPE and STATUS."""
    values: dict[str, Value] = {_TYPE: channel_type, "STATUS": CHANNEL_STATUS[status.status]}
    if channel_type == MQCHT_SVRCONN:
        return Record(CHSTATUS, status.name, values)
    values |= {
        "CONNAME": status.connection,
        "RQMNAME": status.partner,
        "XMITQ": status.transmission_queue,
        "MSGS": status.message_count,
        "BATCHES": status.batch_count,
        "CURSEQNO": status.current_sequence,
        "LSTSEQNO": status.sequence,
        "CURLUWID": status.current_luw,
        "LSTLUWID": status.luw,
        "HBINT": status.heartbeat_s,
        "BYTSSENT": status.sent_bytes,
        "BYTSRCVD": status.received_bytes,
        "INDOUBT": YES if status.is_in_doubt else NO,
        "SHORTRTS": status.short_retries_left,
        "LONGRTS": status.long_retries_left,
        "FAILURE": status.failure,
    }
    return Record(CHSTATUS, status.name, values)


def _write_client_table(manager: Engine, kind: str) -> None:
    """Write the CCDT into the folder of the queue manager if ``kind`` is CLNTCONN; raises OSError.

    For other kinds, and for a queue manager in memory, it does nothing.
    """
    folder = manager_folder(manager)
    if kind == CLNTCONN and folder is not None:
        manager.runtime.files.write_atomically(folder / CLIENT_TABLE, client_table_of(manager))


def client_table_of(manager: Engine) -> str:
    """Return the table of client channels (CCDT) as JSON text.

    SYSTEM.DEF.CLNTCONN is left out. Without client channels the list in the table is empty.
    """
    model = CHANNEL_MODELS[MQCHT_CLNTCONN]
    rows = [
        _table_row(definition)
        for definition in view_named(manager, CLNTCONN, "*")
        if isinstance(definition, ChannelDefinition) and definition.name != model
    ]
    return json.dumps({"channel": rows}, indent=2) + "\n"


def _table_row(definition: ChannelDefinition) -> dict[str, Any]:
    """Return the CCDT entry of a client channel in IBM MQ's JSON names, for ``json.dumps``."""
    connections = [
        {
            "host": place.host,
            **({} if place.port is None else {"port": place.port}),
        }
        for place in places_of(definition.conname)
    ]
    security = {
        "cipherSpecification": definition.sslciph,
        "certificateLabel": definition.certlabl,
        "certificatePeerName": definition.sslpeer,
    }
    return {
        "name": definition.name,
        "type": "clientConnection",
        "clientConnection": {
            "connection": connections,
            "queueManager": definition.qmname,
        },
        "general": {
            "description": definition.descr,
            "maximumMessageLength": definition.maxmsgl,
        },
        "transmissionSecurity": {key: value for key, value in security.items() if value},
        "connectionManagement": {
            "sharingConversations": definition.sharecnv,
            "clientWeight": definition.clntwght,
            "affinity": _AFFINITIES[definition.affinity],
            "defaultReconnect": _RECONNECTS[definition.defrecon],
            "heartbeatInterval": definition.hbint,
        },
    }

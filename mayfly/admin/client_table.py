"""The table of client channels (CCDT) in the folder of a queue manager, in the JSON of IBM MQ.

A program is led to it by MQCCDTURL. It is written anew whenever a channel of type CLNTCONN changes.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mayfly.engine import Engine, manager_folder
from mayfly.engine.face.administration import (
    CHANNEL_MODELS,
    CLNTCONN,
    ChannelDefinition,
    view_named,
)
from mayfly.mqi.command_constants import (
    MQCAFTY_NONE,
    MQCAFTY_PREFERRED,
    MQRCN_DISABLED,
    MQRCN_NO,
    MQRCN_Q_MGR,
    MQRCN_YES,
)
from mayfly.mqi.connection_names import places_of
from mayfly.mqi.constants import MQCHT_CLNTCONN

FILE: Final = "ccdt.json"
_AFFINITIES: Final = {MQCAFTY_NONE: "none", MQCAFTY_PREFERRED: "preferred"}
_RECONNECTS: Final = {
    MQRCN_NO: "no",
    MQRCN_YES: "yes",
    MQRCN_Q_MGR: "queueManager",
    MQRCN_DISABLED: "disabled",
}


def write_table(manager: Engine) -> None:
    """Write the channels of clients as they are defined now; a queue manager in memory has no file.

    Raises OSError.
    """
    folder = manager_folder(manager)
    if folder is not None:
        manager.runtime.files.write_whole(folder / FILE, table_of(manager))


def table_of(manager: Engine) -> str:
    """Return the content of the file."""
    model = CHANNEL_MODELS[MQCHT_CLNTCONN]
    rows = [
        _row(definition)
        for definition in view_named(manager, CLNTCONN, "*")
        if isinstance(definition, ChannelDefinition) and definition.name != model
    ]
    return json.dumps({"channel": rows}, indent=2) + "\n"


def _row(definition: ChannelDefinition) -> dict[str, Any]:
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

"""Numbers of PCF for the words of authority records (MQOT_*, MQZAET_*, MQAUTH_*)."""

from __future__ import annotations

from typing import Final

from mayfly.engine.api.administration import (
    AUTHINFO,
    CHANNEL,
    CLNTCONN,
    GROUP,
    PRINCIPAL,
    PROCESS,
    QMGR,
    TOPIC,
)
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c

#: MQOT_*, by the OBJTYPE of authority records.
OBJECT_TYPES: Final = {
    "QUEUE": c.MQOT_Q,
    TOPIC: c.MQOT_TOPIC,
    QMGR: c.MQOT_Q_MGR,
    PROCESS: c.MQOT_PROCESS,
    "NAMELIST": c.MQOT_NAMELIST,
    AUTHINFO: c.MQOT_AUTH_INFO,
    "RQMNAME": c.MQOT_REMOTE_Q_MGR_NAME,
    CHANNEL: c.MQOT_CHANNEL,
    CLNTCONN: c.MQOT_CLNTCONN_CHANNEL,
    "LISTENER": c.MQOT_LISTENER,
    "SERVICE": c.MQOT_SERVICE,
    "COMMINFO": c.MQOT_COMM_INFO,
}
ENTITY_TYPES: Final = {PRINCIPAL: k.MQZAET_PRINCIPAL, GROUP: k.MQZAET_GROUP}
#: MQAUTH_*, by the word of MQSC.
AUTHORITIES: Final = {
    "ALTUSR": k.MQAUTH_ALT_USER_AUTHORITY,
    "BROWSE": k.MQAUTH_BROWSE,
    "CHG": k.MQAUTH_CHANGE,
    "CLR": k.MQAUTH_CLEAR,
    "CONNECT": k.MQAUTH_CONNECT,
    "CRT": k.MQAUTH_CREATE,
    "CTRL": k.MQAUTH_CONTROL,
    "CTRLX": k.MQAUTH_CONTROL_EXTENDED,
    "DLT": k.MQAUTH_DELETE,
    "DSP": k.MQAUTH_DISPLAY,
    "GET": k.MQAUTH_INPUT,
    "INQ": k.MQAUTH_INQUIRE,
    "PASSALL": k.MQAUTH_PASS_ALL_CONTEXT,
    "PASSID": k.MQAUTH_PASS_IDENTITY_CONTEXT,
    "PUB": k.MQAUTH_PUBLISH,
    "PUT": k.MQAUTH_OUTPUT,
    "RESUME": k.MQAUTH_RESUME,
    "SET": k.MQAUTH_SET,
    "SETALL": k.MQAUTH_SET_ALL_CONTEXT,
    "SETID": k.MQAUTH_SET_IDENTITY_CONTEXT,
    "SUB": k.MQAUTH_SUBSCRIBE,
    "SYSTEM": k.MQAUTH_SYSTEM,
    "ALL": k.MQAUTH_ALL,
    "ALLADM": k.MQAUTH_ALL_ADMIN,
    "ALLMQI": k.MQAUTH_ALL_MQI,
    "NONE": k.MQAUTH_NONE,
}

"""The attributes of the queue manager itself."""

from __future__ import annotations

from typing import ClassVar, Final

from mayfly.engine.attributes.attribute import (
    BYTES,
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    MS,
    QMGR,
    SECONDS,
    attribute,
    kept,
)
from mayfly.engine.attributes.definition import Definition, table
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c

#: Delayed messages are released by the queue manager itself, or by a pipeline on Spark.
DDELAY_EMBEDDED: Final = 0
DDELAY_SPARK: Final = 1
#: When authority is asked for: never, at connect, open and send, or at the release as well.
AUTHCHK_NONE, AUTHCHK_SEND, AUTHCHK_RELEASE = 0, 1, 2


@table
class ManagerDefinition(Definition):
    """The queue manager itself."""

    kinds: ClassVar = (QMGR,)

    descr: str = attribute("", c.MQCA_Q_MGR_DESC, length=64)
    deadq: str = attribute("", c.MQCA_DEAD_LETTER_Q_NAME, length=48)
    parent: str = attribute("", c.MQCA_PARENT, length=48)
    psmode: int = attribute(
        c.MQPSM_COMPAT,
        c.MQIA_PUBSUB_MODE,
        words=(("COMPAT", c.MQPSM_COMPAT), ("ENABLED", c.MQPSM_ENABLED)),
    )
    defxmitq: str = attribute("", c.MQCA_DEF_XMIT_Q_NAME, length=48)
    maxmsgl: int = attribute(
        4_194_304, c.MQIA_MAX_MSG_LENGTH, low=32_768, high=LONGEST_MESSAGE_BYTES, unit=BYTES
    )
    maxpropl: int = attribute(
        c.MQPROP_UNRESTRICTED_LENGTH,
        c.MQIA_MAX_PROPERTIES_LENGTH,
        low=0,
        high=LONGEST_MESSAGE_BYTES,
        words=(("NOLIMIT", c.MQPROP_UNRESTRICTED_LENGTH),),
        unit=BYTES,
    )
    maxhands: int = attribute(256, c.MQIA_MAX_HANDLES, low=1, high=LARGEST)
    maxumsgs: int = attribute(10_000, c.MQIA_MAX_UNCOMMITTED_MSGS, low=1, high=LARGEST)
    trigint: int = attribute(LARGEST, c.MQIA_TRIGGER_INTERVAL, low=0, high=LARGEST, unit=MS)
    markint: int = attribute(
        5_000,
        c.MQIA_MSG_MARK_BROWSE_INTERVAL,
        low=0,
        high=LARGEST,
        words=(("NOLIMIT", c.MQMMBI_UNLIMITED),),
        unit=MS,
    )
    expryint: int = attribute(
        c.MQEXPI_OFF,
        c.MQIA_EXPIRY_INTERVAL,
        low=1,
        high=99_999_999,
        words=(("OFF", c.MQEXPI_OFF),),
        unit=SECONDS,
    )
    # Whether the rules for channels count, and which AUTHINFO says how passwords are checked;
    # blank: none is checked.
    chlauth: int = attribute(
        k.MQCHLA_ENABLED,
        c.MQIA_CHLAUTH_RECORDS,
        words=(("DISABLED", k.MQCHLA_DISABLED), ("ENABLED", k.MQCHLA_ENABLED)),
    )
    # Whether addresses are looked up for the host names in rules for channels.
    revdns: int = attribute(
        k.MQRDNS_ENABLED,
        c.MQIA_REVERSE_DNS_LOOKUP,
        words=(("DISABLED", k.MQRDNS_DISABLED), ("ENABLED", k.MQRDNS_ENABLED)),
    )
    connauth: str = attribute("", c.MQCA_CONN_AUTH, length=48)
    # Mayfly's own: the queue manager or Spark releases delayed messages (docs/SCHEDULE.md).
    ddelay: int = attribute(
        DDELAY_EMBEDDED, words=(("EMBEDDED", DDELAY_EMBEDDED), ("SPARK", DDELAY_SPARK))
    )
    # Mayfly's own: when authority is asked for (docs/AUTHORITY.md).
    authchk: int = attribute(
        AUTHCHK_NONE,
        words=(("NONE", AUTHCHK_NONE), ("SEND", AUTHCHK_SEND), ("RELEASE", AUTHCHK_RELEASE)),
    )
    #: Whether what clients connect by was defined once: an operator may have deleted it since.
    has_client_objects: int = kept(0, "CLIENT_OBJECTS")

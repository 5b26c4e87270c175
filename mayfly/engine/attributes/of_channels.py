"""The attributes of channels, which move messages from a transmission queue to another manager."""

from __future__ import annotations

from typing import ClassVar, Final

from mayfly.engine.attributes.attribute import (
    BYTES,
    CHANNEL,
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    MS,
    SECONDS,
    attribute,
)
from mayfly.engine.attributes.definition import Definition, table
from mayfly.mqi import attribute_selectors as s
from mayfly.mqi import command_constants as k

#: SSLCIPH of a sender that speaks TLS; blank is in the clear.
ANY_TLS: Final = "ANY_TLS12_OR_HIGHER"
_LARGEST_SEQUENCE = 999_999_999
_SECONDS_MAX = 999_999


@table
class ChannelDefinition(Definition):
    """A channel of either type."""

    kinds: ClassVar = (CHANNEL,)

    chltype: int = attribute(
        s.MQCHT_SENDER,
        k.MQIACH_CHANNEL_TYPE,
        words=(("SDR", s.MQCHT_SENDER), ("RCVR", s.MQCHT_RECEIVER)),
    )
    descr: str = attribute("", k.MQCACH_DESC, length=64)
    # LOCAL: CONNAME is an open queue manager of this process; TCP: where one is served.
    trptype: int = attribute(
        s.MQXPT_LOCAL,
        k.MQIACH_XMIT_PROTOCOL_TYPE,
        words=(("LOCAL", s.MQXPT_LOCAL), ("TCP", s.MQXPT_TCP)),
    )
    conname: str = attribute("", k.MQCACH_CONNECTION_NAME, length=264)
    # Which queue manager is meant, where several are served at CONNAME; blank: the only one.
    qmname: str = attribute("", length=48)
    sslciph: str = attribute("", k.MQCACH_SSL_CIPHER_SPEC, length=32)
    # A file with the token that the server at CONNAME asks for; blank: MAYFLY_TOKEN.
    tokenfile: str = attribute("", length=256)
    xmitq: str = attribute("", k.MQCACH_XMIT_Q_NAME, length=48)
    batchsz: int = attribute(50, k.MQIACH_BATCH_SIZE, low=1, high=9_999)
    # How long a batch stays open for more messages.
    batchint: int = attribute(0, k.MQIACH_BATCH_INTERVAL, low=0, high=LARGEST, unit=MS)
    # 0 is never.
    discint: int = attribute(6_000, k.MQIACH_DISC_INTERVAL, low=0, high=_SECONDS_MAX, unit=SECONDS)
    hbint: int = attribute(300, k.MQIACH_HB_INTERVAL, low=0, high=_SECONDS_MAX, unit=SECONDS)
    shortrty: int = attribute(10, k.MQIACH_SHORT_RETRY, low=0, high=LARGEST)
    shorttmr: int = attribute(60, k.MQIACH_SHORT_TIMER, low=1, high=LARGEST, unit=SECONDS)
    longrty: int = attribute(LARGEST, k.MQIACH_LONG_RETRY, low=0, high=LARGEST)
    longtmr: int = attribute(1_200, k.MQIACH_LONG_TIMER, low=1, high=LARGEST, unit=SECONDS)
    maxmsgl: int = attribute(
        4_194_304, k.MQIACH_MAX_MSG_LENGTH, low=0, high=LONGEST_MESSAGE_BYTES, unit=BYTES
    )
    seqwrap: int = attribute(
        _LARGEST_SEQUENCE, k.MQIACH_SEQUENCE_NUMBER_WRAP, low=100, high=_LARGEST_SEQUENCE
    )
    # FAST: non-persistent messages travel outside of the batch.
    npmspeed: int = attribute(
        s.MQNPMS_FAST,
        k.MQIACH_NPM_SPEED,
        words=(("FAST", s.MQNPMS_FAST), ("NORMAL", s.MQNPMS_NORMAL)),
    )
    usedlq: int = attribute(
        s.MQUSEDLQ_YES,
        s.MQIA_USE_DEAD_LETTER_Q,
        words=(("NO", s.MQUSEDLQ_NO), ("YES", s.MQUSEDLQ_YES)),
    )
    mcauser: str = attribute("", k.MQCACH_MCA_USER_ID, length=12)
    mrrty: int = attribute(10, k.MQIACH_MR_COUNT, low=0, high=LARGEST)
    mrtmr: int = attribute(1_000, k.MQIACH_MR_INTERVAL, low=1, high=LARGEST, unit=MS)


#: What only one type of channel has.
SENDER_ONLY: Final = frozenset(
    "CONNAME QMNAME SSLCIPH TOKENFILE XMITQ BATCHINT DISCINT "
    "SHORTRTY SHORTTMR LONGRTY LONGTMR".split()
)
RECEIVER_ONLY: Final = frozenset("MCAUSER MRRTY MRTMR".split())

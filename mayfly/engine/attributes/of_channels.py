"""The attributes of channels, which move messages from a transmission queue to another manager."""

from __future__ import annotations

from typing import ClassVar, Final

from mayfly.engine.attributes.attribute import (
    CHANNEL,
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    attribute,
)
from mayfly.engine.attributes.definition import Definition, table
from mayfly.mqi import selectors as s

#: SSLCIPH of a sender that speaks TLS; blank is in the clear.
ANY_TLS: Final = "ANY_TLS12_OR_HIGHER"
_LARGEST_SEQUENCE = 999_999_999
_SECONDS_MAX = 999_999


@table
class ChannelDefinition(Definition):
    """A channel of either type."""

    kinds: ClassVar = (CHANNEL,)

    chltype: int = attribute(
        s.MQCHT_SENDER, words=(("SDR", s.MQCHT_SENDER), ("RCVR", s.MQCHT_RECEIVER))
    )
    descr: str = attribute("", length=64)
    # LOCAL: CONNAME is an open queue manager of this process; TCP: where one is served.
    trptype: int = attribute(s.MQXPT_LOCAL, words=(("LOCAL", s.MQXPT_LOCAL), ("TCP", s.MQXPT_TCP)))
    conname: str = attribute("", length=264)
    # Which queue manager is meant, where several are served at CONNAME; blank: the only one.
    qmname: str = attribute("", length=48)
    sslciph: str = attribute("", length=32)
    # A file with the token that the server at CONNAME asks for; blank: MAYFLY_TOKEN.
    tokenfile: str = attribute("", length=256)
    xmitq: str = attribute("", length=48)
    batchsz: int = attribute(50, low=1, high=9_999)
    # Milliseconds that a batch stays open for more messages.
    batchint: int = attribute(0, low=0, high=LARGEST)
    # Seconds; 0 is never.
    discint: int = attribute(6_000, low=0, high=_SECONDS_MAX)
    hbint: int = attribute(300, low=0, high=_SECONDS_MAX)
    shortrty: int = attribute(10, low=0, high=LARGEST)
    shorttmr: int = attribute(60, low=1, high=LARGEST)
    longrty: int = attribute(LARGEST, low=0, high=LARGEST)
    longtmr: int = attribute(1_200, low=1, high=LARGEST)
    maxmsgl: int = attribute(4_194_304, low=0, high=LONGEST_MESSAGE_BYTES)
    seqwrap: int = attribute(_LARGEST_SEQUENCE, low=100, high=_LARGEST_SEQUENCE)
    # FAST: non-persistent messages travel outside of the batch.
    npmspeed: int = attribute(
        s.MQNPMS_FAST, words=(("FAST", s.MQNPMS_FAST), ("NORMAL", s.MQNPMS_NORMAL))
    )
    usedlq: int = attribute(s.MQUSEDLQ_YES, words=(("NO", s.MQUSEDLQ_NO), ("YES", s.MQUSEDLQ_YES)))
    mcauser: str = attribute("", length=12)
    mrrty: int = attribute(10, low=0, high=LARGEST)
    # Milliseconds.
    mrtmr: int = attribute(1_000, low=1, high=LARGEST)


#: What only one type of channel has.
SENDER_ONLY: Final = frozenset(
    "CONNAME QMNAME SSLCIPH TOKENFILE XMITQ BATCHINT DISCINT "
    "SHORTRTY SHORTTMR LONGRTY LONGTMR".split()
)
RECEIVER_ONLY: Final = frozenset("MCAUSER MRRTY MRTMR".split())

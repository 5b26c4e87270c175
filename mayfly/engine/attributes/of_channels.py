"""The attributes of channels, which move messages from a transmission queue to another manager."""

from __future__ import annotations

from typing import Final

from mayfly.engine.attributes.attribute import (
    CHANNEL,
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    Attribute,
)

#: CHLTYPE, MQCHT_*: who sends, who receives.
SENDER, RECEIVER = 1, 3
#: TRPTYPE, MQXPT_*: CONNAME is an open queue manager of this process, or where one is served.
LOCAL: Final = 0
TCP: Final = 2
#: SSLCIPH of a sender that speaks TLS; blank is in the clear.
ANY_TLS: Final = "ANY_TLS12_OR_HIGHER"
#: NPMSPEED, MQNPMS_*: whether non-persistent messages travel inside the batch.
NORMAL, FAST = 1, 2
#: USEDLQ, MQUSEDLQ_*.
NO_DEAD_LETTERS, DEAD_LETTERS = 1, 2
_LARGEST_SEQUENCE = 999_999_999
_SECONDS_MAX = 999_999

CHANNEL_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("CHLTYPE", (CHANNEL,), SENDER, words=(("SDR", SENDER), ("RCVR", RECEIVER))),
    Attribute("DESCR", (CHANNEL,), "", length=64),
    Attribute("TRPTYPE", (CHANNEL,), LOCAL, words=(("LOCAL", LOCAL), ("TCP", TCP))),
    Attribute("CONNAME", (CHANNEL,), "", length=264),
    # Which queue manager is meant, where several are served at CONNAME; blank: the only one.
    Attribute("QMNAME", (CHANNEL,), "", length=48),
    Attribute("SSLCIPH", (CHANNEL,), "", length=32),
    # A file with the token that the server at CONNAME asks for; blank: MAYFLY_TOKEN.
    Attribute("TOKENFILE", (CHANNEL,), "", length=256),
    Attribute("XMITQ", (CHANNEL,), "", length=48),
    Attribute("BATCHSZ", (CHANNEL,), 50, None, 1, 9_999),
    # Milliseconds that a batch stays open for more messages.
    Attribute("BATCHINT", (CHANNEL,), 0, None, 0, LARGEST),
    # Seconds; 0 is never.
    Attribute("DISCINT", (CHANNEL,), 6_000, None, 0, _SECONDS_MAX),
    Attribute("HBINT", (CHANNEL,), 300, None, 0, _SECONDS_MAX),
    Attribute("SHORTRTY", (CHANNEL,), 10, None, 0, LARGEST),
    Attribute("SHORTTMR", (CHANNEL,), 60, None, 1, LARGEST),
    Attribute("LONGRTY", (CHANNEL,), LARGEST, None, 0, LARGEST),
    Attribute("LONGTMR", (CHANNEL,), 1_200, None, 1, LARGEST),
    Attribute("MAXMSGL", (CHANNEL,), 4_194_304, None, 0, LONGEST_MESSAGE_BYTES),
    Attribute("SEQWRAP", (CHANNEL,), _LARGEST_SEQUENCE, None, 100, _LARGEST_SEQUENCE),
    Attribute("NPMSPEED", (CHANNEL,), FAST, words=(("FAST", FAST), ("NORMAL", NORMAL))),
    Attribute(
        "USEDLQ", (CHANNEL,), DEAD_LETTERS, words=(("NO", NO_DEAD_LETTERS), ("YES", DEAD_LETTERS))
    ),
    Attribute("MCAUSER", (CHANNEL,), "", length=12),
    Attribute("MRRTY", (CHANNEL,), 10, None, 0, LARGEST),
    # Milliseconds.
    Attribute("MRTMR", (CHANNEL,), 1_000, None, 1, LARGEST),
)
#: What only one type of channel has.
SENDER_ONLY: Final = frozenset(
    "CONNAME QMNAME SSLCIPH TOKENFILE XMITQ BATCHINT DISCINT "
    "SHORTRTY SHORTTMR LONGRTY LONGTMR".split()
)
RECEIVER_ONLY: Final = frozenset("MCAUSER MRRTY MRTMR".split())

"""The attributes of channels: between queue managers, and between clients and a queue manager."""

from __future__ import annotations

from typing import ClassVar, Final

from mayfly.engine.attributes.attribute import (
    BYTES,
    CHANNEL,
    CLNTCONN,
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    MS,
    SECONDS,
    attribute,
)
from mayfly.engine.attributes.definition import Definition, attributes_of, table
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c

#: SSLCIPH of a channel that speaks TLS; blank is in the clear.
ANY_TLS: Final = "ANY_TLS12_OR_HIGHER"
#: The types of channels, by their words in CHLTYPE; CLNTCONN is a kind of object of its own.
SDR, RCVR, SVRCONN = "SDR", "RCVR", "SVRCONN"
_TYPES: Final = (
    (SDR, c.MQCHT_SENDER),
    (RCVR, c.MQCHT_RECEIVER),
    (SVRCONN, c.MQCHT_SVRCONN),
    (CLNTCONN, c.MQCHT_CLNTCONN),
)
_LARGEST_SEQUENCE = 999_999_999
_SECONDS_MAX = 999_999
_WEIGHT_MAX = 99
#: The types that have an attribute; CHANNEL stands for all but those of clients.
_SENDER = (CHANNEL, SDR)
_RECEIVER = (CHANNEL, RCVR)
_MESSAGES = (CHANNEL, SDR, RCVR)
_SERVER = (CHANNEL, SVRCONN)
_CONNECTION = (CHANNEL, SVRCONN, CLNTCONN)
_CLIENT = (CLNTCONN,)
_ALL = (CHANNEL, SDR, RCVR, SVRCONN, CLNTCONN)


@table
class ChannelDefinition(Definition):
    """A channel of any type; ``objects`` of a row are the types that have the attribute."""

    kinds: ClassVar = (CHANNEL, CLNTCONN)

    chltype: int = attribute(c.MQCHT_SENDER, k.MQIACH_CHANNEL_TYPE, words=_TYPES, objects=_ALL)
    descr: str = attribute("", k.MQCACH_DESC, length=64, objects=_ALL)
    # LOCAL: CONNAME is an open queue manager of this process; TCP: where one is served. Clients
    # connect by TCP.
    trptype: int = attribute(
        c.MQXPT_LOCAL,
        k.MQIACH_XMIT_PROTOCOL_TYPE,
        words=(("LOCAL", c.MQXPT_LOCAL), ("TCP", c.MQXPT_TCP)),
        objects=_ALL,
    )
    conname: str = attribute("", k.MQCACH_CONNECTION_NAME, length=264, objects=(*_SENDER, CLNTCONN))
    # Which queue manager is meant, where several are served at CONNAME; blank: the only one.
    qmname: str = attribute("", length=48, objects=(*_SENDER, CLNTCONN))
    sslciph: str = attribute("", k.MQCACH_SSL_CIPHER_SPEC, length=32, objects=_ALL)
    # Whether the partner that connects must show a certificate where TLS is spoken.
    sslcauth: int = attribute(
        k.MQSCA_REQUIRED,
        k.MQIACH_SSL_CLIENT_AUTH,
        words=(("REQUIRED", k.MQSCA_REQUIRED), ("OPTIONAL", k.MQSCA_OPTIONAL)),
        objects=(*_RECEIVER, SVRCONN),
    )
    # A pattern of the distinguished name in the partner's certificate.
    sslpeer: str = attribute("", k.MQCACH_SSL_PEER_NAME, length=1_024, objects=_ALL)
    # The client's own certificate: a file of certificate and key, or the name of one.
    certlabl: str = attribute("", c.MQCA_CERT_LABEL, length=64, objects=_CLIENT)
    # A file with the token that the server at CONNAME asks for; blank: MAYFLY_TOKEN.
    tokenfile: str = attribute("", length=256, objects=_SENDER)
    xmitq: str = attribute("", k.MQCACH_XMIT_Q_NAME, length=48, objects=_SENDER)
    batchsz: int = attribute(50, k.MQIACH_BATCH_SIZE, low=1, high=9_999, objects=_MESSAGES)
    # How long a batch stays open for more messages.
    batchint: int = attribute(
        0, k.MQIACH_BATCH_INTERVAL, low=0, high=LARGEST, unit=MS, objects=_SENDER
    )
    # 0 is never.
    discint: int = attribute(
        6_000, k.MQIACH_DISC_INTERVAL, low=0, high=_SECONDS_MAX, unit=SECONDS, objects=_SENDER
    )
    hbint: int = attribute(
        300, k.MQIACH_HB_INTERVAL, low=0, high=_SECONDS_MAX, unit=SECONDS, objects=_ALL
    )
    shortrty: int = attribute(10, k.MQIACH_SHORT_RETRY, low=0, high=LARGEST, objects=_SENDER)
    shorttmr: int = attribute(
        60, k.MQIACH_SHORT_TIMER, low=1, high=LARGEST, unit=SECONDS, objects=_SENDER
    )
    longrty: int = attribute(LARGEST, k.MQIACH_LONG_RETRY, low=0, high=LARGEST, objects=_SENDER)
    longtmr: int = attribute(
        1_200, k.MQIACH_LONG_TIMER, low=1, high=LARGEST, unit=SECONDS, objects=_SENDER
    )
    maxmsgl: int = attribute(
        4_194_304,
        k.MQIACH_MAX_MSG_LENGTH,
        low=0,
        high=LONGEST_MESSAGE_BYTES,
        unit=BYTES,
        objects=_ALL,
    )
    seqwrap: int = attribute(
        _LARGEST_SEQUENCE,
        k.MQIACH_SEQUENCE_NUMBER_WRAP,
        low=100,
        high=_LARGEST_SEQUENCE,
        objects=_MESSAGES,
    )
    # FAST: non-persistent messages travel outside of the batch.
    npmspeed: int = attribute(
        c.MQNPMS_FAST,
        k.MQIACH_NPM_SPEED,
        words=(("FAST", c.MQNPMS_FAST), ("NORMAL", c.MQNPMS_NORMAL)),
        objects=_MESSAGES,
    )
    usedlq: int = attribute(
        c.MQUSEDLQ_YES,
        c.MQIA_USE_DEAD_LETTER_Q,
        words=(("NO", c.MQUSEDLQ_NO), ("YES", c.MQUSEDLQ_YES)),
        objects=_MESSAGES,
    )
    # The user whose authority counts; blank at a SVRCONN means the user that the client names.
    mcauser: str = attribute("", k.MQCACH_MCA_USER_ID, length=12, objects=(*_RECEIVER, SVRCONN))
    mrrty: int = attribute(10, k.MQIACH_MR_COUNT, low=0, high=LARGEST, objects=_RECEIVER)
    mrtmr: int = attribute(
        1_000, k.MQIACH_MR_INTERVAL, low=1, high=LARGEST, unit=MS, objects=_RECEIVER
    )
    # Conversations that share one socket; 0 and 1 share none.
    sharecnv: int = attribute(
        10, k.MQIACH_SHARING_CONVERSATIONS, low=0, high=LARGEST, objects=_CONNECTION
    )
    # Sockets at the same time: of the channel, and of it from one address.
    maxinst: int = attribute(LARGEST, k.MQIACH_MAX_INSTANCES, low=0, high=LARGEST, objects=_SERVER)
    maxinstc: int = attribute(
        LARGEST, k.MQIACH_MAX_INSTS_PER_CLIENT, low=0, high=LARGEST, objects=_SERVER
    )
    # How a client chooses between channels that lead to one name: the first of weight 0 by name,
    # else by chance in proportion; PREFERRED: the same one each time.
    clntwght: int = attribute(
        0, k.MQIACH_CLIENT_CHANNEL_WEIGHT, low=0, high=_WEIGHT_MAX, objects=_CLIENT
    )
    affinity: int = attribute(
        k.MQCAFTY_PREFERRED,
        k.MQIACH_CONNECTION_AFFINITY,
        words=(("PREFERRED", k.MQCAFTY_PREFERRED), ("NONE", k.MQCAFTY_NONE)),
        objects=_CLIENT,
    )
    defrecon: int = attribute(
        k.MQRCN_NO,
        k.MQIACH_DEF_RECONNECT,
        words=(
            ("NO", k.MQRCN_NO),
            ("YES", k.MQRCN_YES),
            ("QMGR", k.MQRCN_Q_MGR),
            ("DISABLED", k.MQRCN_DISABLED),
        ),
        objects=_CLIENT,
    )


def channel_types_with(keyword: str) -> tuple[str, ...]:
    """Return the words of the types of channels that have an attribute; none for an unknown one."""
    row = attributes_of(CHANNEL).get(keyword) or attributes_of(CLNTCONN).get(keyword)
    return () if row is None else tuple(word for word, _ in _TYPES if word in row.objects)

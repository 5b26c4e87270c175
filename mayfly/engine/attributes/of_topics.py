"""The attributes of topics and subscriptions."""

from __future__ import annotations

from typing import Final

from mayfly.engine.attributes.attribute import LARGEST, SUB, TOPIC, YES_NO, Attribute
from mayfly.mqi import constants as c
from mayfly.mqi import selectors as s

#: A topic takes what it does not say itself from the nearest topic object above it.
_AS_PARENT: Final = "ASPARENT"
_DELIVERY = (
    (_AS_PARENT, s.MQDLV_AS_PARENT),
    ("ALL", s.MQDLV_ALL),
    ("ALLDUR", s.MQDLV_ALL_DUR),
    ("ALLAVAIL", s.MQDLV_ALL_AVAIL),
)
#: MQTA_PUB_* and MQTA_SUB_*, which have the same values.
PUBSUB_AS_PARENT, PUBSUB_DISABLED, PUBSUB_ENABLED = 0, 1, 2
_PUBSUB = (
    (_AS_PARENT, PUBSUB_AS_PARENT),
    ("DISABLED", PUBSUB_DISABLED),
    ("ENABLED", PUBSUB_ENABLED),
)
#: MQUSEDLQ_*.
DEAD_LETTERS_AS_PARENT, DEAD_LETTERS_NO, DEAD_LETTERS_YES = 0, 1, 2
TOPIC_STRING_BYTES: Final = 10_240
#: Destination classes of a subscription, MQDC_*.
MANAGED_DESTINATION, PROVIDED_DESTINATION = 1, 2
#: Who may resume a subscription, MQVU_*: anybody, or SUBUSER alone.
FIXED_USER, ANY_USER = 1, 2
#: PUBPRTY: the copy has the priority of its queue, or of the publication.
PRIORITY_AS_QUEUE, PRIORITY_AS_PUBLISHED = -1, c.MQPRI_PRIORITY_AS_PUBLISHED

TOPIC_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("TOPICSTR", (TOPIC, SUB), "", length=TOPIC_STRING_BYTES),
    Attribute("DESCR", (TOPIC,), "", length=64),
    Attribute(
        "DEFPRTY",
        (TOPIC,),
        c.MQPRI_PRIORITY_AS_PARENT,
        None,
        0,
        9,
        ((_AS_PARENT, c.MQPRI_PRIORITY_AS_PARENT),),
    ),
    Attribute(
        "DEFPSIST",
        (TOPIC,),
        c.MQPER_PERSISTENCE_AS_PARENT,
        words=((_AS_PARENT, c.MQPER_PERSISTENCE_AS_PARENT), *YES_NO),
    ),
    Attribute("PMSGDLV", (TOPIC,), s.MQDLV_AS_PARENT, words=_DELIVERY),
    Attribute("NPMSGDLV", (TOPIC,), s.MQDLV_AS_PARENT, words=_DELIVERY),
    Attribute("PUB", (TOPIC,), PUBSUB_AS_PARENT, words=_PUBSUB),
    Attribute("SUB", (TOPIC,), PUBSUB_AS_PARENT, words=_PUBSUB),
    Attribute(
        "DURSUB",
        (TOPIC,),
        s.MQSUB_DURABLE_AS_PARENT,
        words=(
            (_AS_PARENT, s.MQSUB_DURABLE_AS_PARENT),
            ("YES", s.MQSUB_DURABLE_ALLOWED),
            ("NO", s.MQSUB_DURABLE_INHIBITED),
        ),
    ),
    Attribute(
        "CAPEXPRY",
        (TOPIC,),
        s.MQCEX_AS_PARENT,
        None,
        1,
        LARGEST,
        (("NOLIMIT", c.MQCEX_NOLIMIT), (_AS_PARENT, s.MQCEX_AS_PARENT)),
    ),
    Attribute(
        "USEDLQ",
        (TOPIC,),
        DEAD_LETTERS_AS_PARENT,
        words=(
            (_AS_PARENT, DEAD_LETTERS_AS_PARENT),
            ("NO", DEAD_LETTERS_NO),
            ("YES", DEAD_LETTERS_YES),
        ),
    ),
    Attribute("MDURMDL", (TOPIC,), "", length=48),
    Attribute("MNDURMDL", (TOPIC,), "", length=48),
    Attribute("TOPICOBJ", (SUB,), "", length=48),
    Attribute("DEST", (SUB,), "", length=48),
    Attribute("DESTQMGR", (SUB,), "", length=48),
    Attribute(
        "DESTCLAS",
        (SUB,),
        PROVIDED_DESTINATION,
        words=(("PROVIDED", PROVIDED_DESTINATION), ("MANAGED", MANAGED_DESTINATION)),
    ),
    Attribute("DESTCORL", (SUB,), "", length=48),
    Attribute(
        "EXPIRY", (SUB,), c.MQEI_UNLIMITED, None, 1, LARGEST, (("UNLIMITED", c.MQEI_UNLIMITED),)
    ),
    Attribute(
        "PUBPRTY",
        (SUB,),
        PRIORITY_AS_PUBLISHED,
        None,
        0,
        9,
        (("ASPUB", PRIORITY_AS_PUBLISHED), ("ASQDEF", PRIORITY_AS_QUEUE)),
    ),
    # Copies only of what is retained, and only on request (MQSUBRQ).
    Attribute("REQONLY", (SUB,), 0, words=(("NO", 0), ("YES", 1))),
    Attribute("SELECTOR", (SUB,), "", length=TOPIC_STRING_BYTES),
    Attribute("SUBUSER", (SUB,), "", length=12),
    Attribute("USERDATA", (SUB,), "", length=TOPIC_STRING_BYTES),
    Attribute("VARUSER", (SUB,), ANY_USER, words=(("ANY", ANY_USER), ("FIXED", FIXED_USER))),
)

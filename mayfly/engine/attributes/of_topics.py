"""The attributes of topics and subscriptions."""

from __future__ import annotations

from typing import ClassVar, Final

from mayfly.engine.attributes.attribute import LARGEST, SUB, TENTHS, TOPIC, YES_NO, attribute, kept
from mayfly.engine.attributes.definition import Definition, table
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.verbs.topic_strings import TOPIC_STRING_BYTES

#: A topic takes what it does not say itself from the nearest topic object above it.
_AS_PARENT: Final = "ASPARENT"
_DELIVERY = (
    (_AS_PARENT, c.MQDLV_AS_PARENT),
    ("ALL", c.MQDLV_ALL),
    ("ALLDUR", c.MQDLV_ALL_DUR),
    ("ALLAVAIL", c.MQDLV_ALL_AVAIL),
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
#: SUBTYPE: a subscription was made by an operator, a program or a neighbour's subscribers.
ADMIN, API, PROXY = "ADMIN", "API", "PROXY"
#: Destination classes of a subscription, MQDC_*.
MANAGED_DESTINATION, PROVIDED_DESTINATION = 1, 2
#: MQVU_*: a subscription may be resumed by SUBUSER alone, or by anybody.
FIXED_USER, ANY_USER = 1, 2
#: PUBPRTY: the copy has the priority of its queue, or of the publication.
PRIORITY_AS_QUEUE, PRIORITY_AS_PUBLISHED = -1, c.MQPRI_PRIORITY_AS_PUBLISHED


@table
class TopicDefinition(Definition):
    """A topic object."""

    kinds: ClassVar = (TOPIC,)

    topicstr: str = attribute("", c.MQCA_TOPIC_STRING, length=TOPIC_STRING_BYTES)
    descr: str = attribute("", c.MQCA_TOPIC_DESC, length=64)
    defprty: int = attribute(
        c.MQPRI_PRIORITY_AS_PARENT,
        c.MQIA_DEF_PRIORITY,
        low=0,
        high=9,
        words=((_AS_PARENT, c.MQPRI_PRIORITY_AS_PARENT),),
    )
    defpsist: int = attribute(
        c.MQPER_PERSISTENCE_AS_PARENT,
        c.MQIA_TOPIC_DEF_PERSISTENCE,
        words=((_AS_PARENT, c.MQPER_PERSISTENCE_AS_PARENT), *YES_NO),
    )
    pmsgdlv: int = attribute(c.MQDLV_AS_PARENT, c.MQIA_PM_DELIVERY, words=_DELIVERY)
    npmsgdlv: int = attribute(c.MQDLV_AS_PARENT, c.MQIA_NPM_DELIVERY, words=_DELIVERY)
    pub: int = attribute(PUBSUB_AS_PARENT, c.MQIA_INHIBIT_PUB, words=_PUBSUB)
    sub: int = attribute(PUBSUB_AS_PARENT, c.MQIA_INHIBIT_SUB, words=_PUBSUB)
    dursub: int = attribute(
        c.MQSUB_DURABLE_AS_PARENT,
        c.MQIA_DURABLE_SUB,
        words=(
            (_AS_PARENT, c.MQSUB_DURABLE_AS_PARENT),
            ("YES", c.MQSUB_DURABLE_ALLOWED),
            ("NO", c.MQSUB_DURABLE_INHIBITED),
        ),
    )
    capexpry: int = attribute(
        c.MQCEX_AS_PARENT,
        c.MQIA_CAP_EXPIRY,
        low=1,
        high=LARGEST,
        words=(("NOLIMIT", c.MQCEX_NOLIMIT), (_AS_PARENT, c.MQCEX_AS_PARENT)),
        unit=TENTHS,
    )
    usedlq: int = attribute(
        DEAD_LETTERS_AS_PARENT,
        c.MQIA_USE_DEAD_LETTER_Q,
        words=(
            (_AS_PARENT, DEAD_LETTERS_AS_PARENT),
            ("NO", DEAD_LETTERS_NO),
            ("YES", DEAD_LETTERS_YES),
        ),
    )
    mdurmdl: str = attribute("", c.MQCA_MODEL_DURABLE_Q, length=48)
    mndurmdl: str = attribute("", c.MQCA_MODEL_NON_DURABLE_Q, length=48)


@table
class SubscriptionDefinition(Definition):
    """A subscription."""

    kinds: ClassVar = (SUB,)

    topicstr: str = attribute("", c.MQCA_TOPIC_STRING, length=TOPIC_STRING_BYTES)
    topicobj: str = attribute("", c.MQCA_TOPIC_NAME, length=48)
    dest: str = attribute("", k.MQCACF_DESTINATION, length=48)
    destqmgr: str = attribute("", k.MQCACF_DESTINATION_Q_MGR, length=48)
    destclas: int = attribute(
        PROVIDED_DESTINATION,
        k.MQIACF_DESTINATION_CLASS,
        words=(("PROVIDED", PROVIDED_DESTINATION), ("MANAGED", MANAGED_DESTINATION)),
    )
    destcorl: str = attribute("", length=48)
    expiry_tenths: int = attribute(
        c.MQEI_UNLIMITED,
        k.MQIACF_EXPIRY,
        low=1,
        high=LARGEST,
        words=(("UNLIMITED", c.MQEI_UNLIMITED),),
        keyword="EXPIRY",
        unit=TENTHS,
    )
    pubprty: int = attribute(
        PRIORITY_AS_PUBLISHED,
        k.MQIACF_PUB_PRIORITY,
        low=0,
        high=9,
        words=(("ASPUB", PRIORITY_AS_PUBLISHED), ("ASQDEF", PRIORITY_AS_QUEUE)),
    )
    # Copies only of what is retained, and only on request (MQSUBRQ).
    reqonly: int = attribute(0, k.MQIACF_REQUEST_ONLY, words=(("NO", 0), ("YES", 1)))
    selector: str = attribute("", k.MQCACF_SUB_SELECTOR, length=TOPIC_STRING_BYTES)
    subuser: str = attribute("", k.MQCACF_SUB_USER_ID, length=12)
    userdata: str = attribute("", k.MQCACF_SUB_USER_DATA, length=TOPIC_STRING_BYTES)
    varuser: int = attribute(
        ANY_USER, k.MQIACF_VARIABLE_USER_ID, words=(("ANY", ANY_USER), ("FIXED", FIXED_USER))
    )
    #: The rest MQSC does not set.
    sub_id: str = kept("", "SUBID")
    #: When it ends; -1 is never.
    expire_at_ms: int = kept(-1, "EXPIRE_AT_MS")
    #: The maker of the subscription: ADMIN, API or PROXY.
    made_by: str = kept(ADMIN, "SUBTYPE")
    is_shared: int = kept(0, "SHARED")
    ignores_own: int = kept(0, "IGNORES_OWN")
    #: Whether it wants nothing that was retained before it was made.
    is_new_only: int = kept(0, "NEW_ONLY")
    #: The publisher whose publications a durable one leaves out, also while nobody has it open.
    owner: str = kept("", "OWNER")

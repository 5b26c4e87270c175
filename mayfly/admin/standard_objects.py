"""The objects that IBM MQ makes with each queue manager, from which new definitions inherit.

Those that Mayfly needs are made with a queue manager. The others are made when ALTER or LIKE names
them; a new object inherits from them from then on, as it does in IBM MQ. Source: IBM MQ 9.4, system
and default objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mayfly.admin.model import UnknownLikeObject
from mayfly.engine import Engine
from mayfly.engine.api.administration import (
    AUTHINFO,
    CHANNEL,
    COMMINFO,
    KEPT_CHANNEL_TYPES,
    LISTENER,
    NAMELIST,
    PROCESS,
    QLOCAL,
    QMODEL,
    QUEUE_KINDS,
    SERVICE,
    SUB,
    TOPIC,
    Definition,
    view_named,
    view_queue,
    view_subscriptions,
    view_topics,
)
from mayfly.mqi.constants import (
    MQAIT_CRL_LDAP,
    MQAIT_IDPW_LDAP,
    MQAIT_OCSP,
    MQCHT_RECEIVER,
    MQCHT_SENDER,
    MQCHT_SVRCONN,
    MQUS_TRANSMISSION,
    MQXPT_TCP,
)
from mayfly.verbs.facts import Value

#: Every prefix of a name of the system.
SYSTEM: Final = "SYSTEM."
#: (kind, name) of objects whose topic string is empty in IBM MQ: the model of subscriptions, and
#: objects of queued publish/subscribe. Nothing here can be that; their definitions are accepted,
#: as every export has them, and nothing is made.
WITHOUT_TOPIC_STRING: Final = (
    (SUB, "SYSTEM.DEFAULT.SUB"),
    (TOPIC, "SYSTEM.BROKER.DEFAULT.STREAM"),
    (TOPIC, "SYSTEM.BROKER.DEFAULT.SUBPOINT"),
)
#: Kind -> the object from which a new one inherits when it exists, where the kind has one.
MODELS: Final[Mapping[str, str]] = {
    PROCESS: "SYSTEM.DEFAULT.PROCESS",
    NAMELIST: "SYSTEM.DEFAULT.NAMELIST",
    LISTENER: "SYSTEM.DEFAULT.LISTENER.TCP",
    SERVICE: "SYSTEM.DEFAULT.SERVICE",
    COMMINFO: "SYSTEM.DEFAULT.COMMINFO.MULTICAST",
}
#: CHLTYPE -> the channel from which a new one inherits when it exists; those of clients are defined
#: by the engine.
CHANNEL_MODELS_OF_MESSAGES: Final[Mapping[int, str]] = {
    MQCHT_SENDER: "SYSTEM.DEF.SENDER",
    MQCHT_RECEIVER: "SYSTEM.DEF.RECEIVER",
    KEPT_CHANNEL_TYPES["SVR"]: "SYSTEM.DEF.SERVER",
    KEPT_CHANNEL_TYPES["RQSTR"]: "SYSTEM.DEF.REQUESTER",
    KEPT_CHANNEL_TYPES["CLUSSDR"]: "SYSTEM.DEF.CLUSSDR",
    KEPT_CHANNEL_TYPES["CLUSRCVR"]: "SYSTEM.DEF.CLUSRCVR",
    KEPT_CHANNEL_TYPES["AMQP"]: "SYSTEM.DEF.AMQP",
}
_AUTHENTICATION_MODELS = {
    "SYSTEM.DEFAULT.AUTHINFO.CRLLDAP": MQAIT_CRL_LDAP,
    "SYSTEM.DEFAULT.AUTHINFO.OCSP": MQAIT_OCSP,
    "SYSTEM.DEFAULT.AUTHINFO.IDPWLDAP": MQAIT_IDPW_LDAP,
}
_LOCAL_QUEUES = (
    "SYSTEM.ADMIN.ACCOUNTING.QUEUE",
    "SYSTEM.ADMIN.ACTIVITY.QUEUE",
    "SYSTEM.ADMIN.CHANNEL.EVENT",
    "SYSTEM.ADMIN.COMMAND.EVENT",
    "SYSTEM.ADMIN.COMMAND.QUEUE",
    "SYSTEM.ADMIN.CONFIG.EVENT",
    "SYSTEM.ADMIN.LOGGER.EVENT",
    "SYSTEM.ADMIN.PERFM.EVENT",
    "SYSTEM.ADMIN.PUBSUB.EVENT",
    "SYSTEM.ADMIN.QMGR.EVENT",
    "SYSTEM.ADMIN.STATISTICS.QUEUE",
    "SYSTEM.ADMIN.TRACE.ACTIVITY.QUEUE",
    "SYSTEM.ADMIN.TRACE.ROUTE.QUEUE",
    "SYSTEM.AUTH.DATA.QUEUE",
    "SYSTEM.BROKER.ADMIN.STREAM",
    "SYSTEM.BROKER.CONTROL.QUEUE",
    "SYSTEM.BROKER.DEFAULT.STREAM",
    "SYSTEM.BROKER.INTER.BROKER.COMMUNICATIONS",
    "SYSTEM.CHANNEL.INITQ",
    "SYSTEM.CHANNEL.SYNCQ",
    "SYSTEM.CHLAUTH.DATA.QUEUE",
    "SYSTEM.CICS.INITIATION.QUEUE",
    "SYSTEM.CLUSTER.COMMAND.QUEUE",
    "SYSTEM.CLUSTER.HISTORY.QUEUE",
    "SYSTEM.CLUSTER.REPOSITORY.QUEUE",
    "SYSTEM.DEFAULT.INITIATION.QUEUE",
    "SYSTEM.DOTNET.XARECOVERY.QUEUE",
    "SYSTEM.DURABLE.SUBSCRIBER.QUEUE",
    "SYSTEM.HIERARCHY.STATE",
    "SYSTEM.INTER.QMGR.CONTROL",
    "SYSTEM.INTER.QMGR.FANREQ",
    "SYSTEM.INTER.QMGR.PUBS",
    "SYSTEM.INTERNAL.REPLY.QUEUE",
    "SYSTEM.PENDING.DATA.QUEUE",
    "SYSTEM.PROTECTION.ERROR.QUEUE",
    "SYSTEM.PROTECTION.POLICY.QUEUE",
    "SYSTEM.RETAINED.PUB.QUEUE",
    "SYSTEM.SELECTION.EVALUATION.QUEUE",
    "SYSTEM.SELECTION.VALIDATION.QUEUE",
)
_MODEL_QUEUES = (
    "SYSTEM.CLUSTER.TRANSMIT.MODEL.QUEUE",
    "SYSTEM.JMS.TEMPQ.MODEL",
    "SYSTEM.MQEXPLORER.REPLY.MODEL",
    "SYSTEM.MQSC.REPLY.QUEUE",
)
_TCP: Mapping[str, Value] = {"TRPTYPE": MQXPT_TCP}
_NO_ATTRIBUTES: Mapping[str, Value] = {}
#: (kind, name) -> the attributes that are not at the defaults of the kind.
STANDARD_OBJECTS: Final[Mapping[tuple[str, str], Mapping[str, Value]]] = {
    **{(QLOCAL, name): _NO_ATTRIBUTES for name in _LOCAL_QUEUES},
    (SERVICE, "SYSTEM.AMQP.SERVICE"): _NO_ATTRIBUTES,
    (SERVICE, "SYSTEM.BROKER"): _NO_ATTRIBUTES,
    (QLOCAL, "SYSTEM.CLUSTER.TRANSMIT.QUEUE"): {"USAGE": MQUS_TRANSMISSION},
    **{(QMODEL, name): _NO_ATTRIBUTES for name in _MODEL_QUEUES},
    (NAMELIST, "SYSTEM.QPUBSUB.QUEUE.NAMELIST"): {
        "NAMES": "SYSTEM.BROKER.DEFAULT.STREAM,SYSTEM.BROKER.ADMIN.STREAM"
    },
    (NAMELIST, "SYSTEM.QPUBSUB.SUBPOINT.NAMELIST"): {"NAMES": "SYSTEM.BROKER.DEFAULT.SUBPOINT"},
    **dict.fromkeys(MODELS.items(), _NO_ATTRIBUTES),
    **{
        (CHANNEL, name): {"CHLTYPE": channel_type, **_TCP}
        for channel_type, name in CHANNEL_MODELS_OF_MESSAGES.items()
    },
    (CHANNEL, "SYSTEM.DEF.AMQP"): {"CHLTYPE": KEPT_CHANNEL_TYPES["AMQP"]},
    (CHANNEL, "SYSTEM.AUTO.RECEIVER"): {"CHLTYPE": MQCHT_RECEIVER, **_TCP},
    (CHANNEL, "SYSTEM.AUTO.SVRCONN"): {"CHLTYPE": MQCHT_SVRCONN, **_TCP},
    **{
        (AUTHINFO, name): {"AUTHTYPE": authentication_type}
        for name, authentication_type in _AUTHENTICATION_MODELS.items()
    },
}


def source_of(
    manager: Engine, kind: str, like: str | None, defaults: Iterable[str] = ()
) -> Definition | None:
    """Return the object from which a new one inherits attributes, None without such an object.

    It is the object ``like``; without ``like``, the first of ``defaults`` that exists. Raises
    UnknownLikeObject if ``like`` is no object of this kind.
    """
    if like:
        found = find_definition(manager, kind, like)
        if found is None:
            raise UnknownLikeObject(kind, like)
        return found
    candidates = (find_definition(manager, kind, name) for name in defaults)
    return next((found for found in candidates if found is not None), None)


def find_definition(manager: Engine, kind: str, name: str) -> Definition | None:
    """Return the object of a kind with exactly this name, None without one."""
    found: Sequence[Definition | None]
    if kind in QUEUE_KINDS:
        found = [view_queue(manager, name)]
    elif kind == TOPIC:
        found = view_topics(manager, name)
    elif kind == SUB:
        found = [view.definition for view in view_subscriptions(manager, name)]
    else:
        found = view_named(manager, kind, name)
    # A name that ends in an asterisk is a pattern for the views.
    same = (each for each in found if each is not None and each.name == name)
    return next((each for each in same if each.kind == kind), None)

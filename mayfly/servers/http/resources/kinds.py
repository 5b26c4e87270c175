"""``…/kinds/{kind}``: the kinds of objects with their attributes, from which forms are made.

The attributes that operators set most have a meaning in one line; the others their keyword alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from mayfly import admin
from mayfly.admin.security.roles import Role
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation

#: By MQSC keyword; a line fits every kind that has the attribute.
MEANINGS: Final[Mapping[str, str]] = {
    "BODELAY": "how long a message that was backed out waits before it can be got again",
    "BODELMAX": "the longest such wait: BODELAY doubles with each backout up to it",
    "BOQNAME": "where programs and pipelines put what was backed out too often",
    "BOTHRESH": "how many backouts are too many; 0 for no bound",
    "CAPEXPRY": "the longest life of messages on this path, counted from the put",
    "CERTLABL": "the certificate that is shown to the other side",
    "CHLAUTH": "whether rules for channels are obeyed",
    "CONNAME": "where the other side listens, as host(port)",
    "CONNAUTH": "the record that says how passwords are checked",
    "DEADQ": "where messages go that cannot be delivered",
    "DEFBIND": "when the target of an open queue is chosen",
    "DEFPRTY": "the priority of messages that name none",
    "DEFPSIST": "whether messages that do not say so survive a restart",
    "DEFXMITQ": "the transmission queue of queue managers that have none of their own",
    "DESCR": "a text for people",
    "DEST": "the queue that gets the publications",
    "DISCINT": "how long an idle channel stays connected; 0 for ever",
    "EXPIRY": "the longest life of publications of this subscription",
    "EXPQ": "where expired messages go instead of being discarded",
    "EXPRYINT": "how often expired messages that nobody has met are looked for",
    "GET": "whether programs may get messages",
    "HBINT": "how often an idle connection is tried",
    "INITQ": "where trigger messages go",
    "MAXDEPTH": "how many messages fit on the queue",
    "MAXINST": "how many connections a channel may have",
    "MAXMSGL": "the longest message",
    "MCAUSER": "the user in whose name the channel acts",
    "MONQ": "whether statistics of queues are kept",
    "MSGDLVSQ": "whether gets take messages by priority or in the order of puts",
    "NAMES": "the names in the list",
    "PROCESS": "the process that a trigger message names",
    "PUB": "whether programs may publish",
    "PUT": "whether programs may put messages",
    "QDEPTHHI": "at this share of MAXDEPTH the depth is called high, in percent",
    "QDEPTHLO": "at this share of MAXDEPTH the depth is called low, in percent",
    "RNAME": "the name of the queue at its queue manager",
    "RQMNAME": "the queue manager that has the queue",
    "SELECTOR": "a condition on properties that publications must meet",
    "SHARE": "whether several programs may have the queue open for input",
    "SSLCAUTH": "whether the other side must show a certificate",
    "SSLCIPH": "how the connection is encrypted; blank for not at all",
    "SSLPEER": "the distinguished name that the certificate of the other side must have",
    "SUB": "whether programs may subscribe",
    "TARGET": "the queue or topic that the alias stands for",
    "TOPICOBJ": "the topic below which the topic string begins",
    "TOPICSTR": "the topic string",
    "TRIGDPTH": "with TRIGTYPE(DEPTH): at how many messages a trigger message is made",
    "TRIGGER": "whether trigger messages are made",
    "TRIGTYPE": "what makes a trigger message: the first message, each, or a depth",
    "TTLFROM": "whether the life of a delayed message begins at its put or at its release",
    "USAGE": "an ordinary queue, or one for messages to other queue managers",
    "XMITQ": "the transmission queue on which messages wait for the channel",
}

_QUEUES: Final = ("QLOCAL", "QALIAS", "QREMOTE")
#: By MQSC keyword: the kinds of the objects that can be named there; USER is no object of MQSC.
NAMED_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "BOQNAME": _QUEUES,
    "CONNAUTH": ("AUTHINFO",),
    "DEADQ": _QUEUES,
    "DEFXMITQ": ("QLOCAL",),
    "DEST": _QUEUES,
    "EXPQ": _QUEUES,
    "INITQ": ("QLOCAL",),
    "MCAUSER": ("USER",),
    "MNDURMDL": ("QMODEL",),
    "MDURMDL": ("QMODEL",),
    "PROCESS": ("PROCESS",),
    "STREAMQ": _QUEUES,
    "SUBUSER": ("USER",),
    "TARGET": (*_QUEUES, "TOPIC"),
    "TOPICOBJ": ("TOPIC",),
    "TRIGDATA": ("CHANNEL",),
    "XMITQ": ("QLOCAL",),
}


#: The kinds by the word in the path.
KINDS: Final = {kind.lower(): kind for kind in (*admin.DEFINABLE, admin.QMGR)}


class AskedType(Struct, forbid_unknown_fields=True):
    """Query parameters of one kind."""

    type: Annotated[
        str, Meta(description="CHLTYPE or AUTHTYPE of a kind with types, as SDR; else empty")
    ] = ""


class KindOfObject(Struct):
    """A kind of objects, and its types if it has any."""

    kind: Annotated[str, Meta(description="as in MQSC, in lower case")]
    is_definable: Annotated[bool, Meta(description="false for the queue manager alone")]
    is_kept_only: Annotated[bool, Meta(description="stored and shown, and without effect here")]
    typed_by: Annotated[
        str | None, Meta(description="the attribute that has the type: chltype or authtype")
    ]
    types: Annotated[list[str], Meta(description="its types; empty for a kind without types")]


class KindsOfObjects(Struct):
    """All kinds of objects."""

    kinds: list[KindOfObject]


class AttributeOfKind(Struct):
    """One attribute: its values, its default, and when it can be set."""

    keyword: Annotated[str, Meta(description="MQSC keyword in lower case, as in definitions")]
    default: Annotated[
        int | str, Meta(description="what a new object gets that leaves it out, as word if it has")
    ]
    words: Annotated[list[str], Meta(description="values that are words; empty for free texts")]
    low: Annotated[int | None, Meta(description="the lowest number, null without numbers")]
    high: Annotated[int | None, Meta(description="the highest number, null without numbers")]
    max_bytes: Annotated[int | None, Meta(description="of a text in UTF-8, null for a number")]
    unit: Annotated[str, Meta(description="of a number: seconds, bytes …; empty for a count")]
    is_list: Annotated[bool, Meta(description="several texts with commas between")]
    is_needed: Annotated[bool, Meta(description="no object can be defined without it")]
    is_fixed: Annotated[bool, Meta(description="set by a definition, and not changed later")]
    is_secret: Annotated[bool, Meta(description="checked, and then forgotten: never shown")]
    has_effect: Annotated[bool, Meta(description="false: stored and shown, not obeyed here")]
    meaning: Annotated[str, Meta(description="one line for people; empty for some attributes")]
    names: Annotated[
        list[str], Meta(description="kinds of the objects that it names, and `user`; often empty")
    ]


class AttributesOfKind(Struct):
    """The attributes that objects of a kind, or of one of its types, can be given."""

    kind: Annotated[str, Meta(description="as in MQSC, in lower case")]
    type: Annotated[str, Meta(description="CHLTYPE or AUTHTYPE; empty for a kind without types")]
    attributes: Annotated[list[AttributeOfKind], Meta(description="in the order of DISPLAY")]


def listed(_call: Call[NoQuery, None]) -> KindsOfObjects:
    """List the kinds of objects that can be defined, and the queue manager."""
    return KindsOfObjects([_to_kind(word, kind) for word, kind in KINDS.items()])


def shown(call: Call[AskedType, None]) -> AttributesOfKind:
    """Show the attributes of a kind, with what DEFINE gives those that it leaves out.

    404 for an unknown kind. 400 for a kind with types without ``type``, and for an unknown type.
    """
    kind, type_word = kind_of(call), admin.fold(call.query.type)
    types = _types_of(kind)
    if type_word not in (types or [""]):
        text = f"type {call.query.type!r} is none of {', '.join(types) or 'none'}"
        raise HttpError(HTTPStatus.BAD_REQUEST, text)
    defaults = admin.default_values(call.manager.engine, kind, type_word)
    needed, fixed = admin.needed_attributes(kind, type_word), admin.fixed_attributes(kind)
    known = admin.object_type(kind)
    found = [
        _to_attribute(
            known.attributes[keyword],
            default,
            is_needed=keyword in needed,
            is_fixed=keyword in fixed,
            has_effect=keyword not in known.kept,
        )
        for keyword, default in defaults.items()
    ]
    return AttributesOfKind(kind.lower(), type_word, found)


def kind_of(call: Call[Any, Any]) -> str:
    """Return the object type in a path, in capitals; raises HttpError (404) if unknown."""
    kind = KINDS.get(call.names["kind"])
    if kind is None:
        text = f"kind {call.names['kind']!r} is none of {', '.join(KINDS)}"
        raise HttpError(HTTPStatus.NOT_FOUND, text)
    return kind


def _to_kind(word: str, kind: str) -> KindOfObject:
    """Return a kind as the API shows it; ``word`` is its word in paths."""
    typed_by = admin.TYPED_BY.get(kind)
    return KindOfObject(
        word,
        kind in admin.DEFINABLE,
        kind in admin.KEPT_KINDS,
        None if typed_by is None else typed_by.lower(),
        _types_of(kind),
    )


def _types_of(kind: str) -> list[str]:
    """Return the words in CHLTYPE or AUTHTYPE that objects of a kind may have; [] without types."""
    if kind not in admin.TYPED_BY:
        return []
    row = admin.object_type(kind).attributes[admin.TYPED_BY[kind]]
    words = [word for word, _ in row.words]
    if kind == admin.CLNTCONN:
        return [admin.CLNTCONN]
    return [word for word in words if kind != admin.CHANNEL or word != admin.CLNTCONN]


def _to_attribute(
    row: admin.Attribute,
    default: admin.Value,
    *,
    is_needed: bool,
    is_fixed: bool,
    has_effect: bool,
) -> AttributeOfKind:
    """Return an attribute as the API shows it; ``default`` is the value of a new object.

    ``is_needed``: a definition must give it. ``is_fixed``: it cannot be altered. ``has_effect``: it
    is obeyed, not only kept.
    """
    has_numbers = not row.is_text and row.low <= row.high
    return AttributeOfKind(
        row.keyword.lower(),
        admin.named(row, default),
        list(row.choices) or [word for word, _ in row.words],
        row.low if has_numbers else None,
        row.high if has_numbers else None,
        row.length if row.is_text else None,
        row.unit if has_numbers else "",
        row.is_list,
        is_needed,
        is_fixed,
        row.keyword in admin.SECRETS,
        has_effect,
        MEANINGS.get(row.keyword, ""),
        [kind.lower() for kind in NAMED_KINDS.get(row.keyword, ())],
    )


_PATH: Final = f"{OF_MANAGER}/kinds"
_NONE: Final = {HTTPStatus.NOT_FOUND: "there is no such kind of objects"}
OPERATIONS: Final = (
    Operation("GET", _PATH, listed, Role.LOOK),
    Operation("GET", f"{_PATH}/{{kind}}", shown, Role.LOOK, problems=_NONE),
)

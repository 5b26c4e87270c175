"""The attributes of all kinds of objects, one row each; MQSC, MQINQ and MQSET use these tables.

First the kinds of objects, then a defined object with its stored form, then one table for each
kind. Attributes without effect have a table of their own (``engine/kept_attributes``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar, dataclass_transform

from mayfly.engine.attribute_type import Attribute
from mayfly.engine.kept_attributes import (
    AMQP,
    CLUSRCVR,
    CLUSSDR,
    CRLLDAP,
    IDPWLDAP,
    IDPWOS,
    KEPT_CHANNEL_TYPES,
    KEPT_KINDS,
    OCSP,
    RQSTR,
    SECRETS,
    SVR,
    kept_attributes_of,
)
from mayfly.lifetime.life import Cap
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.facts import Value
from mayfly.verbs.topic_strings import TOPIC_STRING_BYTES

QLOCAL: Final = "QLOCAL"
QALIAS: Final = "QALIAS"
QREMOTE: Final = "QREMOTE"
QMODEL: Final = "QMODEL"
QMGR: Final = "QMGR"
TOPIC: Final = "TOPIC"
SUB: Final = "SUB"
PROCESS: Final = "PROCESS"
#: A queue manager whose parent this one is, in a hierarchy of publish/subscribe.
CHILD: Final = "CHILD"
CHANNEL: Final = "CHANNEL"
#: Client channels are a separate kind: one may have the name of the server channel.
CLNTCONN: Final = "CLNTCONN"
AUTHREC: Final = "AUTHREC"
AUTHINFO: Final = "AUTHINFO"
CHLAUTH: Final = "CHLAUTH"
QUEUE_KINDS: Final = (QLOCAL, QALIAS, QREMOTE, QMODEL)
#: Kinds whose objects are of types with attributes of their own, and the attribute with the type.
TYPED_BY: Final = {CHANNEL: "CHLTYPE", CLNTCONN: "CHLTYPE", AUTHINFO: "AUTHTYPE"}

_V = TypeVar("_V", int, str)

YES_NO = (("NO", c.MQPER_NOT_PERSISTENT), ("YES", c.MQPER_PERSISTENT))
LARGEST = 999_999_999
LONGEST_MESSAGE_BYTES = 104_857_600
#: Units of numbers.
MS, TENTHS, SECONDS = "milliseconds", "tenths of a second", "seconds"
BYTES, PERCENT = "bytes", "percent"
#: Where the metadata of a field hold its row, or the name under which it is stored.
ROW, STORED = "row", "stored"


def attribute(
    default: _V,
    selector: int | None = None,
    *,
    low: int = 0,
    high: int = -1,
    words: tuple[tuple[str, int], ...] = (),
    length: int = 0,
    unit: str = "",
    objects: tuple[str, ...] = (),
    keyword: str = "",
) -> _V:
    """Return a field of a table of attributes, with this default; a table row defines an attribute.

    ``selector`` is its MQIA_* or MQCA_*, None without one. A number is from ``low`` to ``high``, or
    one of ``words``: pairs of an MQSC word and its number. A text has at most ``length`` bytes;
    ``length`` 0 makes it a number. ``unit`` is that of a time, size or share. ``objects`` are the
    kinds that have the attribute, empty for all kinds of the table. ``keyword`` is the MQSC
    keyword, empty for the name of the field in capitals.
    """
    row = Attribute(keyword, "", objects, default, selector, low, high, words, length, unit)
    return _field(default, {ROW: row})


def stored_field(default: _V, stored: str) -> _V:
    """Return a dataclass field that is stored under the name ``stored`` and has no MQSC keyword."""
    return _field(default, {STORED: stored})


def _field(default: _V, metadata: dict[str, Any]) -> _V:
    """Return ``dataclasses.field`` with this default and metadata, typed as its default.

    A type checker so sees the type of the attribute's value.
    """
    # For a type checker a field of a dataclass is its default.
    made: Any = field(default=default, metadata=metadata)
    return made  # type: ignore[no-any-return]  # see above


#: The name of ``Definition.is_switched_off`` in the stored form.
SWITCHED_OFF = "switched_off"
#: The table of each kind of object; :func:`table` enters it.
TABLES: dict[str, type[Definition]] = {}
_D = TypeVar("_D", bound="Definition")


@dataclass(slots=True, eq=False, repr=False)
class Definition:
    """One defined object; ``kind`` is its MQSC object type.

    Each subclass is the table of attributes of its ``kinds``. A field holds the value of an
    attribute, or its default where the kind does not have it.
    """

    kinds: ClassVar[tuple[str, ...]] = ()

    kind: str
    name: str
    #: MQQDT_*; dynamic queues remember how they came to be.
    definition_type: int = c.MQQDT_PREDEFINED
    #: Users who may do everything with it: it was made for them.
    owners: tuple[str, ...] = ()
    #: Whether a trigger of type DEPTH, and no command since, has made it NOTRIGGER.
    is_switched_off: bool = False
    #: Attributes of IBM MQ that nothing here obeys, by keyword; defaults are left out.
    kept: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    #: Attributes that a newer Mayfly has stored: they are stored again as they were.
    unknown: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The values of all attributes by MQSC keyword, in display order; a read-only copy."""
        rows = attributes_of(self.kind)
        return MappingProxyType({k: getattr(self, row.field) for k, row in rows.items()})

    @property
    def every_attribute(self) -> dict[str, Value]:
        """The values of all attributes by keyword, with those that are kept without effect."""
        rows = kept_attributes_of(self.kind)
        return {**self.attributes, **{k: self.kept.get(k, r.default) for k, r in rows.items()}}

    def value(self, attribute: Attribute) -> Value:
        """Return the present value of an attribute of this kind, also of one without effect."""
        if not attribute.field:
            return self.kept.get(attribute.keyword, attribute.default)
        value: Value = getattr(self, attribute.field)
        return value

    def altered(self, attributes: Mapping[str, Value]) -> Self:
        """Return a copy with these values of attributes, by MQSC keyword; ranges are not checked.

        Attributes that are left out keep their values. A secret (``SECRETS``) is not kept. Raises
        MQRC_SELECTOR_ERROR for an attribute that the kind does not have, TypeError for text in
        place of a number or the other way round.
        """
        made = copy(self)
        rows, kept_rows, kept = attributes_of(self.kind), kept_attributes_of(self.kind), {}
        for keyword, value in attributes.items():
            row = rows.get(keyword) or kept_rows.get(keyword)
            if row is None:
                raise mq_error(
                    rc.MQRC_SELECTOR_ERROR,
                    f"{self.kind} {self.name} has no attribute {keyword} ({value!r})",
                )
            checked = _checked(keyword, value, row.default)
            if row.field:
                setattr(made, row.field, checked)
            else:
                kept[keyword] = row.default if keyword in SECRETS else checked
        if kept:
            kept = {**self.kept, **kept}
            made.kept = MappingProxyType(
                {k: value for k, value in kept.items() if value != kept_rows[k].default}
            )
        return made

    def copy_from(self, other: Self) -> None:
        """Overwrite all attributes, but not the name, with those of another definition.

        Both must have the same kind.
        """
        for row in attributes_of(self.kind).values():
            setattr(self, row.field, getattr(other, row.field))
        self.kept = other.kept

    def to_json(self) -> str:
        """Return the definition as a JSON text for the store, without kind and name.

        Attributes that are kept without effect are in the text by keyword, as others are, unless
        they are at their defaults; those that only a newer Mayfly knows are there unchanged.
        """
        made = {"definition_type": self.definition_type}
        owners = {"owners": self.owners} if self.owners else {}
        switched_off = {SWITCHED_OFF: True} if self.is_switched_off else {}
        kept = _stored_fields(self.kind).items()
        beside = {stored_name: getattr(self, name) for stored_name, (name, _default) in kept}
        known = {**made, **owners, **switched_off, **self.attributes, **beside}
        return json.dumps({**known, **self.kept, **self.unknown})

    @classmethod
    def from_json(cls, kind: str, name: str, stored: str) -> Self:
        """Return a definition from the text of :meth:`to_json`.

        A missing attribute has its default.
        Raises ValueError, LookupError, TypeError or AttributeError for a text of another form.
        """
        values = json.loads(stored)
        definition = cls(kind, name, values.pop("definition_type"))
        definition.owners = tuple(values.pop("owners", ()))
        definition.is_switched_off = values.pop(SWITCHED_OFF, False)
        for keyword, row in attributes_of(kind).items():
            if keyword in values:
                value = _checked(keyword, values.pop(keyword), row.default)
                setattr(definition, row.field, value)
        for keyword, (field_name, default) in _stored_fields(kind).items():
            if keyword in values:
                setattr(definition, field_name, _checked(keyword, values.pop(keyword), default))
        rows = kept_attributes_of(kind)
        definition.kept = MappingProxyType(
            {k: _checked(k, values.pop(k), row.default) for k, row in rows.items() if k in values}
        )
        definition.unknown = MappingProxyType(values)
        return definition


@dataclass_transform(eq_default=False, kw_only_default=True)
def table(cls: type[_D]) -> type[_D]:
    """Make a class a dataclass with slots, and register it in TABLES for each of its ``kinds``."""
    made = dataclass(slots=True, eq=False, repr=False, kw_only=True)(cls)
    TABLES.update(dict.fromkeys(made.kinds, made))
    return made


@cache
def attributes_of(kind: str) -> Mapping[str, Attribute]:
    """Return the attributes of a kind by keyword, in display order; empty for an unknown kind."""
    found = {}
    for each in fields(TABLES[kind]) if kind in TABLES else ():
        row: Attribute | None = each.metadata.get(ROW)
        if row is not None and kind in (row.objects or (kind,)):
            keyword = row.keyword or each.name.upper()
            found[keyword] = row._replace(keyword=keyword, field=each.name)
    return MappingProxyType(found)


@cache
def _stored_fields(kind: str) -> Mapping[str, tuple[str, Value]]:
    """Return stored name -> (field name, default) of the fields that have no MQSC keyword."""
    kept: dict[str, tuple[str, Any]] = {}
    for each in fields(TABLES[kind]):
        if STORED in each.metadata:
            kept[each.metadata[STORED]] = each.name, each.default
    return kept


def _checked(keyword: str, value: Value, default: Value) -> Value:
    """Return a value if it has the type of the default; raises TypeError otherwise."""
    if isinstance(value, bool) or not isinstance(value, type(default)):
        raise TypeError(
            f"{keyword} takes {'text' if isinstance(default, str) else 'a number'}, not {value!r}"
        )
    return value


# The queue manager

#: Delayed messages are released by the queue manager itself, or by a pipeline on Spark.
DDELAY_EMBEDDED: Final = 0
DDELAY_SPARK: Final = 1
#: MQEVR_*: whether an event message is made.
EVENT_DISABLED, EVENT_ENABLED = 0, 1
_SWITCH: Final = (("DISABLED", EVENT_DISABLED), ("ENABLED", EVENT_ENABLED))
#: MQMON_*.
_LEVELS: Final = (("OFF", 0), ("LOW", 17), ("MEDIUM", 33), ("HIGH", 65))
#: When authority is checked: never, at connect, open and send, or at the release too.
AUTHCHK_NONE, AUTHCHK_SEND, AUTHCHK_RELEASE = 0, 1, 2


@table
class ManagerDefinition(Definition):
    """The attributes of the queue manager itself."""

    kinds: ClassVar = (QMGR,)

    descr: str = attribute("", c.MQCA_Q_MGR_DESC, length=64)
    deadq: str = attribute("", c.MQCA_DEAD_LETTER_Q_NAME, length=48)
    parent: str = attribute("", c.MQCA_PARENT, length=48)
    psmode: int = attribute(
        c.MQPSM_COMPAT,
        c.MQIA_PUBSUB_MODE,
        words=(
            ("DISABLED", c.MQPSM_DISABLED),
            ("COMPAT", c.MQPSM_COMPAT),
            ("ENABLED", c.MQPSM_ENABLED),
        ),
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
    # Whether CHLAUTH rules apply, and which AUTHINFO says how passwords are checked; blank: none is
    # checked.
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
    # Which events are made (docs/EVENTS.md).
    authorev: int = attribute(EVENT_DISABLED, c.MQIA_AUTHORITY_EVENT, words=_SWITCH)
    chlev: int = attribute(EVENT_DISABLED, c.MQIA_CHANNEL_EVENT, words=(*_SWITCH, ("EXCEPTION", 2)))
    cmdev: int = attribute(EVENT_DISABLED, c.MQIA_COMMAND_EVENT, words=(*_SWITCH, ("NODISPLAY", 3)))
    configev: int = attribute(EVENT_DISABLED, c.MQIA_CONFIGURATION_EVENT, words=_SWITCH)
    inhibtev: int = attribute(EVENT_DISABLED, c.MQIA_INHIBIT_EVENT, words=_SWITCH)
    localev: int = attribute(EVENT_DISABLED, c.MQIA_LOCAL_EVENT, words=_SWITCH)
    perfmev: int = attribute(EVENT_DISABLED, c.MQIA_PERFORMANCE_EVENT, words=_SWITCH)
    remoteev: int = attribute(EVENT_DISABLED, c.MQIA_REMOTE_EVENT, words=_SWITCH)
    sslev: int = attribute(EVENT_DISABLED, c.MQIA_SSL_EVENT, words=_SWITCH)
    strstpev: int = attribute(EVENT_ENABLED, c.MQIA_START_STOP_EVENT, words=_SWITCH)
    # Whether queues keep the times of their last put and get: MQMON_*; NONE is off for all queues.
    monq: int = attribute(0, c.MQIA_MONITORING_Q, words=(("NONE", -1), *_LEVELS))
    # Mayfly's own: the queue manager or Spark releases delayed messages (docs/WHY.md).
    ddelay: int = attribute(
        DDELAY_EMBEDDED, words=(("EMBEDDED", DDELAY_EMBEDDED), ("SPARK", DDELAY_SPARK))
    )
    # Mayfly's own: when authority is checked (docs/SECURITY.md).
    authchk: int = attribute(
        AUTHCHK_NONE,
        words=(("NONE", AUTHCHK_NONE), ("SEND", AUTHCHK_SEND), ("RELEASE", AUTHCHK_RELEASE)),
    )
    #: Whether the objects by which clients connect were defined: an operator may delete them.
    has_client_objects: int = stored_field(0, "CLIENT_OBJECTS")


# Queues

#: A life runs from the put, delay or not; otherwise that of a delayed message from its release.
TTL_FROM_SEND: Final = 0
_ENABLED_PUT = (("ENABLED", c.MQQA_PUT_ALLOWED), ("DISABLED", c.MQQA_PUT_INHIBITED))
_ENABLED_GET = (("ENABLED", c.MQQA_GET_ALLOWED), ("DISABLED", c.MQQA_GET_INHIBITED))
_ENABLED_EVENT = (("ENABLED", EVENT_ENABLED), ("DISABLED", EVENT_DISABLED))
_CUSTOM_CAP = re.compile(r"\bCAPEXPRY\((NOLIMIT|\d+)\)", re.IGNORECASE)
#: BODELAY and BODELMAX: a day.
_LONGEST_BACKOUT_DELAY_S = 86_400
#: Local queues, and model queues, from which local queues are made.
_HOLDERS = (QLOCAL, QMODEL)
_GETTABLE = (QLOCAL, QALIAS, QMODEL)
#: A value of DEFPRESP (MQPRT_ASYNC_RESPONSE), and two of DEFREADA (MQREADA_YES, _DISABLED).
PUT_ASYNC: Final = 2
READ_AHEAD, READ_AHEAD_DISABLED = 1, 2


def _cap_tenths(custom: str, capexpry: int) -> int:
    """Return the cap that CUSTOM has as ``CAPEXPRY(n)``, in tenths of a second, else ``capexpry``.

    ``CAPEXPRY(NOLIMIT)`` is MQCEX_NOLIMIT.
    """
    found = _CUSTOM_CAP.search(custom)
    if found is None:
        return capexpry
    return c.MQCEX_NOLIMIT if found[1].upper() == "NOLIMIT" else int(found[1])


@table
class QueueDefinition(Definition):
    """The attributes of a queue of any type; ``objects`` of a row are the types that have it."""

    kinds: ClassVar = QUEUE_KINDS

    descr: str = attribute("", c.MQCA_Q_DESC, length=64, objects=QUEUE_KINDS)
    target: str = attribute("", c.MQCA_BASE_OBJECT_NAME, length=48, objects=(QALIAS,))
    rname: str = attribute("", c.MQCA_REMOTE_Q_NAME, length=48, objects=(QREMOTE,))
    rqmname: str = attribute("", c.MQCA_REMOTE_Q_MGR_NAME, length=48, objects=(QREMOTE,))
    xmitq: str = attribute("", c.MQCA_XMIT_Q_NAME, length=48, objects=(QREMOTE,))
    put: int = attribute(
        c.MQQA_PUT_ALLOWED, c.MQIA_INHIBIT_PUT, words=_ENABLED_PUT, objects=QUEUE_KINDS
    )
    get: int = attribute(
        c.MQQA_GET_ALLOWED, c.MQIA_INHIBIT_GET, words=_ENABLED_GET, objects=_GETTABLE
    )
    defprty: int = attribute(0, c.MQIA_DEF_PRIORITY, low=0, high=9, objects=QUEUE_KINDS)
    defpsist: int = attribute(
        c.MQPER_NOT_PERSISTENT, c.MQIA_DEF_PERSISTENCE, words=YES_NO, objects=QUEUE_KINDS
    )
    # How a put without a response option is answered, and whether messages may go to a client
    # before it asks for them.
    defpresp: int = attribute(
        1,
        c.MQIA_DEF_PUT_RESPONSE_TYPE,
        words=(("SYNC", 1), ("ASYNC", PUT_ASYNC)),
        objects=QUEUE_KINDS,
    )
    defreada: int = attribute(
        0,
        c.MQIA_DEF_READ_AHEAD,
        words=(("NO", 0), ("YES", READ_AHEAD), ("DISABLED", READ_AHEAD_DISABLED)),
        objects=_GETTABLE,
    )
    maxdepth: int = attribute(5_000, c.MQIA_MAX_Q_DEPTH, low=0, high=LARGEST, objects=_HOLDERS)
    # When a queue is full, nearly full or nearly empty again, in percent of MAXDEPTH; expired
    # messages that are still there count. An event disables itself and enables the others.
    qdepthhi: int = attribute(
        80, c.MQIA_Q_DEPTH_HIGH_LIMIT, low=0, high=100, objects=_HOLDERS, unit=PERCENT
    )
    qdepthlo: int = attribute(
        20, c.MQIA_Q_DEPTH_LOW_LIMIT, low=0, high=100, objects=_HOLDERS, unit=PERCENT
    )
    qdpmaxev: int = attribute(
        EVENT_ENABLED, c.MQIA_Q_DEPTH_MAX_EVENT, words=_ENABLED_EVENT, objects=_HOLDERS
    )
    qdphiev: int = attribute(
        EVENT_DISABLED, c.MQIA_Q_DEPTH_HIGH_EVENT, words=_ENABLED_EVENT, objects=_HOLDERS
    )
    qdploev: int = attribute(
        EVENT_DISABLED, c.MQIA_Q_DEPTH_LOW_EVENT, words=_ENABLED_EVENT, objects=_HOLDERS
    )
    # Which of the two events about the service of a queue may come next, and its limit.
    qsvciev: int = attribute(
        0,
        c.MQIA_Q_SERVICE_INTERVAL_EVENT,
        words=(("NONE", 0), ("HIGH", 1), ("OK", 2)),
        objects=_HOLDERS,
    )
    qsvcint: int = attribute(
        LARGEST, c.MQIA_Q_SERVICE_INTERVAL, low=0, high=LARGEST, objects=_HOLDERS, unit=MS
    )
    monq: int = attribute(-3, c.MQIA_MONITORING_Q, words=(("QMGR", -3), *_LEVELS), objects=_HOLDERS)
    maxmsgl: int = attribute(
        4_194_304,
        c.MQIA_MAX_MSG_LENGTH,
        low=0,
        high=LONGEST_MESSAGE_BYTES,
        objects=_HOLDERS,
        unit=BYTES,
    )
    msgdlvsq: int = attribute(
        c.MQMDS_PRIORITY,
        c.MQIA_MSG_DELIVERY_SEQUENCE,
        words=(("PRIORITY", c.MQMDS_PRIORITY), ("FIFO", c.MQMDS_FIFO)),
        objects=_HOLDERS,
    )
    share: int = attribute(
        c.MQQA_SHAREABLE,
        c.MQIA_SHAREABILITY,
        words=(("SHARE", c.MQQA_SHAREABLE), ("NOSHARE", c.MQQA_NOT_SHAREABLE)),
        objects=_HOLDERS,
    )
    defsopt: int = attribute(
        c.MQOO_INPUT_SHARED,
        c.MQIA_DEF_INPUT_OPEN_OPTION,
        words=(("SHARED", c.MQOO_INPUT_SHARED), ("EXCL", c.MQOO_INPUT_EXCLUSIVE)),
        objects=_HOLDERS,
    )
    usage: int = attribute(
        c.MQUS_NORMAL,
        c.MQIA_USAGE,
        words=(("NORMAL", c.MQUS_NORMAL), ("XMITQ", c.MQUS_TRANSMISSION)),
        objects=_HOLDERS,
    )
    bothresh: int = attribute(0, c.MQIA_BACKOUT_THRESHOLD, low=0, high=LARGEST, objects=_HOLDERS)
    boqname: str = attribute("", c.MQCA_BACKOUT_REQ_Q_NAME, length=48, objects=_HOLDERS)
    # Mayfly's own: the delay before a message that was backed out can be got again, 0 for none. It
    # doubles with each backout, up to BODELMAX.
    bodelay: int = attribute(
        0, low=0, high=_LONGEST_BACKOUT_DELAY_S, unit=SECONDS, objects=_HOLDERS
    )
    bodelmax: int = attribute(
        300, low=0, high=_LONGEST_BACKOUT_DELAY_S, unit=SECONDS, objects=_HOLDERS
    )
    hardenbo: int = attribute(
        c.MQQA_BACKOUT_HARDENED,
        c.MQIA_HARDEN_GET_BACKOUT,
        words=(
            ("HARDENBO", c.MQQA_BACKOUT_HARDENED),
            ("NOHARDENBO", c.MQQA_BACKOUT_NOT_HARDENED),
        ),
        objects=_HOLDERS,
    )
    capexpry: int = attribute(
        c.MQCEX_NOLIMIT,
        c.MQIA_CAP_EXPIRY,
        low=1,
        high=LARGEST,
        words=(("NOLIMIT", c.MQCEX_NOLIMIT),),
        objects=QUEUE_KINDS,
        unit=TENTHS,
    )
    # Where expired messages go, "" for nowhere; an attribute of Mayfly's own.
    expq: str = attribute("", None, length=48, objects=_HOLDERS)
    cluster: str = attribute("", c.MQCA_CLUSTER_NAME, length=48, objects=(QLOCAL, QALIAS, QREMOTE))
    defbind: int = attribute(
        c.MQBND_BIND_ON_OPEN,
        c.MQIA_DEF_BIND,
        words=(
            ("OPEN", c.MQBND_BIND_ON_OPEN),
            ("NOTFIXED", c.MQBND_BIND_NOT_FIXED),
            ("GROUP", c.MQBND_BIND_ON_GROUP),
        ),
        objects=QUEUE_KINDS,
    )
    indxtype: int = attribute(
        c.MQIT_NONE,
        c.MQIA_INDEX_TYPE,
        words=(
            ("NONE", c.MQIT_NONE),
            ("MSGID", c.MQIT_MSG_ID),
            ("CORRELID", c.MQIT_CORREL_ID),
            ("MSGTOKEN", c.MQIT_MSG_TOKEN),
            ("GROUPID", c.MQIT_GROUP_ID),
        ),
        objects=_HOLDERS,
    )
    # Which page set of z/OS holds the messages; here a name that is kept and shown.
    stgclass: str = attribute("DEFAULT", c.MQCA_STORAGE_CLASS, length=8, objects=_HOLDERS)
    qsgdisp: int = attribute(
        c.MQQSGD_Q_MGR,
        c.MQIA_QSG_DISP,
        words=(("QMGR", c.MQQSGD_Q_MGR), ("SHARED", c.MQQSGD_SHARED)),
        objects=(QLOCAL,),
    )
    # Mayfly's own: where the life of a delayed message begins.
    ttlfrom: int = attribute(
        TTL_FROM_SEND, words=(("SEND", TTL_FROM_SEND), ("RELEASE", 1)), objects=_HOLDERS
    )
    propctl: int = attribute(
        c.MQPROP_COMPATIBILITY,
        c.MQIA_PROPERTY_CONTROL,
        words=(
            ("COMPAT", c.MQPROP_COMPATIBILITY),
            ("NONE", c.MQPROP_NONE),
            ("ALL", c.MQPROP_ALL),
            ("FORCE", c.MQPROP_FORCE_MQRFH2),
            ("V6COMPAT", c.MQPROP_V6COMPAT),
        ),
        objects=_GETTABLE,
    )
    trigger: int = attribute(
        c.MQTC_OFF,
        c.MQIA_TRIGGER_CONTROL,
        words=(("TRIGGER", c.MQTC_ON), ("NOTRIGGER", c.MQTC_OFF)),
        objects=_HOLDERS,
    )
    trigtype: int = attribute(
        c.MQTT_FIRST,
        c.MQIA_TRIGGER_TYPE,
        words=(
            ("NONE", c.MQTT_NONE),
            ("FIRST", c.MQTT_FIRST),
            ("EVERY", c.MQTT_EVERY),
            ("DEPTH", c.MQTT_DEPTH),
        ),
        objects=_HOLDERS,
    )
    trigdpth: int = attribute(1, c.MQIA_TRIGGER_DEPTH, low=1, high=LARGEST, objects=_HOLDERS)
    trigmpri: int = attribute(0, c.MQIA_TRIGGER_MSG_PRIORITY, low=0, high=9, objects=_HOLDERS)
    trigdata: str = attribute("", c.MQCA_TRIGGER_DATA, length=64, objects=_HOLDERS)
    initq: str = attribute("", c.MQCA_INITIATION_Q_NAME, length=48, objects=_HOLDERS)
    process: str = attribute("", c.MQCA_PROCESS_NAME, length=48, objects=_HOLDERS)
    custom: str = attribute("", c.MQCA_CUSTOM, length=128, objects=QUEUE_KINDS)
    targtype: int = attribute(
        c.MQOT_Q,
        c.MQIA_BASE_TYPE,
        words=(("QUEUE", c.MQOT_Q), ("TOPIC", c.MQOT_TOPIC)),
        objects=(QALIAS,),
    )
    deftype: int = attribute(
        c.MQQDT_TEMPORARY_DYNAMIC,
        c.MQIA_DEFINITION_TYPE,
        words=(
            ("TEMPDYN", c.MQQDT_TEMPORARY_DYNAMIC),
            ("PERMDYN", c.MQQDT_PERMANENT_DYNAMIC),
        ),
        objects=(QMODEL,),
    )

    @property
    def cap_tenths(self) -> int:
        """CAPEXPRY in tenths of a second, or MQCEX_NOLIMIT; CUSTOM('CAPEXPRY(n)') wins (X2)."""
        return _cap_tenths(self.custom, self.capexpry)

    @property
    def cap_text(self) -> str:
        """The CAPEXPRY limit with the kind and name of the queue, for error texts."""
        return Cap(self.cap_tenths, self.kind, self.name).text


# Processes, which trigger monitors start


@table
class ProcessDefinition(Definition):
    """The attributes of a process: the program that a trigger monitor starts."""

    kinds: ClassVar = (PROCESS,)

    descr: str = attribute("", c.MQCA_PROCESS_DESC, length=64)
    appltype: int = attribute(
        c.MQAT_UNIX,
        c.MQIA_APPL_TYPE,
        low=0,
        high=LARGEST,
        words=(
            ("UNIX", c.MQAT_UNIX),
            ("WINDOWSNT", c.MQAT_WINDOWS_NT),
            ("MVS", c.MQAT_ZOS),
            # MQAT_*; DEF is the type of programs of this machine.
            ("DEF", c.MQAT_UNIX),
            ("CICS", 1),
            ("IMS", 3),
            ("OS2", 4),
            ("DOS", 5),
            ("OS400", 8),
            ("WINDOWS", 9),
            ("NOTESAGENT", 22),
            ("USER", 25),
        ),
    )
    applicid: str = attribute("", c.MQCA_APPL_ID, length=256)
    envrdata: str = attribute("", c.MQCA_ENV_DATA, length=128)
    userdata: str = attribute("", c.MQCA_USER_DATA, length=128)


# Topics and subscriptions

#: A topic inherits such a value from the nearest topic object above it.
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
    """The attributes of a topic object."""

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
    custom: str = attribute("", c.MQCA_CUSTOM, length=128)

    @property
    def cap_tenths(self) -> int:
        """CAPEXPRY in tenths of a second, MQCEX_NOLIMIT or MQCEX_AS_PARENT; CUSTOM wins (X2)."""
        return _cap_tenths(self.custom, self.capexpry)


@table
class SubscriptionDefinition(Definition):
    """The attributes of a subscription, and the values stored with them that MQSC cannot set."""

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
    #: MQSC does not set the fields below.
    sub_id: str = stored_field("", "SUBID")
    #: When it ends; -1 is never.
    expire_at_ms: int = stored_field(-1, "EXPIRE_AT_MS")
    #: The maker of the subscription: ADMIN, API or PROXY.
    made_by: str = stored_field(ADMIN, "SUBTYPE")
    is_shared: int = stored_field(0, "SHARED")
    ignores_own: int = stored_field(0, "IGNORES_OWN")
    #: Whether it gets no publication that was retained before it was made.
    is_new_only: int = stored_field(0, "NEW_ONLY")
    #: The publisher whose publications a durable one omits, even while it is not open.
    owner: str = stored_field("", "OWNER")


# Channels, between queue managers and of clients

#: SSLCIPH of a channel that speaks TLS; blank is in the clear.
ANY_TLS: Final = "ANY_TLS12_OR_HIGHER"
#: The types of channels, by their words in CHLTYPE; CLNTCONN is a separate kind of object.
SDR, RCVR, SVRCONN = "SDR", "RCVR", "SVRCONN"
_TYPES: Final = (
    (SDR, c.MQCHT_SENDER),
    (RCVR, c.MQCHT_RECEIVER),
    (SVRCONN, c.MQCHT_SVRCONN),
    (CLNTCONN, c.MQCHT_CLNTCONN),
    # Types that are kept, and never started.
    *KEPT_CHANNEL_TYPES.items(),
)
_SECONDS_MAX = 999_999
_WEIGHT_MAX = 99
#: The types that have an attribute; CHANNEL means all but those of clients.
_CLUSTER = (CLUSSDR, CLUSRCVR)
_SENDER = (CHANNEL, SDR, SVR, *_CLUSTER)
_CALLER = (*_SENDER, RQSTR, CLNTCONN)
_RECEIVER = (CHANNEL, RCVR, RQSTR, CLUSRCVR)
_MESSAGES = (CHANNEL, SDR, RCVR, SVR, RQSTR, *_CLUSTER)
_SERVER = (CHANNEL, SVRCONN)
_CONNECTION = (CHANNEL, SVRCONN, CLNTCONN)
_CLIENT = (CLNTCONN,)
_NETWORK = (*_MESSAGES, SVRCONN, CLNTCONN)
_ALL = (*_NETWORK, AMQP)


@table
class ChannelDefinition(Definition):
    """The attributes of a channel of any type; ``objects`` of a row are the types that have it."""

    kinds: ClassVar = (CHANNEL, CLNTCONN)

    chltype: int = attribute(c.MQCHT_SENDER, k.MQIACH_CHANNEL_TYPE, words=_TYPES, objects=_ALL)
    descr: str = attribute("", k.MQCACH_DESC, length=64, objects=_ALL)
    # LOCAL: CONNAME is an open queue manager of this process; TCP: where one is served. Clients
    # connect by TCP.
    trptype: int = attribute(
        c.MQXPT_LOCAL,
        k.MQIACH_XMIT_PROTOCOL_TYPE,
        words=(("LOCAL", c.MQXPT_LOCAL), ("TCP", c.MQXPT_TCP)),
        objects=_NETWORK,
    )
    conname: str = attribute("", k.MQCACH_CONNECTION_NAME, length=264, objects=_CALLER)
    # Which queue manager is meant, where several are served at CONNAME; blank: the only one.
    qmname: str = attribute("", length=48, objects=(CHANNEL, SDR, CLNTCONN))
    sslciph: str = attribute("", k.MQCACH_SSL_CIPHER_SPEC, length=32, objects=_ALL)
    # Whether the partner that connects must show a certificate where TLS is spoken.
    sslcauth: int = attribute(
        k.MQSCA_REQUIRED,
        k.MQIACH_SSL_CLIENT_AUTH,
        words=(("REQUIRED", k.MQSCA_REQUIRED), ("OPTIONAL", k.MQSCA_OPTIONAL)),
        objects=(*_RECEIVER, SVR, SVRCONN, AMQP),
    )
    # A pattern of the distinguished name in the partner's certificate.
    sslpeer: str = attribute("", k.MQCACH_SSL_PEER_NAME, length=1_024, objects=_ALL)
    # The client's own certificate: a file of certificate and key, or the name of one.
    certlabl: str = attribute("", c.MQCA_CERT_LABEL, length=64, objects=_CLIENT)
    # A file with the token that the server at CONNAME asks for; blank: MAYFLY_TOKEN.
    tokenfile: str = attribute("", length=256, objects=(CHANNEL, SDR))
    xmitq: str = attribute("", k.MQCACH_XMIT_Q_NAME, length=48, objects=(CHANNEL, SDR, SVR))
    batchsz: int = attribute(50, k.MQIACH_BATCH_SIZE, low=1, high=9_999, objects=_MESSAGES)
    # How long a batch stays open for more messages.
    batchint: int = attribute(
        0, k.MQIACH_BATCH_INTERVAL, low=0, high=LARGEST, unit=MS, objects=_SENDER
    )
    # 0 is never.
    discint: int = attribute(
        6_000,
        k.MQIACH_DISC_INTERVAL,
        low=0,
        high=_SECONDS_MAX,
        unit=SECONDS,
        objects=(*_SENDER, SVRCONN),
    )
    hbint: int = attribute(
        300, k.MQIACH_HB_INTERVAL, low=0, high=_SECONDS_MAX, unit=SECONDS, objects=_NETWORK
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
        LARGEST,
        k.MQIACH_SEQUENCE_NUMBER_WRAP,
        low=100,
        high=LARGEST,
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
    mcauser: str = attribute(
        "", k.MQCACH_MCA_USER_ID, length=12, objects=(*_MESSAGES, SVRCONN, AMQP)
    )
    mrrty: int = attribute(10, k.MQIACH_MR_COUNT, low=0, high=LARGEST, objects=_RECEIVER)
    mrtmr: int = attribute(
        1_000, k.MQIACH_MR_INTERVAL, low=1, high=LARGEST, unit=MS, objects=_RECEIVER
    )
    # Conversations that share one socket; 0 and 1 share none.
    sharecnv: int = attribute(
        10, k.MQIACH_SHARING_CONVERSATIONS, low=0, high=LARGEST, objects=_CONNECTION
    )
    # Sockets at the same time: of the channel, and of it from one address.
    maxinst: int = attribute(
        LARGEST, k.MQIACH_MAX_INSTANCES, low=0, high=LARGEST, objects=(*_SERVER, AMQP)
    )
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


def has_attribute(kind: str, object_type: str, keyword: str) -> bool:
    """Return True if objects of a type have an attribute; for a kind without types always True.

    ``object_type`` is a word of CHLTYPE or AUTHTYPE. ``('CHANNEL', 'SDR', 'XMITQ')`` -> True.
    """
    if kind not in TYPED_BY:
        return True
    rows = (attributes_of(kind).get(keyword), kept_attributes_of(kind).get(keyword))
    return any(object_type in row.objects for row in rows if row is not None)


# Password checks, and rules for channels

_CHECKS: Final = (
    ("NONE", k.MQCHK_NONE),
    ("OPTIONAL", k.MQCHK_OPTIONAL),
    ("REQUIRED", k.MQCHK_REQUIRED),
    ("REQDADM", k.MQCHK_REQUIRED_ADMIN),
)
_NO_YES: Final = (("NO", c.MQWARN_NO), ("YES", c.MQWARN_YES))
_LONGEST_DELAY_S = 60
_PASSWORDS = (AUTHINFO, IDPWOS, IDPWLDAP)
_ANY_AUTHENTICATION = (*_PASSWORDS, CRLLDAP, OCSP)
_LONGEST_LIST = 10_240


@table
class AuthenticationDefinition(Definition):
    """One AUTHINFO object: how passwords are checked; IDPWOS reads a file of users here."""

    kinds: ClassVar = (AUTHINFO,)

    authtype: int = attribute(
        c.MQAIT_IDPW_OS,
        c.MQIA_AUTH_INFO_TYPE,
        # No directory is asked, for passwords or for certificates that are no longer valid.
        words=(
            (IDPWOS, c.MQAIT_IDPW_OS),
            (CRLLDAP, c.MQAIT_CRL_LDAP),
            (OCSP, c.MQAIT_OCSP),
            (IDPWLDAP, c.MQAIT_IDPW_LDAP),
        ),
        objects=_ANY_AUTHENTICATION,
    )
    descr: str = attribute("", c.MQCA_AUTH_INFO_DESC, length=64, objects=_ANY_AUTHENTICATION)
    # Of clients, and of programs on this machine. REQDADM: only an administrator needs a password.
    chckclnt: int = attribute(
        k.MQCHK_REQUIRED_ADMIN, c.MQIA_CHECK_CLIENT_BINDING, words=_CHECKS, objects=_PASSWORDS
    )
    chcklocl: int = attribute(
        k.MQCHK_OPTIONAL, c.MQIA_CHECK_LOCAL_BINDING, words=_CHECKS, objects=_PASSWORDS
    )
    # Whether the user whose password was right is the one whose authority counts.
    adoptctx: int = attribute(
        k.MQADPCTX_YES,
        c.MQIA_ADOPT_CONTEXT,
        words=(("NO", k.MQADPCTX_NO), ("YES", k.MQADPCTX_YES)),
        objects=_PASSWORDS,
    )
    # How long the answer to a wrong password is kept back.
    faildlay: int = attribute(
        1,
        c.MQIA_AUTHENTICATION_FAIL_DELAY,
        low=0,
        high=_LONGEST_DELAY_S,
        unit=SECONDS,
        objects=_PASSWORDS,
    )


@table
class ChannelRuleDefinition(Definition):
    """One channel authentication rule (CHLAUTH); its name has all that identifies it."""

    kinds: ClassVar = (CHLAUTH,)

    # The names of channels that the rule is for, with * for any characters.
    profile: str = attribute("*", length=20)
    type: int = attribute(
        k.MQCAUT_ADDRESSMAP,
        k.MQIACF_CHLAUTH_TYPE,
        words=(
            ("BLOCKUSER", k.MQCAUT_BLOCKUSER),
            ("BLOCKADDR", k.MQCAUT_BLOCKADDR),
            ("SSLPEERMAP", k.MQCAUT_SSLPEERMAP),
            ("ADDRESSMAP", k.MQCAUT_ADDRESSMAP),
            ("USERMAP", k.MQCAUT_USERMAP),
            ("QMGRMAP", k.MQCAUT_QMGRMAP),
        ),
    )
    descr: str = attribute("", c.MQCA_CHLAUTH_DESC, length=64)
    custom: str = attribute("", c.MQCA_CUSTOM, length=128)
    # Patterns for the partner's certificate, address, queue manager and user.
    sslpeer: str = attribute("", k.MQCACH_SSL_PEER_NAME, length=1_024)
    sslcerti: str = attribute("", c.MQCA_SSL_CERT_ISSUER_NAME, length=1_024)
    clntuser: str = attribute("", k.MQCACH_CLIENT_USER_ID, length=64)
    qmname: str = attribute("", c.MQCA_REMOTE_Q_MGR_NAME, length=48)
    address: str = attribute("", k.MQCACH_CONNECTION_NAME, length=264)
    # Addresses and users that are blocked: names or patterns with commas between.
    addrlist: str = attribute("", k.MQCACH_CONNECTION_NAME_LIST, length=_LONGEST_LIST)
    userlist: str = attribute("", k.MQCACH_MCA_USER_ID_LIST, length=_LONGEST_LIST)
    # The user whose authority counts: MCAUSER, the one that the partner names, or none at all.
    usersrc: int = attribute(
        c.MQUSRC_MAP,
        k.MQIACH_USER_SOURCE,
        words=(
            ("MAP", c.MQUSRC_MAP),
            ("NOACCESS", c.MQUSRC_NOACCESS),
            ("CHANNEL", c.MQUSRC_CHANNEL),
        ),
    )
    mcauser: str = attribute("", k.MQCACH_MCA_USER_ID, length=12)
    chckclnt: int = attribute(
        k.MQCHK_AS_Q_MGR,
        c.MQIA_CHECK_CLIENT_BINDING,
        words=(
            ("ASQMGR", k.MQCHK_AS_Q_MGR),
            ("REQUIRED", k.MQCHK_REQUIRED),
            ("REQDADM", k.MQCHK_REQUIRED_ADMIN),
        ),
    )
    # YES: a partner that the rule refuses is admitted, and logged.
    warn: int = attribute(c.MQWARN_NO, k.MQIACH_WARNING, words=_NO_YES)


# Stored definitions that MQSC does not set


@table
class AuthorityDefinition(Definition):
    """The authorities of one user or group on the objects of one profile."""

    kinds: ClassVar = (AUTHREC,)

    object_type: str = stored_field("", "OBJTYPE")
    profile: str = stored_field("", "PROFILE")
    entity_kind: str = stored_field("", "ENTTYPE")
    entity: str = stored_field("", "ENTITY")
    authorities: str = stored_field("", "AUTHLIST")


@table
class KeptDefinition(Definition):
    """An object that is kept without effect, such as a listener: all its attributes are kept."""

    kinds: ClassVar = KEPT_KINDS


@table
class ChildDefinition(Definition):
    """A child queue manager in a publish/subscribe hierarchy; it has no attributes."""

    kinds: ClassVar = (CHILD,)


#: The attributes of all kinds; one of several types of queues is there once for each type.
ATTRIBUTES = tuple(a for kind in TABLES for a in attributes_of(kind).values())


def defaults_of(kind: str) -> dict[str, Value]:
    """Return the default of each attribute of a kind, by MQSC keyword; {} for an unknown kind."""
    return {keyword: a.default for keyword, a in attributes_of(kind).items()}

"""Define, alter, delete and inquire: the operations on objects of all types, and on topic strings.

Attributes are passed and returned by MQSC keyword, with typed values. All functions raise MQError:
AdminError for an attribute and its value, any other error for the object. Channels, connections and
settings have separate modules.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from mayfly.admin import channels, connections, settings
from mayfly.admin.access import inquire_authority, inquire_channel_rules
from mayfly.admin.events import report_objects, reporting_change
from mayfly.admin.model import (
    APSTATUS,
    APSTATUS_LOCAL,
    APSTATUS_QMGR,
    AUTHSERV,
    CHSTATUS,
    CONN,
    DURABLE_NO,
    DURABLE_YES,
    GROUP_STATUS,
    HANDLE,
    MONITORED,
    NO,
    PUBSUB,
    PUBSUB_STATUS,
    QMSTATUS,
    QSTATS,
    QSTATUS,
    QSTATUS_HANDLE,
    RELATIONS,
    SBSTATUS,
    SECURITY,
    SETTING,
    SUBSCRIPTION_TYPES,
    TPSTATUS,
    TPSTATUS_PUB,
    TPSTATUS_SUB,
    YES,
    Filter,
    Record,
    check_type,
    checked_all,
    entries_of,
    fixed_attribute,
    missing_attribute,
    named,
    object_type,
    shown_values,
    type_of,
)
from mayfly.admin.standard_objects import (
    MODELS,
    STANDARD_OBJECTS,
    SYSTEM,
    WITHOUT_TOPIC_STRING,
    find_definition,
    source_of,
)
from mayfly.channel.hierarchy import hierarchy_of
from mayfly.engine import Engine, GetRequest, forward, manager_definition
from mayfly.engine.api.administration import (
    ANY_TLS,
    AUTHINFO,
    AUTHREC,
    CHANGEABLE_OF_SUBSCRIPTIONS,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    DEFAULT_AUTHENTICATION,
    DEFAULT_OBJECTS,
    DEFAULT_TOPIC,
    EVENT_QUEUES,
    KEPT_CHANNEL_TYPES,
    KEPT_KINDS,
    NAMELIST,
    NOT_OBEYED,
    PROCESS,
    QLOCAL,
    QMGR,
    QUEUE_KINDS,
    SECRETS,
    SUB,
    TOPIC,
    TYPED_BY,
    Attribute,
    Definition,
    QueueStatus,
    SubscriptionView,
    alter_definition,
    alter_named,
    alter_subscription,
    alter_topic,
    attributes_of,
    clear_retained,
    define_named,
    define_queue,
    define_subscription,
    define_topic,
    delete_named,
    delete_queue,
    delete_subscription,
    delete_topic,
    find_named,
    fixed_attributes_of_manager,
    has_attribute,
    matches,
    reset_statistics,
    view_manager,
    view_members,
    view_named,
    view_neighbours,
    view_queue,
    view_queue_status,
    view_queues,
    view_subscriptions,
    view_topic_string,
    view_topic_strings,
    view_topic_subscriptions,
    view_topics,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import MQIACF_REFRESH_INTERVAL
from mayfly.mqi.constants import MQGMO_SYNCPOINT, MQOO_INPUT_EXCLUSIVE
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import MQError, NoMessage, ObjectError, mq_error
from mayfly.mqi.event_constants import MQRCCF_EVENTS_DISABLED
from mayfly.verbs.facts import Value
from mayfly.verbs.topic_strings import check_topic_string, has_wildcards

_TOPIC_STRING: Final = "TOPICSTR"
_MOVED_TOGETHER: Final = 100
_AUTHENTICATION_TYPE: Final = "AUTHTYPE"
#: The object from which a new one of this type inherits without LIKE.
_DEFAULTS: Final = {
    **DEFAULT_OBJECTS,
    **MODELS,
    TOPIC: DEFAULT_TOPIC,
    AUTHINFO: DEFAULT_AUTHENTICATION,
}
#: The attributes that ALTER cannot change, and that no new object inherits.
_FIXED: Final[Mapping[str, Collection[str]]] = {
    TOPIC: (_TOPIC_STRING,),
    SUB: attributes_of(SUB).keys() - CHANGEABLE_OF_SUBSCRIPTIONS,
}
#: The types of channels for which any version of TLS from 1.2 on is spoken, whatever the cipher is.
_SERVING: Final = ("SVRCONN", "RCVR")
#: The root of the topic tree, and what it has in IBM MQ in place of ASPARENT.
_ROOT: Final = (TOPIC, "SYSTEM.BASE.TOPIC")
_ROOT_VALUES: Final[Mapping[str, Value]] = {
    "COMMINFO": "SYSTEM.DEFAULT.COMMINFO.MULTICAST",
    "DEFPRESP": 1,
    "MCAST": 2,
    "PUBSCOPE": 0,
    "SUBSCOPE": 0,
}
#: IBM MQ sets it at each subscription, and an export has it.
_WITHOUT_MEANING: Final = ("PUBACCT",)
_NOT_CHECKED: Final = ("CRLLDAP", "OCSP", "IDPWLDAP")


def default_values(manager: Engine, kind: str, type_word: str = "") -> dict[str, Value]:
    """Return what DEFINE without LIKE gives the attributes that it leaves out, by keyword.

    They are the values of SYSTEM.DEFAULT.* for the kind if that object exists, else the defaults.
    ``type_word`` is the CHLTYPE or AUTHTYPE of a typed kind, whose attributes they are then;
    numbers stand for words, as for 1 of ``YES``.
    """
    if kind in (CHANNEL, CLNTCONN):
        return channels.default_values(manager, kind, type_word)
    values = {keyword: row.default for keyword, row in object_type(kind).attributes.items()}
    source = source_of(manager, kind, None, [_DEFAULTS[kind]] if kind in _DEFAULTS else [])
    given: dict[str, Value] = {}
    if kind in TYPED_BY:
        row = attributes_of(kind)[TYPED_BY[kind]]
        given = {row.keyword: dict(row.words)[type_word]}
        values |= given
    if source is not None and _is_of_type(source, given):
        own = ("QSGDISP", *_FIXED.get(kind, ()))
        values |= {k: v for k, v in source.every_attribute.items() if k not in own}
    return {k: v for k, v in values.items() if has_attribute(kind, type_word, k)}


def fixed_attributes(kind: str) -> Collection[str]:
    """Return the keywords of a kind that DEFINE sets and ALTER cannot change."""
    return (*_FIXED.get(kind, ()), *([TYPED_BY[kind]] if kind in TYPED_BY else ()))


def needed_attributes(kind: str, type_word: str = "") -> Collection[str]:
    """Return the keywords without which no object of a kind, or of its type, can be defined.

    ``type_word`` is the CHLTYPE or AUTHTYPE of a typed kind.
    """
    if kind in (CHANNEL, CLNTCONN):
        return channels.needed_attributes(kind, type_word)
    typed_by = (TYPED_BY[kind],) if kind in TYPED_BY else ()
    return (_TOPIC_STRING,) if kind == TOPIC else typed_by


def define(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Define an object and store it; attributes left out come from ``like``, else are the defaults.

    ``kind`` is the object type as in MQSC, such as QLOCAL. The defaults are the attributes of
    SYSTEM.DEFAULT.* for the type, if that object exists. QSGDISP of a queue and TOPICSTR of a topic
    are never inherited, nor what ALTER SUB cannot change. With ``replace`` an existing object takes
    the attributes. A process, an AUTHINFO object or a channel then keeps the attributes left out;
    other objects get the defaults.

    Raises UnknownLikeObject (MQRC_UNKNOWN_OBJECT_NAME) when ``like`` is no object of this type,
    MQRC_OBJECT_ALREADY_EXISTS (MQRC_SUB_ALREADY_EXISTS for SUB) without ``replace``,
    MQRC_OBJECT_NAME_ERROR, AdminError for a wrong or missing attribute, and errors of the engine
    for this type.
    """
    if like is not None:
        _make_standard(manager, kind, like)
    with _reporting(manager, (kind,), name):
        _define_object(manager, kind, name, attributes, like, replace=replace)


def _define_object(
    manager: Engine,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    like: str | None,
    *,
    replace: bool,
) -> None:
    """Define an object and store it; parameters and errors are those of :func:`define`."""
    if kind in (CHANNEL, CLNTCONN):
        channels.define(manager, kind, name, attributes, like, replace=replace)
        return
    given = checked_all(kind, attributes)
    if (kind, name) in WITHOUT_TOPIC_STRING:
        return
    defaults = [_DEFAULTS[kind]] if kind in _DEFAULTS else []
    if kind == AUTHINFO:
        _check_authentication(given)
        defaults = [name, *defaults] if replace else defaults
    source = source_of(manager, kind, like, defaults)
    if source is not None and not _is_of_type(source, given):
        if source.name in (like, name):
            raise fixed_attribute(_AUTHENTICATION_TYPE, given[_AUTHENTICATION_TYPE])
        source = None
    if source is not None:
        own = ("QSGDISP", *_FIXED.get(kind, ()))
        given = {**{k: v for k, v in source.every_attribute.items() if k not in own}, **given}
    is_topic_string_missing = kind == TOPIC and _TOPIC_STRING not in given
    if is_topic_string_missing and find_definition(manager, kind, name) is None:
        raise missing_attribute(_TOPIC_STRING)
    _DEFINE[kind](manager, kind, name, given, replace=replace)


def alter(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of an object and store them, all or none; for QMGR ``name`` is ignored.

    ``kind`` is the object type as in MQSC, such as QLOCAL. Attributes left out do not change.
    Raises MQRC_UNKNOWN_OBJECT_NAME (MQRC_NO_SUBSCRIPTION for SUB), and AdminError for an attribute
    that is wrong or cannot change.
    """
    _make_standard(manager, kind, name, attributes)
    if kind == QMGR:
        _make_event_queues(manager, attributes)
    with _reporting(manager, (kind,), name):
        _alter_object(manager, kind, name, attributes)


def _alter_object(manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of an object and store them; see :func:`alter` for arguments and errors."""
    if kind in (CHANNEL, CLNTCONN):
        channels.alter(manager, kind, name, attributes)
        return
    given = checked_all(kind, attributes)
    if kind == AUTHINFO:
        existing = find_named(manager, kind, name)
        if not _is_of_type(existing, given):
            raise fixed_attribute(_AUTHENTICATION_TYPE, given[_AUTHENTICATION_TYPE])
        _check_authentication({**existing.attributes, **given}, given)
    for keyword, value in given.items():
        if keyword in _FIXED.get(kind, ()):
            raise fixed_attribute(keyword, value)
    _ALTER[kind](manager, kind, name, given)


def delete(manager: Engine, kind: str, name: str, *, purge: bool = False) -> None:
    """Delete an object; ``purge`` also deletes the messages of a local queue.

    ``kind`` is the object type as in MQSC, such as QLOCAL. Raises MQRC_UNKNOWN_OBJECT_NAME
    (MQRC_NO_SUBSCRIPTION for SUB), MQRC_OBJECT_IN_USE for an open object, and MQRC_Q_NOT_EMPTY for
    messages without ``purge``.
    """
    with _reporting(manager, (kind,), name):
        if kind == QLOCAL and purge:
            delete_queue(manager, kind, name, purge=True)
        else:
            _DELETE[kind](manager, kind, name)


def reporting_set(manager: Engine, name: str) -> AbstractContextManager[None]:
    """Make the configuration event of MQSET, which a ``with`` block does to the queue ``name``."""
    return _reporting(manager, QUEUE_KINDS, name)


def _reporting(manager: Engine, kinds: Sequence[str], name: str) -> AbstractContextManager[None]:
    """Make the configuration events of what a ``with`` block does to an object.

    The object is of one of ``kinds``; for QMGR ``name`` is ignored.
    """
    name = manager.name if kinds == (QMGR,) else name

    def find() -> dict[Hashable, Record]:
        return {each.name: each for each in inquire(manager, kinds, name) if each.name == name}

    return reporting_change(manager, kinds[0], find)


def inquire(
    manager: Engine, kinds: Sequence[str], pattern: str, where: Filter | None = None
) -> list[Record]:
    """Return the objects that match a pattern and a condition, type by type; queues in one list.

    ``kinds`` are object types as in MQSC, such as QLOCAL; queue types are not mixed with others.
    ``pattern`` is a name, or the start of names followed by ``*``. For TPSTATUS it is a topic
    string; QMGR, QMSTATUS, PUBSUB and GROUP ignore it. ``where`` None selects all. Returns an empty
    list for no match.
    """
    if kinds[0] in QUEUE_KINDS:
        found = _inquire_queues(manager, pattern, kinds)
    else:
        found = [record for kind in kinds for record in _INQUIRE[kind](manager, pattern)]
    return [record for record in found if where is None or where.passes(record)]


def reset_queue_statistics(manager: Engine, pattern: str) -> list[Record]:
    """Return QSTATS records of the local queues whose names match, and begin their counts anew.

    Returns [] for no match. Raises MQRCCF_EVENTS_DISABLED if a queue that is named has no
    statistics; others that a pattern matches are left out.
    """
    names = [view.definition.name for view in view_queues(manager, pattern, (QLOCAL,))]
    records = []
    for name in names:
        try:
            found = reset_statistics(manager, name)
        except MQError as error:
            if name == pattern or error.reason not in (
                MQRCCF_EVENTS_DISABLED,
                rc.MQRC_UNKNOWN_OBJECT_NAME,
            ):
                raise
            continue
        values: dict[str, Value] = {
            "HIQDEPTH": found.high_depth,
            "MSGSIN": found.put_count,
            "MSGSOUT": found.removed_count,
            "RESETINT": found.seconds_since_reset,
        }
        records.append(Record(QSTATS, name, values))
    return records


def move_messages(manager: Engine, source: str, target: str, *, adds: bool) -> int:
    """Move all messages of a local queue to another one, and return how many (MOVE QLOCAL).

    Ids, context and remaining life stay; messages that have expired are discarded. They move in
    units of work of 100. Without ``adds`` the target must be empty: MQRC_Q_NOT_EMPTY. Raises
    MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_IN_USE for a source that a program has open for input, and
    the errors of puts on the target; messages that were moved before an error stay moved.
    """
    if view_queue_status(manager, target).depth and not adds:
        raise mq_error(rc.MQRC_Q_NOT_EMPTY, f"queue '{target}' is not empty")
    view_queue_status(manager, source)
    if source == target:
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"queue '{target}' is the source as well")
    count = 0
    with manager.session(transacted=True, program="mayfly MOVE QLOCAL") as session:
        handle = session.open(source, MQOO_INPUT_EXCLUSIVE)
        try:
            while True:
                message = handle.get(GetRequest(), MQGMO_SYNCPOINT).message
                forward(manager, session, target, message)
                count += 1
                if count % _MOVED_TOGETHER == 0:
                    session.commit()
        except NoMessage:
            session.commit()
        except MQError:
            session.backout()
            raise
    return count


def clear_topic(manager: Engine, topic: str) -> None:
    """Remove the retained publication of a topic string, also on disk.

    Does nothing without a retained publication. Raises MQRC_TOPIC_STRING_ERROR for an invalid
    string or one with wildcards.
    """
    check_topic_string(topic, wildcards=False)
    clear_retained(manager, topic)


# Queues of all types, and the queue manager itself
def _inquire_queues(manager: Engine, pattern: str, kinds: Sequence[str]) -> list[Record]:
    """Return the queues of ``kinds`` whose names match, sorted by name.

    ``pattern`` is a name, or the start of names followed by ``*``. Local queues also have CURDEPTH,
    IPPROCS, OPPROCS and DEFTYPE.
    """
    records = []
    for definition, depth, input_count, output_count in view_queues(manager, pattern, kinds):
        values = definition.every_attribute
        if definition.kind == QLOCAL:
            values |= {
                "CURDEPTH": depth,
                "IPPROCS": input_count,
                "OPPROCS": output_count,
                "DEFTYPE": definition.definition_type,
            }
        records.append(Record(definition.kind, definition.name, values))
    return records


def _inquire_manager(manager: Engine, _pattern: str) -> list[Record]:
    """Return the one QMGR record: attributes that can be set, and what is fixed, as CMDLEVEL."""
    fixed = fixed_attributes_of_manager(manager)
    shown = object_type(QMGR).shown.values()
    own = {row.keyword: fixed[row.selector] for row in shown if row.selector is not None}
    return [Record(QMGR, manager.name, {**view_manager(manager).every_attribute, **own})]


def _inquire_security(manager: Engine, _pattern: str) -> list[Record]:
    """Return the one SECURITY record: the attributes that say how users are checked."""
    values = view_manager(manager).attributes
    shown = {keyword: values[keyword] for keyword in object_type(SECURITY).shown}
    return [Record(SECURITY, manager.name, shown)]


def _inquire_authority_service(manager: Engine, _pattern: str) -> list[Record]:
    """Return the one AUTHSERV record: authority records of users are supported."""
    return [Record(AUTHSERV, manager.name, {"UIDSUPP": YES})]


def _inquire_queue_statuses(manager: Engine, pattern: str) -> list[Record]:
    """Return a QSTATUS record for each local queue whose name matches, sorted by name.

    A queue that is deleted meanwhile is left out.
    """
    names = [view.definition.name for view in view_queues(manager, pattern, (QLOCAL,))]
    records = []
    for name in names:
        # One deleted in the meantime is left out; the lock is not held over all of them.
        with contextlib.suppress(ObjectError):
            records.append(_queue_status(manager, name))
    return records


def _queue_status(manager: Engine, name: str) -> Record:
    """Return the QSTATUS record of a local queue; raises MQRC_UNKNOWN_OBJECT_NAME.

    DDELAY, the status of the delivery delay processor, is only in the record of the staging queue.
    """
    status = view_queue_status(manager, name)
    values: dict[str, Value] = {
        "CURDEPTH": status.depth,
        "IPPROCS": status.input_count,
        "OPPROCS": status.output_count,
        "UNCOM": YES if status.has_uncommitted_work else NO,
        "MSGAGE": status.oldest_age_seconds,
        **_monitoring(manager, name, status),
        "STAGED": status.staged_count,
        "LIVE": status.live_count,
        "EXPIRED": status.expired_count,
    }
    if name == STAGING_QUEUE:
        values["DDELAY"] = connections.processor_status(manager)
    return Record(QSTATUS, name, values)


def _monitoring(manager: Engine, name: str, status: QueueStatus) -> dict[str, Value]:
    """Return what MONQ has of a queue: the times of the last put and get, and QTIME."""
    manager_monq, definition = manager_definition(manager).monq, view_queue(manager, name)
    monq = MONITORED["OFF"] if definition is None else definition.monq
    monq = max(0, manager_monq) if monq < 0 or manager_monq < 0 else monq
    put_date, put_time = connections.date_and_time(status.last_put_ms)
    get_date, get_time = connections.date_and_time(status.last_get_ms)
    means = () if status.on_queue_ms is None else status.on_queue_ms
    return {
        "MONQ": monq,
        "LPUTDATE": put_date,
        "LPUTTIME": put_time,
        "LGETDATE": get_date,
        "LGETTIME": get_time,
        "QTIME": ",".join(str(round(each * 1_000)) for each in means),
    }


def _inquire_members(manager: Engine, _pattern: str) -> list[Record]:
    """Return a GROUP record for each member of the queue-sharing group, sorted by name.

    A member that is not open is left out, unless its store lacks committed units of work. Raises
    MQRC_OPTION_NOT_VALID_FOR_TYPE for a queue manager without a group.
    """
    return [
        Record(
            GROUP_STATUS,
            member.name,
            {
                "QSGNAME": member.group,
                "STATUS": "ACTIVE" if member.is_open else "INACTIVE",
                "DECIDED": member.decided_count,
            },
        )
        for member in view_members(manager)
    ]


# Topic objects and topic strings, subscriptions, and the neighbours of a hierarchy
def _inquire_topic_string(manager: Engine, topic: str) -> list[Record]:
    """Return TPSTATUS records: the attribute values in force for topic strings, none ASPARENT.

    ``topic`` may have wildcards; without them it is one string, with a record also if nobody uses
    it. ADMIN is empty if a string has no topic object. Raises MQRC_TOPIC_STRING_ERROR for an
    invalid string.
    """
    return [_topic_status(manager, each) for each in topic_strings(manager, topic)]


def topic_strings(manager: Engine, topic: str) -> list[str]:
    """Return the topic strings that a string with wildcards matches; without them the string.

    Raises MQRC_TOPIC_STRING_ERROR for an invalid string.
    """
    if topic:
        check_topic_string(topic, wildcards=True)
    return view_topic_strings(manager, topic) if has_wildcards(topic) else [topic]


def _topic_status(manager: Engine, topic: str) -> Record:
    """Return the TPSTATUS record of one topic string."""
    view = view_topic_string(manager, topic)
    values: dict[str, Value] = {
        "ADMIN": view.admin_name,
        **view.values,
        "RETAINED": YES if view.is_retained else NO,
        "SUBCOUNT": view.subscription_count,
    }
    return Record(TPSTATUS, topic, values)


def _inquire_topic_subscribers(manager: Engine, topic: str) -> list[Record]:
    """Return a TPSTATUS_SUB record for each subscription at the topic strings that match.

    Raises MQRC_TOPIC_STRING_ERROR for an invalid string.
    """
    return [
        Record(TPSTATUS_SUB, each, {"SUB": found.name, **found.values})
        for each in topic_strings(manager, topic)
        for found in topic_subscribers(manager, each)
    ]


def _inquire_publishers(manager: Engine, topic: str) -> list[Record]:
    """Return a TPSTATUS_PUB record for each opening to publish of the topic strings that match.

    Raises MQRC_TOPIC_STRING_ERROR for an invalid string.
    """
    opened = connections.open_connections(manager)
    return [
        Record(TPSTATUS_PUB, each, {"ACTCONN": found.identifier, "USERID": found.user})
        for each in topic_strings(manager, topic)
        for found in opened
        for handle in found.handles
        if handle.kind == TOPIC and handle.name == each
    ]


def topic_subscribers(manager: Engine, topic: str) -> list[Record]:
    """Return SBSTATUS records of the subscriptions to one topic string."""
    return _subscription_statuses(manager, view_topic_subscriptions(manager, topic))


def _inquire_subscription_statuses(manager: Engine, pattern: str) -> list[Record]:
    """Return SBSTATUS records of the subscriptions whose names match, sorted by name."""
    return _subscription_statuses(manager, view_subscriptions(manager, pattern))


def _subscription_statuses(manager: Engine, views: Iterable[SubscriptionView]) -> list[Record]:
    """Return the SBSTATUS records of subscriptions, in the same order."""
    active: dict[str, str] = {}
    for found in connections.open_connections(manager):
        for identifier in found.subscriptions:
            active.setdefault(identifier, found.identifier)
    return [_subscription_status(view, active) for view in views]


def _subscription_status(view: SubscriptionView, active: Mapping[str, str]) -> Record:
    """Return the SBSTATUS record of a subscription.

    ``active`` has for the SUBID of each open subscription CONN of the first connection that has it
    open.
    """
    definition = view.definition
    put_date, put_time = connections.date_and_time(view.last_copy_ms)
    open_date, open_time = connections.date_and_time(view.last_open_ms)
    values: dict[str, Value] = {
        "SUBID": definition.sub_id.upper(),
        "SUBUSER": definition.subuser,
        "SUBTYPE": SUBSCRIPTION_TYPES[definition.made_by],
        "DURABLE": DURABLE_YES if view.is_durable else DURABLE_NO,
        "TOPICSTR": definition.topicstr,
        "NUMMSGS": view.copy_count,
        "LMSGDATE": put_date,
        "LMSGTIME": put_time,
        "RESMDATE": open_date,
        "RESMTIME": open_time,
        "ACTCONN": active.get(definition.sub_id.upper(), ""),
    }
    return Record(SBSTATUS, definition.name, values)


def _inquire_subscriptions(manager: Engine, pattern: str) -> list[Record]:
    """Return the subscriptions whose names match, sorted by name, durable or not.

    A non-durable subscription exists only while a program has it open.
    """
    records = []
    for definition, is_durable, *_ in view_subscriptions(manager, pattern):
        values: dict[str, Value] = {
            "SUBID": definition.sub_id.upper(),
            **definition.every_attribute,
            "SUBTYPE": SUBSCRIPTION_TYPES[definition.made_by],
            "DURABLE": DURABLE_YES if is_durable else DURABLE_NO,
        }
        records.append(Record(SUB, definition.name, values))
    return records


def _inquire_neighbours(manager: Engine, _pattern: str) -> list[Record]:
    """Return PUBSUB records of the hierarchy: this queue manager, its parent, its children.

    Without parent and children the list has one record. SUBCOUNT and TPCOUNT are those of this
    queue manager: its subscriptions, and the topic strings in use.
    """
    hierarchy = hierarchy_of(manager)
    parent, children = view_neighbours(manager)
    own: dict[str, Value] = {
        "TYPE": RELATIONS["LOCAL"],
        "STATUS": PUBSUB_STATUS[hierarchy.status()],
        "SUBCOUNT": len(view_subscriptions(manager, "*")),
        "TPCOUNT": len(view_topic_strings(manager, "#")),
    }
    related = [("PARENT", parent)] if parent else []
    related += [("CHILD", name) for name in children]
    return [
        Record(PUBSUB, manager.name, own),
        *(
            Record(
                PUBSUB,
                name,
                {
                    "TYPE": RELATIONS[relation],
                    "STATUS": PUBSUB_STATUS[hierarchy.status_of(name)],
                },
            )
            for relation, name in related
        ),
    ]


# Processes, and how passwords are checked (AUTHINFO)
def _records(definitions: Iterable[Definition]) -> list[Record]:
    """Return the records of objects that have no attributes but those that can be set."""
    return [Record(each.kind, each.name, shown_values(each)) for each in definitions]


def _named_records(kind: str) -> Callable[[Engine, str], Sequence[Record]]:
    """Return the function that inquires about objects of a kind, such as PROCESS."""
    return lambda manager, pattern: _records(view_named(manager, kind, pattern))


def _inquire_namelists(manager: Engine, pattern: str) -> list[Record]:
    """Return the namelists that match; NAMCOUNT is the number of their names."""
    found = _records(view_named(manager, NAMELIST, pattern))
    return [
        each._replace(
            values={**each.values, "NAMCOUNT": len(entries_of(str(each.values["NAMES"])))}
        )
        for each in found
    ]


def _check_authentication(
    attributes: Mapping[str, Value], given: Mapping[str, Value] | None = None
) -> None:
    """Raise AdminError unless AUTHINFO attributes have AUTHTYPE, and only what that type has.

    ``given`` are those of ``attributes`` that a command changes; None means all of them.
    """
    if _AUTHENTICATION_TYPE not in attributes:
        words = attributes_of(AUTHINFO)[_AUTHENTICATION_TYPE].words
        raise missing_attribute(_AUTHENTICATION_TYPE, ", ".join(word for word, _ in words))
    check_type(AUTHINFO, type_of(AUTHINFO, attributes), attributes if given is None else given)


def _is_of_type(source: Definition, given: Mapping[str, Value]) -> bool:
    """Return False if ``given`` has another AUTHTYPE than the object ``source`` to copy.

    Returns True without AUTHTYPE in ``given``.
    """
    wanted = given.get(_AUTHENTICATION_TYPE)
    return wanted is None or source.attributes.get(_AUTHENTICATION_TYPE) == wanted


# Objects that IBM MQ makes with each queue manager
def _make_standard(
    manager: Engine, kind: str, name: str, attributes: Mapping[str, Value] | None = None
) -> None:
    """Define an object that IBM MQ makes with each queue manager, if it is missing here.

    Does nothing for other objects, and for one that exists. It is defined with ``attributes``, so
    that a wrong one raises AdminError and nothing is defined.
    """
    standard = STANDARD_OBJECTS.get((kind, name))
    if standard is not None and find_definition(manager, kind, name) is None:
        define(manager, kind, name, {**standard, **(attributes or {})})


def _make_event_queues(manager: Engine, attributes: Mapping[str, Value]) -> None:
    """Define the queues that are missing of events that ALTER QMGR turns on, and that are off now.

    One that an operator deletes afterwards is not defined again; its events are lost then.
    """
    given = checked_all(QMGR, attributes)
    now = manager_definition(manager).every_attribute
    for keyword, queue in EVENT_QUEUES.items():
        if given.get(keyword) and not now[keyword]:
            _make_standard(manager, QLOCAL, queue)


def _delete_authentication(manager: Engine, kind: str, name: str) -> None:
    """Delete an AUTHINFO object.

    Raises MQRC_UNKNOWN_OBJECT_NAME, and MQRC_OBJECT_IN_USE while CONNAUTH of the queue manager
    names the object.
    """
    find_named(manager, kind, name)
    if manager_definition(manager).connauth == name:
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"CONNAUTH of {manager.name} names {name}")
    delete_named(manager, kind, name)


#: Functions of the engine that store a new object, or a changed one, for all types but channels.
_DEFINE: dict[str, Callable[..., None]] = {
    **dict.fromkeys(QUEUE_KINDS, define_queue),
    TOPIC: lambda manager, _kind, name, given, *, replace: define_topic(
        manager, name, given, replace=replace
    ),
    SUB: lambda manager, _kind, name, given, *, replace: define_subscription(
        manager, name, given, replace=replace
    ),
    **dict.fromkeys((PROCESS, AUTHINFO, *KEPT_KINDS), define_named),
}
_ALTER: dict[str, Callable[[Engine, str, str, Mapping[str, Value]], None]] = {
    **dict.fromkeys((*QUEUE_KINDS, QMGR), alter_definition),
    TOPIC: lambda manager, _kind, name, given: alter_topic(manager, name, given),
    SUB: lambda manager, _kind, name, given: alter_subscription(manager, name, given),
    **dict.fromkeys((PROCESS, AUTHINFO, *KEPT_KINDS), alter_named),
}
_DELETE: dict[str, Callable[[Engine, str, str], None]] = {
    **dict.fromkeys(QUEUE_KINDS, delete_queue),
    TOPIC: lambda manager, _kind, name: delete_topic(manager, name),
    SUB: lambda manager, _kind, name: delete_subscription(manager, name),
    **dict.fromkeys((PROCESS, *KEPT_KINDS), delete_named),
    AUTHINFO: _delete_authentication,
    **dict.fromkeys((CHANNEL, CLNTCONN), channels.delete),
}
_INQUIRE: dict[str, Callable[[Engine, str], Sequence[Record]]] = {
    QMGR: _inquire_manager,
    TOPIC: lambda manager, pattern: _records(view_topics(manager, pattern)),
    SUB: _inquire_subscriptions,
    **{kind: _named_records(kind) for kind in (PROCESS, AUTHINFO, *KEPT_KINDS)},
    NAMELIST: _inquire_namelists,
    CHANNEL: lambda manager, pattern: channels.inquire(manager, CHANNEL, pattern),
    CLNTCONN: lambda manager, pattern: channels.inquire(manager, CLNTCONN, pattern),
    QSTATUS: _inquire_queue_statuses,
    TPSTATUS: _inquire_topic_string,
    SBSTATUS: _inquire_subscription_statuses,
    QSTATUS_HANDLE: connections.inquire_queue_handles,
    TPSTATUS_SUB: _inquire_topic_subscribers,
    TPSTATUS_PUB: _inquire_publishers,
    APSTATUS: connections.inquire_applications,
    APSTATUS_QMGR: connections.inquire_applications_here,
    APSTATUS_LOCAL: connections.inquire_application_instances,
    SECURITY: _inquire_security,
    AUTHSERV: _inquire_authority_service,
    CHSTATUS: channels.inquire_status,
    QMSTATUS: connections.inquire_manager_status,
    CONN: connections.inquire,
    HANDLE: connections.inquire_handles,
    PUBSUB: _inquire_neighbours,
    SETTING: settings.inquire,
    GROUP_STATUS: _inquire_members,
}
#: The kinds of objects that can be defined, and of what can be inquired about.
DEFINABLE, INQUIRABLE = (*_DEFINE, CHANNEL, CLNTCONN), (*QUEUE_KINDS, *_INQUIRE)


def without_effect(
    manager: Engine, kind: str, name: str, attributes: Mapping[str, Value]
) -> list[str]:
    """Return those of some attributes of an object that Mayfly stores but does not obey.

    ``attributes`` are the values that a command has set. The result is such as
    ``['NPMCLASS(HIGH)']``, or [] for none. If nothing of the object is obeyed, the result is one
    text: its ``kind``, or its type such as ``CHLTYPE(SVR)``; it is [] for objects SYSTEM.*. An
    attribute at its default in IBM MQ is left out.
    """
    found = find_definition(manager, kind, name) if kind in TYPED_BY else None
    given_type = "" if found is None else type_of(kind, found.attributes)
    if kind in KEPT_KINDS:
        return [] if name.startswith(SYSTEM) else [kind]
    if kind == CHANNEL and given_type in KEPT_CHANNEL_TYPES:
        return [] if name.startswith(SYSTEM) else [f"CHLTYPE({given_type})"]
    if kind == AUTHINFO and given_type in _NOT_CHECKED:
        return [] if name.startswith(SYSTEM) else [f"AUTHTYPE({given_type})"]
    if (kind, name) in WITHOUT_TOPIC_STRING:
        return []
    root = _ROOT_VALUES if (kind, name) == _ROOT else {}
    lost = []
    known = object_type(kind)
    for keyword, value in attributes.items():
        row = known.kept.get(keyword)
        is_lost = row is not None and value not in (row.default, root.get(keyword))
        is_lost = is_lost and keyword not in _WITHOUT_MEANING
        if row is None and (given_type or kind) in NOT_OBEYED.get(keyword, ()):
            is_lost = value not in (0, known.attributes[keyword].default)
        if keyword == "SSLCIPH" and given_type in _SERVING:
            is_lost = value not in ("", ANY_TLS)
        if is_lost:
            shown = "" if keyword in SECRETS else named(known.attributes[keyword], value)
            lost.append(f"{keyword}({shown})")
    return lost


#: INCLINT of REFRESH QMGR, in minutes: only objects changed within that time, 0 for all.
REFRESH_INTERVAL: Final = Attribute(
    "INCLINT", "", (), 0, MQIACF_REFRESH_INTERVAL, 0, 999_999, (), 0, "minutes"
)
#: The kinds of which there are configuration events.
REFRESHABLE: Final = (QMGR, *(kind for kind in DEFINABLE if kind != SUB), AUTHREC, CHLAUTH)


def report_configuration(manager: Engine, kinds: Sequence[str], pattern: str) -> int:
    """Make a Refresh object event for each object; return their number.

    ``kinds`` are some of REFRESHABLE. ``pattern`` is a name, or the start of names followed by
    ``*``; of authority records and rules for channels it is compared with their profiles. The queue
    manager matches any pattern.
    """
    queues = tuple(kind for kind in kinds if kind in QUEUE_KINDS)
    found = list[Record]()
    for kind in kinds:
        if kind == AUTHREC:
            found += [r for r in inquire_authority(manager, []) if matches(r.name, pattern)]
        elif kind == CHLAUTH:
            rules = inquire_channel_rules(manager, "*", match="ALL")
            found += [rule for rule in rules if matches(rule.name, pattern)]
        elif kind not in QUEUE_KINDS:
            found += inquire(manager, (kind,), pattern)
        elif kind == queues[0]:
            found += inquire(manager, queues, pattern)
    report_objects(manager, found)
    return len(found)

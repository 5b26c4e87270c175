"""PCF commands: each a function of queue manager and parameters; a command is run and answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from mayfly import admin
from mayfly.admin import (
    AUTHSERV,
    CHANNEL,
    CLNTCONN,
    GROUP_STATUS,
    POLICY,
    PUBSUB,
    QMGR,
    QMSTATUS,
    QUEUE_KINDS,
    REFRESH_INTERVAL,
    SBSTATUS,
    SECURITY,
    SUB,
    AdminError,
    Engine,
    Record,
    UnknownLikeObject,
)
from mayfly.admin.mqsc.commands import heads_of, role_of, run_script
from mayfly.admin.pcf import access, status
from mayfly.admin.pcf.objects import (
    AUTHENTICATION,
    CHANNELS,
    LISTENERS,
    NOUNS,
    POLICIES,
    QUEUE,
    QUEUE_TYPES,
    SERVICES,
    SUBSCRIPTIONS,
    TOPICS,
    InquirySelection,
    Noun,
    keywords_of,
    structures_of,
    take_attributes,
    take_selection,
)
from mayfly.admin.pcf.parameters import Parameters, missing, wrong_value
from mayfly.admin.security.applicant import Admitted
from mayfly.admin.security.roles import Role, check_role
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqi.pcf import (
    Header,
    PcfError,
    Structure,
    integer,
    integer_list,
    pack,
    string,
    string_list,
    unpack,
)

#: The structures of each message of an answer.
Answer: TypeAlias = "list[list[Structure]]"
#: The action of a command; no answer means that it is done.
Action: TypeAlias = Callable[[Engine, Parameters], "Answer | None"]

_GENERIC: Final = "*"
_NAME_BYTES: Final = 48
_AUTHORITY_SERVICE: Final = "Mayfly"
_CHANNEL_BYTES: Final = 20
_GROUP_BYTES: Final = 4
#: MQQSGS_*, of a member of a queue-sharing group.
_MEMBER_STATUS: Final = {"ACTIVE": 2, "INACTIVE": 3}
_QUEUE_KINDS_OF_TYPE: Final = {
    **{number: (kind,) for kind, number in QUEUE_TYPES.items()},
    c.MQQT_ALL: QUEUE_KINDS,
}
#: No queue or topic is of a cluster.
_OF_CLUSTERS: Final = {QUEUE: c.MQQT_CLUSTER, TOPICS: c.MQTOPT_CLUSTER}
#: The attribute with the type of an object, and the number that means all types.
_TYPE_KEYWORDS: Final = {CHANNELS: "CHLTYPE", AUTHENTICATION: "AUTHTYPE"}
_ALL_TYPES: Final = {"CHLTYPE": c.MQCHT_ALL, "AUTHTYPE": c.MQAIT_ALL}
#: Attributes that an inquiry returns whatever is wanted.
_ALWAYS: Final = {
    k.MQCMD_INQUIRE_CHANNEL: (k.MQIACH_CHANNEL_TYPE,),
    k.MQCMD_INQUIRE_AUTH_INFO: (c.MQIA_AUTH_INFO_TYPE,),
    k.MQCMD_INQUIRE_SUBSCRIPTION: (k.MQBACF_SUB_ID,),
    k.MQCMD_INQUIRE_TOPIC: (c.MQIA_TOPIC_TYPE,),
}
#: The kinds of which REFRESH_Q_MGR makes configuration events, by MQOT_*.
_REFRESHED: Final = {
    c.MQOT_ALL: admin.REFRESHABLE,
    c.MQOT_Q: QUEUE_KINDS,
    c.MQOT_LOCAL_Q: (admin.QLOCAL,),
    c.MQOT_MODEL_Q: (admin.QMODEL,),
    c.MQOT_ALIAS_Q: (admin.QALIAS,),
    c.MQOT_REMOTE_Q: (admin.QREMOTE,),
    c.MQOT_Q_MGR: (QMGR,),
    c.MQOT_CHANNEL: (CHANNEL, CLNTCONN),
    c.MQOT_CHLAUTH: (admin.CHLAUTH,),
    c.MQOT_AUTH_INFO: (admin.AUTHINFO,),
    c.MQOT_AUTH_REC: (admin.AUTHREC,),
    c.MQOT_LISTENER: (admin.LISTENER,),
    c.MQOT_NAMELIST: (admin.NAMELIST,),
    c.MQOT_PROCESS: (admin.PROCESS,),
    c.MQOT_SERVICE: (admin.SERVICE,),
    c.MQOT_STORAGE_CLASS: (admin.STGCLASS,),
    c.MQOT_TOPIC: (admin.TOPIC,),
}
_MISSING: Final = (rc.MQRC_UNKNOWN_OBJECT_NAME, rc.MQRC_NO_SUBSCRIPTION)
#: Reasons of the engine, and those of commands that say the same.
_REASONS: Final = {
    rc.MQRC_OBJECT_ALREADY_EXISTS: k.MQRCCF_OBJECT_ALREADY_EXISTS,
    rc.MQRC_OBJECT_IN_USE: k.MQRCCF_OBJECT_OPEN,
    rc.MQRC_OBJECT_NAME_ERROR: k.MQRCCF_OBJECT_NAME_ERROR,
    rc.MQRC_OBJECT_TYPE_ERROR: k.MQRCCF_OBJECT_WRONG_TYPE,
}


class Command(NamedTuple):
    """A command: the role that may run it, its function, and the type of object it is about.

    The role may follow from the parameters, by a function that takes none of them.
    """

    role: Role | Callable[[Parameters], Role]
    action: Action
    noun: Noun | None = None
    #: MQIACF_IGNORE_STATE may say that an object that is missing is no failure.
    ignores_missing: bool = False


def answer(
    manager: Engine, data: bytes, *, big_endian: bool, ccsid: int, admitted: Admitted
) -> list[bytes]:
    """Run the command in a PCF message, and return the messages of the answer.

    ``big_endian`` and ``ccsid`` are those of the message, ``admitted`` is the user who gives the
    command. The answer is in native encoding and UTF-8 (CodedCharSetId 1208): one message for each
    object, or one for the whole command. The last one has MQCFC_LAST. A command that is wrong, or
    refused, has one message with MQCC_FAILED, the reason code, the number of the wrong parameter
    (MQIACF_PARAMETER_ID) and the text of the error (MQCACF_AUX_ERROR_DATA_STR_1); nothing is done
    then. Raises MQRC_CONNECTION_BROKEN when the queue manager stops.
    """
    header, command = Header(k.MQCFT_RESPONSE, 0), None
    try:
        message = unpack(data, big_endian=big_endian)
        header = header._replace(command=message.header.command, version=message.header.version)
        command = _command_of(message.header)
        parameters = Parameters(message.structures, ccsid)
        role = command.role if isinstance(command.role, Role) else command.role(parameters)
        check_role(manager, admitted, role)
        found = _run(manager, command, parameters)
    except MQError as error:
        if manager.is_stopped:
            raise
        noun = None if command is None else command.noun
        failed = header._replace(comp=c.MQCC_FAILED, reason=_reason_of(error, noun))
        return [pack(failed, _explained(error, noun))]
    return [
        pack(
            header._replace(
                sequence_number=number,
                control=k.MQCFC_LAST if number == len(found) else k.MQCFC_NOT_LAST,
            ),
            structures,
        )
        for number, structures in enumerate(found, 1)
    ]


def _run(manager: Engine, command: Command, parameters: Parameters) -> Answer:
    """Run a command; return the structures of the messages of its answer, one at least.

    With MQIS_YES as MQIACF_IGNORE_STATE an object that is missing is no failure.
    """
    states = (k.MQIS_NO, k.MQIS_YES)
    state = None
    if command.ignores_missing:
        state = parameters.number(k.MQIACF_IGNORE_STATE, states)
    try:
        return command.action(manager, parameters) or [[]]
    except MQError as error:
        not_found = () if command.noun is None else (command.noun.not_found,)
        if state == k.MQIS_YES and error.reason in (*_MISSING, *not_found):
            return [[]]
        raise


def refusal(error: PcfError) -> bytes:
    """Return the one message of an answer to a message that is no command."""
    header = Header(k.MQCFT_RESPONSE, 0, comp=c.MQCC_FAILED, reason=error.reason)
    return pack(header, _explained(error, None))


def _command_of(header: Header) -> Command:
    """Return the command that a header names; raises PcfError for a header that names none."""
    if header.type not in (k.MQCFT_COMMAND, k.MQCFT_COMMAND_XR):
        raise PcfError(k.MQRCCF_CFH_TYPE_ERROR, f"Type {header.type} is no command")
    if header.sequence_number != 1:
        text = f"MsgSeqNumber {header.sequence_number} is not 1"
        raise PcfError(k.MQRCCF_CFH_MSG_SEQ_NUMBER_ERR, text)
    if header.control != k.MQCFC_LAST:
        raise PcfError(k.MQRCCF_CFH_CONTROL_ERROR, f"Control {header.control} is not MQCFC_LAST")
    command = COMMANDS.get(header.command)
    if command is None:
        raise PcfError(k.MQRCCF_CFH_COMMAND_ERROR, f"Command {header.command} is not known here")
    return command


def _reason_of(error: MQError, noun: Noun | None) -> int:
    """Return the reason code with which commands report an error."""
    if error.reason == rc.MQRC_UNKNOWN_OBJECT_NAME and noun is not None:
        return noun.not_found
    if error.reason == rc.MQRC_OBJECT_IN_USE and noun is CHANNELS:
        return k.MQRCCF_CHANNEL_IN_USE
    return _REASONS.get(error.reason, error.reason)


def _explained(error: MQError, noun: Noun | None) -> list[Structure]:
    """Return number of the wrong parameter, if there is one, and text of an error."""
    parameter = error.parameter if isinstance(error, PcfError) else 0
    if isinstance(error, AdminError) and noun is not None:
        for kind in noun.kinds:
            for number, keyword in keywords_of(kind).items():
                parameter = number if keyword == error.attribute else parameter
    named = [integer(k.MQIACF_PARAMETER_ID, parameter)] if parameter else []
    return [*named, string(k.MQCACF_AUX_ERROR_DATA_STR_1, str(error))]


# Objects that are defined


def _create(noun: Noun, manager: Engine, parameters: Parameters) -> None:
    """Define an object: name, type where there are several, attributes, MQIACF_REPLACE."""
    name = parameters.needed_text(noun.name)
    kind = _needed_kind(noun, parameters)
    replace = _is_set(parameters, k.MQIACF_REPLACE)
    attributes = take_attributes(parameters, kind)
    parameters.end()
    admin.define(manager, kind, name, attributes, replace=replace)


def _change(noun: Noun, manager: Engine, parameters: Parameters) -> None:
    """Change attributes of an object, which is named, and its type where there are several."""
    name = _name(noun, manager, parameters)
    kind = _needed_kind(noun, parameters)
    attributes = take_attributes(parameters, kind)
    parameters.end()
    admin.alter(manager, kind, name, attributes)


def _copy(noun: Noun, manager: Engine, parameters: Parameters) -> None:
    """Define an object with the attributes of another one of the same type, but for those given.

    Raises PcfError for an unknown object to copy.
    """
    like = parameters.needed_text(noun.copy_from)
    name = parameters.needed_text(noun.copy_to)
    kind = _needed_kind(noun, parameters)
    replace = _is_set(parameters, k.MQIACF_REPLACE)
    attributes = take_attributes(parameters, kind)
    parameters.end()
    try:
        admin.define(manager, kind, name, attributes, like=like, replace=replace)
    except UnknownLikeObject as error:
        raise PcfError(noun.not_found, str(error), noun.copy_from) from error


def _delete(noun: Noun, manager: Engine, parameters: Parameters) -> None:
    """Delete an object; the type may be given, MQIACF_PURGE deletes the messages of a queue."""
    name = _name(noun, manager, parameters)
    kinds = _kinds_to_delete(noun, parameters)
    purge = noun is QUEUE and _is_set(parameters, k.MQIACF_PURGE)
    parameters.end()
    found = [each for each in admin.inquire(manager, kinds, name) if each.name == name]
    kind = found[0].kind if found else kinds[0]
    admin.delete(manager, kind, name, purge=purge)


def _kinds_to_delete(noun: Noun, parameters: Parameters) -> tuple[str, ...]:
    """Return the kinds of which the object to delete may be.

    A channel is one of the queue manager, or with MQCHTAB_CLNTCONN one of clients.
    """
    if noun is not CHANNELS:
        return _kinds(noun, parameters)
    tables = {k.MQCHTAB_Q_MGR: CHANNEL, k.MQCHTAB_CLNTCONN: CLNTCONN}
    table = parameters.number(k.MQIACH_CHANNEL_TABLE, tables)
    kinds = _kinds(noun, parameters)
    if len(kinds) == 1 and table is None:
        return kinds
    return (tables[k.MQCHTAB_Q_MGR if table is None else table],)


def _inquire(noun: Noun, manager: Engine, parameters: Parameters) -> Answer:
    """Return the objects whose names match, one message each: name, type, attributes."""
    pattern = _name(noun, manager, parameters)
    kinds, is_asked = _types_asked(noun, parameters)
    selection = take_selection(parameters, noun.attributes, kinds)
    parameters.end()
    found = [
        record
        for record in admin.inquire(manager, kinds, pattern)
        if selection.passes(record) and is_asked(record)
    ]
    return [_object(noun, record, selection) for record in _some(found, noun, pattern)]


def _inquire_names(noun: Noun, manager: Engine, parameters: Parameters) -> Answer:
    """Return one message with the names that match, and their types where there are several."""
    pattern = parameters.needed_text(noun.name)
    kinds, is_asked = _types_asked(noun, parameters)
    parameters.end()
    found = list(filter(is_asked, admin.inquire(manager, kinds, pattern)))
    some = _some(found, noun, pattern)
    length = _CHANNEL_BYTES if noun is CHANNELS else _NAME_BYTES
    names = string_list(noun.names, [record.name for record in some], length)
    types = [integer_list(noun.types, map(_type_of, some))] if noun.types else []
    return [[names, *types]]


def _object(noun: Noun, record: Record, selection: InquirySelection) -> list[Structure]:
    """Return an object as structures: its name and type first, then attributes that are shown."""
    length = _CHANNEL_BYTES if noun is CHANNELS else _NAME_BYTES
    head = [string(noun.name, record.name, length)]
    if noun is QUEUE:
        head.append(integer(noun.type, QUEUE_TYPES[record.kind]))
    return [*head, *selection.structures(record, _ALWAYS.get(noun.inquire, ()))]


def _type_of(record: Record) -> int:
    """Return the type of a queue or channel as a number."""
    if record.kind in QUEUE_TYPES:
        return QUEUE_TYPES[record.kind]
    return int(record.values["CHLTYPE"])


def _some(found: Sequence[Record], noun: Noun, pattern: str) -> Sequence[Record]:
    """Return the records, sorted by name; raises PcfError if there are none."""
    if not found:
        text = f"no {' or '.join(noun.kinds)} is like {pattern!r}, or passes the conditions"
        raise PcfError(noun.not_found, text, noun.name)
    return sorted(found, key=lambda record: record.name)


def _name(noun: Noun, manager: Engine, parameters: Parameters) -> str:
    """Take and return the name of an object; a subscription may be named by its MQBACF_SUB_ID.

    Raises PcfError: MQRCCF_PARM_MISSING without a name, MQRC_NO_SUBSCRIPTION for an unknown id.
    """
    identifier = parameters.raw(k.MQBACF_SUB_ID) if noun is SUBSCRIPTIONS else None
    if identifier is None or parameters.has(noun.name):
        return parameters.needed_text(noun.name)
    wanted = identifier.hex().upper()
    for record in admin.inquire(manager, (SUB,), _GENERIC):
        if record.values["SUBID"] == wanted:
            return record.name
    raise PcfError(noun.not_found, f"no subscription has the id {wanted}", k.MQBACF_SUB_ID)


def _kinds(noun: Noun, parameters: Parameters) -> tuple[str, ...]:
    """Take the type of a queue or channel; return the kinds of objects that it means.

    All kinds for no type. The type of a channel is taken by its attributes.
    """
    if noun is QUEUE:
        number = parameters.number(noun.type, _QUEUE_KINDS_OF_TYPE)
        return QUEUE_KINDS if number is None else _QUEUE_KINDS_OF_TYPE[number]
    if noun is CHANNELS:
        number = parameters.number(noun.type)
        if number is None:
            return noun.kinds
        return (CLNTCONN,) if number == c.MQCHT_CLNTCONN else (CHANNEL,)
    if noun is TOPICS:
        # All are local: clusters have none.
        parameters.number(noun.type, (c.MQTOPT_LOCAL, c.MQTOPT_ALL))
    return noun.kinds


def _types_asked(
    noun: Noun, parameters: Parameters
) -> tuple[tuple[str, ...], Callable[[Record], bool]]:
    """Take the type of an inquiry; return kinds of objects, and whether a record is of the type.

    The type of a queue is its kind; those of channels and AUTHINFO objects are attributes.
    """
    keyword = _TYPE_KEYWORDS.get(noun)
    if noun in _OF_CLUSTERS and parameters.peek_number(noun.type) == _OF_CLUSTERS[noun]:
        parameters.number(noun.type)
        return noun.kinds, lambda _record: False
    if keyword is None:
        return _kinds(noun, parameters), lambda _record: True
    number = parameters.number(noun.type)
    if number in (None, _ALL_TYPES[keyword]):
        return noun.kinds, lambda _record: True
    return noun.kinds, lambda record: record.values[keyword] == number


def _needed_kind(noun: Noun, parameters: Parameters) -> str:
    """Take the type of one queue, or look at that of a channel; return the kind of object.

    Raises PcfError (MQRCCF_PARM_MISSING) without a type where there are several.
    """
    if len(noun.kinds) == 1:
        return _kinds(noun, parameters)[0]
    if not parameters.has(noun.type):
        raise missing(noun.type)
    if noun is CHANNELS:
        # It is an attribute as well.
        number = parameters.peek_number(noun.type)
        return CLNTCONN if number == c.MQCHT_CLNTCONN else CHANNEL
    number = parameters.number(noun.type, QUEUE_TYPES.values())
    return next(kind for kind, of_kind in QUEUE_TYPES.items() if of_kind == number)


def _is_set(parameters: Parameters, parameter: int) -> bool:
    """Take a switch such as MQIACF_REPLACE, 0 or 1; return False if it is not given."""
    return parameters.number(parameter, (k.MQRP_NO, k.MQRP_YES)) == k.MQRP_YES


# The queue manager, and the status of objects


def _inquire_manager(manager: Engine, parameters: Parameters) -> Answer:
    """Return the attributes of the queue manager."""
    return _about_manager(manager, parameters, QMGR, k.MQIACF_Q_MGR_ATTRS)


def _inquire_manager_status(manager: Engine, parameters: Parameters) -> Answer:
    """Return the status of the queue manager."""
    return _about_manager(manager, parameters, QMSTATUS, k.MQIACF_Q_MGR_STATUS_ATTRS)


def _about_manager(manager: Engine, parameters: Parameters, kind: str, attributes: int) -> Answer:
    """Return one message with the record of a kind that the queue manager has."""
    wanted = parameters.numbers(attributes)
    parameters.end()
    (record,) = admin.inquire(manager, (kind,), manager.name)
    name = string(c.MQCA_Q_MGR_NAME, manager.name, _NAME_BYTES)
    return [[name, *structures_of(record, wanted)]]


def _change_manager(manager: Engine, parameters: Parameters) -> None:
    """Change the attributes of the queue manager that ``parameters`` contain.

    Raises PcfError for any other parameter, and AdminError for a wrong value.
    """
    attributes = take_attributes(parameters, QMGR)
    parameters.end()
    admin.alter(manager, QMGR, manager.name, attributes)


def _ping_manager(manager: Engine, parameters: Parameters) -> None:
    """Do nothing: a queue manager that answers runs."""
    parameters.end()
    manager.check_running()


def _clear_queue(manager: Engine, parameters: Parameters) -> None:
    """Remove all messages of a local queue."""
    name = parameters.needed_text(c.MQCA_Q_NAME)
    parameters.end()
    admin.clear_queue(manager, name)


def _clear_topic(manager: Engine, parameters: Parameters) -> None:
    """Remove the retained publication of a topic string.

    Raises PcfError (MQRCCF_PARM_MISSING) without the string, or without MQIACF_CLEAR_TYPE.
    """
    topic = parameters.needed_text(c.MQCA_TOPIC_STRING)
    if parameters.number(k.MQIACF_CLEAR_TYPE, (k.MQCLRT_RETAINED,)) is None:
        raise missing(k.MQIACF_CLEAR_TYPE)
    parameters.end()
    admin.clear_topic(manager, topic)


def _inquire_subscription_status(manager: Engine, parameters: Parameters) -> Answer:
    """Return the status of subscriptions, one message each."""
    pattern = _name(SUBSCRIPTIONS, manager, parameters)
    selection = take_selection(parameters, k.MQIACF_SUB_STATUS_ATTRS, (SBSTATUS,))
    parameters.end()
    found = list(filter(selection.passes, admin.inquire(manager, (SBSTATUS,), pattern)))
    some = _some(found, SUBSCRIPTIONS, pattern)
    return [
        [
            *_object(SUBSCRIPTIONS, record, selection),
            *status.active_connection(manager, record, selection.wanted),
        ]
        for record in some
    ]


def _inquire_security(manager: Engine, parameters: Parameters) -> Answer:
    """Return one message with the attributes that say how users are checked."""
    return _about_manager(manager, parameters, SECURITY, k.MQIACF_SECURITY_ATTRS)


def _inquire_authority_service(manager: Engine, parameters: Parameters) -> Answer:
    """Return one message about what checks authority: Mayfly itself, under its own name.

    For another MQCACF_SERVICE_COMPONENT that name is blank.
    """
    component = parameters.text(k.MQCACF_SERVICE_COMPONENT) or _AUTHORITY_SERVICE
    wanted = parameters.numbers(k.MQIACF_AUTH_SERVICE_ATTRS)
    parameters.end()
    (record,) = admin.inquire(manager, (AUTHSERV,), "")
    found = _AUTHORITY_SERVICE if component == _AUTHORITY_SERVICE else ""
    name = string_list(k.MQCACF_SERVICE_COMPONENT, [found], _NAME_BYTES)
    return [[name, *structures_of(record, wanted)]]


def _inquire_cluster_managers(_manager: Engine, parameters: Parameters) -> None:
    """Raise PcfError (MQRCCF_NONE_FOUND): no queue manager here is in a cluster."""
    parameters.needed_text(c.MQCA_CLUSTER_Q_MGR_NAME)
    parameters.text(c.MQCA_CLUSTER_NAME)
    parameters.text(k.MQCACH_CHANNEL_NAME)
    parameters.numbers(k.MQIACF_CLUSTER_Q_MGR_ATTRS)
    parameters.end()
    raise PcfError(k.MQRCCF_NONE_FOUND, "the queue manager is in no cluster")


def _refresh_security(manager: Engine, parameters: Parameters) -> None:
    """Forget passwords that were right, and read users and certificates again."""
    parameters.number(k.MQIACF_SECURITY_TYPE)
    parameters.end()
    admin.refresh_security(manager)


# Objects that are kept, and never run


def _set_policy(manager: Engine, parameters: Parameters) -> None:
    """Define a policy, or give it other attributes; those left out get the defaults."""
    name = parameters.needed_text(POLICIES.name)
    attributes = take_attributes(parameters, POLICY)
    parameters.end()
    rows = admin.object_type(POLICY).attributes.values()
    defaults = {row.keyword: row.default for row in rows}
    admin.define(manager, POLICY, name, {**defaults, **attributes}, replace=True)


def _start_or_stop(noun: Noun, manager: Engine, parameters: Parameters) -> None:
    """Check the name of a listener or service and start or stop nothing: it has no program here.

    A listener may be given by its address instead, with the parameters of one that is defined.
    Raises PcfError: MQRCCF_PARM_MISSING for a service without a name, and for an unknown object.
    """
    name = parameters.text(noun.name)
    if noun is LISTENERS:
        take_attributes(parameters, noun.kinds[0])
    parameters.end()
    if name:
        _some(admin.inquire(manager, noun.kinds, name), noun, name)
    elif noun is not LISTENERS:
        raise missing(noun.name)


def _no_status(
    noun: Noun, attributes: int, not_found: int, manager: Engine, parameters: Parameters
) -> None:
    """Answer a status inquiry for a listener or service: always raise PcfError, as none ever runs.

    The reason is ``not_found``, or ``noun.not_found`` if no object of this name is defined.
    ``attributes`` is the number of the parameter that lists the attributes to show.
    """
    pattern = parameters.needed_text(noun.name)
    parameters.numbers(attributes)
    parameters.end()
    _some(admin.inquire(manager, noun.kinds, pattern), noun, pattern)
    text = f"no {noun.kinds[0]} like {pattern!r} runs: they are kept only"
    raise PcfError(not_found, text, noun.name)


# The hierarchy, the queue-sharing group, MQSC


def _inquire_pubsub_status(manager: Engine, parameters: Parameters) -> Answer:
    """Return the queue manager and its neighbours in the hierarchy, one message each.

    MQIACF_PS_STATUS_TYPE chooses one relation. Raises PcfError (MQRCCF_NONE_FOUND) without a
    neighbour of this relation.
    """
    types = (k.MQPSST_ALL, k.MQPSST_LOCAL, k.MQPSST_PARENT, k.MQPSST_CHILD)
    wanted_type = parameters.number(k.MQIACF_PS_STATUS_TYPE, types)
    wanted = parameters.numbers(k.MQIACF_PUBSUB_STATUS_ATTRS)
    shown = None if wanted is None else (*wanted, k.MQIACF_PS_STATUS_TYPE, k.MQIACF_PUBSUB_STATUS)
    parameters.end()
    answer: Answer = [
        [string(c.MQCA_Q_MGR_NAME, record.name, _NAME_BYTES), *structures_of(record, shown)]
        for record in admin.inquire(manager, (PUBSUB,), manager.name)
        if wanted_type in (None, k.MQPSST_ALL, record.values["TYPE"])
    ]
    if not answer:
        text = "the queue manager has no neighbour of this type"
        raise PcfError(k.MQRCCF_NONE_FOUND, text, k.MQIACF_PS_STATUS_TYPE)
    return answer


def _inquire_group(manager: Engine, parameters: Parameters) -> Answer:
    """Return the members of the queue-sharing group, one message each.

    Raises MQRC_OPTION_NOT_VALID_FOR_TYPE for a queue manager without a group.
    """
    parameters.end()
    return [
        [
            string(c.MQCA_QSG_NAME, str(record.values["QSGNAME"]), _GROUP_BYTES),
            string(c.MQCA_Q_MGR_NAME, record.name, _NAME_BYTES),
            integer(k.MQIACF_Q_MGR_STATUS, _MEMBER_STATUS[str(record.values["STATUS"])]),
        ]
        for record in admin.inquire(manager, (GROUP_STATUS,), manager.name)
    ]


# Statistics, refreshes, moves


def _reset_statistics(manager: Engine, parameters: Parameters) -> Answer:
    """Return the statistics of queues since their last reset, and begin them anew.

    Raises PcfError (MQRC_UNKNOWN_OBJECT_NAME) if no local queue matches.
    """
    pattern = parameters.needed_text(c.MQCA_Q_NAME)
    parameters.end()
    found = admin.reset_queue_statistics(manager, pattern)
    if not found:
        text = f"no local queue is like {pattern!r}"
        raise PcfError(rc.MQRC_UNKNOWN_OBJECT_NAME, text, c.MQCA_Q_NAME)
    return [
        [string(c.MQCA_Q_NAME, record.name, _NAME_BYTES), *structures_of(record)]
        for record in found
    ]


def _refresh_manager(manager: Engine, parameters: Parameters) -> None:
    """Discard expired messages now, or make configuration events, by MQIACF_REFRESH_TYPE.

    MQCACF_OBJECT_NAME names the objects, MQIACF_OBJECT_TYPE the type of those that have events.
    MQIACF_REFRESH_INTERVAL, in minutes, has no effect, as a definition does not know when it was
    changed. MQRT_PROXYSUB does nothing: the neighbours always have the present subscriptions.
    Raises PcfError: MQRCCF_PARM_MISSING without a type, MQRCCF_PARM_VALUE_ERROR for a wrong
    interval.
    """
    types = (k.MQRT_CONFIGURATION, k.MQRT_EXPIRY, k.MQRT_PROXYSUB)
    refresh_type = parameters.number(k.MQIACF_REFRESH_TYPE, types)
    if refresh_type is None:
        raise missing(k.MQIACF_REFRESH_TYPE)
    pattern = parameters.text(k.MQCACF_OBJECT_NAME) or _GENERIC
    object_type = parameters.number(k.MQIACF_OBJECT_TYPE, _REFRESHED)
    interval = parameters.number(k.MQIACF_REFRESH_INTERVAL)
    if interval is not None and not 0 <= interval <= REFRESH_INTERVAL.high:
        what = f"from 0 to {REFRESH_INTERVAL.high}"
        raise wrong_value(k.MQIACF_REFRESH_INTERVAL, interval, what)
    parameters.end()
    if refresh_type == k.MQRT_EXPIRY:
        admin.discard_now(manager, pattern)
    elif refresh_type == k.MQRT_CONFIGURATION:
        kinds = _REFRESHED[c.MQOT_ALL if object_type is None else object_type]
        admin.report_configuration(manager, kinds, pattern)


def _move_queue(manager: Engine, parameters: Parameters) -> None:
    """Move the messages of one local queue to another; MQIACF_MOVE_TYPE may add to those there."""
    source = parameters.needed_text(k.MQCACF_FROM_Q_NAME)
    target = parameters.needed_text(k.MQCACF_TO_Q_NAME)
    types = (k.MQIACF_MOVE_TYPE_MOVE, k.MQIACF_MOVE_TYPE_ADD)
    move_type = parameters.number(k.MQIACF_MOVE_TYPE, types)
    parameters.end()
    admin.move_messages(manager, source, target, adds=move_type == k.MQIACF_MOVE_TYPE_ADD)


def _escape_role(parameters: Parameters) -> Role:
    """Return the highest role that a command of the MQSC text in MQCACF_ESCAPE_TEXT needs."""
    text = parameters.peek_text(k.MQCACF_ESCAPE_TEXT) or ""
    roles = (role_of(*head) for head in heads_of(text))
    return max(roles, key=list(Role).index, default=Role.LOOK)


def _escape(manager: Engine, parameters: Parameters) -> Answer:
    """Run MQSC text (MQCACF_ESCAPE_TEXT); return the text of each reply, one message each.

    Raises PcfError (MQRCCF_COMMAND_FAILED) with the texts of the commands that fail.
    """
    escape_type = parameters.number(k.MQIACF_ESCAPE_TYPE, (k.MQET_MQSC,))
    if escape_type is None:
        raise missing(k.MQIACF_ESCAPE_TYPE)
    text = parameters.needed_text(k.MQCACF_ESCAPE_TEXT)
    parameters.end()
    result = run_script(manager, text)
    if not result.ok:
        failed = [message for message in result.messages if not message.is_information]
        raise PcfError(k.MQRCCF_COMMAND_FAILED, "\n".join(map(str, failed)))
    return [
        [integer(k.MQIACF_ESCAPE_TYPE, escape_type), string(k.MQCACF_ESCAPE_TEXT, str(message))]
        for message in result.messages
    ]


def _of_noun(noun: Noun) -> dict[int, Command]:
    """Return the commands that are alike for all types of objects, by number."""
    actions = (
        (noun.inquire, Role.LOOK, _inquire),
        (noun.inquire_names, Role.LOOK, _inquire_names),
        (noun.create, Role.ADMINISTER, _create),
        (noun.change, Role.ADMINISTER, _change),
        (noun.copy, Role.ADMINISTER, _copy),
        (noun.delete, Role.ADMINISTER, _delete),
    )
    return {
        number: Command(role, partial(action, noun), noun, ignores_missing=number == noun.delete)
        for number, role, action in actions
        if number
    }


#: The commands by their numbers (MQCMD_*).
COMMANDS: Final[dict[int, Command]] = {
    **{number: each for noun in NOUNS for number, each in _of_noun(noun).items()},
    k.MQCMD_INQUIRE_Q_MGR: Command(Role.LOOK, _inquire_manager),
    k.MQCMD_INQUIRE_Q_MGR_STATUS: Command(Role.LOOK, _inquire_manager_status),
    k.MQCMD_PING_Q_MGR: Command(Role.LOOK, _ping_manager),
    k.MQCMD_CHANGE_Q_MGR: Command(Role.ADMINISTER, _change_manager),
    k.MQCMD_CLEAR_Q: Command(Role.ADMINISTER, _clear_queue, QUEUE),
    k.MQCMD_INQUIRE_Q_STATUS: Command(Role.LOOK, status.inquire_queues, QUEUE),
    k.MQCMD_INQUIRE_TOPIC_STATUS: Command(Role.LOOK, status.inquire_topics),
    k.MQCMD_CLEAR_TOPIC_STRING: Command(Role.ADMINISTER, _clear_topic),
    k.MQCMD_INQUIRE_SUB_STATUS: Command(Role.LOOK, _inquire_subscription_status, SUBSCRIPTIONS),
    k.MQCMD_INQUIRE_APPL_STATUS: Command(Role.LOOK, status.inquire_applications),
    k.MQCMD_INQUIRE_SECURITY: Command(Role.LOOK, _inquire_security),
    k.MQCMD_INQUIRE_AUTH_SERVICE: Command(Role.LOOK, _inquire_authority_service),
    k.MQCMD_INQUIRE_CLUSTER_Q_MGR: Command(Role.LOOK, _inquire_cluster_managers),
    k.MQCMD_INQUIRE_CHANNEL_STATUS: Command(Role.LOOK, status.inquire_status, CHANNELS),
    k.MQCMD_PING_CHANNEL: Command(Role.LOOK, status.ping, CHANNELS),
    k.MQCMD_START_CHANNEL: Command(Role.OPERATE, status.start, CHANNELS, ignores_missing=True),
    k.MQCMD_STOP_CHANNEL: Command(Role.OPERATE, status.stop, CHANNELS, ignores_missing=True),
    k.MQCMD_RESET_CHANNEL: Command(Role.OPERATE, status.reset, CHANNELS),
    k.MQCMD_RESOLVE_CHANNEL: Command(Role.OPERATE, status.resolve, CHANNELS),
    k.MQCMD_INQUIRE_CONNECTION: Command(Role.LOOK, status.inquire_connections),
    k.MQCMD_STOP_CONNECTION: Command(Role.OPERATE, status.stop_connection),
    k.MQCMD_INQUIRE_AUTH_RECS: Command(Role.LOOK, access.inquire_records),
    k.MQCMD_INQUIRE_ENTITY_AUTH: Command(Role.LOOK, access.inquire_entity_authority),
    k.MQCMD_SET_AUTH_REC: Command(Role.ADMINISTER, access.set_record),
    k.MQCMD_DELETE_AUTH_REC: Command(Role.ADMINISTER, access.delete_record),
    k.MQCMD_INQUIRE_CHLAUTH_RECS: Command(Role.LOOK, access.inquire_rules),
    k.MQCMD_SET_CHLAUTH_REC: Command(Role.ADMINISTER, access.set_rule),
    k.MQCMD_REFRESH_SECURITY: Command(Role.ADMINISTER, _refresh_security),
    k.MQCMD_SET_PROT_POLICY: Command(Role.ADMINISTER, _set_policy, POLICIES),
    **{
        number: Command(Role.OPERATE, partial(_start_or_stop, noun), noun, ignores_missing=True)
        for number, noun in (
            (k.MQCMD_START_CHANNEL_LISTENER, LISTENERS),
            (k.MQCMD_STOP_CHANNEL_LISTENER, LISTENERS),
            (k.MQCMD_START_SERVICE, SERVICES),
            (k.MQCMD_STOP_SERVICE, SERVICES),
        )
    },
    k.MQCMD_INQUIRE_LISTENER_STATUS: Command(
        Role.LOOK,
        partial(
            _no_status,
            LISTENERS,
            k.MQIACF_LISTENER_STATUS_ATTRS,
            k.MQRCCF_LSTR_STATUS_NOT_FOUND,
        ),
        LISTENERS,
    ),
    k.MQCMD_INQUIRE_SERVICE_STATUS: Command(
        Role.LOOK,
        partial(
            _no_status, SERVICES, k.MQIACF_SERVICE_STATUS_ATTRS, k.MQRCCF_SERV_STATUS_NOT_FOUND
        ),
        SERVICES,
    ),
    k.MQCMD_INQUIRE_PUBSUB_STATUS: Command(Role.LOOK, _inquire_pubsub_status),
    k.MQCMD_INQUIRE_QSG: Command(Role.LOOK, _inquire_group),
    k.MQCMD_ESCAPE: Command(_escape_role, _escape),
    k.MQCMD_RESET_Q_STATS: Command(Role.OPERATE, _reset_statistics, QUEUE),
    k.MQCMD_REFRESH_Q_MGR: Command(Role.ADMINISTER, _refresh_manager),
    k.MQCMD_MOVE_Q: Command(Role.ADMINISTER, _move_queue, QUEUE),
}

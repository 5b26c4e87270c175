"""Objects in PCF: the numbers of their types, and their attributes as structures.

The attributes come from the model: a row with a selector is a parameter. Rows without one, which
are Mayfly's own, have no form in PCF.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from mayfly.admin import (
    AUTHINFO,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    COMMINFO,
    LIKE,
    LISTENER,
    NAMELIST,
    NOT_LIKE,
    POLICY,
    PROCESS,
    QALIAS,
    QLOCAL,
    QMODEL,
    QREMOTE,
    QSTATUS,
    QUEUE_KINDS,
    SERVICE,
    STGCLASS,
    SUB,
    TOPIC,
    Attribute,
    Filter,
    Record,
    Value,
    displayed,
    entries_of,
    list_text,
    object_type,
)
from mayfly.admin.pcf.parameters import Parameters, name_of, not_known, wrong_value
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.event_constants import MQMON_NOT_AVAILABLE
from mayfly.mqi.pcf import (
    PcfError,
    Structure,
    byte_string,
    integer,
    integer_list,
    string,
    string_list,
)

#: MQQT_*, by the kind of queue.
QUEUE_TYPES: Final = {
    QLOCAL: c.MQQT_LOCAL,
    QALIAS: c.MQQT_ALIAS,
    QREMOTE: c.MQQT_REMOTE,
    QMODEL: c.MQQT_MODEL,
}
#: Attributes whose number in commands is no selector of the model, by kind and keyword.
_NUMBERS: Final = {
    (CLNTCONN, "QMNAME"): c.MQCA_Q_MGR_NAME,
    (SUB, "DESTCORL"): k.MQBACF_DESTINATION_CORREL_ID,
}
#: Attributes whose value is bytes, of which the model has the hexadecimal digits.
_BYTES: Final = {
    "SUBID": k.MQBACF_SUB_ID,
    "DESTCORL": k.MQBACF_DESTINATION_CORREL_ID,
    "PUBACCT": k.MQBACF_ACCOUNTING_TOKEN,
}
#: MQCOMPRESS_*.
_COMPRESSIONS: Final = {
    "NONE": 0,
    "RLE": 1,
    "ZLIBFAST": 2,
    "ZLIBHIGH": 4,
    "SYSTEM": 8,
    "LZ4FAST": 16,
    "LZ4HIGH": 32,
    "ANY": 0x0FFF_FFFF,
}
#: Lists of words in the model that are lists of numbers here; MQ_SUITE_B_* for the last.
_LISTS_OF_NUMBERS: Final = {
    "COMPHDR": _COMPRESSIONS,
    "COMPMSG": _COMPRESSIONS,
    "SUITEB": {"NONE": 1, "128_BIT": 2, "192_BIT": 4},
}
#: A text of two digits in the model that is a number here.
_PAGE_SET: Final = (STGCLASS, "PSID")
#: Two means in microseconds, or blank.
_TIME_ON_QUEUE: Final = (QSTATUS, "QTIME")
#: Attributes that are lists of texts, which the model joins by commas.
_LISTS: Final = {(CHLAUTH, "USERLIST"), (CHLAUTH, "ADDRLIST")}
#: Texts up to this length have it in replies, padded with blanks; longer ones have their own.
_LONGEST_PADDED_BYTES: Final = 264
_OPERATORS: Final = {
    k.MQCFOP_LESS: "LT",
    k.MQCFOP_NOT_GREATER: "LE",
    k.MQCFOP_EQUAL: "EQ",
    k.MQCFOP_NOT_EQUAL: "NE",
    k.MQCFOP_NOT_LESS: "GE",
    k.MQCFOP_GREATER: "GT",
    k.MQCFOP_LIKE: LIKE,
    k.MQCFOP_NOT_LIKE: NOT_LIKE,
}


class Noun(NamedTuple):
    """The numbers with which commands are about one type of object; 0 is for one that is missing.

    ``kinds`` are its kinds in the model. ``name`` is the parameter that names the object,
    ``attributes`` the list of attributes to show, ``copy_from`` and ``copy_to`` the names of a
    copy, ``names`` and ``types`` the lists in the reply to an inquiry of names. ``type`` is the
    parameter that chooses between kinds. ``not_found`` is the reason for an object that does not
    exist. The commands are MQCMD_*.
    """

    kinds: tuple[str, ...]
    name: int
    attributes: int
    not_found: int
    inquire: int
    create: int
    change: int
    delete: int
    copy: int = 0
    copy_from: int = 0
    copy_to: int = 0
    inquire_names: int = 0
    names: int = 0
    types: int = 0
    type: int = 0


QUEUE: Final = Noun(
    kinds=QUEUE_KINDS,
    name=c.MQCA_Q_NAME,
    attributes=k.MQIACF_Q_ATTRS,
    copy_from=k.MQCACF_FROM_Q_NAME,
    copy_to=k.MQCACF_TO_Q_NAME,
    names=k.MQCACF_Q_NAMES,
    types=k.MQIACF_Q_TYPES,
    type=c.MQIA_Q_TYPE,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_Q,
    inquire_names=k.MQCMD_INQUIRE_Q_NAMES,
    create=k.MQCMD_CREATE_Q,
    change=k.MQCMD_CHANGE_Q,
    copy=k.MQCMD_COPY_Q,
    delete=k.MQCMD_DELETE_Q,
)
CHANNELS: Final = Noun(
    kinds=(CHANNEL, CLNTCONN),
    name=k.MQCACH_CHANNEL_NAME,
    attributes=k.MQIACF_CHANNEL_ATTRS,
    copy_from=k.MQCACF_FROM_CHANNEL_NAME,
    copy_to=k.MQCACF_TO_CHANNEL_NAME,
    names=k.MQCACH_CHANNEL_NAMES,
    types=k.MQIACH_CHANNEL_TYPES,
    type=k.MQIACH_CHANNEL_TYPE,
    not_found=k.MQRCCF_CHANNEL_NOT_FOUND,
    inquire=k.MQCMD_INQUIRE_CHANNEL,
    inquire_names=k.MQCMD_INQUIRE_CHANNEL_NAMES,
    create=k.MQCMD_CREATE_CHANNEL,
    change=k.MQCMD_CHANGE_CHANNEL,
    copy=k.MQCMD_COPY_CHANNEL,
    delete=k.MQCMD_DELETE_CHANNEL,
)
TOPICS: Final = Noun(
    kinds=(TOPIC,),
    name=c.MQCA_TOPIC_NAME,
    attributes=k.MQIACF_TOPIC_ATTRS,
    copy_from=k.MQCACF_FROM_TOPIC_NAME,
    copy_to=k.MQCACF_TO_TOPIC_NAME,
    names=k.MQCACF_TOPIC_NAMES,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    type=c.MQIA_TOPIC_TYPE,
    inquire=k.MQCMD_INQUIRE_TOPIC,
    inquire_names=k.MQCMD_INQUIRE_TOPIC_NAMES,
    create=k.MQCMD_CREATE_TOPIC,
    change=k.MQCMD_CHANGE_TOPIC,
    copy=k.MQCMD_COPY_TOPIC,
    delete=k.MQCMD_DELETE_TOPIC,
)
SUBSCRIPTIONS: Final = Noun(
    kinds=(SUB,),
    name=k.MQCACF_SUB_NAME,
    attributes=k.MQIACF_SUB_ATTRS,
    copy_from=k.MQCACF_FROM_SUB_NAME,
    copy_to=k.MQCACF_TO_SUB_NAME,
    not_found=rc.MQRC_NO_SUBSCRIPTION,
    inquire=k.MQCMD_INQUIRE_SUBSCRIPTION,
    create=k.MQCMD_CREATE_SUBSCRIPTION,
    change=k.MQCMD_CHANGE_SUBSCRIPTION,
    copy=k.MQCMD_COPY_SUBSCRIPTION,
    delete=k.MQCMD_DELETE_SUBSCRIPTION,
)
PROCESSES: Final = Noun(
    kinds=(PROCESS,),
    name=c.MQCA_PROCESS_NAME,
    attributes=k.MQIACF_PROCESS_ATTRS,
    copy_from=k.MQCACF_FROM_PROCESS_NAME,
    copy_to=k.MQCACF_TO_PROCESS_NAME,
    names=k.MQCACF_PROCESS_NAMES,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_PROCESS,
    inquire_names=k.MQCMD_INQUIRE_PROCESS_NAMES,
    create=k.MQCMD_CREATE_PROCESS,
    change=k.MQCMD_CHANGE_PROCESS,
    copy=k.MQCMD_COPY_PROCESS,
    delete=k.MQCMD_DELETE_PROCESS,
)
AUTHENTICATION: Final = Noun(
    kinds=(AUTHINFO,),
    name=c.MQCA_AUTH_INFO_NAME,
    attributes=k.MQIACF_AUTH_INFO_ATTRS,
    copy_from=k.MQCACF_FROM_AUTH_INFO_NAME,
    copy_to=k.MQCACF_TO_AUTH_INFO_NAME,
    names=k.MQCACF_AUTH_INFO_NAMES,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    type=c.MQIA_AUTH_INFO_TYPE,
    inquire=k.MQCMD_INQUIRE_AUTH_INFO,
    inquire_names=k.MQCMD_INQUIRE_AUTH_INFO_NAMES,
    create=k.MQCMD_CREATE_AUTH_INFO,
    change=k.MQCMD_CHANGE_AUTH_INFO,
    copy=k.MQCMD_COPY_AUTH_INFO,
    delete=k.MQCMD_DELETE_AUTH_INFO,
)
NAMELISTS: Final = Noun(
    kinds=(NAMELIST,),
    name=c.MQCA_NAMELIST_NAME,
    attributes=k.MQIACF_NAMELIST_ATTRS,
    copy_from=k.MQCACF_FROM_NAMELIST_NAME,
    copy_to=k.MQCACF_TO_NAMELIST_NAME,
    names=k.MQCACF_NAMELIST_NAMES,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_NAMELIST,
    inquire_names=k.MQCMD_INQUIRE_NAMELIST_NAMES,
    create=k.MQCMD_CREATE_NAMELIST,
    change=k.MQCMD_CHANGE_NAMELIST,
    copy=k.MQCMD_COPY_NAMELIST,
    delete=k.MQCMD_DELETE_NAMELIST,
)
LISTENERS: Final = Noun(
    kinds=(LISTENER,),
    name=k.MQCACH_LISTENER_NAME,
    attributes=k.MQIACF_LISTENER_ATTRS,
    copy_from=k.MQCACF_FROM_LISTENER_NAME,
    copy_to=k.MQCACF_TO_LISTENER_NAME,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_LISTENER,
    create=k.MQCMD_CREATE_LISTENER,
    change=k.MQCMD_CHANGE_LISTENER,
    copy=k.MQCMD_COPY_LISTENER,
    delete=k.MQCMD_DELETE_LISTENER,
)
SERVICES: Final = Noun(
    kinds=(SERVICE,),
    name=c.MQCA_SERVICE_NAME,
    attributes=k.MQIACF_SERVICE_ATTRS,
    copy_from=k.MQCACF_FROM_SERVICE_NAME,
    copy_to=k.MQCACF_TO_SERVICE_NAME,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_SERVICE,
    create=k.MQCMD_CREATE_SERVICE,
    change=k.MQCMD_CHANGE_SERVICE,
    copy=k.MQCMD_COPY_SERVICE,
    delete=k.MQCMD_DELETE_SERVICE,
)
COMMUNICATION: Final = Noun(
    kinds=(COMMINFO,),
    name=c.MQCA_COMM_INFO_NAME,
    attributes=k.MQIACF_COMM_INFO_ATTRS,
    copy_from=k.MQCACF_FROM_COMM_INFO_NAME,
    copy_to=k.MQCACF_TO_COMM_INFO_NAME,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_COMM_INFO,
    create=k.MQCMD_CREATE_COMM_INFO,
    change=k.MQCMD_CHANGE_COMM_INFO,
    copy=k.MQCMD_COPY_COMM_INFO,
    delete=k.MQCMD_DELETE_COMM_INFO,
)
STORAGE_CLASSES: Final = Noun(
    kinds=(STGCLASS,),
    name=c.MQCA_STORAGE_CLASS,
    attributes=k.MQIACF_STORAGE_CLASS_ATTRS,
    copy_from=k.MQCACF_FROM_STORAGE_CLASS,
    copy_to=k.MQCACF_TO_STORAGE_CLASS,
    names=k.MQCACF_STORAGE_CLASS_NAMES,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_STG_CLASS,
    inquire_names=k.MQCMD_INQUIRE_STG_CLASS_NAMES,
    create=k.MQCMD_CREATE_STG_CLASS,
    change=k.MQCMD_CHANGE_STG_CLASS,
    copy=k.MQCMD_COPY_STG_CLASS,
    delete=k.MQCMD_DELETE_STG_CLASS,
)
POLICIES: Final = Noun(
    kinds=(POLICY,),
    name=c.MQCA_POLICY_NAME,
    attributes=0,
    not_found=rc.MQRC_UNKNOWN_OBJECT_NAME,
    inquire=k.MQCMD_INQUIRE_PROT_POLICY,
    create=k.MQCMD_CREATE_PROT_POLICY,
    change=k.MQCMD_SET_PROT_POLICY,
    delete=k.MQCMD_DELETE_PROT_POLICY,
)
NOUNS: Final = (
    QUEUE,
    CHANNELS,
    TOPICS,
    SUBSCRIPTIONS,
    PROCESSES,
    AUTHENTICATION,
    NAMELISTS,
    LISTENERS,
    SERVICES,
    COMMUNICATION,
    STORAGE_CLASSES,
    POLICIES,
)


@cache
def keywords_of(kind: str) -> Mapping[int, str]:
    """Return the keywords of the attributes that commands can set, by parameter number."""
    return MappingProxyType(_by_number(kind, object_type(kind).attributes.values()))


def _by_number(kind: str, rows: Iterable[Attribute]) -> dict[int, str]:
    """Return the keywords of rows that have a number, by it."""
    found = ((_number_of(kind, row), row.keyword) for row in rows)
    return {number: keyword for number, keyword in found if number is not None}


def _number_of(kind: str, row: Attribute) -> int | None:
    """Return the parameter number of an attribute, None for one of Mayfly's own."""
    return _NUMBERS.get((kind, row.keyword), row.selector)


def take_attributes(parameters: Parameters, kind: str) -> dict[str, Value]:
    """Take the attributes of an object of a kind from the parameters; return them by keyword.

    Other parameters remain. Raises PcfError for a number in place of a text, or the reverse, and
    for a number in a list that stands for no word (MQRCCF_PARM_VALUE_ERROR).
    """
    known = keywords_of(kind)
    rows = object_type(kind).attributes
    return {
        known[number]: _take_attribute(parameters, kind, rows[known[number]], number)
        for number in parameters.numbers_left()
        if number in known
    }


def _take_attribute(parameters: Parameters, kind: str, row: Attribute, number: int) -> Value:
    """Take the parameter ``number``, an attribute that is given; return its value in the model."""
    value: Value | None
    if row.keyword in _BYTES:
        value = (parameters.raw(number) or b"").hex().upper()
    elif row.keyword in _LISTS_OF_NUMBERS:
        value = _take_words(parameters, number, _LISTS_OF_NUMBERS[row.keyword])
    elif (kind, row.keyword) == _PAGE_SET:
        value = f"{parameters.number(number, range(100)):02}"
    elif (kind, row.keyword) in _LISTS:
        value = ",".join(parameters.texts(number))
    elif row.is_list:
        value = list_text(parameters.texts(number))
    elif row.is_text:
        value = parameters.text(number)
    else:
        value = parameters.number(number)
    assert value is not None
    return value


def _take_words(parameters: Parameters, number: int, words: Mapping[str, int]) -> str:
    """Take the parameter ``number``, a list of numbers that stand for words; return them as a list.

    ``words`` has the number of each word. Without the parameter the list is empty. Raises PcfError
    (MQRCCF_PARM_VALUE_ERROR) for a number without a word.
    """
    found = {of_word: word for word, of_word in words.items()}
    given = parameters.numbers(number) or []
    for each in given:
        if each not in found:
            raise wrong_value(number, each, f"one of {sorted(found)}")
    return list_text(found[each] for each in given)


def structures_of(record: Record, wanted: Collection[int] | None = None) -> list[Structure]:
    """Return the attributes of an object or status as structures, in display order.

    ``wanted`` are the numbers of those to return; None and a list with MQIACF_ALL are all.
    Attributes that the object does not have are left out, and those without a number.
    """
    shows_all = wanted is None or k.MQIACF_ALL in wanted
    rows = object_type(record.kind)
    structures = []
    for keyword, value in record.values.items():
        if keyword in _BYTES:
            structure = byte_string(_BYTES[keyword], bytes.fromhex(str(value)))
        else:
            row = rows.row(keyword)
            number = None if row is None else _number_of(record.kind, row)
            if row is None or number is None:
                continue
            structure = _structure_of(record.kind, row, number, value)
        if shows_all or structure.parameter in (wanted or ()):
            structures.append(structure)
    return structures


def _structure_of(kind: str, row: Attribute, number: int, value: Value) -> Structure:
    """Return one attribute as a structure with the parameter number ``number``."""
    if isinstance(value, int):
        return integer(number, value)
    if row.keyword in _LISTS_OF_NUMBERS:
        words = _LISTS_OF_NUMBERS[row.keyword]
        return integer_list(number, [words[each] for each in entries_of(value)])
    if (kind, row.keyword) == _PAGE_SET:
        return integer(number, int(value) if value.isdecimal() else 0)
    if (kind, row.keyword) == _TIME_ON_QUEUE:
        means = [int(each) for each in value.split(",") if each] or [MQMON_NOT_AVAILABLE] * 2
        return integer_list(number, means)
    if (kind, row.keyword) in _LISTS:
        return string_list(number, value.split(",") if value else [])
    if row.is_list:
        return string_list(number, [each.ljust(row.length) for each in entries_of(value)])
    return string(number, value, row.length if row.length <= _LONGEST_PADDED_BYTES else 0)


class InquirySelection(NamedTuple):
    """The attributes that an inquiry shows, by number, None for all; conditions that all hold."""

    wanted: Collection[int] | None
    filters: list[Filter]

    def passes(self, record: Record) -> bool:
        """Return True if a record fulfils all conditions."""
        return all(each.passes(record) for each in self.filters)

    def structures(self, record: Record, always: Collection[int] = ()) -> list[Structure]:
        """Return the attributes of a record that are shown; those of ``always`` in any case."""
        return structures_of(record, None if self.wanted is None else (*self.wanted, *always))


def take_selection(
    parameters: Parameters, attributes: int, kinds: Iterable[str]
) -> InquirySelection:
    """Take the list of attributes, by its number, and the conditions of an inquiry.

    An attribute of a condition is shown as well. Raises PcfError for a wrong condition.
    """
    wanted = parameters.numbers(attributes)
    if wanted is not None:
        wanted += [each.parameter for each in parameters.filters]
    return InquirySelection(wanted, _take_filters(parameters, kinds))


def _take_filters(parameters: Parameters, kinds: Iterable[str]) -> list[Filter]:
    """Take the conditions of an inquiry about objects or status of some kinds.

    Raises PcfError for an attribute that these kinds do not have, an operator that is not for it,
    and a number for a text or the reverse.
    """
    known: dict[int, str] = {}
    rows = displayed(kinds)
    for kind in kinds:
        known = {**_by_number(kind, displayed((kind,)).values()), **known}
    filters = []
    for structure in parameters.filters:
        keyword = known.get(structure.parameter)
        is_text = structure.type == k.MQCFT_STRING_FILTER
        if keyword is None or rows[keyword].is_text != is_text:
            raise not_known(structure)
        operator = _OPERATORS.get(structure.operator)
        if operator is None or (operator in (LIKE, NOT_LIKE) and not is_text):
            reason = k.MQRCCF_CFSF_OPERATOR_ERROR if is_text else k.MQRCCF_CFIF_OPERATOR_ERROR
            text = f"operator {structure.operator} is not for {name_of(structure.parameter)}"
            raise PcfError(reason, text, structure.parameter)
        value = parameters.filter_text(structure) if is_text else structure.value
        assert isinstance(value, (str, int))
        filters.append(Filter(keyword, operator, value))
    parameters.filters = []
    return filters

"""The verbs of the wire: their numbers, requests and answers.

A request is an array that begins with the number of its verb. A verb is a method of
``connection.interface``, and has the fields of the method. A number never gets another meaning.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Final, NamedTuple

from mayfly.contracts.wire import MOST_PUTS_IN_FRAME
from mayfly.contracts.wire_fields import (
    Kind,
    Row,
    at_most,
    flag,
    identifier,
    long_text,
    many,
    maybe,
    numbers,
    one_of,
    raw,
    scalar,
    text,
    whole,
)
from mayfly.contracts.wire_rows import (
    AUDIT_ENTRY,
    BACKOUT_RULE,
    CONNECT,
    CONNECTED,
    CONSUMER,
    COUNTS,
    DELIVERY,
    FILTER,
    GET_MANY,
    GET_RESULT,
    INQUIRY,
    LEDGER_ROW,
    MQSC_RESULT,
    OPENED,
    OWN_TIME,
    PROPERTY,
    PUT_RESULT,
    PUTS_RESULT,
    RECEIPT,
    SCHEDULED,
    STATUS,
    STORIES,
    SUBSCRIBED,
    VERIFICATION,
    WHEREABOUTS,
    descriptor,
)


@unique
class Verb(IntEnum):
    """The verbs of a client."""

    CONNECT = 1
    DISCONNECT = 2
    OPEN = 3
    CLOSE_OBJECT = 4
    PUT = 5
    GET = 6
    UNLOCK = 7
    STATUS = 8
    COMMIT = 9
    BACKOUT = 10
    INQUIRE = 11
    SET = 12
    SUBSCRIBE = 13
    CLOSE_SUBSCRIPTION = 14
    REQUEST_RETAINED = 15
    NOW = 16
    #: Cancel a request that is under way.
    CANCEL = 17
    PUT1 = 18
    LIVES_FROM_RELEASE = 19
    #: MsgIds, one behind the other, for puts that do not wait for their answers.
    NEW_IDS = 44
    #: Several puts to one queue.
    PUTS = 45
    GET_MANY = 46
    #: Deliveries: messages that are held, and settled one by one.
    GET_ANY = 20
    SETTLE = 21
    #: Requests that are answered when a moment has come, or definitions have changed.
    WAIT_UNTIL = 22
    AWAIT_DEFINITIONS = 23
    COMMAND_LEVEL = 24
    #: Move a message that the unit of work has got, or report an exception of it.
    FORWARD = 25
    DEAD_LETTER = 26
    REPORT_EXCEPTION = 27
    #: Move the message under a browse cursor.
    MOVE = 28
    #: Reply to a message that the unit of work has got.
    REPLY = 77
    #: BOTHRESH and BOQNAME of the queue of a handle.
    BACKOUT_RULE = 29
    #: The schedule of delayed messages.
    SCHEDULE_LIST = 30
    SCHEDULE_SHOW = 31
    SCHEDULE_COUNT = 32
    SCHEDULE_CANCEL = 33
    SCHEDULE_RESCHEDULE = 34
    SCHEDULE_RELEASE = 35
    #: They answer with a number. With this number SCHEDULE_NEXT answers how many messages are done
    #: so far, and nil at the end.
    SCHEDULE_CANCEL_ALL = 36
    SCHEDULE_RELEASE_ALL = 37
    SCHEDULE_NEXT = 38
    SCHEDULE_AUDIT = 39
    SCHEDULE_RESCHEDULE_ALL = 40
    #: Changes from now on are part of the unit of work, or no longer.
    SCHEDULE_SYNCPOINT = 41
    #: The same for all messages of an id; the answer has the receipt and their number.
    SCHEDULE_CANCEL_COUNTED = 42
    SCHEDULE_RESCHEDULE_COUNTED = 43
    SCHEDULE_RELEASE_COUNTED = 47
    #: Administration.
    MQSC = 50
    COUNTS = 51
    CURDEPTH = 52
    WHY = 53
    STORY = 78
    STORIES = 79
    VERIFY = 54
    DELAY_PROCESSOR_STATUS = 55
    OWN_TIME = 56
    FOLLOW_WALL = 57
    RUN_DUE = 58
    ADVANCE_CLOCK = 59
    #: The claims of pipelines.
    CLAIMS_INSTANCE = 60
    CLAIMS_STANDINGS = 61
    CLAIMS_END_WRITTEN = 62
    CLAIMS_RELEASE = 63
    #: The ledger.
    LEDGER_FIRST = 64
    LEDGER_PAGE = 65
    #: Subscriptions with the rules of JMS.
    TOPIC_JOIN = 70
    TOPIC_IS_OPEN = 71
    TOPIC_REMOVE = 72
    TOPIC_BELONG_TO = 73
    TOPIC_CLAIM = 74
    TOPIC_MAKE_TEMPORARY = 75
    TOPIC_DELETE_TEMPORARY = 76


class Form(NamedTuple):
    """The request of a verb, behind its number, and the answer."""

    request: Row
    answer: Kind


def _nothing(value: object) -> None:
    """Take nil, and ignore a value that a later version may send in its place."""


def _none(verb: Verb) -> Row:
    return Row(verb.name.lower())


#: A message that was got, by its queue and its MsgToken.
_GOT: Final = {"queue": text, "token": identifier}
#: The ids that a put gives a message, and that a get asks for.
_IDS: Final = {"msg_id": identifier, "correl_id": identifier}
#: The target of a message, and its life there.
_TARGET: Final = {"name": text, "manager": text}
_LIFE: Final = {"time_to_live_ms": maybe(whole)}
_ATTRIBUTE = Row("values", selector=whole, value=scalar)

_SCHEDULE_CANCEL = Row("schedule_cancel", msg_id=identifier)
_SCHEDULE_RESCHEDULE = Row(
    "schedule_reschedule",
    msg_id=identifier,
    delay_ms=maybe(whole),
    deliver_at_ms=maybe(whole),
)
_SCHEDULE_RELEASE = Row("schedule_release", msg_id=identifier)

FORMS: Final[dict[int, Form]] = {
    Verb.CONNECT: Form(CONNECT, CONNECTED),
    Verb.DISCONNECT: Form(Row("disconnect", commit=flag), _nothing),
    Verb.OPEN: Form(
        Row(
            "open",
            name=text,
            options=whole,
            kind=whole,
            manager=text,
            topic=text,
            dynamic_name=text,
            selector=maybe(text),
            alternate_user=text,
        ),
        OPENED,
    ),
    Verb.CLOSE_OBJECT: Form(Row("close_object", handle=whole, options=whole), whole),
    Verb.PUT: Form(
        Row(
            "put",
            handle=whole,
            body=raw,
            descriptor=descriptor,
            options=whole,
            **_IDS,
            expiry_tenths=whole,
            time_to_live_ms=maybe(whole),
            delay_ms=whole,
            properties=many(PROPERTY),
            context=whole,
        ),
        maybe(PUT_RESULT),
    ),
    # Each of ``messages`` is a ``PUT_MESSAGE``, checked alone: a wrong one stops no other.
    Verb.PUTS: Form(
        Row(
            "puts",
            handle=whole,
            descriptor=descriptor,
            options=whole,
            context=whole,
            messages=at_most(MOST_PUTS_IN_FRAME),
        ),
        PUTS_RESULT,
    ),
    Verb.PUT1: Form(
        Row(
            "put1",
            name=text,
            body=raw,
            descriptor=descriptor,
            options=whole,
            kind=whole,
            manager=text,
            topic=text,
            **_IDS,
            time_to_live_ms=maybe(whole),
            delay_ms=whole,
        ),
        PUT_RESULT,
    ),
    Verb.GET: Form(
        Row(
            "get",
            handle=whole,
            options=whole,
            wait_ms=whole,
            max_length=maybe(whole),
            **_IDS,
            group_id=identifier,
            sequence_number=maybe(whole),
            offset=maybe(whole),
            token=maybe(identifier),
            in_handle=flag,
            with_extension=flag,
        ),
        GET_RESULT,
    ),
    Verb.GET_MANY: Form(*GET_MANY),
    Verb.UNLOCK: Form(Row("unlock", handle=whole, options=whole), whole),
    Verb.STATUS: Form(_none(Verb.STATUS), STATUS),
    Verb.COMMIT: Form(_none(Verb.COMMIT), _nothing),
    Verb.BACKOUT: Form(_none(Verb.BACKOUT), _nothing),
    Verb.INQUIRE: Form(Row("inquire", handle=whole, selectors=many(whole)), INQUIRY),
    Verb.SET: Form(Row("set", handle=whole, values=many(_ATTRIBUTE)), _nothing),
    Verb.NEW_IDS: Form(Row("new_ids", count=whole), Row("new_ids", now_ms=whole, ids=raw)),
    Verb.LIVES_FROM_RELEASE: Form(Row("lives_from_release", handle=whole), flag),
    Verb.BACKOUT_RULE: Form(Row("backout_rule", handle=whole), BACKOUT_RULE),
    Verb.COMMAND_LEVEL: Form(_none(Verb.COMMAND_LEVEL), whole),
    Verb.SUBSCRIBE: Form(
        Row(
            "subscribe",
            options=whole,
            topic=text,
            topic_object=text,
            name=text,
            queue=whole,
            selector=text,
            user_data=text,
            correl_id=maybe(identifier),
            expiry_tenths=whole,
            priority=whole,
            altered=whole,
            held=whole,
        ),
        SUBSCRIBED,
    ),
    Verb.CLOSE_SUBSCRIPTION: Form(Row("close_subscription", number=whole, remove=flag), _nothing),
    Verb.REQUEST_RETAINED: Form(Row("request_retained", number=whole), whole),
    Verb.NOW: Form(_none(Verb.NOW), whole),
    Verb.CANCEL: Form(Row("cancel", request=whole), flag),
    Verb.GET_ANY: Form(
        Row(
            "get_any",
            handles=numbers,
            options=whole,
            wait_ms=whole,
            max_length=maybe(whole),
            **_IDS,
            tells_refusals=flag,
        ),
        DELIVERY,
    ),
    Verb.WAIT_UNTIL: Form(Row("wait_until", moment_ms=maybe(whole)), _nothing),
    Verb.AWAIT_DEFINITIONS: Form(_none(Verb.AWAIT_DEFINITIONS), _nothing),
    Verb.FORWARD: Form(Row("forward", **_GOT, name=text), _nothing),
    Verb.DEAD_LETTER: Form(Row("dead_letter", **_GOT, reason=whole), _nothing),
    Verb.REPORT_EXCEPTION: Form(Row("report_exception", **_GOT, reason=whole), flag),
    Verb.REPLY: Form(
        Row("reply", **_TARGET, body=raw, descriptor=descriptor, putter=text, **_IDS, **_LIFE),
        whole,
    ),
    Verb.MOVE: Form(
        Row(
            "move",
            handle=whole,
            name=text,
            descriptor=maybe(descriptor),
            header_bytes=whole,
            putter=maybe(text),
        ),
        whole,
    ),
    Verb.SETTLE: Form(
        Row(
            "settle",
            deliveries=numbers,
            settlement=one_of("taken", "returned", "backed-out", "dead-lettered"),
            reason=whole,
            within=whole,
        ),
        _nothing,
    ),
    Verb.SCHEDULE_LIST: Form(
        Row("schedule_list", where=FILTER, limit=whole, after=maybe(whole)), many(SCHEDULED)
    ),
    Verb.SCHEDULE_SHOW: Form(Row("schedule_show", msg_id=identifier), maybe(SCHEDULED)),
    Verb.SCHEDULE_COUNT: Form(Row("schedule_count", queue=maybe(text)), whole),
    Verb.SCHEDULE_CANCEL: Form(_SCHEDULE_CANCEL, text),
    Verb.SCHEDULE_RESCHEDULE: Form(_SCHEDULE_RESCHEDULE, text),
    Verb.SCHEDULE_RELEASE: Form(_SCHEDULE_RELEASE, text),
    Verb.SCHEDULE_CANCEL_COUNTED: Form(_SCHEDULE_CANCEL, RECEIPT),
    Verb.SCHEDULE_RESCHEDULE_COUNTED: Form(_SCHEDULE_RESCHEDULE, RECEIPT),
    Verb.SCHEDULE_RELEASE_COUNTED: Form(_SCHEDULE_RELEASE, RECEIPT),
    Verb.SCHEDULE_CANCEL_ALL: Form(Row("schedule_cancel_all", where=FILTER), whole),
    Verb.SCHEDULE_RELEASE_ALL: Form(Row("schedule_release_all", where=FILTER), whole),
    Verb.SCHEDULE_RESCHEDULE_ALL: Form(
        Row(
            "schedule_reschedule_all",
            where=FILTER,
            delay_ms=maybe(whole),
            deliver_at_ms=maybe(whole),
            by_ms=maybe(whole),
        ),
        whole,
    ),
    Verb.SCHEDULE_NEXT: Form(Row("schedule_next", number=whole), maybe(whole)),
    Verb.SCHEDULE_SYNCPOINT: Form(Row("schedule_syncpoint", is_on=flag), _nothing),
    Verb.SCHEDULE_AUDIT: Form(Row("schedule_audit", limit=whole), many(AUDIT_ENTRY)),
    Verb.MQSC: Form(Row("mqsc", script=long_text), MQSC_RESULT),
    Verb.COUNTS: Form(Row("counts", queue=text), COUNTS),
    Verb.CURDEPTH: Form(Row("curdepth", queue=text), whole),
    Verb.WHY: Form(Row("why", identifier=identifier), WHEREABOUTS),
    Verb.STORY: Form(Row("story", identifier=identifier), WHEREABOUTS),
    Verb.STORIES: Form(*STORIES),
    Verb.VERIFY: Form(_none(Verb.VERIFY), VERIFICATION),
    Verb.DELAY_PROCESSOR_STATUS: Form(_none(Verb.DELAY_PROCESSOR_STATUS), text),
    Verb.OWN_TIME: Form(_none(Verb.OWN_TIME), OWN_TIME),
    Verb.FOLLOW_WALL: Form(_none(Verb.FOLLOW_WALL), OWN_TIME),
    Verb.RUN_DUE: Form(_none(Verb.RUN_DUE), _nothing),
    Verb.ADVANCE_CLOCK: Form(Row("advance_clock", ms=whole), OWN_TIME),
    Verb.TOPIC_JOIN: Form(
        Row(
            "topic_join",
            topic=text,
            name=text,
            is_durable=flag,
            is_shared=flag,
            no_local=flag,
            selector=text,
        ),
        SUBSCRIBED,
    ),
    Verb.TOPIC_IS_OPEN: Form(Row("topic_is_open", number=whole), flag),
    Verb.TOPIC_REMOVE: Form(Row("topic_remove", name=text), _nothing),
    Verb.TOPIC_BELONG_TO: Form(Row("topic_belong_to", owner=scalar), _nothing),
    Verb.TOPIC_CLAIM: Form(Row("topic_claim", client_id=text), _nothing),
    Verb.TOPIC_MAKE_TEMPORARY: Form(_none(Verb.TOPIC_MAKE_TEMPORARY), text),
    Verb.TOPIC_DELETE_TEMPORARY: Form(Row("topic_delete_temporary", topic=text), _nothing),
    Verb.CLAIMS_INSTANCE: Form(_none(Verb.CLAIMS_INSTANCE), text),
    Verb.CLAIMS_STANDINGS: Form(_none(Verb.CLAIMS_STANDINGS), many(CONSUMER)),
    Verb.CLAIMS_END_WRITTEN: Form(Row("claims_end_written", consumer=text, until=whole), whole),
    Verb.CLAIMS_RELEASE: Form(Row("claims_release", consumer=text), whole),
    Verb.LEDGER_FIRST: Form(_none(Verb.LEDGER_FIRST), whole),
    # When retention has removed the row behind the position: the position of the first row kept.
    Verb.LEDGER_PAGE: Form(
        Row("ledger_page", after_position=whole, max_rows=whole),
        Row("ledger_rows", rows=many(LEDGER_ROW), first_held=maybe(whole)),
    ),
}

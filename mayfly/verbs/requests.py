"""The requests of programs: a type for each verb, with its fields, its answer and reason codes.

``Connection.call`` executes a request and returns its answer; ``Connection.begin`` passes the
answer to a callback. Open objects are numbers, options are the bits of the MQI, times are in ms.
Errors are MQError. After a LostAnswer the request may have taken effect.

A request travels as an array: the number of its verb, then its fields in order. A number never
changes its meaning. Trailing fields with a default may be left out. The class method ``of`` makes a
request from the values of a program where these need conversion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.erasure import Erasure
from mayfly.verbs.contracts.wire import (
    BOUNDED,
    MAX_NUMBERS,
    MAX_PUTS_IN_FRAME,
    Identifier,
    Int64,
    PackedDescriptor,
    Text,
    WrongFrame,
    decoded,
    decoder,
    first_value,
    packed_descriptor,
    quoted,
    verb_of,
)
from mayfly.verbs.facts import (
    Counts,
    Inquiry,
    MessageTrace,
    MqscResult,
    OwnTime,
    Status,
    SubscriptionFacts,
    TracesFound,
    Value,
    Verification,
)
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.verbs.properties.folders import Property
from mayfly.verbs.rows import (
    PackedScalar,
    Properties,
    PutsRow,
    packed_scalar,
    rows_of_properties,
)
from mayfly.verbs.schedule import AuditEntry, Receipt, Scheduled, ScheduleFilter

R = TypeVar("R")
Q = TypeVar("Q", bound="Request[Any]")

#: The number of an open object, and that of a subscription. After a reconnect the connection
#: translates them into those of the new session.
Handle: TypeAlias = Annotated[Int64, Meta(extra={"numbers": "an open object"})]
Handles: TypeAlias = Annotated[list[Handle], Meta(max_length=MAX_NUMBERS)]
Subscription: TypeAlias = Annotated[Int64, Meta(extra={"numbers": "an open subscription"})]
_NUMBERS: Final = ((Handle, "object"), (Handles, "object"), (Subscription, "subscription"))

_GETS_IN_UNIT: Final = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
_ENTRIES: Final = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR


class Request(msgspec.Struct, Generic[R], array_like=True, forbid_unknown_fields=True):
    """A request to a queue manager; the type parameter is the type of its answer."""

    #: Reason codes of wrong fields that differ from those in :data:`_REASONS`.
    REASONS: ClassVar[dict[str, int]] = {}

    @property
    def in_unit(self) -> bool:
        """Whether the request is part of the unit of work; False unless a subclass overrides it."""
        return False

    @property
    def is_doubtful(self) -> bool:
        """Whether the request may have taken permanent effect when its answer is lost.

        False unless a subclass overrides it.
        """
        return False


class _NonTransactional(Request[R], Generic[R]):
    """A request whose effect is permanent, independent of the unit of work."""

    @property
    def is_doubtful(self) -> bool:
        """True: the request may have taken permanent effect when its answer is lost."""
        return True


class _Transactional(Request[R], Generic[R]):
    """A request that is always part of the unit of work."""

    @property
    def in_unit(self) -> bool:
        """True: the request is part of the unit of work."""
        return True


class Calls(Protocol):
    """A function that executes a request, such as ``Connection.call``."""

    def __call__(self, request: Request[R], /) -> R:
        """Execute a request and return its answer; raises MQError if the verb fails."""


# Answers that only requests have


class Opened(NamedTuple):
    """An opened object: its handle, and what its name was resolved to.

    ``kind`` is MQOT_Q, MQOT_TOPIC, MQOT_PROCESS or MQOT_Q_MGR. ``queue`` on ``manager`` is the
    queue behind aliases and remote definitions, empty unless a queue was opened. ``made`` is the
    name of a dynamic queue that the open has created, ``topic`` the full topic string.
    ``definition_type`` is the MQQDT_* of a local queue, otherwise 0.
    """

    handle: int
    kind: int
    queue: str
    manager: str
    made: str = ""
    topic: str = ""
    definition_type: int = 0


class Subscribed(NamedTuple):
    """An open subscription: its number, the handle to get its publications with, its attributes."""

    number: int
    handle: int
    facts: SubscriptionFacts


class BackoutRule(NamedTuple):
    """BOTHRESH and BOQNAME of a queue; a threshold of 0 sets no limit."""

    threshold: int
    queue_name: str


class Connected(NamedTuple):
    """The terms of a conversation.

    ``number`` is that of the connection on its queue manager. The server accepts messages of up to
    ``max_message_bytes``, and ``share_conversations`` conversations on one socket. Both sides send
    something at least every ``heartbeat_ms``; 0 is no promise. ``process`` identifies the process
    of the server (``runtime.virtual_clock.this_process``).
    """

    queue_manager: str
    number: int
    user: str
    heartbeat_ms: int
    share_conversations: int
    max_message_bytes: int
    process: str


class Ids(NamedTuple):
    """Several MsgIds of 24 bytes, concatenated, and the queue manager's time in ms since 1970."""

    now_ms: int
    ids: bytes


class LedgerPage(NamedTuple):
    """Rows of the ledger: LEDGER_COLUMNS without the queue manager.

    ``first_held`` is None, or the first kept position if retention has removed the requested row.
    """

    rows: list[tuple[Any, ...]]
    first_held: int | None


# Connecting


class Connect(Request[Connected], tag=1):
    """Begin a conversation of a user; ``application`` becomes PutApplName.

    ``heartbeat_ms`` is the interval of heartbeats that the client asks for. ``process`` identifies
    the process of the client (``runtime.virtual_clock.this_process``).
    """

    channel: Text
    queue_manager: Text
    user: Text
    password: Text
    application: Text
    heartbeat_ms: Int64
    process: Text = ""


class Disconnect(Request[None], tag=2):
    """MQDISC: commit the unit of work, or back it out, and close everything."""

    commit: bool

    @property
    def is_doubtful(self) -> bool:
        """Whether the disconnect commits, so that a lost answer leaves the commit in doubt."""
        return self.commit


class Cancel(Request[bool], tag=17):
    """Cancel a running request by its number; the answer is whether that was possible."""

    request: Int64


class Now(Request[int], tag=16):
    """Ask for the queue manager's time: ms since 1970, UTC (docs/SERVING.md)."""


class AskCommandLevel(Request[int], tag=24):
    """Ask for the command level, which every user may; it determines verbs and options."""


# Objects


class Open(Request[Opened], tag=3):
    """MQOPEN with MQOO options; an alias of a topic opens the topic.

    For MQOT_TOPIC ``name`` is a topic object or empty, and ``topic`` is appended to its topic
    string. Raises the reason codes of MQOPEN, such as MQRC_UNKNOWN_OBJECT_NAME.
    """

    name: Text
    options: Int64
    kind: Int64 = c.MQOT_Q
    manager: Text = ""
    topic: Text = ""
    dynamic_name: Text = "AMQ.*"
    selector: Text | None = None
    alternate_user: Text = ""


class CloseObject(Request[int], tag=4):
    """MQCLOSE with MQCO options.

    The answer is 0, or MQRC_INCOMPLETE_GROUP or MQRC_INCOMPLETE_MSG within a group or message.
    Raises MQRC_HOBJ_ERROR, MQRC_Q_NOT_EMPTY, MQRC_OPTION_NOT_VALID_FOR_TYPE.
    """

    handle: Handle
    options: Int64 = c.MQCO_NONE


class Inquire(Request[Inquiry], tag=11):
    """MQINQ; the handle MQHO_NONE (0) inquires the queue manager itself.

    Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_INQUIRE, MQRC_SELECTOR_ERROR, MQRC_Q_DELETED,
    MQRC_NOT_AUTHORIZED.
    """

    handle: Handle
    selectors: Annotated[list[Int64], BOUNDED]


class Set(_NonTransactional[None], tag=12):
    """MQSET: set attributes, pairs of selector and value; all of them or none.

    Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET, MQRC_SELECTOR_ERROR, and for an invalid value the
    reason code of its attribute.
    """

    handle: Handle
    values: Annotated[list[tuple[Int64, PackedScalar]], BOUNDED]

    @classmethod
    def of(cls, handle: int, values: Mapping[int, Value]) -> Self:
        """Return the MQSET request for new attribute values by selector (MQIA_*, MQCA_*).

        Raises MQRC_UNEXPECTED_ERROR for a value of a wrong type.
        """
        rows = [
            (selector, packed_scalar(value, "set.values", rc.MQRC_UNEXPECTED_ERROR))
            for selector, value in values.items()
        ]
        return cls(handle, rows)


class AskLivesFromRelease(Request[bool], tag=19):
    """Ask whether an open queue has TTLFROM(RELEASE): expiry counts from the delivery time.

    With handle MQHO_NONE (0), whether any queue has it. Raises MQRC_HOBJ_ERROR.
    """

    handle: Handle


class AskBackoutRule(Request[BackoutRule], tag=29):
    """Ask for BOTHRESH and BOQNAME of an open queue; raises MQRC_HOBJ_ERROR."""

    handle: Handle


#: An option of a put beside those of MQPMO: its response is that of the queue, DEFPRESP. Programs
#: of the MQI have it without a response option; others need to know at once what became of a put.
RESPONSE_AS_QUEUE: Final = 1 << 42


def response_of_mqi(options: int) -> int:
    """Return the options of a put of the MQI, whose response is that of the queue by default."""
    responses = c.MQPMO_ASYNC_RESPONSE | c.MQPMO_SYNC_RESPONSE
    return options if options & responses else options | RESPONSE_AS_QUEUE


class Streaming(NamedTuple):
    """The streaming that the options and defaults of an open queue allow: no wait for each answer.

    ``answers_later`` is True for DEFPRESP(ASYNC): a put with RESPONSE_AS_QUEUE has
    MQPMO_ASYNC_RESPONSE. ``reads_ahead`` is True if gets may use :class:`TakeAhead`: for
    MQOO_READ_AHEAD, or DEFREADA(YES) without MQOO_NO_READ_AHEAD, unless DEFREADA is DISABLED.
    ``default_persistence`` (MQPER_*) is that of a put with MQPER_PERSISTENCE_AS_Q_DEF.
    """

    answers_later: bool
    reads_ahead: bool
    default_persistence: int


class AskStreaming(Request[Streaming], tag=89):
    """Ask what an open queue lets a client do without waiting; raises MQRC_HOBJ_ERROR.

    ``process`` is that of the client (``runtime.virtual_clock.this_process``). A client of another
    process cannot read a virtual clock, so it may not keep messages that expire by one.
    """

    handle: Handle
    process: Text


# Puts


class NewMessage(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A message to put, without the descriptor, which several messages may share.

    Its time to expiry is ``expiry_tenths`` or ``time_to_live_ms``; ``delay_ms`` is the time until
    its delivery. The queue manager generates ids that are empty.
    """

    body: bytes
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    expiry_tenths: Int64 = c.MQEI_UNLIMITED
    time_to_live_ms: Int64 | None = None
    delay_ms: Int64 = 0
    properties: Properties = []


class MessageMore(TypedDict, total=False):
    """The optional fields of :class:`NewMessage`, as keyword arguments of a put."""

    msg_id: bytes
    correl_id: bytes
    expiry_tenths: int
    time_to_live_ms: int | None
    delay_ms: int
    properties: Sequence[Property]


def _new_message(body: bytes, properties: Sequence[Property] = (), **more: Any) -> NewMessage:
    """Return a NewMessage; ``more`` has its other fields.

    Raises MQRC_PROPERTY_TYPE_ERROR for a property value of an unsuitable type.
    """
    return NewMessage(body, properties=rows_of_properties(properties) if properties else [], **more)


class _PutRequest(Request[R], Generic[R]):
    """A request that puts; outside of syncpoint its effect is permanent."""

    descriptor: PackedDescriptor
    options: Int64

    @property
    def in_unit(self) -> bool:
        """Whether the request is under syncpoint, and so part of the unit of work."""
        return bool(self.options & c.MQPMO_SYNCPOINT)

    @property
    def is_doubtful(self) -> bool:
        """Whether the put is outside of syncpoint, so that a lost answer leaves it in doubt."""
        return not self.options & c.MQPMO_SYNCPOINT


class Put(_PutRequest[PutResult | None], tag=5):
    """MQPUT to a queue or a topic with MQPMO options.

    ``context`` is the handle whose saved context is passed on. The answer is None when the queue
    refuses a message with MQPMO_ASYNC_RESPONSE: :class:`AskStatus` reports why. Raises the reason
    codes of MQPUT, such as MQRC_EXPIRY_ERROR; the message was not put then, except after a
    LostAnswer.

    When a put outside of syncpoint reports its answer, a persistent message is durable. Messages
    keep the order of the calls, and concurrent puts share a sync. With ``begin``, 10,000 unfinished
    puts of the queue manager are the limit; beyond it MQRC_RESOURCE_PROBLEM is raised.
    """

    handle: Handle
    context: Handle
    message: NewMessage

    @classmethod
    def of(
        cls,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        context: int = c.MQHO_NONE,
        **more: Unpack[MessageMore],
    ) -> Self:
        """Return the MQPUT request for a message; ``more`` has the other fields of the NewMessage.

        ``context`` is the handle whose saved context is passed on, MQHO_NONE for none. Raises
        MQRC_MD_ERROR for a wrong descriptor field, MQRC_PROPERTY_TYPE_ERROR for a wrong property
        value.
        """
        packed = packed_descriptor(descriptor)
        return cls(packed, options, handle, context, _new_message(body, **more))


class Puts(_PutRequest[PutsRow], tag=45):
    """Several puts to one object; each of ``messages`` is a NewMessage, and fails independently."""

    handle: Handle
    context: Handle
    messages: Annotated[list[msgspec.Raw], Meta(max_length=MAX_PUTS_IN_FRAME)]


class Put1(_PutRequest[PutResult], tag=18):
    """MQPUT1: open an object as :class:`Open` does, put one message, and close it.

    Raises the reason codes of both, and MQRC_OPTIONS_ERROR for MQPMO_ASYNC_RESPONSE and for options
    that pass context on.
    """

    message: NewMessage
    name: Text
    kind: Int64 = c.MQOT_Q
    manager: Text = ""
    topic: Text = ""

    @classmethod
    def of(
        cls,
        name: str,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        kind: int = c.MQOT_Q,
        manager: str = "",
        topic: str = "",
        **more: Unpack[MessageMore],
    ) -> Self:
        """Return the MQPUT1 request for a message; ``more`` has the other fields of the NewMessage.

        ``name``, ``kind``, ``manager`` and ``topic`` name the object as in :class:`Open`. Raises
        MQRC_MD_ERROR for a wrong descriptor field, MQRC_PROPERTY_TYPE_ERROR for a wrong property
        value.
        """
        packed = packed_descriptor(descriptor)
        return cls(packed, options, _new_message(body, **more), name, kind, manager, topic)


class NewIds(Request[Ids], tag=44):
    """Ask for new MsgIds, for puts that do not wait for their answers."""

    count: Int64


class AskStatus(Request[Status], tag=8):
    """MQSTAT: the outcome of puts with MQPMO_ASYNC_RESPONSE since the last MQSTAT."""


# Gets


class Get(Request[GetResult], tag=6):
    """MQGET with MQGMO options, destructive or browsing; empty ids match all.

    ``wait_ms`` is used with MQGMO_WAIT, -1 waits for ever; ``max_length`` is in bytes, None accepts
    any length. With ``in_handle`` the properties are returned for a message handle. With
    ``with_extension`` fields that an MQMD of version 1 lacks are returned in an MQMDE. Raises the
    reason codes of MQGET, most often MQRC_NO_MSG_AVAILABLE.

    When a get outside of syncpoint reports a persistent message, its removal is durable. Gets of
    one handle are executed in order. A get under the cursor never waits: with ``begin`` it is
    MQRC_OPTIONS_ERROR.
    """

    handle: Handle
    options: Int64 = c.MQGMO_NONE
    wait_ms: Int64 = 0
    max_length: Int64 | None = None
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    group_id: Identifier = b""
    sequence_number: Int64 | None = None
    offset: Int64 | None = None
    token: Identifier | None = None
    in_handle: bool = False
    with_extension: bool = False

    @property
    def in_unit(self) -> bool:
        """Whether the request is under syncpoint, and so part of the unit of work."""
        return bool(self.options & _GETS_IN_UNIT)

    @property
    def is_doubtful(self) -> bool:
        """Whether the get removes a message at once: neither under syncpoint nor a browse.

        A lost answer then leaves the removal in doubt.
        """
        return not self.options & (_GETS_IN_UNIT | _ENTRIES)


class GetMany(Request[list[Message]], tag=46):
    """Get several available messages, as a loop of MQGET without a wait would.

    The answer has at most ``max_messages`` messages, and ends with the one at which their bodies
    together reach ``max_bytes``. Over a network an answer is also limited to 1,000 messages and 1
    MiB, so that more may be on the queue. Outside of syncpoint one transaction removes them all. It
    is [] in place of MQRC_NO_MSG_AVAILABLE.

    Options are MQGMO_PROPERTIES_FORCE_MQRFH2 and those of syncpoint and quiescing; others, and a
    handle with a selector, are MQRC_OPTIONS_ERROR. Raises the other reason codes of a get when it
    has no message.
    """

    handle: Handle
    options: Int64
    max_messages: Int64
    max_bytes: Int64

    @property
    def in_unit(self) -> bool:
        """Whether the request is under syncpoint, and so part of the unit of work."""
        return bool(self.options & _GETS_IN_UNIT)

    @property
    def is_doubtful(self) -> bool:
        """Whether the get is outside of syncpoint, so that a lost answer leaves it in doubt."""
        return not self.options & c.MQGMO_SYNCPOINT


class GetAny(Request[Delivery], tag=20):
    """Get one message from any of several open queues; the first that has one is used.

    The connection holds the message as a delivery, which names its handle, until it is settled.
    Beside MQGMO_WAIT, for ``wait_ms``, the options may be those of truncation, conversion and
    properties. With MQGMO_SYNCPOINT the message is got in the unit of work of this conversation,
    and with MQGMO_BROWSE_FIRST it stays on its queue for everybody: in these two cases the number
    of the delivery is 0, and nothing is to be settled. With ``call`` instead of ``begin`` there
    must be one handle and neither of these two options.

    Closing any of the handles ends the get with MQRC_HOBJ_ERROR. A queue that cannot be got from
    ends it with its reason code. With ``tells_refusals`` the get continues with the other queues,
    and with that one when it can be got from again. The callback ``on_event`` gets the handle and
    the error, once for a handle and reason until the queue can be got from.
    """

    handles: Handles
    options: Int64 = c.MQGMO_NONE
    wait_ms: Int64 = c.MQWI_UNLIMITED
    max_length: Int64 | None = None
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    tells_refusals: bool = False

    @property
    def in_unit(self) -> bool:
        """Whether the request is under syncpoint, and so part of the unit of work."""
        return bool(self.options & _GETS_IN_UNIT)


class TakeHeld(Request[list[Delivery]], tag=47):
    """Get several available messages, and hold them as :class:`GetAny` does.

    ``max_messages`` and ``max_bytes`` are as in :class:`GetMany`. The answer is [] in place of
    MQRC_NO_MSG_AVAILABLE. Raises the other reason codes of a get, and MQRC_OPTIONS_ERROR for
    MQGMO_WAIT, MQGMO_SYNCPOINT and MQGMO_BROWSE_FIRST.
    """

    handle: Handle
    options: Int64
    max_messages: Int64
    max_bytes: Int64


class TakeAhead(Request[list[Delivery]], tag=90):
    """Get several nonpersistent messages for later gets of the program, and hold them.

    As :class:`TakeHeld`, but the answer ends before the first persistent message, has at most
    MAX_AHEAD_IN_FRAME messages, and is [] for a handle with a selector.
    """

    handle: Handle
    options: Int64
    max_messages: Int64
    max_bytes: Int64


class Settle(_NonTransactional[None], tag=21):
    """Settle deliveries by their numbers: all with one sync, or none.

    ``reason`` is the reason code in the MQDLH of dead letters. ``within`` is the number of a
    conversation on the same queue manager, which may be this one: its unit of work takes the
    deliveries over. They are TAKEN at its commit, and return with their backout count raised at its
    backout.

    After MQRC_STORAGE_MEDIUM_FULL the messages are back on their queues. After any other error they
    are held as before: MQRC_HMSG_ERROR for a number that is settled already, MQRC_UOW_NOT_AVAILABLE
    for a ``within`` that is no conversation, MQRC_OPTIONS_ERROR for ``within`` with another
    settlement than TAKEN, and the reason of a dead-letter queue that refuses a message.
    """

    deliveries: Annotated[list[Int64], Meta(max_length=MAX_NUMBERS)]
    settlement: Settlement
    reason: Int64 = 0
    within: Int64 = 0


class Unlock(Request[int], tag=7):
    """MQGET with MQGMO_UNLOCK; the answer is 0 or MQRC_NO_MSG_LOCKED."""

    handle: Handle
    options: Int64 = c.MQGMO_UNLOCK


class WaitUntil(Request[None], tag=22):
    """Wait until a moment of the queue manager's time, ms since 1970; a past one is over at once.

    None never comes. Raises MQRC_HCONN_ERROR when the connection is closed before, and
    MQRC_CONNECTION_BROKEN or MQRC_Q_MGR_STOPPING at the end of the queue manager.
    """

    moment_ms: Int64 | None


class AwaitDefinitions(Request[None], tag=23):
    """Wait until any definition is made, altered or deleted.

    A program that a definition has prevented from its work can then try again.
    """


# The unit of work


class Commit(_NonTransactional[None], tag=9):
    """MQCMIT; raises MQRC_STORAGE_MEDIUM_FULL (backed out), LostAnswer.

    With ``begin`` the next unit of work can begin at once.
    """


class Backout(Request[None], tag=10):
    """MQBACK: puts vanish, got messages return with their backout count raised by one."""


class Forward(_Transactional[None], tag=25):
    """Put a message that the unit of work has got to another queue; its deadline stays.

    ``queue`` and the MsgToken identify the message. ``name`` may be ``QUEUE@MANAGER``. Raises the
    reason codes of open and put, and MQRC_UNKNOWN_OBJECT_NAME for a blank name or a model queue.
    """

    queue: Text
    token: Identifier
    name: Text


class DeadLetter(_Transactional[None], tag=26):
    """Put a message that the unit of work has got on the dead-letter queue, with an MQDLH.

    Raises the reason codes of open and put.
    """

    queue: Text
    token: Identifier
    reason: Int64


class ReportException(_Transactional[bool], tag=27):
    """Send the exception report that a message got in the unit of work requests.

    The answer is False when no queue accepts the report.
    """

    queue: Text
    token: Identifier
    reason: Int64


class Move(_Transactional[int], tag=28):
    """Move the message under the browse cursor of a queue to another queue.

    The message is put first, as by :class:`Forward`, so that a failing put does not raise its
    backout count; then it is got. ``descriptor`` replaces that of the message, the first
    ``header_bytes`` of its data are cut off, and ``putter`` is a user who must be authorized for
    the put. The answer is an arrival number: messages that arrive on its queue later have a higher
    one.

    Raises the reason codes of :class:`Forward`, MQRC_NO_MSG_UNDER_CURSOR when it has expired or
    another getter has it, and MQRC_OPTIONS_ERROR when source and target are the same queue. After
    an error the caller must back out.
    """

    handle: Handle
    name: Text
    descriptor: PackedDescriptor | None = None
    header_bytes: Int64 = 0
    putter: Text | None = None


class Reply(_Transactional[int], tag=77):
    """Put a reply to a ReplyToQ and ReplyToQMgr, with the context in the descriptor.

    ``putter`` is a user who must be authorized for the put, as with reports. A reply that its
    queue refuses goes to the dead-letter queue, and the reason code is the answer; otherwise the
    answer is 0. Raises MQRC_MISSING_REPLY_TO_Q for an empty name, MQRC_SYNCPOINT_LIMIT_REACHED, the
    reason of a dead-letter queue that refuses the reply, and MQRC_NOT_AUTHORIZED for a user with
    limited authority. After an error the caller must back out.
    """

    name: Text
    manager: Text
    body: bytes
    descriptor: PackedDescriptor
    putter: Text
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    time_to_live_ms: Int64 | None = None


# Topics


class Subscribe(_NonTransactional[Subscribed], tag=13):
    """MQSUB with MQSO options: make, resume or alter a subscription.

    ``queue`` is the handle of the queue of a subscription that is not managed. An empty
    ``correl_id`` requests a generated one, None keeps the publisher's. ``altered`` is a
    subscription open here that may be altered, ``held`` the handle of its queue. Raises
    MQRC_OPTIONS_ERROR, MQRC_SUB_NAME_ERROR, MQRC_NO_SUBSCRIPTION, MQRC_SUB_ALREADY_EXISTS,
    MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH, MQRC_…_NOT_ALTERABLE, MQRC_HOBJ_ERROR,
    MQRC_INVALID_DESTINATION.
    """

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    options: Int64
    topic: Text = ""
    topic_object: Text = ""
    name: Text = ""
    queue: Handle = c.MQHO_NONE
    selector: Text = ""
    user_data: Text = ""
    correl_id: Identifier | None = b""
    expiry_tenths: Int64 = c.MQEI_UNLIMITED
    priority: Int64 = c.MQPRI_PRIORITY_AS_PUBLISHED
    altered: Subscription = 0
    held: Handle = c.MQHO_NONE


class CloseSubscription(Request[None], tag=14):
    """Close a subscription; a durable one continues to exist unless ``remove`` is True.

    Raises MQRC_HOBJ_ERROR, and MQRC_SUBSCRIPTION_IN_USE when others share one to be removed.
    """

    number: Subscription
    remove: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the close removes the subscription, so that a lost answer leaves it in doubt."""
        return self.remove


class RequestRetained(Request[int], tag=15):
    """MQSUBRQ: request retained publications; the answer is how many are sent.

    Raises MQRC_NO_RETAINED_MSG when there are none.
    """

    number: Subscription


class JoinSubscription(_NonTransactional[Subscribed], tag=70):
    """Open a subscription by its name as JMS does: join it, resume it or make it.

    Without a name it is a new subscription of this caller alone. The answer's handle is that of its
    managed queue, open for input; close it together with the subscription. The handle is MQHO_NONE
    where a definition (DEFINE SUB) names another queue. A durable subscription of the name with
    another topic, selector or ``no_local`` is replaced, and its messages are lost. With
    ``no_local`` it gets no publications of its own owner (:class:`BelongTo`).

    Raises MQRC_SUBSCRIPTION_IN_USE for one that would be replaced, or is not shared, while it is
    open or has unacknowledged messages; MQRC_SUB_ALREADY_EXISTS when only one of both is shared, or
    when an open one has another topic or selector; MQRC_SUB_NAME_ERROR, MQRC_TOPIC_STRING_ERROR,
    MQRC_SELECTOR_SYNTAX_ERROR, MQRC_NOT_AUTHORIZED.
    """

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    topic: Text
    name: Text = ""
    is_durable: bool = False
    is_shared: bool = False
    no_local: bool = False
    selector: Text = ""


class IsSubscriptionOpen(Request[bool], tag=71):
    """Ask whether a subscription is open here, and was neither removed nor expired."""

    number: Subscription


class RemoveSubscription(_NonTransactional[None], tag=72):
    """Remove a durable subscription by its name, with its messages.

    Raises MQRC_NO_SUBSCRIPTION, and MQRC_SUBSCRIPTION_IN_USE while it is open or has unacknowledged
    messages.
    """

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    name: Text


class BelongTo(Request[None], tag=73):
    """Set the owner of the conversation, whose publications ``no_local`` leaves out.

    An owner is a client id, or the number of a conversation, for several conversations together.
    With a client id a durable subscription made with ``no_local`` leaves out the client's
    publications also while it is not open.
    """

    owner: Text | Int64


class ClaimClientId(Request[None], tag=74):
    """Reserve a client id until the conversation is closed; it becomes the conversation's owner.

    Raises MQRC_OBJECT_IN_USE while another conversation has it.
    """

    client_id: Text


class MakeTemporaryTopic(Request[str], tag=75):
    """Make a unique topic string; its retained publication ends with this conversation."""


class DeleteTemporaryTopic(Request[None], tag=76):
    """Delete a topic string of :class:`MakeTemporaryTopic`, with its retained publication.

    Raises MQRC_UNKNOWN_OBJECT_NAME for one not made in this conversation, and MQRC_OBJECT_IN_USE
    while it has a subscriber.
    """

    topic: Text


# The schedule of delayed messages


class ListSchedule(Request[list[Scheduled]], tag=30):
    """List up to ``limit`` delayed messages by delivery time, the first or after a position."""

    where: ScheduleFilter
    limit: Int64
    after: Int64 | None


class ShowScheduled(Request[Scheduled | None], tag=31):
    """Ask for the delayed message that was sent under a MsgId; the answer is None without one."""

    msg_id: Identifier


class CountScheduled(Request[int], tag=32):
    """Ask how many messages are delayed, in all or for one target queue."""

    queue: Text | None


class _ScheduleChange(Request[R], Generic[R]):
    """A change of the schedule, durable at once unless it is part of the unit of work."""

    in_unit: bool

    @property
    def is_doubtful(self) -> bool:
        """Whether the change is outside of the unit of work: a lost answer leaves it in doubt."""
        return not self.in_unit


class ReceiptRow(NamedTuple):
    """The outcome of a change to the delayed messages of a MsgId, and how many were changed."""

    receipt: Receipt
    message_count: int


class CancelScheduled(_ScheduleChange[ReceiptRow], tag=33):
    """Remove the delayed messages of a MsgId.

    With ``position``, here and in the two requests that follow, only the message at this position
    of the schedule is meant. Raises MQRC_OBJECT_CHANGED when it was rescheduled meanwhile.
    """

    msg_id: Identifier
    position: Int64 | None = None


class Reschedule(_ScheduleChange[ReceiptRow], tag=34):
    """Set another delivery time for the messages of a MsgId: ms from now, or ms since 1970."""

    msg_id: Identifier
    delay_ms: Int64 | None = None
    deliver_at_ms: Int64 | None = None
    position: Int64 | None = None


class ReleaseScheduled(_ScheduleChange[ReceiptRow], tag=35):
    """Release the messages of a MsgId now."""

    msg_id: Identifier
    position: Int64 | None = None


class CancelAll(_ScheduleChange[int], tag=36):
    """Begin to cancel all messages that a filter finds.

    The answer is a number for :class:`GoOn`.
    """

    where: ScheduleFilter


class ReleaseAll(_ScheduleChange[int], tag=37):
    """Begin to release all messages that a filter finds.

    The answer is a number for :class:`GoOn`.
    """

    where: ScheduleFilter


class RescheduleAll(_ScheduleChange[int], tag=40):
    """Begin to reschedule all messages that a filter finds: to a delivery time, or ``by_ms``.

    The answer is a number for :class:`GoOn`.
    """

    where: ScheduleFilter
    delay_ms: Int64 | None = None
    deliver_at_ms: Int64 | None = None
    by_ms: Int64 | None = None


class GoOn(_ScheduleChange[int | None], tag=38):
    """Continue a change of many messages; the answer is how many are done, None at the end."""

    number: Int64


class Audit(Request[list[tuple[int, AuditEntry]]], tag=39):
    """List up to ``limit`` changes of the schedule, newest first, below the number ``before``."""

    limit: Int64
    before: Int64 = 2**63 - 2


# Administration


class RunMqsc(_NonTransactional[MqscResult], tag=50):
    """Run MQSC commands; the answer has their replies."""

    script: str


class AskCounts(Request[Counts], tag=51):
    """Ask for the numbers of messages of a local queue, by their state."""

    queue: Text


class AskCurdepth(Request[int], tag=52):
    """Ask for CURDEPTH of a local queue."""

    queue: Text


class Why(Request[MessageTrace], tag=53):
    """Ask where a message is, or how it ended, as far as this queue manager alone knows."""

    identifier: Identifier


class AskTrace(Request[MessageTrace], tag=78):
    """Ask for the history of a message, in all queue managers of the process."""

    identifier: Identifier


class AskTraces(Request[TracesFound], tag=79):
    """Ask for the histories of the messages with a property, put in a range of time."""

    name: Text
    value: Text
    from_ms: Int64 | None
    before_ms: Int64 | None
    limit: Int64


class EraseLives(_NonTransactional[Erasure], tag=66):
    """Erase ids, users and programs from the records of ended messages of an id, or of a user."""

    identifier: Identifier | None
    user: Text | None
    reason: Text


class AskErasures(Request[list[Erasure]], tag=67):
    """Ask for the records of erasures, oldest first."""


class Verify(Request[Verification], tag=54):
    """Check the whole store, and report the contradictions found."""


class AskDelayProcessorStatus(Request[str], tag=55):
    """Ask for the status of the delay processor, which releases delayed messages."""


class AskOwnTime(Request[OwnTime], tag=56):
    """Ask for the queue manager's time beside the wall clock of its machine."""


class FollowWall(_NonTransactional[OwnTime], tag=57):
    """Set the queue manager's time forward to the wall clock; the answer has both times."""


class RunDue(Request[None], tag=58):
    """Run all work of the queue manager that is due now, such as delayed deliveries."""


class AdvanceClock(_NonTransactional[OwnTime], tag=59):
    """Advance a virtual clock; the answer has the new time."""

    ms: Int64


# Claims of pipelines, and the ledger


class AskInstance(Request[str], tag=60):
    """Ask for the instance id of the queue manager's store."""


class ListConsumers(Request[list[ConsumerState]], tag=61):
    """List the state of each consumer, sorted by name."""


class EndWritten(_NonTransactional[int], tag=62):
    """End the claims of a consumer up to number ``until``: their messages were written by Spark.

    A claim reserves messages for a batch. The answer is the number of messages ended.
    """

    consumer: Text
    until: Int64


class ReleaseClaims(_NonTransactional[int], tag=63):
    """Return the messages that a consumer has claimed (reserved) to their queue.

    The backout counts of these messages are raised. The answer is the number of messages.
    """

    consumer: Text


class AskFirstPosition(Request[int], tag=64):
    """Ask for the oldest position of the ledger that retention has kept."""


class ReadLedger(Request[LedgerPage], tag=65):
    """Read up to ``max_rows`` rows of the ledger after a position."""

    after_position: Int64
    max_rows: Int64


# As they travel


def _leaves(kind: type[Request[Any]]) -> list[type[Request[Any]]]:
    """Return all classes below ``kind`` that have no subclasses; ``kind`` itself if it has none."""
    below = kind.__subclasses__()
    if not below:
        return [kind]
    return [leaf for each in below for leaf in _leaves(each)]


#: All requests by the numbers of their verbs.
VERBS: Final[dict[int, type[Request[Any]]]] = {verb_of(kind): kind for kind in _leaves(Request)}
_KINDS: Final = {number: kind for number, kind in VERBS.items() if kind is not Connect}
_REQUESTS: Final = decoder(Union[tuple(_KINDS.values())])  # noqa: UP007 - made of a list
#: Reason codes of fields with values that no frame can carry: those of the queue manager.
_REASONS: Final[dict[str, int]] = {
    "by_ms": rc.MQRC_OPTIONS_ERROR,
    "context": rc.MQRC_CONTEXT_HANDLE_ERROR,
    "correl_id": rc.MQRC_MD_ERROR,
    "delay_ms": rc.MQRC_OPTIONS_ERROR,
    "deliver_at_ms": rc.MQRC_OPTIONS_ERROR,
    "descriptor": rc.MQRC_MD_ERROR,
    "dynamic_name": rc.MQRC_DYNAMIC_Q_NAME_ERROR,
    "expiry_tenths": rc.MQRC_EXPIRY_ERROR,
    "group_id": rc.MQRC_MD_ERROR,
    "handle": rc.MQRC_HOBJ_ERROR,
    "manager": rc.MQRC_OBJECT_Q_MGR_NAME_ERROR,
    "msg_id": rc.MQRC_MD_ERROR,
    "name": rc.MQRC_OBJECT_NAME_ERROR,
    "options": rc.MQRC_OPTIONS_ERROR,
    "properties": rc.MQRC_PROPERTY_TYPE_ERROR,
    "selector": rc.MQRC_SELECTION_STRING_ERROR,
    "time_to_live_ms": rc.MQRC_EXPIRY_ERROR,
    "topic": rc.MQRC_TOPIC_STRING_ERROR,
    "wait_ms": rc.MQRC_WAIT_INTERVAL_ERROR,
}


class WrongRequest(WrongFrame):
    """A malformed request; ``reason`` is the reason code for the answer to the client."""

    def __init__(self, text: str, reason: int) -> None:
        """Take the error text, and the reason code for the answer to the client."""
        super().__init__(text)
        self.reason = reason


@cache
def numbers_in(kind: type[Request[Any]]) -> dict[str, str]:
    """Return the fields of a request type that hold handles, by field name.

    The value is ``object`` for a handle of an object (or a list of them), ``subscription`` for one
    of a subscription.
    """
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for field in kind.__struct_fields__:
        for number, what in _NUMBERS:
            if hints[field] == number:
                found[field] = what
    return found


@cache
def answer_type(kind: type[Request[Any]]) -> Any:
    """Return the answer type of a request type: ``class Now(Request[int])`` -> ``int``."""
    [base] = [base for base in kind.__orig_bases__ if get_args(base)]  # type: ignore[attr-defined]  # as typing keeps it
    [answer] = get_args(base)
    return answer


def verb_name(kind: type[Any]) -> str:
    """Return the name of a request type in error texts: ``GetMany`` -> ``get_many``."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in kind.__name__)[1:]


def request_of(payload: bytes) -> Request[Any]:
    """Return the request that is packed in a payload of an open conversation.

    Raises WrongRequest for a malformed or unknown request and for Connect, WrongFrame for a payload
    that does not begin with a verb.
    """
    try:
        request: Request[Any] = _REQUESTS.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _wrong_request(payload)
    return request


def _wrong_request(payload: bytes) -> Request[Any]:
    """Raise the error for a payload that :func:`request_of` could not decode, with field and value.

    Raises WrongRequest, for an unknown verb with MQRC_FUNCTION_NOT_SUPPORTED. Raises WrongFrame for
    a payload that does not begin with a verb. Returns the request if this second decoding succeeds.
    """
    verb = first_value(payload)
    kind = _KINDS.get(verb) if type(verb) is int else None
    if kind is None:
        text = f"verb: {quoted(verb)} is not known on an open conversation"
        raise WrongRequest(text, rc.MQRC_FUNCTION_NOT_SUPPORTED)
    try:
        return request_of_kind(kind, payload)
    except WrongFrame as wrong:
        raise WrongRequest(str(wrong), reason_of(kind, wrong.field)) from None


def request_of_kind(kind: type[Q], payload: bytes) -> Q:
    """Return the request of type ``kind`` in a payload; raises WrongFrame if it is malformed."""
    request: Q = decoded(kind, payload, verb_name(kind))
    return request


def reason_of(kind: type[Request[Any]], field: str) -> int:
    """Return the reason code for a wrong field of a request; MQRC_UNEXPECTED_ERROR by default."""
    return kind.REASONS.get(field) or _REASONS.get(field, rc.MQRC_UNEXPECTED_ERROR)

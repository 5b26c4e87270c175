"""The requests of programs: one type a verb, with its fields, its answer and its reason codes.

``Connection.call`` makes a request and returns its answer, ``Connection.begin`` tells it. Open
objects are numbers, options are the bits of the MQI, times are in ms. Errors are MQError. After a
LostAnswer the request may have taken effect.

A request travels as an array: the number of its verb, then its fields in order. Numbers never get
another meaning. Fields at the end that have a default may be left out. ``of`` of a type makes its
request of the values of a program where these do not travel as they are.
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
from mayfly.properties.folders import Property
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.wire import (
    AT_MAX,
    MAX_NUMBERS,
    MAX_PUTS_IN_FRAME,
    Identifier,
    PackedDescriptor,
    Text,
    Whole,
    WrongFrame,
    decoded,
    decoder,
    first_of,
    packed_descriptor,
    shown,
    verb_of,
)
from mayfly.verbs.facts import (
    Counts,
    Inquiry,
    MqscResult,
    OwnTime,
    Status,
    SubscriptionFacts,
    Value,
    Verification,
)
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.verbs.rows import (
    PackedScalar,
    Properties,
    PutsRow,
    packed_scalar,
    rows_of_properties,
)
from mayfly.verbs.schedule import AuditEntry, Receipt, Scheduled, ScheduleFilter
from mayfly.verbs.trace import MessageTrace, TracesFound

R = TypeVar("R")
Q = TypeVar("Q", bound="Request[Any]")

#: The number of an open object, and that of a subscription: a connection that reconnects knows
#: them by other numbers than the queue manager of now.
Handle: TypeAlias = Annotated[Whole, Meta(extra={"numbers": "an open object"})]
Handles: TypeAlias = Annotated[list[Handle], Meta(max_length=MAX_NUMBERS)]
Subscription: TypeAlias = Annotated[Whole, Meta(extra={"numbers": "an open subscription"})]
_NUMBERS: Final = ((Handle, "object"), (Handles, "object"), (Subscription, "subscription"))

_GETS_IN_UNIT: Final = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
_ENTRIES: Final = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR


class Request(msgspec.Struct, Generic[R], array_like=True, forbid_unknown_fields=True):
    """A request; its parameter is the type of the answer."""

    #: Fields whose wrong values have another reason code than in :data:`_REASONS`.
    REASONS: ClassVar[dict[str, int]] = {}

    @property
    def in_unit(self) -> bool:
        """Whether it is part of the unit of work."""
        return False

    @property
    def is_doubtful(self) -> bool:
        """Whether it may have taken effect for good when its answer is lost."""
        return False


class _Lasting(Request[R], Generic[R]):
    """A request that takes effect for good, whatever becomes of the unit of work."""

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class _InUnit(Request[R], Generic[R]):
    """A request that is part of the unit of work."""

    @property
    def in_unit(self) -> bool:
        """Always."""
        return True


class Calls(Protocol):
    """Makes a request and returns its answer; ``Connection.call`` does."""

    def __call__(self, request: Request[R], /) -> R:
        """Return the answer; raises MQError."""


# Answers that are no results of the engine


class Opened(NamedTuple):
    """An object that was opened: its number and what its name has led to.

    ``kind`` is MQOT_Q, MQOT_TOPIC, MQOT_PROCESS or MQOT_Q_MGR. ``queue`` on ``manager`` is the
    queue at the end of aliases and remote definitions, empty for what is no queue. ``made`` is the
    name of the dynamic queue that opening has made, ``topic`` the string of a topic.
    ``definition_type`` is the MQQDT_* of a queue on this queue manager, else 0.
    """

    handle: int
    kind: int
    queue: str
    manager: str
    made: str = ""
    topic: str = ""
    definition_type: int = 0


class Subscribed(NamedTuple):
    """A subscription that is open: its number, and the handle its publications are got with."""

    number: int
    handle: int
    facts: SubscriptionFacts


class BackoutRule(NamedTuple):
    """BOTHRESH and BOQNAME of a queue; a threshold of 0 is none."""

    threshold: int
    queue_name: str


class Connected(NamedTuple):
    """The terms of a conversation.

    ``number`` is its number on the queue manager. The server takes messages of so many bytes, and
    so many conversations on the connection; both sides speak in each interval, 0 is never.
    ``process`` is the process of the server, see ``runtime.virtual_clock``.
    """

    queue_manager: str
    number: int
    user: str
    heartbeat_ms: int
    share_conversations: int
    max_message_bytes: int
    process: str


class Ids(NamedTuple):
    """MsgIds of 24 bytes, one behind the other, and the queue manager's time."""

    now_ms: int
    ids: bytes


class LedgerPage(NamedTuple):
    """Rows of the ledger (LEDGER_COLUMNS without the queue manager's).

    ``first_held`` is None, or the first position that is held where retention has removed the row
    that was asked for.
    """

    rows: list[tuple[Any, ...]]
    first_held: int | None


# Connecting


class Connect(Request[Connected], tag=1):
    """Begin a conversation of a user; ``application`` becomes PutApplName.

    ``process`` is the process of the client, see ``runtime.virtual_clock``.
    """

    channel: Text
    queue_manager: Text
    user: Text
    password: Text
    application: Text
    heartbeat_ms: Whole
    process: Text = ""


class Disconnect(Request[None], tag=2):
    """MQDISC: commit the unit of work, or back it out, and close everything."""

    commit: bool

    @property
    def is_doubtful(self) -> bool:
        """Whether it commits."""
        return self.commit


class Cancel(Request[bool], tag=17):
    """End a request that is under way without effect; True if that was possible."""

    request: Whole


class Now(Request[int], tag=16):
    """Ask for the queue manager's time: ms since 1970, UTC (docs/CLOCKS.md)."""


class AskCommandLevel(Request[int], tag=24):
    """Ask for the command level, as every user may; it shows which verbs and options there are."""


# Objects


class Open(Request[Opened], tag=3):
    """MQOPEN with MQOO options; a queue that is the alias of a topic is opened as that.

    For MQOT_TOPIC ``name`` is a topic object or empty, and ``topic`` the string behind its.
    Raises the reason codes of C1-C9.
    """

    name: Text
    options: Whole
    kind: Whole = c.MQOT_Q
    manager: Text = ""
    topic: Text = ""
    dynamic_name: Text = "AMQ.*"
    selector: Text | None = None
    alternate_user: Text = ""


class CloseObject(Request[int], tag=4):
    """MQCLOSE with MQCO options; the answer is 0, or MQRC_INCOMPLETE_GROUP or _MSG within one.

    Raises MQRC_HOBJ_ERROR, MQRC_Q_NOT_EMPTY, MQRC_OPTION_NOT_VALID_FOR_TYPE.
    """

    handle: Handle
    options: Whole = c.MQCO_NONE


class Inquire(Request[Inquiry], tag=11):
    """MQINQ; handle MQHO_NONE (0) asks the queue manager itself.

    Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_INQUIRE, MQRC_SELECTOR_ERROR, MQRC_Q_DELETED,
    MQRC_NOT_AUTHORIZED.
    """

    handle: Handle
    selectors: Annotated[list[Whole], AT_MAX]


class Set(_Lasting[None], tag=12):
    """MQSET: selectors with their values, all or none.

    Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET, MQRC_SELECTOR_ERROR. A value that an attribute
    does not take has a reason code of its own.
    """

    handle: Handle
    values: Annotated[list[tuple[Whole, PackedScalar]], AT_MAX]

    @classmethod
    def of(cls, handle: int, values: Mapping[int, Value]) -> Self:
        """Return the request for values; raises MQRC_UNEXPECTED_ERROR for what is no value."""
        rows = [
            (selector, packed_scalar(value, "set.values", rc.MQRC_UNEXPECTED_ERROR))
            for selector, value in values.items()
        ]
        return cls(handle, rows)


class AskLivesFromRelease(Request[bool], tag=19):
    """Ask whether an open queue has TTLFROM(RELEASE): lives begin at the release.

    With handle MQHO_NONE (0), whether any queue has it. Raises MQRC_HOBJ_ERROR.
    """

    handle: Handle


class AskBackoutRule(Request[BackoutRule], tag=29):
    """Ask for BOTHRESH and BOQNAME of the queue of a handle; raises MQRC_HOBJ_ERROR."""

    handle: Handle


# Puts


class NewMessage(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A message that is put: everything of it but the descriptor, which several may share.

    Its life is ``expiry_tenths`` or ``time_to_live_ms``; ``delay_ms`` is the time to its delivery.
    Empty ids are for the queue manager to give.
    """

    body: bytes
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    expiry_tenths: Whole = c.MQEI_UNLIMITED
    time_to_live_ms: Whole | None = None
    delay_ms: Whole = 0
    properties: Properties = []


class MessageMore(TypedDict, total=False):
    """What a program may say of a message that it puts: fields of :class:`NewMessage`."""

    msg_id: bytes
    correl_id: bytes
    expiry_tenths: int
    time_to_live_ms: int | None
    delay_ms: int
    properties: Sequence[Property]


def _new_message(body: bytes, properties: Sequence[Property] = (), **more: Any) -> NewMessage:
    return NewMessage(body, properties=rows_of_properties(properties) if properties else [], **more)


class _Putting(Request[R], Generic[R]):
    """A request that puts, outside of syncpoint for good."""

    descriptor: PackedDescriptor
    options: Whole

    @property
    def in_unit(self) -> bool:
        """Whether it is under syncpoint."""
        return bool(self.options & c.MQPMO_SYNCPOINT)

    @property
    def is_doubtful(self) -> bool:
        """Whether it is outside of syncpoint."""
        return not self.options & c.MQPMO_SYNCPOINT


class Put(_Putting[PutResult | None], tag=5):
    """MQPUT to a queue or a topic with MQPMO options.

    ``context`` is the handle whose saved context is passed on. The answer is None for a message
    with MQPMO_ASYNC_RESPONSE that its queue refuses: :class:`AskStatus` says why. Raises the reason
    codes of P1-P13 and MQRC_EXPIRY_ERROR (E2); nothing is put then, unless it is LostAnswer.

    Outside of syncpoint a persistent message is durable when a put that was begun is told. Messages
    have the order of the calls; those that are put meanwhile share a sync. A put that is begun when
    10,000 of the queue manager's are on their way to the disk is MQRC_RESOURCE_PROBLEM.
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
        """Return the request for a message; raises MQRC_MD_ERROR, MQRC_PROPERTY_TYPE_ERROR."""
        packed = packed_descriptor(descriptor)
        return cls(packed, options, handle, context, _new_message(body, **more))


class Puts(_Putting[PutsRow], tag=45):
    """Several puts to one object; each of ``messages`` is a NewMessage, checked alone."""

    handle: Handle
    context: Handle
    messages: Annotated[list[msgspec.Raw], Meta(max_length=MAX_PUTS_IN_FRAME)]


class Put1(_Putting[PutResult], tag=18):
    """MQPUT1: one put to what :class:`Open` would open, without a handle.

    Raises the reason codes of both, MQRC_OPTIONS_ERROR for MQPMO_ASYNC_RESPONSE and options that
    pass context on.
    """

    message: NewMessage
    name: Text
    kind: Whole = c.MQOT_Q
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
        """Return the request for a message; raises MQRC_MD_ERROR, MQRC_PROPERTY_TYPE_ERROR."""
        packed = packed_descriptor(descriptor)
        return cls(packed, options, _new_message(body, **more), name, kind, manager, topic)


class NewIds(Request[Ids], tag=44):
    """Ask for MsgIds, for puts that do not wait for their answers."""

    count: Whole


class AskStatus(Request[Status], tag=8):
    """MQSTAT: the outcome of puts with MQPMO_ASYNC_RESPONSE since the last MQSTAT (P13)."""


# Gets


class Get(Request[GetResult], tag=6):
    """MQGET with MQGMO options, destructive or browsing; ids that are empty match all.

    ``wait_ms`` counts with MQGMO_WAIT, -1 is for ever; ``max_length`` None takes any length. With
    ``in_handle`` the properties are for a message handle, ``with_extension`` puts what an MQMD of
    version 1 cannot say into an MQMDE. Raises the reason codes of G1-G13 and B1-B8,
    MQRC_NO_MSG_AVAILABLE first of all.

    When a get for good of a persistent message that was begun is told, it is durable. Gets of one
    handle follow each other. A get under the cursor never waits: begun, it is MQRC_OPTIONS_ERROR.
    """

    handle: Handle
    options: Whole = c.MQGMO_NONE
    wait_ms: Whole = 0
    max_length: Whole | None = None
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    group_id: Identifier = b""
    sequence_number: Whole | None = None
    offset: Whole | None = None
    token: Identifier | None = None
    in_handle: bool = False
    with_extension: bool = False

    @property
    def in_unit(self) -> bool:
        """Whether it is under syncpoint."""
        return bool(self.options & _GETS_IN_UNIT)

    @property
    def is_doubtful(self) -> bool:
        """Whether the message leaves its queue for good."""
        return not self.options & (_GETS_IN_UNIT | _ENTRIES)


class GetMany(Request[list[Message]], tag=46):
    """Get messages that are there, as a loop of MQGET does, without waiting.

    The answer has at most ``max_messages`` messages, and stops behind the one with which their
    bodies together reach ``max_bytes``. There may be more on the queue: over a network an answer
    has 1,000 of them or 1 MiB. Outside of syncpoint one transaction takes them all. Properties come
    in an MQRFH2: other options than MQGMO_PROPERTIES_FORCE_MQRFH2, and those of syncpoint and of
    quiescing, are MQRC_OPTIONS_ERROR, as is a handle with a selector. The answer is [] in the place
    of MQRC_NO_MSG_AVAILABLE. Raises the other reason codes of a get when it has none.
    """

    handle: Handle
    options: Whole
    max_messages: Whole
    max_bytes: Whole

    @property
    def in_unit(self) -> bool:
        """Whether it is under syncpoint."""
        return bool(self.options & _GETS_IN_UNIT)

    @property
    def is_doubtful(self) -> bool:
        """Whether they leave their queue for good."""
        return not self.options & c.MQGMO_SYNCPOINT


class GetAny(Request[Delivery], tag=20):
    """Get one message from whichever of several open queues has one, the first of them first.

    The connection holds it as a delivery, which names its handle, until it is settled. Beside
    MQGMO_WAIT, for the time of ``wait_ms``, the options may be those of truncation, conversion and
    properties. With MQGMO_SYNCPOINT the message goes into the unit of work of this conversation.
    With MQGMO_BROWSE_FIRST it stays on its queue, for everybody. The number of the delivery is 0 in
    these two cases, and there is nothing to settle. A request that is called, not begun, has one
    handle and neither of these two options.

    The end of any of the handles ends the get, MQRC_HOBJ_ERROR. So does a queue that cannot be got
    from, with its reason code. With ``tells_refusals`` the get goes on with the others, and with
    that one when it can be got from again. ``on_event`` of ``begin`` is called with the handle and
    the error, once for a handle and a reason until a get finds that the queue can be got from.
    """

    handles: Handles
    options: Whole = c.MQGMO_NONE
    wait_ms: Whole = c.MQWI_UNLIMITED
    max_length: Whole | None = None
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    tells_refusals: bool = False

    @property
    def in_unit(self) -> bool:
        """Whether it is under syncpoint."""
        return bool(self.options & _GETS_IN_UNIT)


class TakeHeld(Request[list[Delivery]], tag=47):
    """Get messages that are there and hold them as :class:`GetAny` does, in one turn.

    ``max_messages`` and ``max_bytes`` are as in :class:`GetMany`. The answer is [] in the place of
    MQRC_NO_MSG_AVAILABLE. Raises the other reason codes of a get, and MQRC_OPTIONS_ERROR for
    MQGMO_WAIT, MQGMO_SYNCPOINT and MQGMO_BROWSE_FIRST.
    """

    handle: Handle
    options: Whole
    max_messages: Whole
    max_bytes: Whole


class Settle(_Lasting[None], tag=21):
    """Settle deliveries by their numbers, all with one sync or none.

    ``reason`` stands in the MQDLH of dead letters. ``within`` is the number of a conversation on
    the same queue manager, maybe this one. Its unit of work takes the deliveries over: they are
    TAKEN at its commit, and go back counted at its backout.

    Raises MQRC_STORAGE_MEDIUM_FULL when the messages are back on their queues instead. After all
    other errors they are held as before. These are MQRC_HMSG_ERROR for a number that is settled
    already, and MQRC_UOW_NOT_AVAILABLE for a ``within`` that is no conversation. ``within`` with
    another settlement than TAKEN is MQRC_OPTIONS_ERROR. A dead-letter queue that does not take a
    message gives its own reason.
    """

    deliveries: Annotated[list[Whole], Meta(max_length=MAX_NUMBERS)]
    settlement: Settlement
    reason: Whole = 0
    within: Whole = 0


class Unlock(Request[int], tag=7):
    """MQGET with MQGMO_UNLOCK; the answer is 0 or MQRC_NO_MSG_LOCKED (B6)."""

    handle: Handle
    options: Whole = c.MQGMO_UNLOCK


class WaitUntil(Request[None], tag=22):
    """Wait until the queue manager's time is a moment: ms since 1970; one that is past is now.

    None never comes. Ends with MQRC_HCONN_ERROR when the connection is closed before, and with
    MQRC_CONNECTION_BROKEN or MQRC_Q_MGR_STOPPING at the end of the queue manager.
    """

    moment_ms: Whole | None


class AwaitDefinitions(Request[None], tag=23):
    """Wait until a definition is made, altered or deleted.

    A program that a definition stands in the way of waits for this, and tries again.
    """


# The unit of work


class Commit(_Lasting[None], tag=9):
    """MQCMIT; raises MQRC_STORAGE_MEDIUM_FULL (backed out), LostAnswer.

    After a commit that is begun the next unit of work begins at once.
    """


class Backout(Request[None], tag=10):
    """MQBACK: puts vanish, gets go back with their backout count one higher (G8)."""


class Forward(_InUnit[None], tag=25):
    """Put a message that the unit of work has got on another queue; its life goes on (E21, Q2).

    ``queue`` and the MsgToken say which one. ``name`` may be ``QUEUE@MANAGER``. Raises the reason
    codes of open and put, MQRC_UNKNOWN_OBJECT_NAME for a blank name and a model queue.
    """

    queue: Text
    token: Identifier
    name: Text


class DeadLetter(_InUnit[None], tag=26):
    """Put a message that the unit of work has got on the dead-letter queue behind an MQDLH (Q1).

    Raises the reason codes of open and put.
    """

    queue: Text
    token: Identifier
    reason: Whole


class ReportException(_InUnit[bool], tag=27):
    """Send the exception report that a message owes which the unit of work has got.

    The answer is False when no queue takes it (R6).
    """

    queue: Text
    token: Identifier
    reason: Whole


class Move(_InUnit[int], tag=28):
    """Move the message under the browse cursor of a queue to another queue (Q2).

    The message is put first, as by :class:`Forward`, so that a put that fails raises no backout
    count; then it is got. ``descriptor`` replaces its own, ``header_bytes`` are left off the front
    of its data, and ``putter`` is a user who must be allowed to put there. The answer is a number:
    messages that come onto its queue later have a higher arrival number.

    Raises as :class:`Forward`; MQRC_NO_MSG_UNDER_CURSOR when it has expired or somebody else has
    it, MQRC_OPTIONS_ERROR for the queue where it is. After an error the caller backs the unit of
    work out.
    """

    handle: Handle
    name: Text
    descriptor: PackedDescriptor | None = None
    header_bytes: Whole = 0
    putter: Text | None = None


class Reply(_InUnit[int], tag=77):
    """Put a reply to a ReplyToQ and ReplyToQMgr, with the context of the descriptor.

    ``putter`` is the user who must be allowed to put there, as with reports (R6). A reply that its
    queue does not take goes to the dead-letter queue with the reason, which is the answer; else 0.
    An empty name is MQRC_MISSING_REPLY_TO_Q. Raises MQRC_SYNCPOINT_LIMIT_REACHED, the reason of a
    dead-letter queue that does not take the reply, and MQRC_NOT_AUTHORIZED for a user with limited
    authority. After an error the caller backs the unit of work out.
    """

    name: Text
    manager: Text
    body: bytes
    descriptor: PackedDescriptor
    putter: Text
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    time_to_live_ms: Whole | None = None


# Topics


class Subscribe(_Lasting[Subscribed], tag=13):
    """MQSUB with MQSO options: make a subscription, resume one or alter one.

    ``queue`` is the open queue for one that is not managed. ``correl_id`` empty is one of its own,
    None the publisher's. ``altered`` is a subscription that is open here and may be altered,
    ``held`` the handle of its queue. Raises MQRC_OPTIONS_ERROR, MQRC_SUB_NAME_ERROR,
    MQRC_NO_SUBSCRIPTION, MQRC_SUB_ALREADY_EXISTS, MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH,
    MQRC_…_NOT_ALTERABLE, MQRC_HOBJ_ERROR, MQRC_INVALID_DESTINATION.
    """

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    options: Whole
    topic: Text = ""
    topic_object: Text = ""
    name: Text = ""
    queue: Handle = c.MQHO_NONE
    selector: Text = ""
    user_data: Text = ""
    correl_id: Identifier | None = b""
    expiry_tenths: Whole = c.MQEI_UNLIMITED
    priority: Whole = c.MQPRI_PRIORITY_AS_PUBLISHED
    altered: Subscription = 0
    held: Handle = c.MQHO_NONE


class CloseSubscription(Request[None], tag=14):
    """Close a subscription; a durable one stays unless it is to be removed.

    Raises MQRC_HOBJ_ERROR, MQRC_SUBSCRIPTION_IN_USE for one to be removed that others share.
    """

    number: Subscription
    remove: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether it removes."""
        return self.remove


class RequestRetained(Request[int], tag=15):
    """MQSUBRQ: ask for what is retained; the answer is how many come. Raises 2437 for none."""

    number: Subscription


class JoinSubscription(_Lasting[Subscribed], tag=70):
    """Open the subscription of a name as JMS has it: join it, resume it or make it.

    Without a name the subscription is the caller's alone. The handle is that of its managed queue,
    open for input and to be closed with the subscription; MQHO_NONE where a definition (DEFINE SUB)
    names another queue. A durable subscription of the name with another topic, selector or
    ``no_local`` is removed with its messages, and made anew. ``no_local`` leaves out publications
    of the same owner (:class:`BelongTo`).

    Raises MQRC_SUBSCRIPTION_IN_USE for one that is to be removed, or is not shared, while it is
    open or has messages that are not acknowledged; MQRC_SUB_ALREADY_EXISTS when one is shared and
    the other is not, or an open one has another topic or selector; MQRC_SUB_NAME_ERROR,
    MQRC_TOPIC_STRING_ERROR, MQRC_SELECTOR_SYNTAX_ERROR, MQRC_NOT_AUTHORIZED.
    """

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    topic: Text
    name: Text = ""
    is_durable: bool = False
    is_shared: bool = False
    no_local: bool = False
    selector: Text = ""


class IsSubscriptionOpen(Request[bool], tag=71):
    """Ask whether a subscription is open here, and neither removed nor expired."""

    number: Subscription


class RemoveSubscription(_Lasting[None], tag=72):
    """Remove a durable subscription by its name, with its messages.

    Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE while it is open or has messages that are
    not acknowledged.
    """

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    name: Text


class BelongTo(Request[None], tag=73):
    """Set the owner of the conversation: ``no_local`` leaves out publications of that owner.

    An owner is a client id, or the number of a conversation that several belong to. With a client
    id a durable subscription made with ``no_local`` leaves out the client's publications also while
    it is not open.
    """

    owner: Text | Whole


class ClaimClientId(Request[None], tag=74):
    """Take a client id until the conversation is closed; the client id becomes its owner.

    Raises MQRC_OBJECT_IN_USE while another conversation has it.
    """

    client_id: Text


class MakeTemporaryTopic(Request[str], tag=75):
    """Make a unique topic string; its retained publication ends with this conversation."""


class DeleteTemporaryTopic(Request[None], tag=76):
    """Delete a topic string that :class:`MakeTemporaryTopic` has made here, with what it retains.

    Raises MQRC_UNKNOWN_OBJECT_NAME for any other, MQRC_OBJECT_IN_USE while it has a subscriber.
    """

    topic: Text


# The schedule of delayed messages


class ListSchedule(Request[list[Scheduled]], tag=30):
    """List delayed messages by delivery time, those after a position."""

    where: ScheduleFilter
    limit: Whole
    after: Whole | None


class ShowScheduled(Request[Scheduled | None], tag=31):
    """Ask for the delayed message that was sent under a MsgId."""

    msg_id: Identifier


class CountScheduled(Request[int], tag=32):
    """Ask how many messages are delayed, or how many of them wait for one queue."""

    queue: Text | None


class _Change(Request[R], Generic[R]):
    """A change of the schedule, durable at once unless it is part of the unit of work."""

    in_unit: bool

    @property
    def is_doubtful(self) -> bool:
        """Whether it is durable at once: else it is backed out for certain."""
        return not self.in_unit


class ReceiptRow(NamedTuple):
    """Outcome of a change to the delayed messages of a MsgId, and how many they were."""

    receipt: Receipt
    message_count: int


class CancelScheduled(_Change[ReceiptRow], tag=33):
    """Take the messages of a MsgId off the schedule.

    With ``position`` it is the one message that has this position of the schedule, as in the two
    that follow; MQRC_OBJECT_CHANGED where somebody has rescheduled that meanwhile.
    """

    msg_id: Identifier
    position: Whole | None = None


class Reschedule(_Change[ReceiptRow], tag=34):
    """Give the messages of a MsgId another delivery time."""

    msg_id: Identifier
    delay_ms: Whole | None = None
    deliver_at_ms: Whole | None = None
    position: Whole | None = None


class ReleaseScheduled(_Change[ReceiptRow], tag=35):
    """Release the messages of a MsgId now."""

    msg_id: Identifier
    position: Whole | None = None


class CancelAll(_Change[int], tag=36):
    """Begin to cancel all messages that a filter finds; a number for :class:`GoOn`."""

    where: ScheduleFilter


class ReleaseAll(_Change[int], tag=37):
    """Begin to release all messages that a filter finds; a number for :class:`GoOn`."""

    where: ScheduleFilter


class RescheduleAll(_Change[int], tag=40):
    """Begin to reschedule all messages that a filter finds; a number for :class:`GoOn`."""

    where: ScheduleFilter
    delay_ms: Whole | None = None
    deliver_at_ms: Whole | None = None
    by_ms: Whole | None = None


class GoOn(_Change[int | None], tag=38):
    """Go on with a change of many: how many messages are done so far, None at the end."""

    number: Whole


class Audit(Request[list[tuple[int, AuditEntry]]], tag=39):
    """List changes of the schedule, newest first, each with its number, before one of a number."""

    limit: Whole
    before: Whole = 2**63 - 2


# Administration


class RunMqsc(_Lasting[MqscResult], tag=50):
    """Run MQSC commands."""

    script: str


class AskCounts(Request[Counts], tag=51):
    """Ask for staged, live, uncommitted, locked and expired_present of a local queue."""

    queue: Text


class AskCurdepth(Request[int], tag=52):
    """Ask for CURDEPTH of a local queue."""

    queue: Text


class Why(Request[MessageTrace], tag=53):
    """Ask where a message is, or how it ended, as this queue manager alone knows it."""

    identifier: Identifier


class AskTrace(Request[MessageTrace], tag=78):
    """Ask where a message has been, over all queue managers of the process."""

    identifier: Identifier


class AskTraces(Request[TracesFound], tag=79):
    """Ask where the messages with a property have been."""

    name: Text
    value: Text
    from_ms: Whole | None
    before_ms: Whole | None
    limit: Whole


class Verify(Request[Verification], tag=54):
    """Recount everything and compare."""


class AskDelayProcessorStatus(Request[str], tag=55):
    """Ask how the release of delayed messages goes."""


class AskOwnTime(Request[OwnTime], tag=56):
    """Ask for the queue manager's own time beside the clock of its machine."""


class FollowWall(_Lasting[OwnTime], tag=57):
    """Follow the clock of the machine forward."""


class RunDue(Request[None], tag=58):
    """Do all work that is due."""


class AdvanceClock(_Lasting[OwnTime], tag=59):
    """Move a virtual clock on."""

    ms: Whole


# Claims of pipelines, and the ledger


class AskInstance(Request[str], tag=60):
    """Ask for the id of the queue manager's store."""


class ListConsumers(Request[list[ConsumerState]], tag=61):
    """List the state of each consumer, by name."""


class EndWritten(_Lasting[int], tag=62):
    """End the claims of a consumer up to a number: their messages are written."""

    consumer: Text
    until: Whole


class ReleaseClaims(_Lasting[int], tag=63):
    """Give the claimed messages of a consumer back to their queue, counted."""

    consumer: Text


class AskFirstPosition(Request[int], tag=64):
    """Ask for the oldest position of the ledger that is held."""


class ReadLedger(Request[LedgerPage], tag=65):
    """Read rows of the ledger that follow a position."""

    after_position: Whole
    max_rows: Whole


# As they travel


def _leaves(kind: type[Request[Any]]) -> list[type[Request[Any]]]:
    below = kind.__subclasses__()
    if not below:
        return [kind]
    return [leaf for each in below for leaf in _leaves(each)]


#: All requests by the numbers of their verbs.
VERBS: Final[dict[int, type[Request[Any]]]] = {verb_of(kind): kind for kind in _leaves(Request)}
_KINDS: Final = {number: kind for number, kind in VERBS.items() if kind is not Connect}
_REQUESTS: Final = decoder(Union[tuple(_KINDS.values())])  # noqa: UP007 - made of a list
#: Reason codes of values that no frame can carry: those that the queue manager gives for them, by
#: the name of the field.
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
    """A request that makes no sense; ``reason`` is the reason code for it."""

    def __init__(self, text: str, reason: int) -> None:
        super().__init__(text)
        self.reason = reason


@cache
def numbers_in(kind: type[Request[Any]]) -> dict[str, str]:
    """Return the fields of a type of request that number open things.

    They are ``object`` or ``subscription`` by the name of the field.
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
    """Return the type of the answer to a type of request."""
    [base] = [base for base in kind.__orig_bases__ if get_args(base)]  # type: ignore[attr-defined]  # as typing keeps it
    [answer] = get_args(base)
    return answer


def verb_name(kind: type[Any]) -> str:
    """Return what a type of request is called in errors: ``get_many``."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in kind.__name__)[1:]


def request_of(payload: bytes) -> Request[Any]:
    """Return the request that has come.

    Raises WrongRequest, and WrongFrame for what has no verb in front. Connect is none on a
    conversation that is open.
    """
    try:
        request: Request[Any] = _REQUESTS.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _wrong_request(payload)
    return request


def _wrong_request(payload: bytes) -> Request[Any]:
    verb = first_of(payload)
    kind = _KINDS.get(verb) if type(verb) is int else None
    if kind is None:
        text = f"verb: {shown(verb)} is not known on an open conversation"
        raise WrongRequest(text, rc.MQRC_FUNCTION_NOT_SUPPORTED)
    try:
        return request_of_kind(kind, payload)
    except WrongFrame as wrong:
        raise WrongRequest(str(wrong), reason_of(kind, wrong.field)) from None


def request_of_kind(kind: type[Q], payload: bytes) -> Q:
    """Return a request of one type; raises WrongFrame, whose text names field and value."""
    request: Q = decoded(kind, payload, verb_name(kind))
    return request


def reason_of(kind: type[Request[Any]], field: str) -> int:
    """Return the reason code of a wrong field of a request, MQRC_UNEXPECTED_ERROR for most."""
    return kind.REASONS.get(field) or _REASONS.get(field, rc.MQRC_UNEXPECTED_ERROR)

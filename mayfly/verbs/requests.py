"""The requests of programs: one type a verb, with its fields, its answer and its reason codes.

A request travels as an array: the number of its verb, then its fields in order. Numbers never get
another meaning. Fields at the end that have a default may be left out. The reason codes are those
of `connection.interface`, whose methods make these requests.
"""

from __future__ import annotations

from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs.contracts.claims import ConsumerState
from mayfly.verbs.contracts.wire import (
    AT_MOST,
    MOST_NUMBERS,
    MOST_PUTS_IN_FRAME,
    Identifier,
    PackedDescriptor,
    Text,
    Whole,
    WrongFrame,
    decoded,
    decoder,
    first_of,
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
    Verification,
)
from mayfly.verbs.messages import Delivery, GetResult, Message, PutResult, Settlement
from mayfly.verbs.rows import PackedScalar, Properties, PutsRow
from mayfly.verbs.schedule import AuditEntry, Receipt, Scheduled
from mayfly.verbs.stories import StoriesFound, Whereabouts

R = TypeVar("R")
Q = TypeVar("Q", bound="Request[Any]")

#: The number of an open object, and that of a subscription: a connection that reconnects knows
#: them by other numbers than the queue manager of now.
Handle: TypeAlias = Annotated[Whole, Meta(extra={"numbers": "an open object"})]
Handles: TypeAlias = Annotated[list[Handle], Meta(max_length=MOST_NUMBERS)]
Subscription: TypeAlias = Annotated[Whole, Meta(extra={"numbers": "an open subscription"})]
_NUMBERS: Final = ((Handle, "object"), (Handles, "object"), (Subscription, "subscription"))

_GETS_IN_UNIT: Final = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
_STAYS: Final = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR


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
    """Ask for the queue manager's time, in ms since 1970, UTC."""


class AskCommandLevel(Request[int], tag=24):
    """Ask for the command level, which shows what verbs and options there are."""


# Objects


class Open(Request[Opened], tag=3):
    """MQOPEN with MQOO options."""

    name: Text
    options: Whole
    kind: Whole = c.MQOT_Q
    manager: Text = ""
    topic: Text = ""
    dynamic_name: Text = "AMQ.*"
    selector: Text | None = None
    alternate_user: Text = ""


class CloseObject(Request[int], tag=4):
    """MQCLOSE; 0, or MQRC_INCOMPLETE_GROUP or _MSG."""

    handle: Handle
    options: Whole = c.MQCO_NONE


class Inquire(Request[Inquiry], tag=11):
    """MQINQ; handle MQHO_NONE (0) asks the queue manager itself."""

    handle: Handle
    selectors: Annotated[list[Whole], AT_MOST]


class Set(Request[None], tag=12):
    """MQSET: selectors with their values, all or none."""

    handle: Handle
    values: Annotated[list[tuple[Whole, PackedScalar]], AT_MOST]

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class AskLivesFromRelease(Request[bool], tag=19):
    """Ask whether an open queue, or any queue, has TTLFROM(RELEASE)."""

    handle: Handle


class AskBackoutRule(Request[BackoutRule], tag=29):
    """Ask for BOTHRESH and BOQNAME of the queue of a handle."""

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
    """MQPUT with MQPMO options; None for one with MQPMO_ASYNC_RESPONSE that its queue refuses."""

    handle: Handle
    context: Handle
    message: NewMessage


class Puts(_Putting[PutsRow], tag=45):
    """Several puts to one object; each of ``messages`` is a NewMessage, checked alone."""

    handle: Handle
    context: Handle
    messages: Annotated[list[msgspec.Raw], Meta(max_length=MOST_PUTS_IN_FRAME)]


class Put1(_Putting[PutResult], tag=18):
    """MQPUT1: a put to what :class:`Open` would open, without a handle."""

    message: NewMessage
    name: Text
    kind: Whole = c.MQOT_Q
    manager: Text = ""
    topic: Text = ""


class NewIds(Request[Ids], tag=44):
    """Ask for MsgIds, for puts that do not wait for their answers."""

    count: Whole


class AskStatus(Request[Status], tag=8):
    """MQSTAT: the outcome of puts with MQPMO_ASYNC_RESPONSE since the last MQSTAT."""


# Gets


class Get(Request[GetResult], tag=6):
    """MQGET with MQGMO options; ids that are empty match all."""

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
        return not self.options & (_GETS_IN_UNIT | _STAYS)


class GetMany(Request[list[Message]], tag=46):
    """Get messages that are there, as a loop of MQGET does, without waiting."""

    handle: Handle
    options: Whole
    most: Whole
    most_bytes: Whole

    @property
    def in_unit(self) -> bool:
        """Whether it is under syncpoint."""
        return bool(self.options & _GETS_IN_UNIT)

    @property
    def is_doubtful(self) -> bool:
        """Whether they leave their queue for good."""
        return not self.options & c.MQGMO_SYNCPOINT


class GetAny(Request[Delivery], tag=20):
    """Get one message from whichever of several open queues has one, and hold it."""

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
    """Get messages that are there and hold them, in one turn and without waiting."""

    handle: Handle
    options: Whole
    most: Whole
    most_bytes: Whole


class Settle(Request[None], tag=21):
    """Settle deliveries, all with one sync or none."""

    deliveries: Annotated[list[Whole], Meta(max_length=MOST_NUMBERS)]
    settlement: Settlement
    reason: Whole = 0
    within: Whole = 0

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class Unlock(Request[int], tag=7):
    """MQGET with MQGMO_UNLOCK; 0 or MQRC_NO_MSG_LOCKED."""

    handle: Handle
    options: Whole = c.MQGMO_UNLOCK


class WaitUntil(Request[None], tag=22):
    """Wait until the queue manager's time is a moment; None never comes."""

    moment_ms: Whole | None


class AwaitDefinitions(Request[None], tag=23):
    """Wait until a definition is made, altered or deleted."""


# The unit of work


class Commit(Request[None], tag=9):
    """MQCMIT."""

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class Backout(Request[None], tag=10):
    """MQBACK."""


class Forward(Request[None], tag=25):
    """Put a message that the unit of work has got on another queue as it is.

    ``queue`` and the MsgToken say which one.
    """

    queue: Text
    token: Identifier
    name: Text

    @property
    def in_unit(self) -> bool:
        """Always."""
        return True


class DeadLetter(Request[None], tag=26):
    """Put a message that the unit of work has got on the dead-letter queue."""

    queue: Text
    token: Identifier
    reason: Whole

    @property
    def in_unit(self) -> bool:
        """Always."""
        return True


class ReportException(Request[bool], tag=27):
    """Send the exception report of a message that the unit of work has got."""

    queue: Text
    token: Identifier
    reason: Whole

    @property
    def in_unit(self) -> bool:
        """Always."""
        return True


class Move(Request[int], tag=28):
    """Move the message under a browse cursor to another queue; its arrival number there."""

    handle: Handle
    name: Text
    descriptor: PackedDescriptor | None = None
    header_bytes: Whole = 0
    putter: Text | None = None

    @property
    def in_unit(self) -> bool:
        """Always."""
        return True


class Reply(Request[int], tag=77):
    """Reply to a message that the unit of work has got; 0, or why it is a dead letter."""

    name: Text
    manager: Text
    body: bytes
    descriptor: PackedDescriptor
    putter: Text
    msg_id: Identifier = b""
    correl_id: Identifier = b""
    time_to_live_ms: Whole | None = None

    @property
    def in_unit(self) -> bool:
        """Always."""
        return True


# Topics


class Subscribe(Request[Subscribed], tag=13):
    """MQSUB with MQSO options."""

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

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class CloseSubscription(Request[None], tag=14):
    """Close a subscription; a durable one stays unless it is to be removed."""

    number: Subscription
    remove: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether it removes."""
        return self.remove


class RequestRetained(Request[int], tag=15):
    """MQSUBRQ: how many retained publications come."""

    number: Subscription


class JoinSubscription(Request[Subscribed], tag=70):
    """Open the subscription of a name as JMS has it: join it, resume it or make it."""

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    topic: Text
    name: Text = ""
    is_durable: bool = False
    is_shared: bool = False
    no_local: bool = False
    selector: Text = ""

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class IsSubscriptionOpen(Request[bool], tag=71):
    """Ask whether a subscription is open here, and neither removed nor expired."""

    number: Subscription


class RemoveSubscription(Request[None], tag=72):
    """Remove a durable subscription by its name, with its messages."""

    REASONS = {"name": rc.MQRC_SUB_NAME_ERROR}

    name: Text

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class BelongTo(Request[None], tag=73):
    """Set the owner of the conversation: ``no_local`` leaves out publications of that owner."""

    owner: Text | Whole


class ClaimClientId(Request[None], tag=74):
    """Take a client id until the conversation is closed."""

    client_id: Text


class MakeTemporaryTopic(Request[str], tag=75):
    """Make a unique topic string."""


class DeleteTemporaryTopic(Request[None], tag=76):
    """Delete a topic string that was made here."""

    topic: Text


# The schedule of delayed messages


class Filter(NamedTuple):
    """Which delayed messages are meant, as `engine.ScheduleFilter`."""

    queue: Text | None
    sender: Text | None
    properties: Annotated[list[tuple[Text, Text]], AT_MOST]
    due_from_ms: Whole | None
    due_before_ms: Whole | None


class ListSchedule(Request[list[Scheduled]], tag=30):
    """List delayed messages by delivery time, those after a position."""

    where: Filter
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

    where: Filter


class ReleaseAll(_Change[int], tag=37):
    """Begin to release all messages that a filter finds; a number for :class:`GoOn`."""

    where: Filter


class RescheduleAll(_Change[int], tag=40):
    """Begin to reschedule all messages that a filter finds; a number for :class:`GoOn`."""

    where: Filter
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


class RunMqsc(Request[MqscResult], tag=50):
    """Run MQSC commands."""

    script: str

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class AskCounts(Request[Counts], tag=51):
    """Ask for staged, live, uncommitted, locked and expired_present of a local queue."""

    queue: Text


class AskCurdepth(Request[int], tag=52):
    """Ask for CURDEPTH of a local queue."""

    queue: Text


class Why(Request[Whereabouts], tag=53):
    """Ask where a message is, or how it ended, as this queue manager alone knows it."""

    identifier: Identifier


class Story(Request[Whereabouts], tag=78):
    """Ask where a message has been, over all queue managers of the process."""

    identifier: Identifier


class Stories(Request[StoriesFound], tag=79):
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


class FollowWall(Request[OwnTime], tag=57):
    """Follow the clock of the machine forward."""

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class RunDue(Request[None], tag=58):
    """Do all work that is due."""


class AdvanceClock(Request[OwnTime], tag=59):
    """Move a virtual clock on."""

    ms: Whole

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


# Claims of pipelines, and the ledger


class AskInstance(Request[str], tag=60):
    """Ask for the id of the queue manager's store."""


class ListConsumers(Request[list[ConsumerState]], tag=61):
    """List the state of each consumer, by name."""


class EndWritten(Request[int], tag=62):
    """End the claims of a consumer up to a number: their messages are written."""

    consumer: Text
    until: Whole

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


class ReleaseClaims(Request[int], tag=63):
    """Give the claimed messages of a consumer back to their queue, counted."""

    consumer: Text

    @property
    def is_doubtful(self) -> bool:
        """Always."""
        return True


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

    def __init__(self, said: str, reason: int) -> None:
        super().__init__(said)
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
        said = f"verb: {shown(verb)} is not known on an open conversation"
        raise WrongRequest(said, rc.MQRC_FUNCTION_NOT_SUPPORTED)
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

"""The messages of a queue as operators see and change them: in every state, page by page.

A list has no content: ids, times, sender, size and state alone. To search in contents, and to look
at one message, takes BROWSE on the queue, and is audited. Nothing changes: an expired message stays
until a get, browse or scan discards it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.authority import words
from mayfly.engine.core import Core
from mayfly.engine.delay.schedule import note_audit
from mayfly.engine.delay.staging import staging_path
from mayfly.engine.delay.staging_queries import found_by_id, property_text
from mayfly.engine.delivery import MessageIds, OutgoingMessage, check_capacity, new_row
from mayfly.engine.disposal import prepared_with_own_context
from mayfly.engine.engine import Engine
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.remote_queues import seen_in_transit
from mayfly.engine.session import Session
from mayfly.engine.trace.entries import Standing, standing_of, unit_of
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.dead_letters import is_letter, read_letter
from mayfly.lifetime.life import Event, State
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.times import put_date, put_time
from mayfly.lifetime.window import Window, capped_from
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor, pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.properties import read_properties
from mayfly.mqi.structures import DLH
from mayfly.store.claimed_messages import ClaimedMessage
from mayfly.store.keys import STAGING_LOW, id_hash, queue_number_of
from mayfly.store.messages import HEAD_BYTES, MessageHead, Messages
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import TerminatedBy, terminated_by_program
from mayfly.verbs.messages import message_token
from mayfly.verbs.schedule import AuditEntry

#: The states of messages in lists: the words of ``verbs.facts.Counts``, and claimed by a pipeline.
STATES: Final = ("live", "staged", "uncommitted", "locked", "expired_present", "claimed")
_WORDS: Final = {
    State.AVAILABLE: "live",
    State.DELAYED: "staged",
    State.UNCOMMITTED: "uncommitted",
    State.LOCKED: "locked",
}
#: Messages of each persistence read in one turn of the lock, and looked at for one page; less when
#: contents are read.
_STEP, _STEP_CONTENTS, _PAGE_ROWS, _PAGE_CONTENTS = 200, 50, 20_000, 2_000
#: Claimed messages that are read at once with their contents.
_STEP_CLAIMED: Final = 4
#: Of each message a search looks at so much data, and for one page at so much together.
SEARCHED_BYTES: Final = 2**20
_PAGE_BYTES: Final = 2**25
#: Data that is read in one turn of the lock, some ms.
_STEP_BYTES: Final = 2**22
#: Enough for the messages that share an id.
_WITH_ID: Final = 1_000
_TOKEN_BYTES: Final = 16


class ContentFilter(NamedTuple):
    """A filter of the messages of a queue; a field that is None matches all.

    ``state`` is one of STATES, ``identifier`` a MsgId or CorrelId of 24 bytes, ``sender`` the
    UserIdentifier. ``put_before_ms`` and ``put_from_ms`` bound the time of the put in epoch ms.
    ``property_value`` is the name of a message property and its value as text, ``text`` a text
    within the data: these two read contents.
    """

    state: str | None = None
    identifier: bytes | None = None
    sender: str | None = None
    put_from_ms: int | None = None
    put_before_ms: int | None = None
    property_value: tuple[str, str] | None = None
    text: str | None = None

    @property
    def reads_contents(self) -> bool:
        """Whether it takes the content of a message to decide."""
        return self.property_value is not None or self.text is not None


class PresentMessage(NamedTuple):
    """A message that is on a queue now, with its state there.

    ``queue`` is the queue where it lies: SYSTEM.DDELAY.LOCAL.QUEUE for a delayed one. ``state`` is
    one of STATES. ``holder`` names what has locked it, ``hindrance`` what keeps gets from it; both
    are empty for nothing. In lists ``row.body`` has the first 4,096 bytes alone; ``body_bytes`` is
    the whole length.
    """

    queue: str
    row: StoredMessage
    persistence: int
    body_bytes: int
    state: str
    holder: str
    hindrance: str

    @property
    def place(self) -> bytes:
        """The MsgToken, 16 bytes, which identifies the message while it is on its queue."""
        return message_token(self.row.k, self.row.put_ms)

    @property
    def descriptor(self) -> Descriptor:
        """The message descriptor, as it was put."""
        return unpack_descriptor(self.row.descriptor)


class ContentPage(NamedTuple):
    """A page of messages; ``after`` begins the next one, None at the end.

    It may have fewer messages than were asked for, or none, and still not be the last one: one page
    looks at 20,000 messages at most, and into 2,000. ``notes`` say what was not searched.
    """

    messages: list[PresentMessage]
    after: str | None
    notes: list[str]


def list_messages(
    engine: Engine, session: Session, name: str, where: ContentFilter, limit: int, after: str = ""
) -> ContentPage:
    """Return a page of the messages that a queue has, or that wait to come there.

    First come those on the queue in the order of gets, then delayed ones by delivery time, then
    those that pipelines have claimed, by consumer. ``after`` is that of the page before, empty for
    the first. Call it without the engine lock. Raises MQRC_UNKNOWN_OBJECT_NAME if the name leads to
    no local queue, MQRC_OPTIONS_ERROR for another ``after``, and MQRC_NOT_AUTHORIZED if the filter
    reads contents that the user may not browse.
    """
    queue, notes = local_queue(engine, name), list[str]()
    accepts = accepting(where)
    if not where.reads_contents:
        return _page(_Walk(engine, queue, where, after), accepts, limit, notes)
    check_browse(session, name)
    walk = _Walk(engine, queue, where, after)
    if not queue.is_staging and not may_browse_queue(session, STAGING_QUEUE):
        walk.sees_staged = False
        notes.append(f"Delayed messages were not searched: that takes BROWSE on {STAGING_QUEUE}.")
    page = _page(walk, accepts, limit, notes)
    if not after:
        audit(session, "search", b"", _spelled(name, where), "searched", len(page.messages))
    return page


def look_at(engine: Engine, session: Session, name: str, place: bytes) -> PresentMessage:
    """Return one message with its whole content; the look is audited.

    ``place`` is its MsgToken. An uncommitted message comes without its data, which nobody sees
    before the commit. Raises MQRC_NO_MSG_AVAILABLE when it has left its queue, MQRC_NOT_AUTHORIZED
    without BROWSE on the queue where it lies; the sender of a delayed message needs none.
    """
    queue = local_queue(engine, name)
    with engine.engine_lock:
        engine.check_running()
        found = find_present(engine, queue, place)
    if found is None:
        found = _claimed_at(engine, queue, place)
    if found is None:
        raise mq_error(rc.MQRC_NO_MSG_AVAILABLE, f"message {place.hex()} is on {name} no more")
    authority = session.authority
    is_own = authority is not None and authority.user == found.descriptor.user_identifier
    if found.queue != STAGING_QUEUE or queue.is_staging:
        check_browse(session, name)
    elif not is_own:
        check_browse(session, STAGING_QUEUE)
    audit(session, "look", found.row.msg_id, f"on {found.queue}", "shown", 1)
    if found.state == "uncommitted":
        return found._replace(row=found.row._replace(body=b""))
    return found


def local_queue(core: Core, name: str) -> LocalQueue:
    """Return the local queue that a name leads to; raises MQRC_UNKNOWN_OBJECT_NAME."""
    with core.engine_lock:
        core.check_running()
        return core.registry.resolve(name).queue


def check_browse(session: Session, name: str) -> None:
    """Raise MQRC_NOT_AUTHORIZED unless the user of a session may browse a queue."""
    if session.authority is not None:
        session.authority.check_queue(name, words.BROWSE)


def may_browse_queue(session: Session, name: str) -> bool:
    """Return True if the user of a session may browse a queue; a refusal makes its event."""
    try:
        check_browse(session, name)
    except MQError:
        return False
    return True


def audit(
    session: Session, action: str, msg_id: bytes, detail: str, receipt: str, message_count: int
) -> None:
    """Write an action of a session's user into the audit; durable on return.

    The arguments are fields of :class:`AuditEntry`.
    """
    transaction = Transaction()
    entry = audit_entry(session, action, msg_id, detail, receipt, message_count)
    note_audit(entry, transaction, None)
    session.core.committer.run(transaction)


def audit_entry(
    session: Session, action: str, msg_id: bytes, detail: str, receipt: str, message_count: int
) -> AuditEntry:
    """Return an audit entry of the user of a session, with the present time.

    The arguments are fields of :class:`AuditEntry`.
    """
    user = session.context.user_identifier.strip()
    return AuditEntry(session.core.now_ms(), user, action, msg_id, detail, receipt, message_count)


def find_present(engine: Engine, queue: LocalQueue, place: bytes) -> PresentMessage | None:
    """Return a message of a queue, or one delayed for it, by its MsgToken; None if it is gone.

    Its row is complete. Needs the engine lock.
    """
    assert engine.engine_lock.is_held()
    if len(place) != _TOKEN_BYTES:
        return None
    key = int.from_bytes(place[:8], "big", signed=True)
    for pending in _open_puts(engine, queue, staged=key < 0 and not queue.is_staging):
        if pending.place == place:
            return pending
    owner: Core = engine
    if key >= 0 or queue.is_staging:
        if queue_number_of(key) != queue.number:
            return None
        holder = queue
        if queue.owner is not engine:
            assert engine.group is not None
            owner = engine.group
    else:
        staging = engine.registry.staging()
        if staging is None:
            return None
        holder = staging
    for persistence in (VOLATILE, PERSISTENT):
        row = owner.messages(persistence).row(key)
        if row is None or message_token(row.k, row.put_ms) != place:
            continue
        if holder is not queue and row.target_number != queue.number:
            return None
        if isinstance(owner.hidden.get(key), Transaction):
            return None
        head = MessageHead(len(row.body), row)
        status = engine.delay_processor.status()
        return _present(engine, owner, holder, head, persistence, status)
    return None


def _claimed_at(engine: Engine, queue: LocalQueue, place: bytes) -> PresentMessage | None:
    """Return a message that a pipeline has claimed, by its MsgToken, whole; None if none has it."""
    if not queue.claimed or len(place) != _TOKEN_BYTES:
        return None
    found = engine.store.claimed.at_key(queue.name, int.from_bytes(place[:8], "big", signed=True))
    if found is None or message_token(found.message.row.k, found.message.row.put_ms) != place:
        return None
    return _claimed(queue, found)


def _claimed(queue: LocalQueue, found: ClaimedMessage) -> PresentMessage:
    """Return a claimed message as lists show it."""
    standing = Standing(State.LOCKED, f"consumer {found.consumer}, which has claimed it")
    return _with_standing(queue, found.message, found.persistence, "claimed", standing)


def _page(
    walk: _Walk, accepts: Callable[[PresentMessage, bytes], bool], limit: int, notes: list[str]
) -> ContentPage:
    """Return the next messages of a walk that are accepted, up to ``limit``."""
    found = list[PresentMessage]()
    for message, body in walk.messages():
        if accepts(message, body):
            found.append(message)
            if len(found) == limit:
                return ContentPage(found, walk.behind(message), notes)
    return ContentPage(found, walk.after, notes)


def accepting(where: ContentFilter) -> Callable[[PresentMessage, bytes], bool]:
    """Return a function that says whether a message matches a filter.

    It takes the message, and the data that the filter may read.
    """

    def accepts(message: PresentMessage, body: bytes) -> bool:
        row = message.row
        if where.state is not None and message.state != where.state:
            return False
        if where.put_from_ms is not None and row.put_ms < where.put_from_ms:
            return False
        if where.put_before_ms is not None and row.put_ms >= where.put_before_ms:
            return False
        if where.sender is None and not where.reads_contents:
            return True
        descriptor = message.descriptor
        if where.sender is not None and descriptor.user_identifier.strip() != where.sender:
            return False
        if where.reads_contents and message.state == "uncommitted":
            return False
        if where.property_value is not None and not _has_property(
            descriptor, body, *where.property_value
        ):
            return False
        return where.text is None or _has_text(descriptor, body, where.text)

    return accepts


def _has_property(descriptor: Descriptor, body: bytes, name: str, value: str) -> bool:
    """Return True if a message has a property with this value as text; a dead letter, too."""
    try:
        if is_letter(descriptor):
            descriptor = read_letter(descriptor, body).original
            body = body[DLH.length(1) :]
        form = descriptor.format, descriptor.encoding, descriptor.coded_char_set_id
        found = read_properties(*form, body)
    except MQError:
        return False
    return name in found and property_text(found[name]) == value


def _has_text(descriptor: Descriptor, body: bytes, text: str) -> bool:
    """Return True if data has a text, in UTF-8 or in the character set that the MQMD names."""
    if text.encode() in body:
        return True
    codec = codec_name(descriptor.coded_char_set_id, descriptor.encoding)
    try:
        return codec is not None and text.encode(codec) in body
    except UnicodeEncodeError:
        return False


def _spelled(name: str, where: ContentFilter) -> str:
    """Return queue and filter as text for the audit."""
    parts = [f"on {name}"]
    if where.property_value is not None:
        parts.append("property {}={}".format(*where.property_value))
    if where.text is not None:
        parts.append(f"text {where.text!r}")
    return " ".join(parts)


def _present(
    engine: Engine,
    owner: Core,
    queue: LocalQueue,
    head: MessageHead,
    persistence: int,
    status: str,
) -> PresentMessage:
    """Return a stored message with its state on its queue; needs the engine lock."""
    row = head.row
    standing = standing_of(engine, owner, queue, row, status)
    state = _WORDS[standing.state]
    if state != "locked" and is_expired(row.expire_at_ms, engine.now_ms()):
        state = "expired_present"
    return _with_standing(queue, head, persistence, state, standing)


def _with_standing(
    queue: LocalQueue, head: MessageHead, persistence: int, state: str, standing: Standing
) -> PresentMessage:
    """Return a message with its state, and the texts of its standing."""
    return PresentMessage(
        queue.name,
        head.row,
        persistence,
        head.body_bytes,
        state,
        standing.holder,
        standing.hindrance,
    )


def _open_puts(engine: Engine, queue: LocalQueue, *, staged: bool) -> Iterator[PresentMessage]:
    """Yield the uncommitted puts on a queue, or with ``staged`` the delayed ones for it.

    Needs the engine lock.
    """
    for session in list(engine.sessions):
        for pending, is_through in session.unit_of_work.open_puts():
            row, place = pending.row, pending.queue
            is_meant = (
                place.is_staging and row.target_number == queue.number if staged else place is queue
            )
            if not is_meant:
                continue
            state = State.LOCKED if is_through else State.UNCOMMITTED
            standing = Standing(state, unit_of(session))
            head = MessageHead(len(row.body), row)
            persistence = PERSISTENT if pending.persistent else VOLATILE
            yield _with_standing(place, head, persistence, _WORDS[state], standing)


class _Walk:
    """Goes through the messages of a queue by key, those delayed for it, and those claimed from it.

    It stops at the messages or bytes that one page may look at; ``after`` is then where the next
    walk begins, and None at the end.
    """

    def __init__(self, engine: Engine, queue: LocalQueue, where: ContentFilter, after: str) -> None:
        """Begin behind a place, which is that of another walk; empty is the first message.

        Raises MQRC_OPTIONS_ERROR for another text.
        """
        self._engine, self._queue, self._where = engine, queue, where
        self._status = engine.delay_processor.status()
        self._claimed_keys = dict[bytes, int]()
        #: Whether delayed messages are walked through as well.
        self.sees_staged = True
        #: Where it is: "q" on the queue, "s" among delayed messages, "c" among claimed ones.
        self._kind, self._low = _cursor(after, queue)
        self.after: str | None = after
        self._step_rows = _STEP_CONTENTS if where.reads_contents else _STEP
        self._left_rows = _PAGE_CONTENTS if where.reads_contents else _PAGE_ROWS
        self._left_bytes = _PAGE_BYTES

    def behind(self, message: PresentMessage) -> str:
        """Return the place behind a message of this walk."""
        if message.state == "claimed":
            return f"c{self._claimed_keys[message.place]}"
        is_staged = message.queue == STAGING_QUEUE and not self._queue.is_staging
        return f"{'s' if is_staged else 'q'}{message.row.k + 1}"

    def messages(self) -> Iterator[tuple[PresentMessage, bytes]]:
        """Yield each message with the data that a filter may read."""
        if self._where.identifier is not None:
            self.after = None
            yield from ((each, each.row.body) for each in self._with_id(self._where.identifier))
            return
        while True:
            if self._kind == "c":
                found, end = self._claimed_step()
            else:
                with self._engine.engine_lock:
                    self._engine.check_running()
                    found, end = self._step()
            yield from found
            sees_staged = self.sees_staged and not self._queue.is_staging
            if end is None and self._kind == "q" and sees_staged:
                self._kind, end = "s", STAGING_LOW
            elif end is None and self._kind != "c" and self._queue.claimed:
                self._kind, end = "c", 0
            if end is None:
                self.after = None
                return
            self._low = end
            self.after = f"{self._kind}{end}"
            if self._left_rows <= 0 or self._left_bytes <= 0:
                return

    def _claimed_step(self) -> tuple[list[tuple[PresentMessage, bytes]], int | None]:
        """Return the next claimed messages as :meth:`_step` does.

        They have a reader of their own, which needs no lock.
        """
        reads = self._where.reads_contents
        limit, beginning_bytes = (_STEP_CLAIMED, SEARCHED_BYTES) if reads else (_STEP, HEAD_BYTES)
        claimed = self._engine.store.claimed
        found = claimed.of_queue(self._queue.name, self._low, limit, beginning_bytes)
        self._left_rows -= len(found)
        read = list[tuple[PresentMessage, bytes]]()
        for each in found:
            message = _claimed(self._queue, each)
            self._claimed_keys[message.place] = each.row_key
            body = message.row.body if reads else b""
            self._left_bytes -= len(body)
            read.append((message, body))
        return read, found[-1].row_key if len(found) == limit else None

    def _step(self) -> tuple[list[tuple[PresentMessage, bytes]], int | None]:
        """Return the next messages with their data, and the key at which the next step begins.

        The key is None when no message follows here.
        """
        engine, queue = self._engine, self._queue
        in_staging = self._kind == "s"
        place = engine.registry.staging() if in_staging else queue
        if place is None:
            return [], None
        owner: Core = engine
        if place.owner is not engine:
            assert engine.group is not None
            owner = engine.group
        end = self._end_of_step(owner, place)
        found = list[tuple[PresentMessage, Messages | None]]()
        for persistence in (VOLATILE, PERSISTENT):
            if not place.present[persistence]:
                continue
            messages, high = owner.messages(persistence), place.high if end is None else end
            heads = (
                messages.heads_for_target(self._low, high, queue.number, 2 * self._step_rows)
                if in_staging
                else messages.heads(self._low, high, 2 * self._step_rows)
            )
            for head in heads:
                # It is about to leave, or to arrive.
                if not isinstance(owner.hidden.get(head.row.k), Transaction):
                    made = _present(engine, owner, place, head, persistence, self._status)
                    found.append((made, messages))
        high = place.high if end is None else end
        found += [
            (pending, None)
            for pending in _open_puts(engine, queue, staged=in_staging)
            if self._low <= pending.row.k < high
        ]
        found.sort(key=lambda each: each[0].row.k)
        self._left_rows -= self._step_rows if end is not None else len(found)
        read = list[tuple[PresentMessage, bytes]]()
        enough_bytes = max(self._left_bytes - _STEP_BYTES, 0)
        for message, store in found:
            if self._left_bytes <= enough_bytes and read:
                return read, message.row.k
            read.append((message, self._data(message, store)))
        return read, end

    def _end_of_step(self, owner: Core, place: LocalQueue) -> int | None:
        """Return the key at which a step that begins at the present place ends; None for the last.

        At most ``_step_rows`` messages of each persistence are before it.
        """
        ends = [
            key
            for persistence in (VOLATILE, PERSISTENT)
            if place.present[persistence]
            and (key := owner.messages(persistence).nth_key(self._low, place.high, self._step_rows))
            is not None
        ]
        return min(ends, default=None)

    def _data(self, message: PresentMessage, store: Messages | None) -> bytes:
        """Return the data that the filter may read: nothing unless it reads contents."""
        if not self._where.reads_contents:
            return b""
        body = message.row.body
        if store is not None and message.body_bytes > HEAD_BYTES:
            body = store.beginning(message.row.k, SEARCHED_BYTES)
        self._left_bytes -= len(body)
        return body

    def _with_id(self, identifier: bytes) -> Iterator[PresentMessage]:
        """Yield the messages of the queue, and those delayed for it, with a MsgId or CorrelId."""
        engine, queue, found = self._engine, self._queue, list[PresentMessage]()
        with engine.engine_lock:
            engine.check_running()
            owner = engine if queue.owner is engine or engine.group is None else engine.group
            for core in dict.fromkeys((owner, engine)):
                found += self._stored_with_id(core, identifier)
            for staged in (False, True):
                found += [
                    pending
                    for pending in _open_puts(engine, queue, staged=staged)
                    if identifier in (pending.row.msg_id, pending.row.correl_id)
                ]
        if queue.claimed:
            found += [
                _claimed(queue, each)
                for each in engine.store.claimed.with_id(identifier, _WITH_ID)
                if each.queue == queue.name
            ]
        yield from found

    def _stored_with_id(self, core: Core, identifier: bytes) -> Iterator[PresentMessage]:
        """Yield the stored messages of one engine for the queue with an id; needs the lock."""
        queue, staging = self._queue, core.registry.staging()
        for persistence in (VOLATILE, PERSISTENT):
            messages = core.messages(persistence)
            for head in messages.with_id([queue.number], identifier, _WITH_ID):
                number = queue_number_of(head.row.k)
                is_staged = head.row.k < 0 and not queue.is_staging
                if is_staged and (staging is None or head.row.target_number != queue.number):
                    continue
                if not is_staged and number != queue.number:
                    continue
                place = staging if is_staged else queue
                assert place is not None
                yield _present(self._engine, core, place, head, persistence, self._status)


def _cursor(after: str, queue: LocalQueue) -> tuple[str, int]:
    """Return where a walk begins ("q", "s" or "c", as in _Walk), and its first key there.

    Raises MQRC_OPTIONS_ERROR for a text that no page has given.
    """
    if not after:
        return "q", queue.low
    try:
        kind, key = after[0], int(after[1:])
    except ValueError:
        kind, key = "", 0
    if kind not in ("q", "s", "c") or abs(key) >= 2**63:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"after {after!r} is no place in a list")
    if kind == "c":
        return kind, max(key, 0)
    if kind == "s":
        return kind, min(max(key, STAGING_LOW), 0)
    return kind, min(max(key, queue.low), queue.high)


# Operators move, copy and delete messages on queues, and undo moves and cancels
#
# A change is one transaction with its audit. MsgId, CorrelId, context, time of the put in the MQMD
# and deadline stay; only a CAPEXPRY of the new queue may shorten the life. Backouts are counted
# anew. No report is made by a change. A message that is locked, uncommitted, delayed or gone is
# left as it is, and the receipt says so.


#: Receipts for messages that are left as they are, by their state.
_LEFT = {
    "staged": "delayed",
    "uncommitted": "uncommitted",
    "locked": "locked",
    "expired_present": "expired",
}
_GONE = "gone"


class MovedMessage(NamedTuple):
    """A message that was moved: where it was, where it is, and its deadline of before.

    ``place`` is its MsgToken on the queue ``target``. ``expire_at_ms`` is None for no deadline,
    ``capped_by`` as in ``Window``.
    """

    source: str
    target: str
    place: bytes
    expire_at_ms: int | None
    capped_by: str | None


class Receipts(NamedTuple):
    """The number of messages by what became of each, and the moves that can be undone.

    The words are ``moved``, ``copied``, ``deleted`` and ``restored`` for what was done, and
    ``locked``, ``uncommitted``, ``delayed``, ``expired`` and ``gone`` for what was left.
    """

    counts: Counter[str]
    moved: list[MovedMessage]


def move_messages(
    engine: Engine, session: Session, name: str, places: Sequence[bytes], target: str
) -> Receipts:
    """Move messages of a queue to another one, all that can be moved in one transaction.

    ``places`` are their MsgTokens, ``target`` may be ``QUEUE@MANAGER``. They come behind those of
    their priority. Raises MQRC_NOT_AUTHORIZED without GET and BROWSE on the queue and PUT on the
    target, MQRC_OPTIONS_ERROR if the target is the queue itself, and the error with which the
    target refuses one of them; then none is moved.
    """
    _check(session, name, words.GET)
    return _transfer(engine, session, name, places, target, keeps=False)


def copy_messages(
    engine: Engine, session: Session, name: str, places: Sequence[bytes], target: str
) -> Receipts:
    """Copy messages of a queue to another one, all that can be copied in one transaction.

    A copy has the MsgId and the deadline of its message, and asks for no reports: these are owed
    once. Raises the errors of :func:`move_messages`; GET is not needed.
    """
    return _transfer(engine, session, name, places, target, keeps=True)


def delete_messages(
    engine: Engine, session: Session, name: str, places: Sequence[bytes]
) -> Receipts:
    """Delete messages of a queue, all that can be deleted in one transaction; no undo.

    Their lives end as ``cleared``. Expired ones are left: a get, browse or scan discards them, with
    the reports that they owe. Raises MQRC_NOT_AUTHORIZED without GET on the queue.
    """
    _check(session, name, words.GET)
    queue, counts, transaction = local_queue(engine, name), Counter[str](), Transaction()
    with engine.engine_lock:
        engine.check_running()
        now_ms = engine.now_ms()
        for found in _changeable(engine, queue, places, counts):
            queue_state.end(
                engine, transaction, found, Event.CLEAR, now_ms, terminated_by=_by(session)
            )
            counts["deleted"] += 1
        _note(session, transaction, "delete", places, f"on {name}", counts)
    engine.committer.run(transaction)
    return Receipts(counts, [])


def undo_moves(engine: Engine, session: Session, moved: Sequence[MovedMessage]) -> Receipts:
    """Move messages back to where they were, all that are still there in one transaction.

    Each has the deadline again that it had before the move. It comes behind those of its priority.
    Raises the errors of :func:`move_messages`.
    """
    counts, transaction = Counter[str](), Transaction()
    for each in {(one.source, one.target) for one in moved}:
        source, target = each
        _check(session, target, words.GET)
        _check(session, source, words.PUT)
    with engine.engine_lock:
        engine.check_running()
        try:
            for one in moved:
                queue = engine.registry.resolve(one.target).queue
                path = engine.registry.resolve_target(one.source)
                for found in _changeable(engine, queue, [one.place], counts):
                    row = found[1]._replace(expire_at_ms=one.expire_at_ms, capped_by=one.capped_by)
                    if is_expired(row.expire_at_ms, engine.now_ms()):
                        counts["expired"] += 1
                        continue
                    _put(engine, transaction, path, row, caps=False)
                    _end_moved(engine, session, transaction, found)
                    counts["restored"] += 1
        except BaseException:
            engine.committer.take_back(transaction)
            raise
        places = [one.place for one in moved]
        _note(session, transaction, "undo move", places, f"to {moved[0].source}", counts)
    engine.committer.run(transaction)
    return Receipts(counts, [])


def undo_cancel(engine: Engine, session: Session, cancelled: Sequence[Found]) -> Receipts:
    """Delay messages again that were cancelled, all that can be in one transaction.

    Each has its MsgId, delivery time and deadline again; one whose delivery time has passed is due
    at once. One that has expired meanwhile is left away, and so is one whose MsgId another delayed
    message has by now (``replaced``). The caller has checked the authority of the user. Raises the
    error with which the staging queue refuses one of them; then none is delayed again.
    """
    counts, transaction = Counter[str](), Transaction()
    with engine.engine_lock:
        engine.check_running()
        now_ms = engine.now_ms()
        known = {
            row.msg_id
            for row in {row.msg_id: row for _queue, row, _persistence in cancelled}.values()
            if found_by_id(engine, row.msg_id)
        }
        try:
            for _queue, row, persistence in cancelled:
                if row.msg_id in known:
                    counts["replaced"] += 1
                elif is_expired(row.expire_at_ms, now_ms):
                    counts["expired"] += 1
                else:
                    _stage_again(engine, transaction, row, persistence, now_ms)
                    counts["restored"] += 1
        except BaseException:
            engine.committer.take_back(transaction)
            raise
        ids = {row.msg_id for _queue, row, _persistence in cancelled}
        msg_id = ids.pop() if len(ids) == 1 else b""
        _note_id(session, transaction, "undo cancel", msg_id, "", counts)
    engine.committer.run(transaction)
    return Receipts(counts, [])


def _stage_again(
    core: Core, transaction: Transaction, row: StoredMessage, persistence: int, now_ms: int
) -> None:
    """Add a cancelled message to a transaction, as it was; needs the engine lock."""
    path = staging_path(core, len(row.body))
    assert row.deliver_at_ms is not None
    due_ms = max(row.deliver_at_ms, now_ms)
    again = row._replace(
        k=core.staging.order.next_key(due_ms),
        put_ms=now_ms,
        deliver_at_ms=due_ms,
        descriptor=pack_descriptor(_with_put_time(row)),
        # Its id may contain its first key; from now on the index must find it.
        msg_hash=id_hash(row.msg_id),
        released_by=None,
    )
    queue_state.arrive(core, transaction, path.queue, again, persistent=bool(persistence))


def _transfer(
    engine: Engine,
    session: Session,
    name: str,
    places: Sequence[bytes],
    target: str,
    *,
    keeps: bool,
) -> Receipts:
    """Put messages of a queue to another one, and with ``keeps`` False remove them here.

    ``places`` are the tokens of the messages. Returns how many were moved or copied, and where the
    moved ones are now. Raises MQRC_OPTIONS_ERROR if both queues are the same.
    """
    check_browse(session, name)
    _check(session, target, words.PUT)
    queue, counts, moved = local_queue(engine, name), Counter[str](), list[MovedMessage]()
    transaction = Transaction()
    with engine.engine_lock:
        engine.check_running()
        path = engine.registry.resolve_target(target)
        if path.queue is queue and path.remote is None:
            text = f"the messages are on {name} already"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
        try:
            for found in _changeable(engine, queue, places, counts):
                new = _put(engine, transaction, path, _as_copied(found[1], keeps=keeps))
                if keeps:
                    counts["copied"] += 1
                    continue
                _end_moved(engine, session, transaction, found)
                counts["moved"] += 1
                if path.remote is None:
                    place = message_token(new.k, new.put_ms)
                    deadline = found[1].expire_at_ms, found[1].capped_by
                    moved.append(MovedMessage(name, path.queue.name, place, *deadline))
        except BaseException:
            engine.committer.take_back(transaction)
            raise
        action = "copy" if keeps else "move"
        _note(session, transaction, action, places, f"from {name} to {target}", counts)
    engine.committer.run(transaction)
    return Receipts(counts, moved)


def _as_copied(row: StoredMessage, *, keeps: bool) -> StoredMessage:
    """Return the row of a message; that of a copy (``keeps``) asks for no reports."""
    if not keeps:
        return row
    return row._replace(
        descriptor=pack_descriptor(unpack_descriptor(row.descriptor)._replace(report=0))
    )


def _put(
    core: Core,
    transaction: Transaction,
    path: ResolvedQueue,
    row: StoredMessage,
    *,
    caps: bool = True,
) -> StoredMessage:
    """Add the put of a message to a transaction, with its ids, context and deadline; return it.

    With ``caps`` a CAPEXPRY of the path counts from now. Raises the error with which the queue
    refuses the message. Needs the engine lock.
    """
    now_ms = core.now_ms()
    # The Expiry in an MQXQH counts from the time of the put, which is another one now.
    row = seen_in_transit(row, now_ms)
    prepared = prepared_with_own_context(core, _with_put_time(row))
    check_capacity(path, prepared, len(row.body))
    window = Window(now_ms, now_ms, row.expire_at_ms, row.capped_by)
    if caps:
        window = capped_from(window, now_ms, path.cap_ms, path.capped_by)
    ids = MessageIds(row.msg_id, row.correl_id, row.msg_id)
    made = new_row(core, path, OutgoingMessage(prepared, window, ids, row.body))
    made = made._replace(topic=row.topic)
    queue_state.arrive(core, transaction, path.queue, made, persistent=prepared.persistent)
    return made


def _with_put_time(row: StoredMessage) -> Descriptor:
    """Return the descriptor of a message with PutDate and PutTime, which are blank by default."""
    descriptor = unpack_descriptor(row.descriptor)
    return descriptor._replace(
        put_date=descriptor.put_date or put_date(row.put_ms),
        put_time=descriptor.put_time or put_time(row.put_ms),
    )


def _end_moved(core: Core, session: Session, transaction: Transaction, found: Found) -> None:
    """Add the end of a moved message's stay on its old queue to a transaction: it is got."""
    now_ms = core.now_ms()
    queue_state.end(core, transaction, found, Event.GET, now_ms, terminated_by=_by(session))


def _changeable(
    engine: Engine, queue: LocalQueue, places: Sequence[bytes], counts: Counter[str]
) -> list[Found]:
    """Return the messages at places of a queue that can be changed; count the others.

    Needs the engine lock.
    """
    found = list[Found]()
    for place in dict.fromkeys(places):
        message = find_present(engine, queue, place)
        if message is None:
            counts[_GONE] += 1
        elif message.state in _LEFT:
            counts[_LEFT[message.state]] += 1
        else:
            found.append(_found(queue, message))
    return found


def _found(queue: LocalQueue, message: PresentMessage) -> Found:
    """Return a message of a queue as the functions of ``queue_state`` take it."""
    return queue, message.row, message.persistence


def _check(session: Session, name: str, wanted: int) -> None:
    """Raise MQRC_NOT_AUTHORIZED unless the user of a session has an authority on a queue."""
    if session.authority is not None:
        session.authority.check_queue(name, wanted)


def _by(session: Session) -> TerminatedBy:
    """Return user and program of a session, for the ledger."""
    context = session.context
    return terminated_by_program(context.user_identifier, context.put_appl_name)


def _note(
    session: Session,
    transaction: Transaction,
    action: str,
    places: Sequence[bytes],
    detail: str,
    counts: Counter[str],
) -> None:
    """Add the audit of a change to its transaction; it names the MsgId of one message alone."""
    departed = [row.msg_id for _queue, row, _persistence in transaction.departures]
    arrived = [row.msg_id for _queue, row, _persistence in transaction.arrivals]
    ids = departed or arrived
    _note_id(
        session, transaction, action, ids[0] if len(places) == 1 and ids else b"", detail, counts
    )


def _note_id(
    session: Session,
    transaction: Transaction,
    action: str,
    msg_id: bytes,
    detail: str,
    counts: Counter[str],
) -> None:
    """Add the audit of a change to its transaction."""
    receipt = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    count = sum(counts[word] for word in ("moved", "copied", "deleted", "restored"))
    entry = audit_entry(session, action, msg_id, detail, receipt or _GONE, count)
    note_audit(entry, transaction, None)

"""Sources of traces: several queue managers and archives, combined into one trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from mayfly.engine.core import Core
from mayfly.engine.delay.staging_queries import property_text
from mayfly.engine.engine import Engine
from mayfly.engine.pubsub.proxies import PUBLICATIONS
from mayfly.engine.queue_content import audit, may_browse_queue
from mayfly.engine.queues import PERSISTENT, VOLATILE
from mayfly.engine.remote_queues import embedded_or_none
from mayfly.engine.session import Session
from mayfly.engine.trace.entries import (
    as_report,
    entry_of_life,
    is_report_of,
    message_trace,
    own_ids,
    queue_owners,
)
from mayfly.engine.trace.sentences import sentence_of, steps_of, with_caps_of_senders
from mayfly.lifetime.dead_letters import is_letter, read_letter
from mayfly.lifetime.life import LifeRecord, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import read_properties
from mayfly.mqi.structures import DLH
from mayfly.store.keys import queue_number_of
from mayfly.store.messages import Messages
from mayfly.verbs.checks import Identifier
from mayfly.verbs.facts import (
    MAX_TRACE_ENTRIES,
    MessageTrace,
    PropertyQuestion,
    Relation,
    TraceEntry,
    TracesFound,
)

#: Reports that are followed from one queue manager to the next.
_MAX_REPORTS = 5
#: Of lives that ended in the same millisecond, the one that went on ended first.
_RANKS: dict[str, int] = {State.RELEASED: 0, State.DEAD_LETTERED: 0, State.TRANSMITTED: 1}
_NEVER_MS = 2**63
#: Rows looked at in one turn of the lock, and in one question; with properties 20 µs each.
_STEP_ROWS, MAX_ROWS = 1_000, 1_000_000
_DEAD_HEADER_BYTES = DLH.length(1)
_LOWEST_KEY = -(2**63)
_MISSING: Any = object()
LAST_OF_STEP = f"""
SELECT max(k), count(*) FROM (SELECT k FROM message WHERE k > ? ORDER BY k LIMIT {_STEP_ROWS})"""
#: Only data that begin with an MQRFH2, or a header that one may follow, have properties.
#: The last two are an MQDLH and an MQRFH2 in EBCDIC.
_WITH_HEADER = """
SELECT k, put_ms, msg_id, descriptor, body FROM whole_message
WHERE k > ? AND k <= ? AND put_ms >= ? AND put_ms < ?
    AND substr(body, 1, 4) IN (CAST('RFH ' AS BLOB), CAST('XQH ' AS BLOB), CAST('DLH ' AS BLOB),
        X'C4D3C840', X'D9C6C840')"""
#: Messages that such a question never finds, as a sentence.
_LEFT_OUT = (
    "Messages that have ended are not among them: the ledger keeps no properties. Nor are those of "
    "units of work that are not committed, and those that consumers have claimed."
)


class TraceCollector:
    """Traces of messages on one queue manager, on others in this process, and in archives."""

    def __init__(self, engine: Engine, beside: Callable[[], Sequence[Engine]]) -> None:
        """Set the queue manager asked first, with no archives yet.

        ``beside`` returns the other open queue managers of this process.
        """
        self._engine, self._beside = engine, beside
        #: Places where lives are kept that retention has removed from the ledger.
        self.archives: list[Archive] = []

    def of(
        self,
        identifier: Identifier,
        *,
        among: Collection[str] | None = None,
        not_asked: Sequence[str] = (),
    ) -> MessageTrace:
        """Return where a message is or was, on all queue managers of this process and in archives.

        ``among`` restricts the other queue managers to these names; None allows all. The notes of
        the result say that those in ``not_asked`` were not asked. For an unknown id the trace has
        no entries. Raises MQRC_MD_ERROR for a value that is no id, only zeros, or longer than 24
        bytes.
        """
        asked, *others = [
            TraceSource(each.name, partial(message_trace, each))
            for each in (self._engine, *self._asked(among))
        ]
        return combined_trace(TraceSources(asked, others, self.archives, not_asked), identifier)

    def with_property(
        self,
        question: PropertyQuestion,
        *,
        among: Collection[str] | None = None,
        not_asked: Sequence[str] = (),
        sessions: Mapping[str, Session] | None = None,
    ) -> TracesFound:
        """Return the traces of present messages with a message property, the latest put first.

        ``question`` has name and value of the property, a range of put times and a limit. ``among``
        and ``not_asked`` are as for :meth:`of`. ``sessions`` are those of one user by queue
        manager: messages on queues that the user may not browse are left out, and the search is
        audited. Without them all messages are searched. The result has no traces when no message
        matches. Raises MQRC_OPTIONS_ERROR for an invalid limit or time range.
        """
        question.check()
        found: dict[bytes, int] = {}
        is_cut = False
        for engine in (self._engine, *self._asked(among)):
            session = None if sessions is None else sessions[engine.name]
            there = matches(engine, question, session)
            if session is not None:
                text = f"property {question.name}={question.value}"
                audit(session, "search", b"", text, "searched", len(there.put_ms))
            found |= there.put_ms
            is_cut |= there.is_cut
        latest = nlargest(question.limit, found.items(), key=itemgetter(1))
        traces = [self.of(msg_id, among=among, not_asked=not_asked) for msg_id, _put_ms in latest]
        notes = [_LEFT_OUT, *(f"{name} was not asked: that takes authority." for name in not_asked)]
        if any(session.authority is not None for session in (sessions or {}).values()):
            notes.append("Messages on queues that you may not browse are not among them.")
        return TracesFound(tuple(traces), is_cut or len(found) > len(latest), tuple(notes))

    def _asked(self, among: Collection[str] | None) -> list[Engine]:
        """Return the other open queue managers whose names are in ``among``; all if None."""
        return [each for each in self._beside() if among is None or each.name in among]


class TraceSource(NamedTuple):
    """A queue manager's name, and the function that returns its trace for a MsgId or CorrelId."""

    name: str
    why: Callable[[Identifier], MessageTrace]


class ArchiveError(Exception):
    """An archive cannot be read; the text says why."""


class Archive(Protocol):
    """A place that keeps ledger records longer than a queue manager does, such as a data lake."""

    name: str

    def lives(self, identifiers: Sequence[bytes], limit: int) -> list[tuple[str, LifeRecord]]:
        """Return (queue manager, ledger record) pairs with one of the ids as MsgId or CorrelId.

        The latest come first, at most ``limit``; none is an empty list. Raises ArchiveError when
        the archive cannot be read.
        """

    def ended_steps(
        self, manager: str, queue: str | None, from_ms: int, step_ms: int, step_count: int
    ) -> list[tuple[int, int]]:
        """Return how many messages of a queue manager ended, and expired, in each step of time.

        The other parameters are those of ``engine.ended.ended_steps``, and so are the steps; all
        messages are counted. Raises ArchiveError when the archive cannot be read.
        """


class TraceSources(NamedTuple):
    """The queue manager that is asked first, other queue managers to ask, and archives.

    ``not_asked`` names queue managers that the caller may not ask.
    """

    asked: TraceSource
    others: Sequence[TraceSource] = ()
    archives: Sequence[Archive] = ()
    not_asked: Sequence[str] = ()


def combined_trace(sources: TraceSources, identifier: Identifier) -> MessageTrace:
    """Return what all queue managers and archives know of a message, as one trace.

    A CorrelId that only one message has finds all entries of that message; a message also finds its
    reports. In the sentence, queues of other queue managers are ``QUEUE@MANAGER``. Another source
    that fails is named in the notes. Raises MQRC_MD_ERROR for an invalid id, and the errors of the
    first queue manager.
    """
    asking = _Asking(sources)
    first = asking.ask(identifier)
    wanted = first.asked_id
    asking.ask_others([wanted])
    own = own_ids(asking.entries)
    if len(own) == 1 and wanted not in own and asking.asks_several:
        asking.ask_again(own)
    reports = {s.msg_id for s in _as_reports(asking.entries) if s.relation == Relation.REPORT}
    asking.follow(list(reports - own - {wanted})[:_MAX_REPORTS])
    entries, notes = _as_reports(asking.entries), (*first.notes, *asking.notes)
    if not entries:
        text = " ".join((first.sentence, *asking.asked_as_well(), *notes))
        return first._replace(sentence=text, notes=notes)
    shown = with_caps_of_senders(entries)
    return first._replace(
        sentence=sentence_of(_for_sentence(shown, first), first.at_ms, is_cut=asking.is_cut),
        steps=tuple(steps_of(shown, first.at_ms)),
        entries=tuple(entries),
        is_cut=asking.is_cut,
        notes=notes,
    )


class _Asking:
    """One search over all trace sources, and the entries found so far."""

    def __init__(self, sources: TraceSources) -> None:
        """Prepare a search without entries; the notes name the sources that are not asked."""
        self._sources = sources
        self._found: Counter[TraceEntry] = Counter()
        self.is_cut = False
        self.notes = [f"{name} was not asked: that takes authority." for name in sources.not_asked]

    @property
    def entries(self) -> list[TraceEntry]:
        """All entries found, each once, sorted by time of put, then of end."""
        return sorted(self._found.elements(), key=_order)

    @property
    def asks_several(self) -> bool:
        """Whether there are sources beside the first queue manager."""
        return bool(self._sources.others or self._sources.archives)

    def ask(self, identifier: Identifier) -> MessageTrace:
        """Ask the first queue manager, add its entries and return its trace.

        Raises its MQError when it cannot answer.
        """
        found = self._sources.asked.why(identifier)
        self._add(found)
        return found

    def ask_others(self, identifiers: Sequence[bytes]) -> None:
        """Ask the other queue managers and the archives; add their entries.

        One that fails is named in the notes and raises nothing.
        """
        for source in self._sources.others:
            try:
                for identifier in identifiers:
                    self._add(source.why(identifier))
            except MQError as error:
                self._note(f"{source.name} did not answer: {error}.")
        self._read(identifiers)

    def asked_as_well(self) -> Iterator[str]:
        """Yield one sentence that names the other sources; nothing when there are none."""
        names = [each.name for each in self._sources.others]
        names += [each.name for each in self._sources.archives]
        if names:
            yield f"Asked as well: {', '.join(names)}."

    def ask_again(self, identifiers: Iterable[bytes]) -> None:
        """Replace all entries by those found for other ids, asking every source again."""
        wanted = list(identifiers)
        self._found.clear()
        for identifier in wanted:
            self.ask(identifier)
        self.ask_others(wanted)

    def follow(self, msg_ids: Sequence[bytes]) -> None:
        """Ask all sources for messages with these MsgIds, which are those of expiration reports.

        New entries are added, marked as reports. Does nothing without ids or other sources.
        """
        if not msg_ids or not self.asks_several:
            return
        known, is_cut = self._found, self.is_cut
        self._found = Counter()
        for msg_id in msg_ids:
            self.ask(msg_id)
        self.ask_others(msg_ids)
        followed, self._found, self.is_cut = self._found, known, is_cut
        seen = {(entry.msg_id, _end(entry)) for entry in known}
        for entry in followed:
            # One that is here says of itself that it is a report; a life that has ended does not.
            if entry.msg_id in msg_ids and (entry.msg_id, _end(entry)) not in seen:
                self._found[entry._replace(relation=Relation.REPORT.value)] = 1

    def _add(self, found: MessageTrace) -> None:
        """Add the entries of a trace that are not there yet."""
        self.is_cut |= found.is_cut
        # Members of a queue-sharing group know the same shared queues. A message may be twice on
        # one queue, where two subscriptions lead there.
        self._found |= Counter(found.entries)

    def _read(self, identifiers: Sequence[bytes]) -> None:
        """Add entries that only the archives have; name a failing archive in the notes."""
        known = Counter(_end(entry) for entry in self._found.elements())
        for archive in self._sources.archives:
            try:
                lives = archive.lives(identifiers, MAX_TRACE_ENTRIES)
            except ArchiveError as error:
                self._note(f"{archive.name} cannot be read: {error}.")
                continue
            self.is_cut |= len(lives) >= MAX_TRACE_ENTRIES
            for entry in (_archived(manager, life, identifiers) for manager, life in lives):
                if known[_end(entry)]:
                    known[_end(entry)] -= 1
                else:
                    self._found[entry] += 1

    def _note(self, text: str) -> None:
        """Add a note unless the same text is there already."""
        if text not in self.notes:
            self.notes.append(text)


def _archived(manager: str, life: LifeRecord, identifiers: Sequence[bytes]) -> TraceEntry:
    """Return the trace entry of an archived ledger record.

    It counts as found by its MsgId if that is one of ``identifiers``, else by its CorrelId.
    """
    asked_id = life.msg_id if life.msg_id in identifiers else life.correl_id
    return entry_of_life(life, asked_id, manager)


def _end(entry: TraceEntry) -> tuple[str, str, int, int | None, str]:
    """Return queue manager, queue, put time, end time and state of an entry.

    The entry from a ledger and the entry from an archive for the same record are equal in these.
    """
    return entry.queue_manager, entry.queue, entry.put_ms, entry.ended_ms, entry.state


def _order(entry: TraceEntry) -> tuple[int, int, int]:
    """Return the sort key of an entry: time of put, then of end; present messages come last."""
    ended_ms = _NEVER_MS if entry.ended_ms is None else entry.ended_ms
    return entry.put_ms, ended_ms, _RANKS.get(entry.state, 2)


def _as_reports(entries: Sequence[TraceEntry]) -> list[TraceEntry]:
    """Return the entries, with expiration reports at other queue managers marked as reports."""
    messages = [entry for entry in entries if entry.relation == Relation.MESSAGE]
    return [
        as_report(entry)
        if entry.relation == Relation.CORRELATED
        and any(is_report_of(message, entry) for message in messages)
        else entry
        for entry in entries
    ]


def _for_sentence(entries: Sequence[TraceEntry], first: MessageTrace) -> list[TraceEntry]:
    """Return the entries to describe in the sentence, in the same order.

    ``first`` is the trace of the queue manager that was asked first. Queues of other queue managers
    become ``QUEUE@MANAGER``. Transmissions whose arrival is known, and publications passed on to
    subscribers, are left out.
    """
    arrivals = [entry for entry in entries if entry.relation == Relation.MESSAGE]
    shown = []
    for entry in entries:
        if entry.state == State.TRANSMITTED and _arrived(entry, arrivals):
            continue
        is_passed_on = entry.queue == PUBLICATIONS and entry.state == State.GOT
        if is_passed_on and any(_is_copy(entry, other) for other in entries):
            continue
        is_here = entry.queue_manager == first.queue_manager or entry.queue == STAGING_QUEUE
        name = entry.queue if is_here else f"{entry.queue}@{entry.queue_manager}"
        shown.append(entry._replace(queue=name))
    return shown


def _arrived(sent: TraceEntry, arrivals: list[TraceEntry]) -> bool:
    """Return True if the message of a transmission is known at another queue manager.

    The entries of that arrival are removed from ``arrivals``, so that each counts once.
    """
    there = [
        entry
        for entry in arrivals
        if entry.msg_id == sent.msg_id and entry.queue_manager != sent.queue_manager
    ]
    if not there:
        return False
    # A transmission queue often has the name of its remote queue manager.
    found = next((entry for entry in there if entry.queue_manager == sent.queue), there[0])
    for entry in [entry for entry in there if entry.queue_manager == found.queue_manager]:
        arrivals.remove(entry)
    return True


def _is_copy(passed_on: TraceEntry, other: TraceEntry) -> bool:
    """Return True if ``other`` is a copy of ``passed_on``, a publication from a neighbour."""
    return (
        other.queue != PUBLICATIONS
        and other.msg_id == passed_on.msg_id
        and other.queue_manager == passed_on.queue_manager
    )


class Matches(NamedTuple):
    """Put times (ms since 1970) of found messages, by MsgId; with ``is_cut`` more may exist."""

    put_ms: dict[bytes, int]
    is_cut: bool


def matches(core: Core, question: PropertyQuestion, session: Session | None = None) -> Matches:
    """Return MsgId and put time of present messages with a property value, at most its limit.

    Messages on queues that the user of ``session`` may not browse are left out; None leaves out
    none. Locks the engine for 1,000 messages at a time, and stops after a million. Call it without
    the engine lock.
    """
    found: dict[bytes, int] = {}
    is_cut, looked_at, may_browse = False, 0, dict[int, bool]()
    for queue_owner in queue_owners(core):
        for persistence in (VOLATILE, PERSISTENT):
            for count, rows in _steps(core, queue_owner.messages(persistence), question):
                for key, put_ms, msg_id, packed, body in rows:
                    descriptor = unpack_descriptor(packed)
                    known, properties = _read(msg_id, descriptor, body)
                    value = properties.get(question.name, _MISSING)
                    if value is _MISSING or property_text(value) != question.value:
                        continue
                    number = queue_number_of(key)
                    if number not in may_browse:
                        may_browse[number] = _may_browse(queue_owner, number, session)
                    if may_browse[number]:
                        found[known] = max(put_ms, found.get(known, put_ms))
                if len(found) > question.limit:
                    is_cut = True
                    latest = nlargest(question.limit, found.items(), key=lambda item: item[1])
                    found = dict(latest)
                looked_at += count
                if looked_at >= MAX_ROWS:
                    return Matches(found, is_cut=True)
    return Matches(found, is_cut)


def _may_browse(queue_owner: Core, number: int, session: Session | None) -> bool:
    """Return True if the user of a session may browse the queue with a number; None may all.

    Delayed messages lie on SYSTEM.DDELAY.LOCAL.QUEUE. False for a queue that was deleted.
    """
    if session is None or session.authority is None:
        return True
    with queue_owner.engine_lock:
        queue = queue_owner.registry.by_number(number)
    return queue is not None and may_browse_queue(session, queue.name)


def _steps(
    core: Core, messages: Messages, question: PropertyQuestion
) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    """Read all stored messages in steps of 1,000 under the engine lock.

    Yields for each step the number of messages, and the rows in the put time range that may have
    properties. Raises MQRC_CONNECTION_BROKEN or MQRC_Q_MGR_STOPPING when the queue manager ends.
    """
    after = _LOWEST_KEY
    while True:
        with core.engine_lock:
            core.check_running()
            last, count = messages.fetch(LAST_OF_STEP, (after,))[0]
            if last is None:
                return
            rows = messages.fetch(_WITH_HEADER, (after, last, *question.put_range))
        yield count, rows
        after = last


def _read(msg_id: bytes, descriptor: Descriptor, body: bytes) -> tuple[bytes, dict[str, object]]:
    """Return the MsgId that the sender knows, and the message properties by name.

    Transmission and dead-letter headers before the properties are skipped. Without properties, or
    with damaged headers, the dict is empty.
    """
    embedded = embedded_or_none(body, descriptor)
    if embedded is not None:
        msg_id, descriptor, body = embedded.msg_id, embedded.descriptor, embedded.body
    try:
        if is_letter(descriptor):
            descriptor = read_letter(descriptor, body).original
            body = body[_DEAD_HEADER_BYTES:]
        form = descriptor.format, descriptor.encoding, descriptor.coded_char_set_id
        return msg_id, read_properties(*form, body)
    except MQError:
        return msg_id, {}

"""Joins the knowledge of several queue managers and archives to one story of a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from mayfly.engine.pubsub.proxies import PUBLICATIONS
from mayfly.engine.whereabouts.past import stay_of_life
from mayfly.engine.whereabouts.sentences import sentence_of
from mayfly.engine.whereabouts.steps import steps_of
from mayfly.engine.whereabouts.wording import with_caps_of_senders
from mayfly.lifetime.life import LifeRecord, State
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_EXPIRATION
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import MQError
from mayfly.verbs.checks import Identifier
from mayfly.verbs.stories import MOST_STAYS, Relation, Stay, Whereabouts

#: Reports that are followed from one queue manager to the next.
_MOST_REPORTS = 5
#: Of lives that ended in the same millisecond, the one that went on ended first.
_RANKS: dict[str, int] = {State.RELEASED: 0, State.DEAD_LETTERED: 0, State.TRANSMITTED: 1}
_NEVER_MS = 2**63


class Teller(NamedTuple):
    """A queue manager by its name, and its answer to a MsgId or CorrelId."""

    name: str
    why: Callable[[Identifier], Whereabouts]


class ArchiveError(Exception):
    """An archive cannot be read; the text says which and why."""


class Archive(Protocol):
    """A place where lives are kept longer than by the ledger of a queue manager: a lake."""

    name: str

    def lives(self, identifiers: Sequence[bytes], limit: int) -> list[tuple[str, LifeRecord]]:
        """Return lives with one of the ids as MsgId or CorrelId, each with its queue manager.

        The latest come first, ``limit`` at the most. Raises ArchiveError.
        """


class Sources(NamedTuple):
    """The queue manager that a question is for, others to ask, and archives.

    ``not_asked`` are names of queue managers that the asker may not look at.
    """

    asked: Teller
    others: Sequence[Teller] = ()
    archives: Sequence[Archive] = ()
    not_asked: Sequence[str] = ()


def whole_story(sources: Sources, identifier: Identifier) -> Whereabouts:
    """Return everything that queue managers and archives know of a message, as one answer.

    A CorrelId that one message has leads to all of that message, and the message to its reports.
    Queues of other queue managers than the one asked are ``QUEUE@MANAGER`` in the sentence. Raises
    MQRC_MD_ERROR as ``whereabouts``.
    """
    asking = _Asking(sources)
    first = asking.ask(identifier)
    wanted = first.asked_id
    asking.ask_others([wanted])
    own = _msg_ids(asking.stays, Relation.MESSAGE) or _msg_ids(asking.stays, Relation.CORRELATED)
    if len(own) == 1 and wanted not in own and asking.asks_several:
        asking.ask_again(own)
    reports = list(_msg_ids(_as_reports(asking.stays), Relation.REPORT) - own - {wanted})
    asking.follow(reports[:_MOST_REPORTS])
    stays, notes = _as_reports(asking.stays), (*first.notes, *asking.notes)
    if not stays:
        said = " ".join((first.sentence, *asking.asked_as_well(), *notes))
        return first._replace(sentence=said, notes=notes)
    told = with_caps_of_senders(stays)
    return first._replace(
        sentence=sentence_of(_from_afar(told, first), first.at_ms, is_cut=asking.is_cut),
        steps=tuple(steps_of(told, first.at_ms)),
        stays=tuple(stays),
        is_cut=asking.is_cut,
        notes=notes,
    )


class _Asking:
    """Asks everybody, and puts together what they know."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._found: Counter[Stay] = Counter()
        self.is_cut = False
        self.notes = [f"{name} was not asked: that takes authority." for name in sources.not_asked]

    @property
    def stays(self) -> list[Stay]:
        """Everything found, each once, by the time of its put and by its end."""
        return sorted(self._found.elements(), key=_order)

    @property
    def asks_several(self) -> bool:
        """Whether there is more to ask than one queue manager, which follows ids itself."""
        return bool(self._sources.others or self._sources.archives)

    def ask(self, identifier: Identifier) -> Whereabouts:
        """Ask the first one; raises MQError where it cannot answer."""
        found = self._sources.asked.why(identifier)
        self._add(found)
        return found

    def ask_others(self, identifiers: Sequence[bytes]) -> None:
        for teller in self._sources.others:
            try:
                for identifier in identifiers:
                    self._add(teller.why(identifier))
            except MQError as error:
                self._note(f"{teller.name} did not answer: {error}.")
        self._read(identifiers)

    def asked_as_well(self) -> Iterator[str]:
        """Yield a sentence about those who know nothing either."""
        names = [each.name for each in self._sources.others]
        names += [each.name for each in self._sources.archives]
        if names:
            yield f"Asked as well: {', '.join(names)}."

    def ask_again(self, identifiers: Iterable[bytes]) -> None:
        """Ask for the MsgId that a CorrelId has led to: it is what all other relations are to."""
        wanted = list(identifiers)
        self._found.clear()
        for identifier in wanted:
            self.ask(identifier)
        self.ask_others(wanted)

    def follow(self, msg_ids: Sequence[bytes]) -> None:
        """Add where reports have been, under their own MsgIds."""
        if not msg_ids or not self.asks_several:
            return
        known, is_cut = self._found, self.is_cut
        self._found = Counter()
        for msg_id in msg_ids:
            self.ask(msg_id)
        self.ask_others(msg_ids)
        followed, self._found, self.is_cut = self._found, known, is_cut
        seen = {(stay.msg_id, _end(stay)) for stay in known}
        for stay in followed:
            # One that is here says of itself that it is a report; a life that has ended does not.
            if stay.msg_id in msg_ids and (stay.msg_id, _end(stay)) not in seen:
                self._found[stay._replace(relation=Relation.REPORT.value)] = 1

    def _add(self, found: Whereabouts) -> None:
        self.is_cut |= found.is_cut
        # Members of a queue-sharing group know the same shared queues. A message may be twice on
        # one queue, where two subscriptions lead there.
        self._found |= Counter(found.stays)

    def _read(self, identifiers: Sequence[bytes]) -> None:
        """Add what archives have and the ledgers have no more."""
        known = Counter(_end(stay) for stay in self._found.elements())
        for archive in self._sources.archives:
            try:
                lives = archive.lives(identifiers, MOST_STAYS)
            except ArchiveError as error:
                self._note(f"{archive.name} cannot be read: {error}.")
                continue
            self.is_cut |= len(lives) >= MOST_STAYS
            for stay in (_told(manager, life, identifiers) for manager, life in lives):
                if known[_end(stay)]:
                    known[_end(stay)] -= 1
                else:
                    self._found[stay] += 1

    def _note(self, said: str) -> None:
        if said not in self.notes:
            self.notes.append(said)


def _told(manager: str, life: LifeRecord, identifiers: Sequence[bytes]) -> Stay:
    asked_id = life.msg_id if life.msg_id in identifiers else life.correl_id
    return stay_of_life(life, asked_id, manager)


def _end(stay: Stay) -> tuple[str, str, int, int | None, str]:
    """Return what a life has in common with its row in an archive, whichever id either shows."""
    return stay.queue_manager, stay.queue, stay.put_ms, stay.ended_ms, stay.state


def _order(stay: Stay) -> tuple[int, int, int]:
    ended_ms = _NEVER_MS if stay.ended_ms is None else stay.ended_ms
    return stay.put_ms, ended_ms, _RANKS.get(stay.state, 2)


def _msg_ids(stays: Iterable[Stay], relation: Relation) -> set[bytes]:
    return {stay.msg_id for stay in stays if stay.relation == relation}


def _as_reports(stays: Sequence[Stay]) -> list[Stay]:
    """Return the stays with reports about what expired at another queue manager told as such."""
    owing = [
        stay
        for stay in stays
        if stay.relation == Relation.MESSAGE
        and stay.state == State.EXPIRED
        and stay.report & MQRO_EXPIRATION
    ]
    return [
        stay._replace(relation=Relation.REPORT.value, reason=stay.reason or MQFB_EXPIRATION)
        if stay.relation == Relation.CORRELATED
        and any(
            stay.queue == expired.reply_to_q and stay.put_ms >= (expired.ended_ms or 0)
            for expired in owing
        )
        else stay
        for stay in stays
    ]


def _from_afar(stays: Sequence[Stay], first: Whereabouts) -> list[Stay]:
    """Return the stays as the sentence needs them: without those that went on elsewhere."""
    arrivals = [stay for stay in stays if stay.relation == Relation.MESSAGE]
    told = []
    for stay in stays:
        if stay.state == State.TRANSMITTED and _arrived(stay, arrivals):
            continue
        is_passed_on = stay.queue == PUBLICATIONS and stay.state == State.GOT
        if is_passed_on and any(_is_copy(stay, other) for other in stays):
            continue
        is_here = stay.queue_manager == first.queue_manager or stay.queue == STAGING_QUEUE
        name = stay.queue if is_here else f"{stay.queue}@{stay.queue_manager}"
        told.append(stay._replace(queue=name))
    return told


def _arrived(sent: Stay, arrivals: list[Stay]) -> bool:
    """Return True if a message that was sent is known elsewhere, once for each that was sent."""
    there = [
        stay
        for stay in arrivals
        if stay.msg_id == sent.msg_id and stay.queue_manager != sent.queue_manager
    ]
    if not there:
        return False
    # A transmission queue often has the name of the queue manager that it leads to.
    found = next((stay for stay in there if stay.queue_manager == sent.queue), there[0])
    for stay in [stay for stay in there if stay.queue_manager == found.queue_manager]:
        arrivals.remove(stay)
    return True


def _is_copy(passed_on: Stay, other: Stay) -> bool:
    return (
        other.queue != PUBLICATIONS
        and other.msg_id == passed_on.msg_id
        and other.queue_manager == passed_on.queue_manager
    )

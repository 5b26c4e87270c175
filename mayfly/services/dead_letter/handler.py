"""The dead-letter handler: applies a rule table to a queue, one unit of work for each letter.

A preview counts the letters by the rule that would apply first, and changes nothing.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Self, TypedDict

from mayfly.client.connection import Connection, LocalConnection
from mayfly.engine import arrival_number
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import MQError, NoMessage, StoreError, mq_error
from mayfly.mqi.reasons import cause_name
from mayfly.queue_manager import QueueManager
from mayfly.services.dead_letter.dead_letters import (
    DeadLetter,
    dead_letter_of,
    dead_letter_queue,
)
from mayfly.services.dead_letter.rules import Action, Rule, RuleTable
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import packed_descriptor
from mayfly.verbs.messages import Message, key_of

_LOG = logging.getLogger("mayfly.dead_letter")
#: The number of letters that are remembered, the latest ones.
LIMIT = 100_000
_OPEN = c.MQOO_INPUT_SHARED | c.MQOO_BROWSE | c.MQOO_INQUIRE
_BROWSE_OPTIONS = c.MQGMO_PROPERTIES_FORCE_MQRFH2
_TAKE = c.MQGMO_SYNCPOINT | c.MQGMO_MSG_UNDER_CURSOR
#: These are no failure of a rule: nobody can go on.
_FATAL = (
    rc.MQRC_CONNECTION_BROKEN,
    rc.MQRC_GET_INHIBITED,
    rc.MQRC_HCONN_ERROR,
    rc.MQRC_HOBJ_ERROR,
    rc.MQRC_Q_DELETED,
    rc.MQRC_Q_MGR_STOPPING,
)


@dataclass(slots=True)
class RuleState:
    """The progress of a letter in the rules: the present rule, its attempts, and the next retry.

    ``due_ms`` is the epoch ms of the retry, 0 for at once.
    """

    rule_index: int = 0
    attempt_count: int = 0
    due_ms: int = 0

    def count(self, index: int, rule: Rule, again_ms: int) -> None:
        """Count an attempt of rule number ``index``, to be repeated at ``again_ms`` (epoch ms).

        After the last attempt of the rule, the next rule is due at once.
        """
        if index != self.rule_index:
            self.rule_index, self.attempt_count = index, 0
        self.attempt_count += 1
        self.due_ms = again_ms
        if self.attempt_count >= rule.attempt_count:
            self.rule_index, self.attempt_count, self.due_ms = index + 1, 0, 0


class _RequeuedLetter(NamedTuple):
    """The progress of a letter that was put elsewhere, kept until ``forget_ms`` (epoch ms)."""

    state: RuleState
    forget_ms: int
    sequence: int


class RequeuedLetters:
    """The letters that were put elsewhere in the last two retry intervals, with their progress."""

    def __init__(self, retry_interval_ms: int) -> None:
        """Begin without letters; each is remembered for two intervals of ``retry_interval_ms``."""
        self._memory_ms = 2 * retry_interval_ms
        #: By a hash, as there may be many: two that share one would only share their attempts.
        self._by_identity: OrderedDict[int, _RequeuedLetter] = OrderedDict()

    def __len__(self) -> int:
        """Return how many letters are remembered, outdated ones included."""
        return len(self._by_identity)

    def note(self, letter: DeadLetter, state: RuleState, sequence: int, now_ms: int) -> None:
        """Remember a letter that a rule has put on another queue, with its progress ``state``.

        If the letter is dead-lettered again, the handler goes on where it was. ``sequence`` is the
        result of :func:`apply_rule` for it: an equal letter with a lower arrival number was there
        before, and is another one. ``now_ms`` is the time. Outdated entries are dropped, and the
        oldest one at 100,000 entries.
        """
        identity = _identity(letter)
        self._by_identity.pop(identity, None)
        while self._by_identity and self._is_first_over(now_ms):
            self._by_identity.popitem(last=False)
        self._by_identity[identity] = _RequeuedLetter(state, now_ms + self._memory_ms, sequence)

    def state_of(self, letter: DeadLetter, now_ms: int) -> RuleState:
        """Return the progress of a letter that was dead-lettered again, and drop its entry.

        Returns a new RuleState for a letter that is not remembered. ``now_ms`` is the time.
        """
        identity = _identity(letter)
        sent = self._by_identity.get(identity)
        if sent is None or arrival_number(letter.message) < sent.sequence:
            return RuleState()
        del self._by_identity[identity]
        return RuleState() if sent.forget_ms <= now_ms else sent.state

    def _is_first_over(self, now_ms: int) -> bool:
        """Return True if the oldest entry is out of date, or the limit of entries is reached."""
        first = next(iter(self._by_identity.values()))
        return len(self._by_identity) >= LIMIT or first.forget_ms <= now_ms


def _identity(letter: DeadLetter) -> int:
    """Return a hash of the fields that stay equal if a letter is dead-lettered again."""
    message = letter.message
    moment = message.put_date, message.put_time
    return hash((message.msg_id, message.correl_id, *moment, letter.target, letter.reason))


def apply_rule(connection: Connection, letters: int, rule: Rule, letter: DeadLetter) -> int:
    """Apply a rule to the letter under the browse cursor, and commit.

    ``letters`` is the handle of the dead-letter queue. Returns a sequence number that is lower than
    the arrival numbers of all later letters; 0 after DISCARD. Raises MQRC_NO_MSG_UNDER_CURSOR if
    the letter has expired or was taken, and the MQError of put, get or commit; the caller then
    backs out.
    """
    sequence = 0
    if rule.action is Action.DISCARD:
        connection.get(letters, _TAKE)
    else:
        sequence = _move(connection, letters, rule, letter)
    connection.call(ask.Commit())
    return sequence


def _move(connection: Connection, letters: int, rule: Rule, letter: DeadLetter) -> int:
    """Move the letter under the cursor to the queue that its rule names, without a commit.

    ``letters`` is the handle of the dead-letter queue. Returns a sequence number that is lower than
    the arrival numbers of all later letters. Raises MQError, for example if the letter names no
    queue.
    """
    queue, manager = rule.destination(letter)
    if not queue:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, "the letter names no queue")
    is_elsewhere = manager not in ("", connection.name)
    if letter.reason == rc.MQRC_HEADER_ERROR and not is_elsewhere:
        _check_not_staging(connection, queue)
    is_stripped = rule.action is Action.RETRY or not rule.keeps_header
    return connection.call(
        ask.Move(
            letters,
            f"{queue}@{manager}" if is_elsewhere else queue,
            descriptor=packed_descriptor(letter.original) if is_stripped else None,
            header_bytes=len(letter.message.body) - len(letter.data) if is_stripped else 0,
            putter=letter.original.user_identifier if rule.puts_as_user else None,
        )
    )


def _check_not_staging(connection: Connection, queue: str) -> None:
    """Raise MQRC_HEADER_ERROR for the staging queue, which would dead-letter the message again."""
    opened = connection.call(ask.Open(queue, c.MQOO_OUTPUT, dynamic_name=""))
    connection.call(ask.CloseObject(opened.handle))
    if opened.queue == STAGING_QUEUE:
        raise mq_error(rc.MQRC_HEADER_ERROR, f"{queue} has refused the delay header before")


class Outcome(StrEnum):
    """The outcomes of letters, which a handler counts."""

    DISCARDED = "discarded"
    FORWARDED = "forwarded"
    #: Put to the queue it was meant for (ACTION(RETRY)).
    REDRIVEN = "redriven"
    IGNORED = "ignored"
    #: No rule is for it, or those that are have failed as often as they may.
    LEFT = "left"
    #: It has no MQDLH, or a damaged one; it is left alone.
    WITHOUT_HEADER = "without_header"
    #: It has expired, or somebody else has taken it, when its rule was to be carried out.
    GONE = "gone"
    #: An attempt that failed; the letter is where it was.
    FAILED = "failed"


#: Of these the letter is on the queue still, and is not looked at again.
_LEFT_ALONE = (Outcome.IGNORED, Outcome.LEFT, Outcome.WITHOUT_HEADER)
#: Outcomes that count as attempts of a rule; a letter that was put elsewhere may come back.
_ATTEMPTS = (Outcome.FAILED, Outcome.REDRIVEN, Outcome.FORWARDED)
#: The outcomes of actions that succeed.
DONE = {
    Action.DISCARD: Outcome.DISCARDED,
    Action.FORWARD: Outcome.FORWARDED,
    Action.RETRY: Outcome.REDRIVEN,
}


class DeadLetterHandler:
    """Applies a rule table to a dead-letter queue; for one thread, apart from :meth:`stop`.

    A context manager. It counts the attempts for a letter, also for one that comes back unchanged
    within two retry intervals. A letter that no rule moves is not handled again. Any thread may
    read ``counts``, and ``failures``, which counts failed attempts by reason code.
    """

    def __init__(
        self,
        source: QueueManager | Connection,
        table: RuleTable,
        *,
        queue: str = "",
        user: str | None = None,
        longest_wait_ms: int | None = None,
    ) -> None:
        """Open the queue: ``queue``, else INPUTQ of the table, else DEADQ.

        ``source`` is a queue manager of this process, used as ``user``, where None means the user
        that opened it; or a connection, which the handler closes. On a connection to a server
        :meth:`stop` takes up to ``longest_wait_ms``. Raises the reason codes of an open for input,
        browse and inquire, and MQRC_UNKNOWN_OBJECT_NAME if the queue manager has no DEADQ.
        """
        if isinstance(source, QueueManager):
            session = source.session(user, program="mayfly dlq", groups=None)
            source = LocalConnection(session, source)
        self._connection = connection = source
        self._table = table
        self._longest_wait_ms = longest_wait_ms
        try:
            name = queue or table.queue.strip() or dead_letter_queue(connection)
            self._letters, _kind, self.queue, *_rest = connection.call(
                ask.Open(name, _OPEN, dynamic_name="")
            )
        except MQError:
            connection.close(commit=False)
            raise
        #: Letters to be tried again, and those that are left alone, by their position.
        self._waiting: dict[int, RuleState] = {}
        self._left_alone: set[int] = set()
        self._returns = RequeuedLetters(table.retry_interval_ms)
        self._stopped = connection.runtime.event()
        self._passed_ms = self._busy_ms = connection.now_ms()
        self.counts = Counter(dict.fromkeys(Outcome, 0))
        self.failures: Counter[int] = Counter()

    def run_once(self) -> Counter[Outcome]:
        """Handle each letter on the queue once, without waiting; return the number of each outcome.

        A letter that comes back meanwhile is left for the next call. A failed letter is tried again
        by the first call that is at least RETRYINT later. Expired letters are discarded, with their
        reports, and reach no rule. Raises MQRC_GET_INHIBITED, MQRC_Q_DELETED or
        MQRC_CONNECTION_BROKEN, after backing out the letter that is being handled.
        """
        before = self.counts.copy()
        self._pass(self._depth())
        return self.counts - before

    def run(self) -> None:
        """Handle letters until the time of WAIT is over, or until :meth:`stop`.

        With WAIT(NO) it ends when nothing is left to do, with WAIT(n) after n seconds with nothing
        to do. A retry that is due later counts as something to do. New letters are handled at once.
        Every RETRYINT it goes through the whole queue, failed letters included. Raises the errors
        of :meth:`run_once`.
        """
        self._busy_ms = self._connection.now_ms()
        is_over = False
        while not is_over:
            self._pass()
            while not self._stopped.is_set() and (left_ms := self._wait_left_ms()) > 0:
                message = self._browse(c.MQGMO_BROWSE_NEXT, left_ms)
                if message is not None:
                    self._handle(message)
                elif self._longest_wait_ms is None:
                    break
            is_over = self._is_over()

    def stop(self) -> None:
        """Make :meth:`run` end, from any thread; this call may return before it has ended.

        The letter that is being handled is either finished or unchanged.
        """
        self._stopped.set()
        with suppress(MQError):
            self._connection.call(ask.CloseObject(self._letters))

    def close(self) -> None:
        """Disconnect from the queue manager, without a commit."""
        self._connection.close(commit=False)

    def __enter__(self) -> Self:
        """Return the handler, which the end of the ``with`` block closes."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect from the queue manager, without a commit."""
        self.close()

    def _pass(self, letter_count: int | None = None) -> None:
        """Handle the letters on the queue once, in get order.

        At most ``letter_count`` letters are handled; None means all.
        """
        present, end = set[int](), None
        self._passed_ms = self._connection.now_ms()
        message = self._browse(c.MQGMO_BROWSE_FIRST)
        while message is not None:
            present.add(key_of(message))
            self._handle(message)
            if letter_count is not None and len(present) >= letter_count:
                end = key_of(message)
                break
            message = self._browse(c.MQGMO_BROWSE_NEXT)
        self._forget_others(present, end)

    def _browse(self, option: int, wait_ms: int = 0) -> Message | None:
        """Browse a letter and return it, waiting up to ``wait_ms`` ms.

        ``option`` is MQGMO_BROWSE_FIRST or MQGMO_BROWSE_NEXT. Returns None if none came, or after a
        stop.
        """
        if self._stopped.is_set():
            return None
        try:
            if wait_ms:
                option |= c.MQGMO_WAIT
            return self._connection.get(
                self._letters, option | _BROWSE_OPTIONS, wait_ms=wait_ms
            ).message
        except NoMessage:
            return None
        except MQError:
            if self._stopped.is_set():
                return None
            raise

    def _depth(self) -> int:
        """Return the number of messages on the queue, 0 after a stop."""
        try:
            inquiry = self._connection.call(ask.Inquire(self._letters, [c.MQIA_CURRENT_Q_DEPTH]))
        except MQError:
            if self._stopped.is_set():
                return 0
            raise
        return int(inquiry.values[0] or 0)

    def _forget_others(self, present: set[int], end: int | None) -> None:
        """Forget the letters that have left the queue.

        ``present`` are the positions of the letters seen. ``end`` is the position of the last
        letter seen; None if all letters on the queue were seen.
        """
        known = [*self._waiting, *self._left_alone]
        gone = {k for k in known if k not in present and (end is None or k < end)}
        self._waiting = {k: state for k, state in self._waiting.items() if k not in gone}
        self._left_alone -= gone

    def _wait_left_ms(self) -> int:
        """Return how many ms to wait for a letter before the whole queue is gone through again."""
        left_ms = self._next_pass_ms() - self._connection.now_ms()
        return left_ms if self._longest_wait_ms is None else min(left_ms, self._longest_wait_ms)

    def _next_pass_ms(self) -> int:
        """Return the epoch ms at which to go through the whole queue again.

        It is the end of WAIT if that is earlier.
        """
        pass_ms = self._passed_ms + self._table.retry_interval_ms
        if self._table.wait_ms == c.MQWI_UNLIMITED or self._waiting:
            return pass_ms
        return min(pass_ms, self._busy_ms + self._table.wait_ms)

    def _is_over(self) -> bool:
        """Return True if :meth:`run` must end, by a stop or by WAIT."""
        if self._stopped.is_set():
            return True
        if self._table.wait_ms == c.MQWI_UNLIMITED or self._waiting:
            return False
        return self._busy_ms + self._table.wait_ms <= self._connection.now_ms()

    def _handle(self, message: Message) -> None:
        """Apply the rules to a message, unless no rule is left for it or its retry is due later.

        After a programming error the message is backed out and the error is logged. No rule is then
        applied to the message while it stays on the queue.
        """
        position, now_ms = key_of(message), message.seen_ms
        state = self._waiting.get(position)
        if position in self._left_alone or (state is not None and state.due_ms > now_ms):
            return
        self._busy_ms = now_ms
        try:
            self._process(message, position, state)
        except (MQError, StoreError):
            raise
        except Exception:  # noqa: BLE001 - one letter is not all the others
            _LOG.exception("%s is left on the queue", message)
            self._connection.call(ask.Backout())
            self._left_alone.add(position)
            self.counts[Outcome.LEFT] += 1

    def _process(self, message: Message, position: int, state: RuleState | None) -> None:
        """Apply the rules to a message, and record its outcome and the state of its retries.

        ``position`` identifies the message on the queue. ``state`` is its progress, None for a new
        one.
        """
        now_ms = message.seen_ms
        letter = dead_letter_of(message)
        if state is None:
            state = RuleState() if letter is None else self._returns.state_of(letter, now_ms)
            if state.due_ms > now_ms:
                self._waiting[position] = state
                return
        self._waiting.pop(position, None)
        outcome = Outcome.WITHOUT_HEADER if letter is None else self._apply_rules(state, letter)
        if outcome is not Outcome.FAILED:
            self.counts[outcome] += 1
            if outcome in _LEFT_ALONE:
                self._left_alone.add(position)
        else:
            self._waiting[position] = state

    def _apply_rules(self, state: RuleState, letter: DeadLetter) -> Outcome:
        """Apply the matching rules to a letter, beginning with its present rule.

        Return the outcome. FAILED means that a retry is due later, LEFT that no rule is left.
        """
        rules = self._table.rules
        for index in range(state.rule_index, len(rules)):
            rule = rules[index]
            if not rule.matches(letter):
                continue
            outcome, sequence = self._attempt(rule, letter)
            if outcome not in _ATTEMPTS:
                return outcome
            state.count(index, rule, self._passed_ms + self._table.retry_interval_ms)
            if outcome is not Outcome.FAILED:
                self._returns.note(letter, state, sequence, self._connection.now_ms())
                return outcome
            if state.rule_index == index:
                return outcome
        return Outcome.LEFT

    def _attempt(self, rule: Rule, letter: DeadLetter) -> tuple[Outcome, int]:
        """Apply one rule; return the outcome, and the sequence number from :func:`apply_rule`.

        An error that concerns only this letter is counted, and gives FAILED. Raises MQError if the
        queue or the connection cannot be used.
        """
        if rule.action is Action.IGNORE:
            return Outcome.IGNORED, 0
        try:
            sequence = apply_rule(self._connection, self._letters, rule, letter)
        except MQError as error:
            if error.reason != rc.MQRC_CONNECTION_BROKEN:
                self._connection.call(ask.Backout())
            if error.reason == rc.MQRC_NO_MSG_UNDER_CURSOR or self._stopped.is_set():
                return Outcome.GONE, 0
            if error.reason in _FATAL:
                raise
            self.counts[Outcome.FAILED] += 1
            self.failures[error.reason] += 1
            id_hex = letter.message.msg_id.hex()
            _LOG.info("%s, line %d, %s: %s", rule.action, rule.line, id_hex, error)
            return Outcome.FAILED, 0
        return DONE[rule.action], sequence


def preview(connection: Connection, table: RuleTable, queue: str = "") -> Counter[Outcome]:
    """Count the letters on a queue by the outcome of the first rule that matches each.

    Nothing is changed. It assumes that each action succeeds, without asking the target queue.
    ``queue`` defaults to INPUTQ of the table, then DEADQ. Raises the reason codes of an open for
    browse.
    """
    counts = Counter(dict.fromkeys(Outcome, 0))
    name = queue or table.queue.strip() or dead_letter_queue(connection)
    letters = connection.call(ask.Open(name, c.MQOO_BROWSE, dynamic_name="")).handle
    with suppress(NoMessage):
        while True:
            letter = dead_letter_of(
                connection.get(letters, _BROWSE_OPTIONS | c.MQGMO_BROWSE_NEXT).message
            )
            counts[
                Outcome.WITHOUT_HEADER if letter is None else _expected_outcome(table, letter)
            ] += 1
    connection.call(ask.CloseObject(letters))
    return counts


def redrive_letters(
    connection: Connection,
    table: RuleTable,
    queue: str,
    tokens: Iterable[bytes],
    *,
    dry_run: bool = False,
) -> tuple[Counter[Outcome], Counter[int]]:
    """Apply the first matching rule to chosen letters, once, each in a unit of work of its own.

    ``tokens`` are their MsgTokens. Returns how many had each outcome, and failures by reason code;
    a letter that has left is GONE, and one that is refused stays. With ``dry_run`` nothing is
    changed, and the counts are those of a preview. ``queue`` is as for :func:`preview`. Raises the
    reason codes of an open, and the errors that concern the whole queue.
    """
    counts = Counter(dict.fromkeys(Outcome, 0))
    failures = Counter[int]()
    name = queue or table.queue.strip() or dead_letter_queue(connection)
    letters = connection.call(ask.Open(name, _OPEN, dynamic_name="")).handle
    for token in dict.fromkeys(tokens):
        try:
            message = connection.get(
                letters, c.MQGMO_BROWSE_FIRST | _BROWSE_OPTIONS, token=token
            ).message
        except NoMessage:
            counts[Outcome.GONE] += 1
            continue
        letter = dead_letter_of(message)
        outcome = Outcome.WITHOUT_HEADER if letter is None else _expected_outcome(table, letter)
        rule = None if letter is None else _rule_for(table, letter)
        if (
            not dry_run
            and letter is not None
            and rule is not None
            and outcome is not Outcome.IGNORED
        ):
            try:
                apply_rule(connection, letters, rule, letter)
            except MQError as error:
                if error.reason in _FATAL:
                    raise
                connection.call(ask.Backout())
                outcome = Outcome.FAILED
                if error.reason == rc.MQRC_NO_MSG_UNDER_CURSOR:
                    outcome = Outcome.GONE
                else:
                    failures[error.reason] += 1
        counts[outcome] += 1
    connection.call(ask.CloseObject(letters))
    return counts, failures


def _rule_for(table: RuleTable, letter: DeadLetter) -> Rule | None:
    """Return the first rule that matches a letter; None if none does."""
    return next((rule for rule in table.rules if rule.matches(letter)), None)


def _expected_outcome(table: RuleTable, letter: DeadLetter) -> Outcome:
    """Return the outcome that the first matching rule would have if it succeeds."""
    rule = _rule_for(table, letter)
    if rule is None:
        return Outcome.LEFT
    return Outcome.IGNORED if rule.action is Action.IGNORE else DONE[rule.action]


class SummaryJson(TypedDict):
    """The number of dead letters by outcome, and of failed attempts by reason name, for JSON."""

    discarded: int
    forwarded: int
    redriven: int
    ignored: int
    left: int
    without_header: int
    gone: int
    failed: int
    failures: dict[str, int]


class RedrivenJson(SummaryJson):
    """The counts of a redrive, for JSON; with ``dry_run`` the counts of a preview."""

    dry_run: bool


def summary_as_json(counts: Counter[Outcome], failures: Counter[int]) -> SummaryJson:
    """Return the counts of outcomes, and of failed attempts by reason name, for JSON."""
    return {
        "discarded": counts[Outcome.DISCARDED],
        "forwarded": counts[Outcome.FORWARDED],
        "redriven": counts[Outcome.REDRIVEN],
        "ignored": counts[Outcome.IGNORED],
        "left": counts[Outcome.LEFT],
        "without_header": counts[Outcome.WITHOUT_HEADER],
        "gone": counts[Outcome.GONE],
        "failed": counts[Outcome.FAILED],
        "failures": {cause_name(reason): count for reason, count in sorted(failures.items())},
    }

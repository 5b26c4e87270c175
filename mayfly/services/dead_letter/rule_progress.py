"""How far letters have come in the rules; it goes on for one that comes back after it was put."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from mayfly.engine import arrival_number
from mayfly.services.dead_letter.dead_letters import DeadLetter
from mayfly.services.dead_letter.rules import Rule

#: So many letters are remembered at the most, the latest.
LIMIT = 100_000


@dataclass(slots=True)
class RuleState:
    """How far a letter has come in the rules, and when it goes on (epoch ms)."""

    rule_index: int = 0
    attempt_count: int = 0
    due_ms: int = 0

    def count(self, index: int, rule: Rule, again_ms: int) -> None:
        """Count an attempt of a rule; after its last one the next rule has its turn, at once."""
        if index != self.rule_index:
            self.rule_index, self.attempt_count = index, 0
        self.attempt_count += 1
        self.due_ms = again_ms
        if self.attempt_count >= rule.attempt_count:
            self.rule_index, self.attempt_count, self.due_ms = index + 1, 0, 0


class _Sent(NamedTuple):
    state: RuleState
    until_ms: int
    sequence: int


class Returns:
    """Remembers the letters that were put elsewhere of late: for twice RETRYINT, in ms."""

    def __init__(self, retry_interval_ms: int) -> None:
        """Begin with none."""
        self._kept_ms = 2 * retry_interval_ms
        #: By a hash, as there may be many: two that share one would only share their attempts.
        self._sent: OrderedDict[int, _Sent] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._sent)

    def note(self, letter: DeadLetter, state: RuleState, sequence: int, now_ms: int) -> None:
        """Remember the state of a letter that was put elsewhere.

        ``sequence`` is a sequence number of its queue from before: a letter with a lower one is
        another letter.
        """
        identity = _identity(letter)
        self._sent.pop(identity, None)
        while self._sent and self._is_first_over(now_ms):
            self._sent.popitem(last=False)
        self._sent[identity] = _Sent(state, now_ms + self._kept_ms, sequence)

    def progress_of(self, letter: DeadLetter, now_ms: int) -> RuleState:
        """Return that of a letter that has come back, else a new one."""
        identity = _identity(letter)
        sent = self._sent.get(identity)
        if sent is None or arrival_number(letter.message) < sent.sequence:
            return RuleState()
        del self._sent[identity]
        return RuleState() if sent.until_ms <= now_ms else sent.state

    def _is_first_over(self, now_ms: int) -> bool:
        first = next(iter(self._sent.values()))
        return len(self._sent) >= LIMIT or first.until_ms <= now_ms


def _identity(letter: DeadLetter) -> int:
    """Return what stays of a letter that is refused again as it was before."""
    message = letter.message
    moment = message.put_date, message.put_time
    return hash((message.msg_id, message.correl_id, *moment, letter.target, letter.reason))

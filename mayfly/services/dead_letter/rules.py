"""Rules of a dead-letter handler as values: which letters they take, and what is done to those."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from mayfly.lifetime.times import ms_of_seconds
from mayfly.mqi.constants import MQWI_UNLIMITED
from mayfly.services.dead_letter.dead_letters import DeadLetter

DEFAULT_RETRY_INTERVAL_MS = ms_of_seconds(60)


class Action(StrEnum):
    """The action of a rule on a letter."""

    DISCARD = "DISCARD"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FORWARD = "FWD"


#: The pattern keywords that match text, and what they look at.
TEXTS: dict[str, Callable[[DeadLetter], str]] = {
    "APPLIDAT": lambda letter: letter.original.appl_identity_data,
    "APPLNAME": lambda letter: letter.original.put_appl_name,
    "DESTQ": lambda letter: letter.target,
    "DESTQM": lambda letter: letter.target_manager,
    "FORMAT": lambda letter: letter.original.format,
    "REPLYQ": lambda letter: letter.original.reply_to_q,
    "REPLYQM": lambda letter: letter.original.reply_to_q_mgr,
    "USERID": lambda letter: letter.original.user_identifier,
}
#: The pattern keywords that match a number, and what they look at.
NUMBERS: dict[str, Callable[[DeadLetter], int]] = {
    "APPLTYPE": lambda letter: letter.original.put_appl_type,
    "FEEDBACK": lambda letter: letter.original.feedback,
    "MSGTYPE": lambda letter: letter.original.msg_type,
    "PERSIST": lambda letter: letter.original.persistence,
    "REASON": lambda letter: letter.reason,
}


class Pattern(NamedTuple):
    """The value of a pattern keyword: a number, or a text with wildcards ``*`` and ``?``."""

    keyword: str
    wanted: int | re.Pattern[str]

    def takes(self, letter: DeadLetter) -> bool:
        """Return True if a letter matches; blanks at the end of a text do not count."""
        if isinstance(self.wanted, int):
            return NUMBERS[self.keyword](letter) == self.wanted
        return self.wanted.fullmatch(TEXTS[self.keyword](letter).rstrip()) is not None


class Rule(NamedTuple):
    """One rule; ``attempt_count`` is how often its action is tried before the next rule's.

    ``queue`` and ``manager`` may begin with ``&``: they are then taken from the letter. A blank
    manager is the letter's own. ``line`` is where the rule stands in its table.
    """

    action: Action
    patterns: tuple[Pattern, ...] = ()
    queue: str = ""
    manager: str = ""
    keeps_header: bool = True
    puts_as_user: bool = False
    attempt_count: int = 1
    line: int = 1

    def matches(self, letter: DeadLetter) -> bool:
        """Return True if all patterns of the rule match a letter."""
        return all(pattern.takes(letter) for pattern in self.patterns)

    def destination(self, letter: DeadLetter) -> tuple[str, str]:
        """Return queue and queue manager that RETRY or FWD puts a letter to."""
        if self.action is Action.RETRY:
            return letter.target, letter.target_manager
        reply_to = letter.original
        queues = {"&DESTQ": letter.target, "&REPLYQ": reply_to.reply_to_q}
        managers = {"&DESTQM": letter.target_manager, "&REPLYQM": reply_to.reply_to_q_mgr}
        return (
            queues.get(self.queue, self.queue).strip(),
            managers.get(self.manager, self.manager).strip(),
        )


class RuleTable(NamedTuple):
    """A whole table: the queue to work on, and the rules in their order.

    Blank names mean the queue manager at hand and its DEADQ. ``wait_ms`` is the longest wait for
    more letters when nothing is left to do; MQWI_UNLIMITED (-1) for ever.
    """

    rules: tuple[Rule, ...]
    queue: str = ""
    manager: str = ""
    retry_interval_ms: int = DEFAULT_RETRY_INTERVAL_MS
    wait_ms: int = MQWI_UNLIMITED

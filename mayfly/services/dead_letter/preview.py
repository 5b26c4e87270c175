"""A preview of a table of rules: the dead letters that it would be tried on. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Final

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.services.dead_letter.dead_letters import DeadLetter, dead_letter_of, dead_letter_queue
from mayfly.services.dead_letter.handler import DONE, Outcome
from mayfly.services.dead_letter.rules import Action, RuleTable

_NEXT: Final = c.MQGMO_PROPERTIES_FORCE_MQRFH2 | c.MQGMO_BROWSE_NEXT


def preview(connection: Connection, table: RuleTable, queue: str = "") -> Counter[Outcome]:
    """Count the letters that can be got by the outcome of the first rule for each, if it succeeds.

    The target of a letter is not asked whether it would take the letter. The queue is chosen as by
    ``DeadLetterHandler``; raises the reason codes of an open for browse.
    """
    counts = Counter(dict.fromkeys(Outcome, 0))
    name = queue or table.queue.strip() or dead_letter_queue(connection)
    letters = connection.open(name, c.MQOO_BROWSE, dynamic_name="").handle
    with suppress(NoMessage):
        while True:
            letter = dead_letter_of(connection.get(letters, _NEXT).message)
            counts[Outcome.WITHOUT_HEADER if letter is None else _foreseen(table, letter)] += 1
    connection.close_object(letters)
    return counts


def _foreseen(table: RuleTable, letter: DeadLetter) -> Outcome:
    rule = next((rule for rule in table.rules if rule.matches(letter)), None)
    if rule is None:
        return Outcome.LEFT
    return Outcome.IGNORED if rule.action is Action.IGNORE else DONE[rule.action]

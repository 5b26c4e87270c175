"""The dead-letter handler: a table of rules decides where dead letters go; see docs."""

from mayfly.services.dead_letter.dead_letters import DeadLetter, dead_letter_of, dead_letter_queue
from mayfly.services.dead_letter.handler import DeadLetterHandler, Outcome, preview, redrive_letters
from mayfly.services.dead_letter.rules import (
    Action,
    Rule,
    RuleTable,
    RuleTableError,
    parse_patterns,
    parse_rules,
)

__all__ = [
    "Action",
    "DeadLetter",
    "DeadLetterHandler",
    "Outcome",
    "Rule",
    "RuleTable",
    "RuleTableError",
    "dead_letter_of",
    "dead_letter_queue",
    "parse_patterns",
    "parse_rules",
    "preview",
    "redrive_letters",
]

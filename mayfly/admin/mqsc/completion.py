"""Completion of a command of MQSC that is being typed, and help about commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mayfly.admin import QUEUE_KINDS, SECRETS, displayed, object_type
from mayfly.admin.mqsc.commands import ENDS, OBJECTS_OF_VERBS, without_abbreviations
from mayfly.admin.mqsc.grammar import nearest, statements
from mayfly.engine.api.administration import Attribute

HELP: Final = "HELP"
_SETTING_VERBS: Final = ("DEFINE", "ALTER")
_DISPLAY: Final = "DISPLAY"
#: Parameters beside attributes.
_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "DEFINE": ("LIKE", "REPLACE", "NOREPLACE"),
    _DISPLAY: ("ALL", "WHERE"),
}
#: A word, and a value in parentheses with what is quoted in it, which may be open.
_WORDS = re.compile(r"[A-Za-z]+|\((?:'[^']*(?:'|$)|[^')])*(?:\)|$)")
_WIDTH = 78
#: Characters that end a word that is being typed.
DELIMITERS: Final = " \t\n(),;"
_CONTINUED: Final = ("+", "-")


class WordCompletion(NamedTuple):
    """The word that is being typed, "" before its first letter, and all that it may become."""

    word: str
    candidates: list[str]


def completion(typed: str) -> WordCompletion:
    """Return how the last word of a script that is being typed may go on.

    Lines before the last one count while ``+`` or ``-`` continues them.
    """
    *before, line = typed.split("\n")
    open_lines: list[str] = []
    for each in reversed(before):
        if not each.rstrip().endswith(_CONTINUED):
            break
        open_lines.insert(0, each)
    word = line[max(line.rfind(each) for each in DELIMITERS) + 1 :]
    return WordCompletion(word, candidates(open_lines, line.removesuffix(word), word))


def candidates(lines: Sequence[str], line: str, word: str) -> list[str]:
    """Return what ``word`` may become behind ``line``, in order; [] where any text may follow.

    ``lines`` are the lines of the command before, each ended by ``+`` or ``-``. A blank is behind
    the only verb, as its object follows.
    """
    typed = "".join(f"{text.rstrip()[:-1]} " for text in lines) + line
    found = [each for each in next_words(typed) if each.startswith(word.upper())]
    return [f"{found[0]} "] if len(found) == 1 and not typed.strip() else found


def has_secret(text: str) -> bool:
    """Return True if a text names an attribute that is a secret."""
    return any(secret in text.upper() for secret in SECRETS)


def help_asked(text: str) -> str | None:
    """Return help if a text is ``HELP`` or ``?``, alone or with what it is about; else None."""
    first, _, rest = text.strip().rstrip(";").strip().partition(" ")
    return help_about(rest) if first.upper() in (HELP, "?") else None


def is_unfinished(text: str) -> bool:
    """Return True if the last command of a text goes on in another line, by ``+`` or ``-``."""
    return any(statement.is_unfinished for statement in statements(text))


def next_words(typed: str) -> tuple[str, ...]:
    """Return the words that may follow what has been typed of a command, in order.

    Verbs come first, then objects, then keywords that are not there yet. Behind ``KEYWORD(`` it is
    the words that are its values. It is empty where any text may follow, and for unknown words.
    """
    parts = _WORDS.findall(typed)
    heads = [part.upper() for part in parts if not part.startswith("(")]
    if heads and heads[0] == HELP:
        heads = heads[1:]
        if len(heads) > 1:
            return ()
    elif not heads:
        return (*OBJECTS_OF_VERBS, HELP, ENDS[0])
    if len(heads) < 2:
        return tuple(OBJECTS_OF_VERBS.get(_verb(heads), ())) if heads else tuple(OBJECTS_OF_VERBS)
    verb, kind = without_abbreviations(heads[0], heads[1])
    rows = _attributes(verb, kind)
    if parts[-1].startswith("(") and not parts[-1].endswith(")"):
        row = rows.get(heads[-1])
        return () if row is None or len(heads) == 2 else _values(row)
    keywords = rows if verb == _DISPLAY else _keywords(rows)
    return tuple(sorted({*keywords, *_BESIDE.get(verb, ())} - set(heads[2:])))


def help_about(asked: str) -> str:
    """Return help about ``''``, a verb, or a verb and an object, such as ``'DEFINE QLOCAL'``."""
    heads = asked.upper().split()
    if not heads:
        return "\n".join(
            (
                "Commands end with their line; + or - at its end continues them.",
                *(_line(verb, kinds) for verb, kinds in OBJECTS_OF_VERBS.items()),
                f"{HELP} DEFINE QLOCAL shows attributes; {', '.join(ENDS)} or Ctrl-D ends.",
            )
        )
    verb = _verb(heads)
    kinds = OBJECTS_OF_VERBS.get(verb)
    if kinds is None:
        return f"{verb} is not a command here{nearest(verb, OBJECTS_OF_VERBS)}"
    if len(heads) == 1:
        return _line(verb, kinds)
    kind = without_abbreviations(verb, heads[1])[1]
    if kind not in kinds:
        return f"{verb} knows {', '.join(kinds)}, not {kind}"
    rows = _attributes(verb, kind)
    lines = [f"{verb} {kind}", *(f"  {word}" for word in _BESIDE.get(verb, ()))]
    return "\n".join((*lines, *(f"  {_explained(row)}" for row in rows.values())))


def _verb(heads: list[str]) -> str:
    """Return the verb of a command in upper case, without abbreviation."""
    return without_abbreviations(heads[0], "")[0]


def _attributes(verb: str, kind: str) -> Mapping[str, Attribute]:
    """Return the attributes that a verb sets or displays of an object type, by keyword."""
    if verb in _SETTING_VERBS:
        return object_type(kind).attributes
    if verb == _DISPLAY:
        return displayed(QUEUE_KINDS if kind == "QUEUE" else (kind,))
    return {}


def _keywords(rows: Mapping[str, Attribute]) -> Iterable[str]:
    """Yield the keywords of attributes; a flag has two, as ``TRIGGER`` and ``NOTRIGGER``."""
    for keyword, row in rows.items():
        if row.is_flag:
            yield from (word for word, _ in row.words)
        else:
            yield keyword


def _values(row: Attribute) -> tuple[str, ...]:
    """Return the words that are values of an attribute."""
    return row.choices or tuple(word for word, _ in row.words)


def _explained(row: Attribute) -> str:
    """Return an attribute with the values that it may have: ``MAXDEPTH(0 to 999999999)``."""
    words = " | ".join(_values(row))
    if row.is_flag:
        return words
    if row.is_text:
        return f"{row.keyword}({words or f'text of at most {row.length:,} bytes'})"
    numbers = f"{row.low} to {row.high}" if row.low <= row.high and row.field else ""
    unit = f" {row.unit}" if numbers and row.unit else ""
    return f"{row.keyword}({' | '.join(filter(None, (numbers + unit, words))) or 'number'})"


def _line(verb: str, kinds: Iterable[str]) -> str:
    """Return a verb and its objects, in as many lines as that needs."""
    lines = [f"{verb:<9}"]
    for kind in kinds:
        if len(lines[-1]) + len(kind) >= _WIDTH:
            lines.append(" " * 9)
        lines[-1] += f" {kind}"
    return "\n".join(lines)

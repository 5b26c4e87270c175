"""LIKE patterns: ``_`` stands for any one character, ``%`` for any number of characters."""

from __future__ import annotations

from typing import TypeAlias

#: If a search compares more characters than this for each position, :meth:`Gapped._walk` takes
#: over; the second number is not counted, for short texts.
PATIENCE = 16
FREE = 1_024
#: CPython's ``str.find`` compares each character this often at the most: it searches long texts in
#: linear time; in a short text it may compare as often as the needle is long.
_FIND_LIMIT = 100
#: Steps of one character in :meth:`Gapped._walk`, in comparisons of ``str.find``.
_WALK = 200


class Gapped:
    """A part of a pattern between percent signs that contains ``_``; it has a fixed length.

    ``pieces`` are the texts in it, each with its offset: ``a_bc`` -> ``(0, "a"), (2, "bc")``.
    """

    __slots__ = ("_anchor", "_anchor_offset", "length", "pieces")

    def __init__(self, length: int, pieces: tuple[tuple[int, str], ...]) -> None:
        """Create a part of ``length`` characters, with the texts in it and their offsets."""
        self.length = length
        self.pieces = pieces
        #: The longest piece is the one that is searched.
        self._anchor_offset, self._anchor = max(
            pieces, key=lambda piece: len(piece[1]), default=(0, "")
        )

    def is_at(self, text: str, start: int) -> bool:
        """Return True if the part matches at this position of a text."""
        return start + self.length <= len(text) and all(
            text.startswith(piece, start + offset) for offset, piece in self.pieces
        )

    def find(self, text: str, start: int, end: int) -> int:
        """Return the first position of a match in text[start:end], -1 without a match."""
        if end - start < self.length:
            return -1
        anchor, before = self._anchor, self._anchor_offset
        # The pieces behind the anchor must fit too. Without any piece the anchor is empty, and
        # found where the complete part fits.
        anchor_end = end - (self.length - before - len(anchor))
        if len(self.pieces) <= 1:
            found = text.find(anchor, start + before, anchor_end)
            return found - before if found >= 0 else -1
        at, compared = start, 0
        while (found := text.find(anchor, at + before, anchor_end)) >= 0:
            at = found - before
            compared += len(anchor)
            for offset, piece in self.pieces:
                compared += len(piece)
                if not text.startswith(piece, at + offset):
                    break
            else:
                return at
            at += 1
            if compared > FREE + PATIENCE * (at - start):
                return self._walk(text, at, end)
        return -1

    def _walk(self, text: str, start: int, end: int) -> int:
        """Return the first match like :meth:`find`, in one step for each character of the text.

        It is used when :meth:`find` compares too often. Bit n of ``state`` says that the last n + 1
        characters match the first n + 1 of this part (Baeza-Yates and Gonnet, "A new approach to
        text searching", 1992).
        """
        gaps = (1 << self.length) - 1
        of_char: dict[str, int] = {}
        for offset, piece in self.pieces:
            for place, char in enumerate(piece, offset):
                of_char[char] = of_char.get(char, 0) | 1 << place
            gaps ^= ((1 << len(piece)) - 1) << offset
        of_char = {char: places | gaps for char, places in of_char.items()}
        last, state = 1 << (self.length - 1), 0
        for at in range(start, end):
            state = (state << 1 | 1) & of_char.get(text[at], gaps)
            if state & last:
                return at + 1 - self.length
        return -1


#: One part between percent signs.
Part: TypeAlias = str | Gapped


class Pattern:
    """A compiled LIKE pattern.

    ``work`` is how often it compares each character of a text at most. A match takes time linear in
    the length of the text: the first position of each part is the right one, as it leaves most text
    for the later parts. So no part is searched twice.
    """

    __slots__ = ("_first", "_last", "_middle", "work")

    def __init__(self, pattern: str, escape: str | None) -> None:
        """Compile a pattern; a character after the escape character is taken literally.

        ``escape`` None means no escape character. Raises ValueError when the pattern ends with the
        escape character.
        """
        parts = _parts(pattern, escape)
        self._first: Part = parts[0]
        #: None without a percent sign.
        self._last: Part | None = parts[-1] if len(parts) > 1 else None
        self._middle: list[Part] = [part for part in parts[1:-1] if part != ""]
        self.work = max(map(_work_of, self._middle), default=1)

    def matches(self, text: str) -> bool:
        """Return True if the complete text matches the pattern."""
        first, last = self._first, self._last
        at = _length_of(first)
        if last is None:
            return len(text) == at and _is_at(first, text, 0)
        end = len(text) - _length_of(last)
        if end < at or not _is_at(first, text, 0) or not _is_at(last, text, end):
            return False
        for part in self._middle:
            found = _find(part, text, at, end)
            if found < 0:
                return False
            at = found + _length_of(part)
        return True


def _find(part: Part, text: str, start: int, end: int) -> int:
    """Return the first position of a part in text[start:end], -1 without a match."""
    return text.find(part, start, end) if isinstance(part, str) else part.find(text, start, end)


def _is_at(part: Part, text: str, start: int) -> bool:
    """Return True if a part matches at position ``start`` of a text."""
    return text.startswith(part, start) if isinstance(part, str) else part.is_at(text, start)


def _length_of(part: Part) -> int:
    """Return how many characters a part matches."""
    return len(part) if isinstance(part, str) else part.length


def _work_of(part: Part) -> int:
    """Return how often the search for a part compares each character of a text at most."""
    if isinstance(part, str):
        return min(len(part), _FIND_LIMIT)
    if len(part.pieces) <= 1:
        return min(part.length, _FIND_LIMIT)
    return _WALK + part.length // 8


def _parts(pattern: str, escape: str | None) -> list[Part]:
    """Split a pattern at its percent signs: ``a%b_c`` -> ``"a"`` and a Gapped part.

    Equal parts are one object. Raises ValueError when the pattern ends with the escape character.
    """
    parts: list[Part] = []
    known: dict[object, Part] = {}
    length, pieces = 0, list[tuple[int, str]]()
    piece: list[str] = []

    def end_piece() -> None:
        """Move the collected characters to the pieces of the present part."""
        if piece:
            pieces.append((length - len(piece), "".join(piece)))
            piece.clear()

    def end_part() -> None:
        """Add the present part to the result, and begin a new one."""
        nonlocal length
        end_piece()
        key = length, tuple(pieces)
        is_plain = sum(len(text) for _, text in pieces) == length
        if key not in known:
            known[key] = "".join(text for _, text in pieces) if is_plain else Gapped(*key)
        parts.append(known[key])
        length = 0
        pieces.clear()

    chars = iter(pattern)
    for char in chars:
        if char == escape:
            escaped = next(chars, None)
            if escaped is None:
                raise ValueError(pattern)
            piece.append(escaped)
        elif char == "%":
            end_part()
            continue
        elif char == "_":
            end_piece()
        else:
            piece.append(char)
        length += 1
    end_part()
    return parts

"""Two-phase commit between stores: prepare records of members' changes in the store of a group.

In a queue-sharing group a unit of work may change the store of the group and those of members. The
transaction in the group's store is the decision: it also holds a prepare record with the changes of
each member's store. A member notes, in the transaction that makes those changes, that it has
carried the record out. After a kill between the two transactions the record is still there, and the
member carries it out when it is opened again.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

from mayfly.lifetime.life import LifeRecord
from mayfly.store.database import read_value, write_value
from mayfly.store.messages import Messages
from mayfly.store.units import (
    Bulk,
    EndedLives,
    EndedMessages,
    EndedRows,
    KeyRange,
    StagedMove,
    Statement,
    StoredMessage,
    Unit,
)

_INTEND = "INSERT INTO intent VALUES (?, ?, ?)"
_INTENTS = "SELECT number, changes FROM intent WHERE member = ? ORDER BY number"
_FORGET = "DELETE FROM intent WHERE number IN (SELECT value FROM json_each(?))"
_CARRY_OUT = "INSERT INTO carried_out VALUES (?)"
_CARRIED_OUT = "SELECT number FROM carried_out"
_FORGET_CARRIED_OUT = "DELETE FROM carried_out WHERE number IN (SELECT value FROM json_each(?))"
_COUNTS = "SELECT member, count(*) FROM intent GROUP BY member"
_FORGET_ALL = "DELETE FROM intent WHERE member = ?"
#: In a member's store: its group, and a number that the group gave it as it joined.
_GROUP, _JOINED = "sharing_group", "sharing_group_joined"
#: In the group's store: a number given as a member was removed, higher than when that one joined.
_REMOVED = "removed_member:"
#: The key of bytes in JSON.
_BYTES = "base64"


def prepare(number: int, member: str, unit: Unit) -> Statement:
    """Return the SQL statement that stores the changes of a member's store as a prepare record.

    ``member`` is the queue manager's name, ``unit`` has the changes. ``number`` must be unique. The
    statement runs in the store of the group.
    """
    return _INTEND, (number, member, pack_unit(unit))


def forget_prepare_records(numbers: Iterable[int]) -> Statement:
    """Return the SQL statement that deletes the prepare records with these numbers.

    Their members have carried them out.
    """
    return _FORGET, (json.dumps(list(numbers)),)


def carry_out(number: int) -> Statement:
    """Return the SQL statement that marks a prepare record as carried out, in a member's store.

    ``number`` is that of the record. A prepare record has a member's changes of a transaction that
    its group has decided.
    """
    return _CARRY_OUT, (number,)


def forget_carried_out(numbers: Iterable[int]) -> Statement:
    """Return the SQL statement that deletes notes of :func:`carry_out`.

    The prepare records must be durably deleted before.
    """
    return _FORGET_CARRIED_OUT, (json.dumps(list(numbers)),)


def join_group(group: str, number: int) -> list[Statement]:
    """Return the SQL statements that note in a member's store its group, and its joining number.

    ``number`` is higher than all numbers that the group gave before.
    """
    return [write_value(_GROUP, group), write_value(_JOINED, number)]


def group_of(messages: Messages) -> str:
    """Return the name of the queue-sharing group that a store belongs to, empty for none."""
    return str(read_value(messages, _GROUP) or "")


def joined_at(messages: Messages) -> int:
    """Return the number with which a member's store has joined its group, 0 if never."""
    return int(read_value(messages, _JOINED) or 0)


def remove_member(member: str, number: int) -> list[Statement]:
    """Return the SQL statements that record a member's removal and delete its prepare records.

    ``number`` is the next number of the store's sequence. It is higher than the number with which
    this member joined, and lower than that of a later member of the same name.
    """
    return [(_FORGET_ALL, (member,)), write_value(_REMOVED + member, number)]


def removed_at(messages: Messages, member: str) -> int:
    """Return the number with which a member of this name was last removed, 0 if never."""
    return int(read_value(messages, _REMOVED + member) or 0)


def prepare_record_counts(messages: Messages) -> dict[str, int]:
    """Return the number of prepare records in a group's store, by member name.

    Members without any are left out.
    """
    return dict(messages.fetch(_COUNTS, ()))


def prepare_records_of(messages: Messages, member: str) -> list[tuple[int, Unit]]:
    """Return number and changes of all prepare records for a member, in ascending order."""
    rows = messages.fetch(_INTENTS, (member,))
    return [(number, unpack_unit(changes)) for number, changes in rows]


def carried_out(messages: Messages) -> set[int]:
    """Return the numbers of the prepare records that a member's store has carried out."""
    return {number for (number,) in messages.fetch(_CARRIED_OUT, ())}


def pack_unit(unit: Unit) -> str:
    """Return all changes that a unit makes to the disk, as JSON.

    Changes to non-persistent messages are left out, but not their effect on the queue counters: at
    the next start these determine how many messages were lost.
    """
    deltas = [
        (number, d.puts, d.present, d.present_volatile, list(d.ended.items()))
        for number, d in unit.deltas.items()
    ]
    return json.dumps(
        {
            "inserts": unit.inserts,
            "deletes": unit.deletes,
            "backouts": unit.backouts,
            "lives": unit.lives,
            "moves": unit.moves,
            "bulks": unit.bulks,
            "ended_rows": unit.ended_rows,
            "deltas": deltas,
            "statements": unit.statements,
        },
        default=_bytes_to_json,
    )


def unpack_unit(packed: str) -> Unit:
    """Return the unit that :func:`pack_unit` has made into JSON."""
    fields = json.loads(packed, object_hook=_bytes_from_json)
    unit = Unit()
    unit.inserts = [StoredMessage(*row) for row in fields["inserts"]]
    unit.deletes = [(key,) for (key,) in fields["deletes"]]
    unit.backouts = [(key,) for (key,) in fields["backouts"]]
    unit.lives = [_ended_lives(life) for life in fields["lives"]]
    unit.moves = [StagedMove(*move) for move in fields["moves"]]
    bulks = [Bulk(*bulk) for bulk in fields["bulks"]]
    unit.bulks = [b._replace(key_range=b.key_range and KeyRange(*b.key_range)) for b in bulks]
    unit.ended_rows = [_ended_rows(*ended) for ended in fields["ended_rows"]]
    unit.statements = [(sql, tuple(bindings)) for sql, bindings in fields["statements"]]
    for number, puts, present, present_volatile, ended in fields["deltas"]:
        delta = unit.delta(number)
        delta.puts, delta.present, delta.present_volatile = puts, present, present_volatile
        delta.ended = dict(ended)
    return unit


def _ended_lives(values: list[Any]) -> EndedLives:
    """Return the record of one ended message, or the common record of many, from its JSON list.

    That of many begins with a list of keys.
    """
    return EndedMessages(*values) if isinstance(values[0], list) else LifeRecord(*values)


def _ended_rows(*values: Any) -> EndedRows:
    """Return the record of claimed messages that end together, from the values in JSON."""
    ended = EndedRows(*values)
    descriptors: Any = [tuple(descriptor) for descriptor in ended.descriptors]
    return ended._replace(descriptors=descriptors)


def _bytes_to_json(value: object) -> dict[str, str]:
    """Return bytes in a form that JSON can hold: ``b"A"`` -> ``{"base64": "QQ=="}``."""
    assert isinstance(value, bytes)
    return {_BYTES: b64encode(value).decode()}


def _bytes_from_json(value: dict[str, Any]) -> Any:
    """Return the bytes that :func:`_bytes_to_json` has converted.

    Any other object stays as it is.
    """
    return b64decode(value[_BYTES]) if value.keys() == {_BYTES} else value

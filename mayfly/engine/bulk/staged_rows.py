"""The staged rows of one blob as columns of values that are not yet checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mayfly.lifetime.window import check_life_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQ_MSG_ID_LENGTH,
    MQPMO_NONE,
    MQPMO_SET_ALL_CONTEXT,
    MQPMO_SET_IDENTITY_CONTEXT,
)
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import stored_id
from mayfly.verbs.contracts.stages import IDS, KIND_COLUMNS, TEXT_BYTES


class StagedRows(NamedTuple):
    """The rows of one blob by column; a column that is null in all rows may be missing.

    Row n has the data ``bodies[offsets[n] : offsets[n + 1]]``, or no data when ``without_body``
    contains n. Values have the types of the columns, but are not checked.
    """

    row_count: int
    columns: Mapping[str, Sequence[Any]]
    bodies: bytes
    offsets: Sequence[int]
    without_body: frozenset[int] = frozenset()

    def column(self, name: str) -> Sequence[Any] | None:
        """Return the values of a column, one for each row; None when all are null."""
        return self.columns.get(name)

    def value(self, name: str, row: int) -> Any:
        """Return the value of a column in one row, None for null."""
        column = self.columns.get(name)
        return None if column is None else column[row]

    def body(self, row: int) -> bytes:
        """Return the message data of a row, empty for a row without data."""
        return self.bodies[self.offsets[row] : self.offsets[row + 1]]

    def kinds(self) -> tuple[list[tuple[Any, ...]], list[int]]:
        """Return the kinds of rows, and for each row the index of its kind.

        A kind is a distinct combination of values in ``KIND_COLUMNS``: queue, priority and so on.
        """
        given = {name: self.columns.get(name) for name in KIND_COLUMNS}
        varying = {name: c for name, c in given.items() if c and c.count(c[0]) < self.row_count}
        constant = {name: c[0] for name, c in given.items() if c and name not in varying}
        if not varying:
            return [tuple(constant.get(name) for name in KIND_COLUMNS)], [0] * self.row_count
        numbers: dict[tuple[Any, ...], int] = {}
        of_rows = [numbers.setdefault(v, len(numbers)) for v in zip(*varying.values(), strict=True)]
        by_name = (constant | dict(zip(varying, values, strict=True)) for values in numbers)
        return [tuple(values.get(name) for name in KIND_COLUMNS) for values in by_name], of_rows


class RowKind(NamedTuple):
    """The queue, descriptor and context option of like rows.

    ``refusal`` is the error that a put of each such row raises; None if the values are valid.
    """

    queue: str
    descriptor: Descriptor
    context_option: int
    refusal: MQError | None = None


class Times(NamedTuple):
    """The delay and time to live of a row in ms from now, and the expiry time that the row names.

    ``life_ms`` is None without expiry; ``deadline_ms`` (ms since 1970) is None if no column names
    it.
    """

    delay_ms: int
    life_ms: int | None
    deadline_ms: int | None


def kind_of(values: tuple[Any, ...], manager_name: str) -> RowKind:
    """Return queue, descriptor and context option for one combination of ``KIND_COLUMNS`` values.

    An invalid value, or another queue manager, is not raised but returned in ``refusal``.
    ``manager_name`` is this queue manager.
    """
    given = {
        name: value for name, value in zip(KIND_COLUMNS, values, strict=True) if value is not None
    }
    queue, manager = given.pop("queue", ""), given.pop("manager", "")
    option = MQPMO_NONE
    if "user_identifier" in given:
        option = MQPMO_SET_IDENTITY_CONTEXT
    if "put_appl_type" in given or "put_appl_name" in given:
        option = MQPMO_SET_ALL_CONTEXT
    try:
        if manager not in ("", manager_name):
            raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"manager {manager!r} is not served here")
        for name, value in given.items():
            _check(name, value)
    except MQError as refusal:
        return RowKind(queue, Descriptor(), MQPMO_NONE, refusal)
    return RowKind(queue, Descriptor(**given), option)


def ids_of(rows: StagedRows, row: int) -> tuple[bytes, bytes]:
    """Return the MsgId and CorrelId of a row as the store keeps them, empty for none.

    Raises MQRC_MD_ERROR for an id that is too long.
    """
    return stored_id(rows.value("msg_id", row)), stored_id(rows.value("correl_id", row))


def times_of(rows: StagedRows, row: int, now_ms: int, longest_ms: int) -> Times:
    """Return the delay and time to live of a row from ``now_ms`` on.

    A delivery time in the past means no delay, an expiry time in the past a negative time to live.
    ``longest_ms`` limits the time to live (E3). Raises MQRC_OPTIONS_ERROR when the row has both a
    delay and a delivery time. Raises MQRC_EXPIRY_ERROR when it has both a time to live and an
    expiry time, one out of range, or a delay that is longer.
    """
    delay_ms, deliver_at_ms = rows.value("delay_ms", row), rows.value("deliver_at_ms", row)
    life_ms, deadline_ms = rows.value("time_to_live_ms", row), rows.value("expire_at_ms", row)
    if delay_ms is not None and deliver_at_ms is not None:
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR, f"delay_ms {delay_ms} and deliver_at_ms {deliver_at_ms}: one"
        )
    if life_ms is not None and deadline_ms is not None:
        raise mq_error(
            rc.MQRC_EXPIRY_ERROR, f"time_to_live_ms {life_ms} and expire_at_ms {deadline_ms}: one"
        )
    check_life_ms(life_ms, longest_ms)
    if deliver_at_ms is not None:
        delay_ms = max(deliver_at_ms - now_ms, 0)
    delay_ms = 0 if delay_ms is None else delay_ms
    if deadline_ms is not None:
        life_ms = deadline_ms - now_ms
        # One that is over is no mistake.
        if life_ms > 0:
            check_life_ms(life_ms, longest_ms)
            if delay_ms > life_ms:
                raise mq_error(
                    rc.MQRC_EXPIRY_ERROR, f"delay of {delay_ms} ms, expire_at_ms {deadline_ms}"
                )
    return Times(delay_ms, life_ms, deadline_ms)


def special_rows(rows: StagedRows, now_ms: int) -> set[int]:
    """Return the numbers of rows that must be put one by one.

    These are delayed, have no data, or have an id that is too long.
    """
    special = set(rows.without_body)
    delays, moments = rows.column("delay_ms"), rows.column("deliver_at_ms")
    if delays is not None:
        special.update(n for n, delay_ms in enumerate(delays) if delay_ms)
    if moments is not None:
        special.update(
            n
            for n, at_ms in enumerate(moments)
            if at_ms is not None and (at_ms > now_ms or delays is not None)
        )
    for name in IDS:
        ids = rows.column(name)
        if ids is not None:
            special.update(n for n, i in enumerate(ids) if i and len(i) > MQ_MSG_ID_LENGTH)
    return special


def _check(name: str, value: Any) -> None:
    """Raise MQRC_MD_ERROR for a text too long, or a number too large, for its MQMD field."""
    if name in TEXT_BYTES:
        # A field ends at its first NUL.
        if len(value.encode()) > TEXT_BYTES[name] or "\0" in value:
            raise mq_error(
                rc.MQRC_MD_ERROR, f"{name} {value!r} is not text of {TEXT_BYTES[name]} bytes"
            )
    elif not -(2**31) <= value < (2**32 if name == "report" else 2**31):
        raise mq_error(rc.MQRC_MD_ERROR, f"{name} {value} is not a number of 32 bits")

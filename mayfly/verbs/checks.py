"""Checks of values that a program passes to a verb: ids, bodies, names, numbers, times."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from mayfly.lifetime.moments import Until
from mayfly.lifetime.times import ms_of_duration, ms_of_moment
from mayfly.lifetime.window import check_life_ms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error

ID_BYTES = 24
#: The prefix that JMS prints before the digits of an id.
_ID_PREFIX = "ID:"
#: A MsgId or CorrelId in a call: up to 24 bytes, or their hexadecimal digits.
Identifier: TypeAlias = bytes | str
MAX_MESSAGES: Final = 10_000
#: A call returns no more messages once their bodies together have this many bytes.
MAX_BYTES: Final = 16 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9./_%]{1,48}")
_ZERO_ID = bytes(ID_BYTES)
#: The folder of all queue managers that are opened by name.
HOME_VARIABLE = "MAYFLY_HOME"


def bytes_of(body: object) -> bytes:
    """Return the body of a message as bytes.

    Raises TypeError unless it is bytes, a bytearray or a memoryview.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"body must be bytes, not {type(body).__name__}")


def stored_id(identifier: object, name: str = "id") -> bytes:
    """Return an id as it is stored: 24 bytes padded with NUL, or b"" when absent or all zeros.

    A str has the hexadecimal digits of the id, with or without the JMS prefix ``ID:``. Raises
    MQRC_MD_ERROR for another type, for other digits and for more than 24 bytes; ``name`` is the
    field name in the error text.
    """
    if not identifier:
        return b""
    if type(identifier) is not bytes:
        identifier = _bytes_of_id(identifier, name)
    if len(identifier) > ID_BYTES:
        text = f"{name} {identifier!r} is longer than {ID_BYTES} bytes"
        raise mq_error(rc.MQRC_MD_ERROR, text)
    padded = identifier.ljust(ID_BYTES, b"\0")
    return b"" if padded == _ZERO_ID else padded


def _bytes_of_id(identifier: object, name: str) -> bytes:
    """Return the bytes of an id that is bytes-like, or a str of hexadecimal digits.

    The digits may follow the JMS prefix ``ID:``. Raises MQRC_MD_ERROR, with field name ``name`` in
    its text, for any other value.
    """
    if isinstance(identifier, (bytes, bytearray, memoryview)):
        return bytes(identifier)
    if isinstance(identifier, str):
        with suppress(ValueError):
            return bytes.fromhex(identifier.removeprefix(_ID_PREFIX))
    raise mq_error(
        rc.MQRC_MD_ERROR,
        f"{name} {identifier!r} is no id: give bytes, or the hexadecimal digits that the command "
        "line prints",
    )


def plain_descriptor(
    priority: int | None,
    persistent: bool | None,
    report: int,
    reply_to: str,
    msg_type: object,
    format_name: object,
) -> Descriptor:
    """Return the message descriptor (MQMD) made from the separate arguments of a put.

    ``priority`` or ``persistent`` None takes the default of the queue or topic. ``reply_to`` is
    ``QUEUE`` or ``QUEUE@MANAGER``, or empty. Raises TypeError for a ``msg_type`` that is no int or
    a ``format_name`` that is no str.
    """
    reply_to_q, _, reply_to_q_mgr = reply_to.partition("@")
    if not isinstance(msg_type, int) or not isinstance(format_name, str):
        raise TypeError(f"msg_type {msg_type!r} is no int, or format_name {format_name!r} no str")
    return Descriptor(
        report=report,
        msg_type=msg_type,
        priority=c.MQPRI_PRIORITY_AS_Q_DEF if priority is None else priority,
        persistence=c.MQPER_PERSISTENCE_AS_Q_DEF if persistent is None else int(persistent),
        reply_to_q=reply_to_q,
        reply_to_q_mgr=reply_to_q_mgr,
        format=format_name,
    )


def check_max_messages(max_messages: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless ``max_messages`` is an int from 1 to 10,000."""
    if type(max_messages) is not int or not 1 <= max_messages <= MAX_MESSAGES:
        text = f"most {max_messages!r} is no number from 1 to {MAX_MESSAGES}"
        raise mq_error(rc.MQRC_OPTIONS_ERROR, text)


def check_name(name: str) -> None:
    """Raise MQRC_OBJECT_NAME_ERROR unless ``name`` is 1 to 48 characters of A-Z a-z 0-9 . / _ %."""
    if not _NAME.fullmatch(name):
        raise mq_error(
            rc.MQRC_OBJECT_NAME_ERROR, f"{name!r} is not 1 to 48 characters of A-Z a-z 0-9 . / _ %"
        )


def check_manager_name(name: str) -> None:
    """Raise MQRC_Q_MGR_NAME_ERROR unless a queue manager name is valid.

    Valid are 1 to 48 characters of A-Z a-z 0-9 . / _ %.
    """
    try:
        check_name(name)
    except MQError as error:
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, error.detail) from None


def folder_in_home(name: str) -> Path:
    """Return the folder of a queue manager, ``$MAYFLY_HOME/name`` or else ``~/.mayfly/name``.

    The folder need not exist. Raises MQRC_Q_MGR_NAME_ERROR for an invalid name. Raises it also for
    a name with ``/`` or only dots: such a queue manager needs an explicit folder.
    """
    check_manager_name(name)
    if "/" in name or not name.strip("."):
        raise mq_error(
            rc.MQRC_Q_MGR_NAME_ERROR, f"{name!r} is no name of a folder: give its folder as well"
        )
    return home_folder() / name


def home_folder() -> Path:
    """Return ``$MAYFLY_HOME``, or ``~/.mayfly`` where that is not set; it need not exist."""
    home = os.environ.get(HOME_VARIABLE)
    return Path(home) if home else Path.home() / ".mayfly"


# Times that a program passes to a verb: whole ms, a timedelta, or the moment as a datetime


#: A duration: ms or a timedelta. A part of a millisecond counts as a whole one.
Duration: TypeAlias = int | timedelta
#: A time to live: a duration, None for ever.
Life: TypeAlias = Duration | None
#: A delivery delay: a duration, or the moment of delivery as a datetime with a time zone.
Delay: TypeAlias = Duration | datetime
#: A moment: ms since 1970, UTC, or a datetime with a time zone.
Moment: TypeAlias = int | datetime


def times_of_put(life: Life, delay: Delay) -> tuple[int | None, int]:
    """Return time to live and delay of a put in ms; the delay is an ``Until`` for a datetime.

    Raises MQRC_EXPIRY_ERROR for a wrong time to live, and ValueError for a datetime without a time
    zone. A wrong delay is returned unchanged: the put refuses it.
    """
    life_ms = ms_of_duration(life)
    check_life_ms(life_ms)
    if isinstance(delay, datetime):
        # A delay of 0 is none, so the first moment of 1970 is the second one.
        return life_ms, Until(ms_of_moment(delay, "delay_ms") or 1)
    return life_ms, ms_of_duration(delay)


def delay_from(now_ms: int, until_ms: int) -> int:
    """Return the delay in ms that ends at ``until_ms``, at least 1; both are epoch ms."""
    return max(until_ms - now_ms, 1)

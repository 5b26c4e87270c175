"""The authorities by MQSC word and as bits, and which of them each type of object has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mayfly.engine.attributes import QMGR, TOPIC
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

QUEUE: Final = "QUEUE"

ALTUSR, BROWSE, CHG, CLR, CONNECT, CRT, CTRL, CTRLX = (1 << n for n in range(8))
DLT, DSP, GET, INQ, PASSALL, PASSID, PUB, PUT = (1 << n for n in range(8, 16))
RESUME, SET, SETALL, SETID, SUB, SYSTEM = (1 << n for n in range(16, 22))
#: The rights of a user that is not checked.
EVERYTHING: Final = -1

#: Each by its MQSC word, in the order in which they are shown.
BITS: Final[dict[str, int]] = {
    "ALTUSR": ALTUSR,
    "BROWSE": BROWSE,
    "CHG": CHG,
    "CLR": CLR,
    "CONNECT": CONNECT,
    "CRT": CRT,
    "CTRL": CTRL,
    "CTRLX": CTRLX,
    "DLT": DLT,
    "DSP": DSP,
    "GET": GET,
    "INQ": INQ,
    "PASSALL": PASSALL,
    "PASSID": PASSID,
    "PUB": PUB,
    "PUT": PUT,
    "RESUME": RESUME,
    "SET": SET,
    "SETALL": SETALL,
    "SETID": SETID,
    "SUB": SUB,
    "SYSTEM": SYSTEM,
}
_CONTEXT = PASSALL | PASSID | SETALL | SETID
_ADMINISTRATION = CHG | CRT | DLT | DSP
#: Object type -> what programs use, what administrators use.
_KNOWN: Final[dict[str, tuple[int, int]]] = {
    "AUTHINFO": (INQ, _ADMINISTRATION),
    "CHANNEL": (0, _ADMINISTRATION | CTRL | CTRLX),
    "CLNTCONN": (0, _ADMINISTRATION),
    "COMMINFO": (0, _ADMINISTRATION),
    "LISTENER": (0, _ADMINISTRATION | CTRL),
    "NAMELIST": (INQ, _ADMINISTRATION),
    "PROCESS": (INQ | SET, _ADMINISTRATION),
    QMGR: (ALTUSR | CONNECT | INQ | SET | SETALL | SETID, _ADMINISTRATION | CTRL),
    QUEUE: (BROWSE | GET | INQ | PUT | SET | _CONTEXT, _ADMINISTRATION | CLR),
    "RQMNAME": (PUT, 0),
    "SERVICE": (0, _ADMINISTRATION | CTRL),
    TOPIC: (PUB | SUB | RESUME | _CONTEXT, _ADMINISTRATION | CLR | CTRL),
}
OBJECT_TYPES: Final = tuple(_KNOWN)
_ALL, _NONE = "ALL", "NONE"


def bits_of(object_type: str, words: Iterable[str]) -> int:
    """Return the bits of authority words for a type of object: ``["GET", "PUT"]`` -> ``GET | PUT``.

    The words may include ALL, ALLMQI, ALLADM and NONE. Raises MQRC_OPTIONS_ERROR for a word that
    the type of object does not have.
    """
    allowed = allowed_words(object_type)
    bits = 0
    for word in words:
        if word not in allowed:
            known = ", ".join(allowed)
            raise mq_error(
                rc.MQRC_OPTIONS_ERROR, f"{word} is no authority of {object_type}, which has {known}"
            )
        bits |= allowed[word]
    return bits


def allowed_words(object_type: str) -> dict[str, int]:
    """Return the authority words that a type of object has, each with its bits.

    Single authorities come first, then ALL, ALLADM, ALLMQI and NONE. Raises KeyError for an unknown
    type.
    """
    of_programs, of_administrators = _KNOWN[object_type]
    every = of_programs | of_administrators | (SYSTEM if object_type == QMGR else 0)
    single = {word: bit for word, bit in BITS.items() if bit & every}
    return {**single, _ALL: every, "ALLADM": of_administrators, "ALLMQI": of_programs, _NONE: 0}


def spelled(bits: int) -> str:
    """Return authorities as MQSC words: ``GET | PUT`` -> ``"GET,PUT"``, no bit -> ``"NONE"``."""
    return ",".join(word for word, bit in BITS.items() if bits & bit) or _NONE

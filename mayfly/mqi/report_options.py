"""Report options by name, as people write them: ``expiration``, ``coa-with-data``."""

from __future__ import annotations

from typing import Final

from mayfly.mqi import constants as c

#: Options that may be asked for, by name; of those with data the longer form comes first.
REPORT_OPTIONS: Final = {
    "exception-with-full-data": c.MQRO_EXCEPTION_WITH_FULL_DATA,
    "exception-with-data": c.MQRO_EXCEPTION_WITH_DATA,
    "exception": c.MQRO_EXCEPTION,
    "expiration-with-full-data": c.MQRO_EXPIRATION_WITH_FULL_DATA,
    "expiration-with-data": c.MQRO_EXPIRATION_WITH_DATA,
    "expiration": c.MQRO_EXPIRATION,
    "coa-with-full-data": c.MQRO_COA_WITH_FULL_DATA,
    "coa-with-data": c.MQRO_COA_WITH_DATA,
    "coa": c.MQRO_COA,
    "cod-with-full-data": c.MQRO_COD_WITH_FULL_DATA,
    "cod-with-data": c.MQRO_COD_WITH_DATA,
    "cod": c.MQRO_COD,
    "pan": c.MQRO_PAN,
    "nan": c.MQRO_NAN,
    "pass-msg-id": c.MQRO_PASS_MSG_ID,
    "pass-correl-id": c.MQRO_PASS_CORREL_ID,
    "pass-discard-and-expiry": c.MQRO_PASS_DISCARD_AND_EXPIRY,
    "discard-msg": c.MQRO_DISCARD_MSG,
}


def report_option(text: str) -> int | None:
    """Return an option from its name, also with MQRO_ and in any case; None for another text."""
    return REPORT_OPTIONS.get(text.strip().lower().replace("_", "-").removeprefix("mqro-"))


def report_names(report: int) -> list[str]:
    """Return the names of the options that a message has; bits without a name are left out."""
    found: list[str] = []
    for name, option in REPORT_OPTIONS.items():
        if report & option == option:
            found.append(name)
            report &= ~option
    return found

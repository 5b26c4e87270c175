"""The names that topic clients make: of subscriptions of a client id, and of temporary topics."""

from __future__ import annotations

import re
from typing import Final

#: The id is one of 24 bytes, as messages have; other topics below TEMP are anybody's.
_TEMPORARY: Final = re.compile(r"TEMP/[0-9A-F]{48}")
#: Characters of a client id that separate the parts of a subscription's name.
_QUOTED: Final = str.maketrans({"%": "%25", ":": "%3A"})


def quoted_client_id(client_id: str) -> str:
    """Return a client id escaped for use in a subscription name: ``a:b`` -> ``a%3Ab``.

    ``:`` separates the parts of such a name. So no two clients get the same name: ``a`` with
    ``b:c`` differs from ``a:b`` with ``c``.
    """
    return client_id.translate(_QUOTED)


def is_temporary_topic(name: str) -> bool:
    """Return True if a topic string has the form of ``MakeTemporaryTopic``.

    The form is ``TEMP/`` and 48 hexadecimal digits.
    """
    return _TEMPORARY.fullmatch(name) is not None

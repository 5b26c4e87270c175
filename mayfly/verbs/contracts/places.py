"""Places that a person names: a path of this machine, or a URL.

A place stays a text until its scheme is known: a ``Path`` makes one slash of two, and ``s3a://lake``
would become a folder ``s3a:`` of this machine.
"""

from __future__ import annotations

import re
from pathlib import Path

FILE_SCHEME = "file"
#: A scheme of one letter is none: drives have such names. A URL that went through a ``Path`` has
#: one slash left.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))")


def scheme_of(place: str | Path) -> str:
    """Return the scheme of a URL in small letters, "" for a path of this machine."""
    found = _SCHEME.match(str(place))
    return "" if found is None else found[1].lower()


def local_path(place: str | Path) -> Path:
    """Return a path of this machine, which may be spelled ``file:///PATH``.

    Raises ValueError, which names the scheme, for a URL of anywhere else.
    """
    text = str(place)
    scheme = scheme_of(text)
    if not scheme:
        return Path(text)
    file = _FILE.match(text)
    if file is not None:
        return Path(text[file.end() :])
    if scheme == FILE_SCHEME:
        raise ValueError(f"{text} is a file of another machine; write file:///PATH")
    raise ValueError(f"{text} is no path of this machine: {scheme}: is not supported here")

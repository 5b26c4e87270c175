"""The API of ibmmq, IBM's package for Python, on Mayfly: a program changes only its import.

It is :mod:`mayfly.pymqi`, from which ibmmq comes, under ibmmq's name. See docs/PYMQI.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mayfly import pymqi
from mayfly.pymqi import *  # noqa: F403 - the same API, under another name
from mayfly.pymqi import CFH, CMQC, CMQSTRC

#: The version of ibmmq whose API this is.
__version__ = "2.1.2"
#: The command level of the structures and constants.
__cmdlevel__ = CMQC.MQCMDL_LEVEL_940
__mqbuild__ = "client"

__all__ = [*pymqi.__all__, "CMQSTRC", "get_versions"]  # noqa: PLE0604 - all are texts


def get_versions() -> dict[str, str | int]:
    """Return the version of this API, ``module``, and the command level behind it, ``MQ``."""
    return {"module": __version__, "MQ": __cmdlevel__}


class PCFExecute(pymqi.PCFExecute):  # type: ignore[no-redef]  # in the place of that one
    """Commands of pymqi's PCFExecute; texts of answers end before the NULs that pad them."""

    @staticmethod
    def unpack(message: bytes) -> tuple[dict[int, Any], CFH]:
        """Return the values of a PCF message by parameter number, and its header.

        Raises MQMIError as pymqi's does.
        """
        values, header = pymqi.PCFExecute.unpack(message)
        return _without_nuls(values), header


class HeaderError(pymqi.PYIFError):
    """A wrong RFH2; the text is that of ibmmq."""

    def __str__(self) -> str:
        return f"PYIBMMQ Error: {self.error.replace(' StrucId ', ' _StrucId ')}"


class RFH2(pymqi.RFH2):  # type: ignore[no-redef]  # in the place of that one
    """The header of pymqi; its errors, which are PYIFError, have the texts of ibmmq."""

    def add_folder(self, folder_data: bytes) -> None:
        """Add a folder as ``pymqi.RFH2.add_folder``."""
        with _texts_of_ibmmq():
            super().add_folder(folder_data)

    def unpack(self, buff: bytes, encoding: int | None = None) -> None:
        """Set the fields from the bytes of a header; parameters as of ``pymqi.RFH2.unpack``."""
        with _texts_of_ibmmq():
            super().unpack(buff, encoding)


@contextmanager
def _texts_of_ibmmq() -> Iterator[None]:
    """Raise a PYIFError of the ``with`` block as HeaderError."""
    try:
        yield
    except pymqi.PYIFError as error:
        raise HeaderError(error.error) from error


def _without_nuls(value: Any) -> Any:
    """Return a value of an answer with the NULs at the end of its bytes left out."""
    if isinstance(value, bytes):
        return value.rstrip(b"\0")
    if isinstance(value, list):
        return [_without_nuls(each) for each in value]
    if isinstance(value, dict):
        return {parameter: _without_nuls(each) for parameter, each in value.items()}
    return value

"""Errors that no message, and no other item of work, is to blame for."""

from __future__ import annotations

from typing import Final

import apsw

from mayfly.mqi.errors import StoreError

#: The store has failed or is damaged, or what the engine holds for certain is not so: the queue
#: manager stops. Any other error is one of the item whose work has raised it.
BROKEN: Final = (StoreError, apsw.Error, OSError, AssertionError)

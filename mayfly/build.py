"""The build of this Mayfly: whether it was compiled when it was installed (MAYFLY_COMPILE=1)."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def is_compiled() -> bool:
    """Return True if the packages compiled by mypyc run as machine code; imports none of them."""
    engine = Path(__file__).parent / "engine"
    return any((engine / f"put{suffix}").exists() for suffix in EXTENSION_SUFFIXES)

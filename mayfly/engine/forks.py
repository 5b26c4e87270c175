"""The engines that are open in this process; a forked child stops its copies of them."""

from __future__ import annotations

import os
import weakref

from mayfly.engine.core import Core

#: Two may have one name, in different folders.
_OPEN: weakref.WeakSet[Core] = weakref.WeakSet()


def stop_in_children(core: Core) -> None:
    """Let each child that is forked from now on stop its copy of an engine.

    The child shares files with its parent, and its locks may be held by threads that it lacks.
    """
    _OPEN.add(core)


def _stop_all() -> None:
    for core in list(_OPEN):
        core.stop_in_child()


os.register_at_fork(after_in_child=_stop_all)

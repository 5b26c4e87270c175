"""An open process, or the open queue manager: it can be inquired, and nothing else."""

from __future__ import annotations

from mayfly.engine.attributes.attribute import PROCESS, QMGR
from mayfly.engine.attributes.definition import Definition
from mayfly.engine.authority.checks import UserAuthority
from mayfly.engine.authority.profiles import SELF
from mayfly.engine.core import Core
from mayfly.engine.objects.named import find_named
from mayfly.engine.open_handles import OpenObject, OpenQueues
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

_ALLOWED = c.MQOO_INQUIRE | c.MQOO_ALTERNATE_USER_AUTHORITY | c.MQOO_FAIL_IF_QUIESCING
_KNOWN = (1 << 23) - 1
_KINDS = (PROCESS, QMGR)
#: Of which kind an object is that is neither queue nor topic, by its MQOT_* number.
DEFINITION_KINDS = {c.MQOT_PROCESS: PROCESS, c.MQOT_Q_MGR: QMGR}


class DefinitionHandle:
    """One open process, or the queue manager, of one session; closed by close or with it."""

    def __init__(self, opened: OpenQueues, mark: OpenObject, definition: Definition) -> None:
        """Take what was opened; :func:`open_definition` does."""
        self._opened = opened
        self._mark = mark
        self.kind = definition.kind
        self.name = definition.name
        self.options = mark.options
        #: MQHOBJ.
        self.number = mark.number

    @property
    def is_open(self) -> bool:
        """Whether neither the handle nor its session has been closed."""
        return self._mark.is_open

    def __index__(self) -> int:
        """Return the number of the handle, MQHOBJ."""
        return self.number

    def close(self, options: int = c.MQCO_NONE) -> None:
        """MQCLOSE; raises MQRC_HOBJ_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE for any option."""
        if not self.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of {self.name} is closed")
        if options:
            said = f"close options {options:#x} for a {self.kind}"
            raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
        self._opened.close_object(self._mark)


def open_definition(
    opened: OpenQueues, authority: UserAuthority | None, kind: str, name: str, options: int
) -> DefinitionHandle:
    """MQOPEN of a process, or of the queue manager, whose name may be left out.

    Raises MQRC_OPTION_NOT_VALID_FOR_TYPE for options of queues and MQRC_OPTIONS_ERROR for others
    (C8), MQRC_UNKNOWN_OBJECT_NAME, MQRC_NOT_AUTHORIZED (C7), MQRC_HANDLE_NOT_AVAILABLE (MAXHANDS).
    """
    assert kind in _KINDS
    if options & ~_KNOWN or not options & _KNOWN:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"open options {options:#x} for a {kind}")
    if options & ~_ALLOWED or not options & c.MQOO_INQUIRE:
        said = f"open options {options:#x}: a {kind} can only be inquired about"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
    definition = _definition(opened.core, kind, name)
    if authority is not None:
        authority.check_inquire(kind, SELF if kind == QMGR else name)
    return DefinitionHandle(opened, opened.open_object(kind, name, options), definition)


def _definition(core: Core, kind: str, name: str) -> Definition:
    if kind == QMGR:
        if name not in ("", core.name):
            raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"this queue manager is {core.name}")
        return core.registry.queue_manager
    return find_named(core, kind, name)

"""MQSTAT: the outcome of puts with MQPMO_ASYNC_RESPONSE, whose failures are not raised (P13)."""

from __future__ import annotations

from typing import Final

from mayfly.engine.attributes.attribute import QALIAS, QREMOTE
from mayfly.engine.core import Core
from mayfly.engine.objects.registry import Path
from mayfly.engine.put import PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.verbs.facts import Status
from mayfly.verbs.messages import PutResult

_OBJECT_TYPES: Final = {QALIAS: c.MQOT_ALIAS_Q, QREMOTE: c.MQOT_REMOTE_Q}


class AsyncPuts:
    """The status of one session: its asynchronous puts are counted, their first error is kept."""

    def __init__(self, core: Core) -> None:
        """Begin with nothing put."""
        self._core = core
        #: Without those that went well, which are most.
        self._status = Status()
        self._success_count = 0

    def take(self) -> Status:
        """Return the status and begin anew."""
        status = self._status._replace(success_count=self._success_count)
        self._status, self._success_count = Status(), 0
        return status

    def done(self, path: Path, result: PutResult) -> None:
        """Count a put that has put its message, maybe with a warning."""
        if not result.warning:
            self._success_count += 1
            return
        self._status = self._status._replace(warning_count=self._status.warning_count + 1)
        self._note(path, c.MQCC_WARNING, result.warning)

    def failed(self, path: Path, error: MQError) -> None:
        """Count a put that has put nothing."""
        self._status = self._status._replace(failure_count=self._status.failure_count + 1)
        self._note(path, c.MQCC_FAILED, error.reason)

    def _note(self, path: Path, comp: int, reason: int) -> None:
        if comp <= self._status.comp:
            return
        definition = self._core.registry.find(path.name)
        kind = "" if definition is None else definition.kind
        queue, manager = path.remote or (path.queue.name, self._core.name)
        self._status = self._status._replace(
            comp=comp,
            reason=reason,
            object_type=_OBJECT_TYPES.get(kind, c.MQOT_LOCAL_Q),
            object_name=path.name,
            queue=queue,
            manager=manager,
        )


def is_asynchronous(path: Path, request: PutRequest, options: int) -> bool:
    """Return True if the outcome of a put may come later: in a unit of work, or non-persistent.

    The outcome of a put of a persistent message outside of syncpoint comes at once.
    """
    persistence = request.descriptor.persistence
    if persistence == c.MQPER_PERSISTENCE_AS_Q_DEF:
        persistence = path.default_persistence
    return bool(options & c.MQPMO_SYNCPOINT) or persistence != c.MQPER_PERSISTENT

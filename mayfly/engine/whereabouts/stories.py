"""Stories of messages: the question to a queue manager, those beside it, and archives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from mayfly.engine.delivery import Identifier
from mayfly.engine.engine import Engine
from mayfly.engine.whereabouts.answer import Whereabouts
from mayfly.engine.whereabouts.asking import whereabouts
from mayfly.engine.whereabouts.whole import Archive, Sources, Teller, whole_story


class Stories:
    """The stories that a queue manager can tell, with the help of others."""

    def __init__(self, engine: Engine, beside: Callable[[], Sequence[Engine]]) -> None:
        """``beside`` returns the other queue managers that are open in this process."""
        self._engine, self._beside = engine, beside
        #: Places where lives are kept that retention has removed from the ledger.
        self.archives: list[Archive] = []

    def of(
        self,
        identifier: Identifier,
        *,
        among: Collection[str] | None = None,
        not_asked: Sequence[str] = (),
    ) -> Whereabouts:
        """Return where a message has been, on all queue managers of this process and in archives.

        ``among`` are the names of those that the asker may look at beside this one, None is all;
        those ``not_asked`` are named in the notes of the answer. Raises MQRC_MD_ERROR for an id of
        zeros, of more than 24 bytes, or that is none.
        """
        others = [_teller(each) for each in self._beside() if among is None or each.name in among]
        sources = Sources(_teller(self._engine), others, self.archives, not_asked)
        return whole_story(sources, identifier)


def _teller(engine: Engine) -> Teller:
    return Teller(engine.name, partial(whereabouts, engine))

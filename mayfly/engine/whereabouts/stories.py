"""Stories of messages: the question to a queue manager, those beside it, and archives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from heapq import nlargest
from operator import itemgetter

from mayfly.engine.engine import Engine
from mayfly.engine.whereabouts.asking import whereabouts
from mayfly.engine.whereabouts.by_property import LEFT_OUT, matches
from mayfly.engine.whereabouts.whole import Archive, Sources, Teller, whole_story
from mayfly.verbs.checks import Identifier
from mayfly.verbs.stories import PropertyQuestion, StoriesFound, Whereabouts


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
        others = [_teller(each) for each in self._asked(among)]
        sources = Sources(_teller(self._engine), others, self.archives, not_asked)
        return whole_story(sources, identifier)

    def with_property(
        self,
        question: PropertyQuestion,
        *,
        among: Collection[str] | None = None,
        not_asked: Sequence[str] = (),
    ) -> StoriesFound:
        """Return the stories of messages that are here and have a property, the latest put first.

        ``among`` and ``not_asked`` are as for :meth:`of`. Raises MQRC_OPTIONS_ERROR for a limit or
        a range of time that is none.
        """
        question.check()
        found: dict[bytes, int] = {}
        is_cut = False
        for engine in (self._engine, *self._asked(among)):
            there = matches(engine, question)
            found |= there.put_ms
            is_cut |= there.is_cut
        latest = nlargest(question.limit, found.items(), key=itemgetter(1))
        stories = [self.of(msg_id, among=among, not_asked=not_asked) for msg_id, _put_ms in latest]
        notes = [LEFT_OUT, *(f"{name} was not asked: that takes authority." for name in not_asked)]
        return StoriesFound(tuple(stories), is_cut or len(found) > len(latest), tuple(notes))

    def _asked(self, among: Collection[str] | None) -> list[Engine]:
        return [each for each in self._beside() if among is None or each.name in among]


def _teller(engine: Engine) -> Teller:
    return Teller(engine.name, partial(whereabouts, engine))

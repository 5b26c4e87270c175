"""Publications of neighbours: they are published here, and go on to the other neighbours.

Each one is published in the unit of work that gets it. One that cannot be published is
dead-lettered. Where that fails, too, a persistent one is put aside and tried again later, so that
those behind it need not wait; any other is dropped.
"""

from __future__ import annotations

import logging
from typing import Final

from mayfly.engine import Engine, GetRequest, Handle, Session, forward, put_dead_letter
from mayfly.engine.face.transit import PUBLICATIONS, publish_from_neighbour
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.verbs.messages import Message

_LOG = logging.getLogger("mayfly.hierarchy")
#: Where persistent publications wait that can neither be published nor dead-lettered.
PUT_ASIDE: Final = "SYSTEM.INTER.QMGR.PUBS.RETRY"
#: So many are published, or tried again in vain, before others have a turn.
TURN_COUNT: Final = 100


class Publications:
    """The publications of neighbours as they arrive, in a session that is always transacted."""

    def __init__(self, manager: Engine, session: Session) -> None:
        """Open the queues; raises as ``Session.open``."""
        self._manager, self._session = manager, session
        self._arrived = session.open(PUBLICATIONS, c.MQOO_INPUT_EXCLUSIVE)
        self._aside = session.open(PUT_ASIDE, c.MQOO_INPUT_EXCLUSIVE)

    @property
    def arrived(self) -> Handle:
        """The queue on which they arrive."""
        return self._arrived

    @property
    def has_some_aside(self) -> bool:
        """Whether some are to be tried again."""
        return self._aside.queue.depth > 0

    def pass_on(self) -> bool:
        """Publish messages that have come; return True if there may be more.

        Raises when a message can be neither published nor moved away.
        """
        for _ in range(TURN_COUNT):
            message = got(self._arrived)
            if message is None:
                return False
            error = self._settle(message)
            if error is not None:
                _LOG.warning(
                    "publication at %s: %s refused: %s", self._manager.name, message, error
                )
        return True

    def try_again(self) -> None:
        """Publish messages that were put aside; one that still fails goes behind the others."""
        failed_count = 0
        for _ in range(self._aside.queue.depth):
            message = got(self._aside) if failed_count < TURN_COUNT else None
            if message is None:
                return
            # A dead letter is to go back to where it came from.
            message.queue = PUBLICATIONS
            failed_count += self._settle(message) is not None

    def _settle(self, message: Message) -> MQError | None:
        """Publish a message or put it elsewhere; return why it was not published."""
        failure: MQError | None = None
        try:
            publish_from_neighbour(self._session, message)
        except MQError as error:
            self._refuse(message, error)
            failure = error
        self._session.commit()
        return failure

    def _refuse(self, message: Message, error: MQError) -> None:
        """Dead-letter what cannot be published, else put it aside if that is worth it."""
        manager, session = self._manager, self._session
        try:
            put_dead_letter(manager, session, message, error.reason)
        except MQError as failure:
            is_persistent = message.descriptor.persistence == c.MQPER_PERSISTENT
            if is_persistent and error.reason != rc.MQRC_LOOPING_PUBLICATION:
                forward(manager, session, PUT_ASIDE, message)
            else:
                _LOG.warning("publication at %s: %s dropped: %s", manager.name, message, failure)


def got(handle: Handle) -> Message | None:
    """Get the next message in the unit of work, None when there is none."""
    try:
        return handle.get(GetRequest(), c.MQGMO_SYNCPOINT).message
    except NoMessage:
        return None

"""What neighbours have published: it is published here, and goes on to the other neighbours.

Each one is published in the unit of work that gets it. What cannot be published is dead-lettered.
Where that fails, too, a persistent one is put aside and tried again later, so that those behind it
need not wait; any other is dropped.
"""

from __future__ import annotations

import logging
from typing import Final

from mayfly.engine import GetRequest, Handle, Message, PutRequest, Session, bury, forward, stored_id
from mayfly.engine.core import Core
from mayfly.engine.pubsub.proxies import PUBLICATIONS, out_of_envelope, publisher_name
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage, mq_error

_LOG = logging.getLogger("mayfly.hierarchy")
#: Where persistent publications wait that can neither be published nor dead-lettered.
PUT_ASIDE: Final = "SYSTEM.INTER.QMGR.PUBS.RETRY"
#: So many are published, or tried again in vain, before others have a turn.
TURN_COUNT: Final = 100


class Publications:
    """The publications of neighbours as they arrive, in a session that is always transacted."""

    def __init__(self, core: Core, session: Session) -> None:
        """Open the queues; raises as ``Session.open``."""
        self._core, self._session = core, session
        self._arrived = session.open(PUBLICATIONS, c.MQOO_INPUT_EXCLUSIVE)
        self._aside = session.open(PUT_ASIDE, c.MQOO_INPUT_EXCLUSIVE)

    @property
    def queue(self) -> LocalQueue:
        """Where they arrive."""
        return self._arrived.queue

    @property
    def has_some_aside(self) -> bool:
        """Whether some are to be tried again."""
        return self._aside.queue.depth > 0

    def pass_on(self) -> bool:
        """Publish what has come; tell whether there may be more.

        Raises when not even what cannot be published can be moved.
        """
        for _ in range(TURN_COUNT):
            message = got(self._arrived)
            if message is None:
                return False
            error = self._settle(message)
            if error is not None:
                _LOG.warning("publication at %s: %s refused: %s", self._core.name, message, error)
        return True

    def try_again(self) -> None:
        """Publish what was put aside; what still cannot be goes behind the others."""
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
            self._publish(message)
        except MQError as error:
            self._refuse(message, error)
            failure = error
        self._session.commit()
        return failure

    def _publish(self, message: Message) -> None:
        """Publish a message in the unit of work.

        Raises as ``out_of_envelope`` and ``publish.publish``; MQRC_LOOPING_PUBLICATION when it has
        been here before.
        """
        arrived = out_of_envelope(message.descriptor, message.body)
        journey, here = arrived.journey, self._core.name
        if here in journey.visited:
            said = f"{here} has published it already; it came by {', '.join(journey.visited)}"
            raise mq_error(rc.MQRC_LOOPING_PUBLICATION, said)
        self._session.belong_to(publisher_name(journey.visited[-1]))
        request = PutRequest(
            arrived.descriptor._replace(put_date=message.put_date, put_time=message.put_time),
            message.msg_id,
            stored_id(message.correl_id),
            message.remaining_ms,
            context_option=c.MQPMO_SET_ALL_CONTEXT,
        )
        self._session.publish_as(
            arrived.topic,
            arrived.body,
            request,
            syncpoint=True,
            retain=journey.is_retained,
            journey=journey,
        )

    def _refuse(self, message: Message, error: MQError) -> None:
        """Dead-letter what cannot be published, else put it aside if that is worth it."""
        core, session = self._core, self._session
        try:
            bury(core, session, message, error.reason)
        except MQError as failure:
            is_persistent = message.descriptor.persistence == c.MQPER_PERSISTENT
            if is_persistent and error.reason != rc.MQRC_LOOPING_PUBLICATION:
                forward(core, session, PUT_ASIDE, message)
            else:
                _LOG.warning("publication at %s: %s dropped: %s", core.name, message, failure)


def got(handle: Handle) -> Message | None:
    """Get the next message in the unit of work, None when there is none."""
    try:
        return handle.get(GetRequest(), c.MQGMO_SYNCPOINT).message
    except NoMessage:
        return None

"""A neighbour's publication is published here, and so goes on to the other neighbours."""

from __future__ import annotations

from mayfly.engine.pubsub.proxies import out_of_envelope, publisher_name
from mayfly.engine.put import PutRequest
from mayfly.engine.session import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPMO_SET_ALL_CONTEXT
from mayfly.mqi.errors import mq_error
from mayfly.verbs.checks import stored_id
from mayfly.verbs.messages import Message


def publish_from_neighbour(session: Session, message: Message) -> None:
    """Publish a message of ``PUBLICATIONS`` in the unit of work that has got it.

    Raises as ``out_of_envelope`` and ``publish.publish``; MQRC_LOOPING_PUBLICATION when it has
    been here before.
    """
    arrived = out_of_envelope(message.descriptor, message.body)
    journey, here = arrived.journey, session.core.name
    if here in journey.visited:
        said = f"{here} has published it already; it came by {', '.join(journey.visited)}"
        raise mq_error(rc.MQRC_LOOPING_PUBLICATION, said)
    session.belong_to(publisher_name(journey.visited[-1]))
    request = PutRequest(
        arrived.descriptor._replace(put_date=message.put_date, put_time=message.put_time),
        message.msg_id,
        stored_id(message.correl_id),
        message.remaining_ms,
        context_option=MQPMO_SET_ALL_CONTEXT,
    )
    session.publish_as(
        arrived.topic,
        arrived.body,
        request,
        syncpoint=True,
        retain=journey.is_retained,
        journey=journey,
    )

"""The face of the engine for JMS and listener ports: subscriptions by their rules, and waits.

Only ``mayfly.jms`` and ``mayfly.listener`` use it.
"""

from mayfly.engine.objects.lookup import has_lives_from_release
from mayfly.engine.pubsub.durable import is_subscribed_to, open_durable, remove_idle
from mayfly.engine.pubsub.publish import PublishResult
from mayfly.engine.pubsub.retained import clear_retained
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.put import PutResult
from mayfly.engine.queues import LocalQueue
from mayfly.engine.waiting import LOOK_YOURSELF
from mayfly.engine.watch import Source, Wait

__all__ = [
    # What is defined.
    "LocalQueue",
    "has_lives_from_release",
    # What verbs return.
    "PublishResult",
    "PutResult",
    # Topics.
    "OpenSubscription",
    "clear_retained",
    "is_subscribed_to",
    "open_durable",
    "remove_idle",
    # Waits that end when a message, a signal or a moment comes.
    "LOOK_YOURSELF",
    "Source",
    "Wait",
]

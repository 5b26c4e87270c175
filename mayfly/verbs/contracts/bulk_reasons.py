"""Reasons for which the bulk plane refuses a call, as words for programs.

A server sends the reason with a text for people, a client raises the error class of the reason
(`bulk.errors`, `bulk.queue_client`). A reason never changes its meaning.
"""

from __future__ import annotations

#: The server does not know the token.
WRONG_TOKEN = "wrong-token"
#: The server cannot make sense of what was asked, or speaks another version of the protocol.
BAD_REQUEST = "bad-request"
#: The server serves no queue manager of the name.
UNKNOWN_MANAGER = "unknown-manager"
#: Positions or claims belong to another store.
OTHER_INSTANCE = "other-instance"
#: Retention has removed the next rows of the ledger.
POSITION_TRIMMED = "position-trimmed"
#: The ledger ends before the position: the store was restored from an older copy.
POSITION_BEYOND_END = "position-beyond-end"
#: The queue manager refuses; the text begins with the MQRC_*.
MQ_ERROR = "mq-error"
#: No consumer of the name has ever been attached.
CONSUMER_UNKNOWN = "consumer-unknown"
#: The consumer belongs to another queue.
CONSUMER_QUEUE = "consumer-queue"
#: Another reader has the name of the consumer, or its claims were released.
CONSUMER_FENCED = "consumer-fenced"
#: The claims have been ended and are gone.
CLAIMS_CLOSED = "claims-closed"
#: The queue manager knows no such claims: it was restored from an older copy.
CLAIMS_AHEAD = "claims-ahead"
#: The claims were not renewed in time: their messages are due on their queue again.
LEASE_EXPIRED = "claims-lapsed"
#: A commit names a stage that was swept or never completed.
STAGE_LOST = "stage-lost"

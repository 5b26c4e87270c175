"""The answer to the open of a connection: its capabilities, and the claim to a container's id."""

from __future__ import annotations

from typing import Final

from proton import Condition, Connection

from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.conversations import Conversations
from mayfly.servers.amqp.errors import INVALID_FIELD

#: Capabilities of the JMS mapping of AMQP that a client may ask for.
CAPABILITIES: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS")
_PROPERTIES: Final = {
    "product": "Mayfly",
    "queue-prefix": "queue://",
    "topic-prefix": "topic://",
}
_SOLE = "sole-connection-for-container"


def greet(connection: Connection, queue_manager: str) -> None:
    """Open the connection from here, in the name of a queue manager."""
    connection.container = queue_manager
    connection.offered_capabilities = list(CAPABILITIES)
    connection.properties = dict(_PROPERTIES)
    connection.open()


def claim_container(connection: Connection, conversations: Conversations) -> None:
    """Keep the id of its container for a client that wants to be alone with it.

    Where another client has the id, the connection is closed with amqp:invalid-field.
    """
    desired = connection.remote_desired_capabilities
    if _SOLE not in {str(name) for name in (desired or ())}:
        return
    try:
        conversations.main.topics.claim(connection.remote_container or "")
    except MQError as error:
        connection.condition = Condition(
            INVALID_FIELD, str(error), {"invalid-field": "container-id"}
        )
        connection.close()

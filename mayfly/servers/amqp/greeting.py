"""The answer to the open of a connection: its capabilities, and the claim to a container's id."""

from __future__ import annotations

from typing import Final

from proton import Condition, Connection, symbol

from mayfly.lifetime.window import DELAY_COMMAND_LEVEL
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.conversations import Conversations
from mayfly.servers.amqp.errors import INVALID_FIELD

#: Capabilities of the JMS mapping of AMQP that a client may ask for.
CAPABILITIES: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS")
_DELAYED: Final = "DELAYED_DELIVERY"
_PROPERTIES: Final = {
    "product": "Mayfly",
    "queue-prefix": "queue://",
    "topic-prefix": "topic://",
}
_SOLE = "sole-connection-for-container"
#: Tells a client that a close with the reason follows. A client of JMS waits for that before it
#: takes its connection for good.
_FAILED: Final = "amqp:connection-establishment-failed"
#: The exception of JMS for a client id that is in use follows from this, as two symbols.
_CONTAINER_ID: Final = {symbol("invalid-field"): symbol("container-id")}


def greet(
    connection: Connection,
    queue_manager: str,
    refused: Condition | None = None,
    command_level: int = DELAY_COMMAND_LEVEL,
) -> None:
    """Open the connection from here, in the name of a queue manager, and close it if refused.

    A queue manager whose command level knows no delivery delay offers none (D5): a client of JMS
    then refuses a delay by itself.
    """
    connection.container = queue_manager
    knows_delay = command_level >= DELAY_COMMAND_LEVEL
    offered = [name for name in CAPABILITIES if knows_delay or name != _DELAYED]
    connection.offered_capabilities = offered
    connection.properties = {**_PROPERTIES, **({} if refused is None else {_FAILED: True})}
    connection.open()
    if refused is not None:
        connection.condition = refused
        connection.close()


def claim_container(connection: Connection, conversations: Conversations) -> Condition | None:
    """Keep the id of its container for a client that wants to be alone with it.

    Where another client has the id, returns why the connection is refused: amqp:invalid-field.
    """
    desired = connection.remote_desired_capabilities
    if _SOLE not in {str(name) for name in (desired or ())}:
        return None
    try:
        conversations.claim(connection.remote_container or "")
    except MQError as error:
        return Condition(INVALID_FIELD, str(error), _CONTAINER_ID)
    return None

"""What limits the puts of a remote connection."""

from __future__ import annotations

from mayfly.connection.remote_conversation import Conversation
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error


class UnansweredPuts:
    """Puts with MQPMO_ASYNC_RESPONSE, whose answers come later."""

    def __init__(self, conversation: Conversation, max_message_bytes: int) -> None:
        """Begin with none."""
        self._conversation = conversation
        self.max_message_bytes = max_message_bytes

    def wait(self) -> None:
        """Wait until all are answered."""

    def too_long(self, body: bytes) -> MQError:
        """Return why a message is not sent."""
        said = f"{len(body)} bytes; the channel takes {self.max_message_bytes}"
        return mq_error(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL, said)

"""The sender's end of a message channel that says what it likes, to a real server."""

from __future__ import annotations

from typing import Any

from msgspec import msgpack

from mayfly.client.connection.endpoint import Address
from mayfly.mqi.descriptor import Descriptor
from mayfly.verbs.contracts import channels
from mayfly.verbs.contracts.channels import VERSION
from mayfly.verbs.contracts.wire import DONE, ENDED, HEADER, packed_descriptor, verb_of
from tests.channel.network_scene import TOKEN
from tests.channel.scene import CHANNEL
from tests.servers.wire.test_hostile import Raw

HEARTBEAT_S = 300
#: A message as it travels, by the names of its fields.
PARCEL: dict[str, Any] = {
    "queue": "IN",
    "manager": "QM2",
    "descriptor": packed_descriptor(Descriptor(persistence=1, priority=0)),
    "msg_id": b"m" * 24,
    "correl_id": bytes(24),
    "life_ms": None,
    "body": b"x",
    "is_fast": False,
}


class RawSender(Raw):
    """One connection of a sender."""

    def __init__(self, port: int) -> None:
        super().__init__(Address("127.0.0.1", port))

    def introduced(
        self,
        *,
        version: int = VERSION,
        channel: str = CHANNEL,
        sending_manager: str = "QM1",
        token: str = TOKEN,
    ) -> Any:
        """Say who sends; return the answer."""
        said = version, channel, "QM2", sending_manager, token, 0
        return self.ask(verb_of(channels.Introduction), *said)

    def negotiated(
        self, *, heartbeat_s: int = HEARTBEAT_S, instance_id: str = "a" * 32, batch_size: int = 50
    ) -> Any:
        """Begin to send; return the answer."""
        said = 0, batch_size, 1_000_000, False, heartbeat_s, instance_id
        return self.ask(verb_of(channels.Negotiation), *said)

    def begun(self, *, heartbeat_s: int = HEARTBEAT_S) -> RawSender:
        """Introduce itself and begin; return itself."""
        assert self.introduced()[0] == DONE
        assert self.negotiated(heartbeat_s=heartbeat_s)[0] == DONE
        return self

    def sent(self, *envelopes: list[Any]) -> Any:
        """Hand a batch over to be put; return the answer."""
        return self.ask(verb_of(channels.PutBatch), len(envelopes), envelopes)

    def confirmed(self, luw: str = "A", sequence: int = 1) -> Any:
        """Let a batch be committed; return the answer."""
        return self.ask(verb_of(channels.Confirm), luw, sequence)

    def answer_to(self, request: int) -> Any:
        """Read until the answer to a request comes; return it."""
        while True:
            length, _conversation, answered = HEADER.unpack(self.read(HEADER.size))
            payload = self.read(length)
            if answered == request:
                outcome, value = msgpack.decode(payload)
                return [outcome, value] if outcome == DONE else [outcome, *value]

    def end_said(self) -> str:
        """Wait until the server ends the connection; return why."""
        while True:
            length, conversation, request = HEADER.unpack(self.read(HEADER.size))
            payload = self.read(length)
            if (conversation, request) == (0, ENDED):
                said: str = msgpack.decode(payload)[1][2]
                return said


def envelope(**other: Any) -> list[Any]:
    """Return a message as it travels."""
    return list((PARCEL | other).values())

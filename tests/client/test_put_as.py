"""A message shows the alias that it was put to."""

from mayfly import QueueManager
from tests.client.conftest import MakeClient


def test_a_message_shows_the_alias_that_it_was_put_to(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("DEFINE QALIAS(A1) TARGET(Q1)").ok
    client = make_client()
    client.put("A1", b"m", persistent=True)
    client.put("Q1", b"m")
    found = [client.get("Q1") for _ in range(2)]
    assert [message and message.put_as for message in found] == ["A1", None]

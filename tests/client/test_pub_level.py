"""``pub_level`` of a put arrives by each way as a message property."""

from mayfly import QueueManager, pymqi
from tests.client.conftest import MakeClient


def test_a_put_with_pub_level_sets_the_property(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    client = make_client()
    client.put("Q1", b"m", pub_level=3)
    queue = pymqi.Queue(pymqi.connect("QM1"), "Q1")
    queue.put(b"m", pymqi.MD(), pymqi.PMO(Version=3, PubLevel=4))
    queue_manager.session("S").put("Q1", b"m", pub_level=5)
    found = [client.get("Q1") for _ in range(3)]
    assert [message and message.properties for message in found] == [
        {"pub_level": 3},
        {"pub_level": 4},
        {"pub_level": 5},
    ]

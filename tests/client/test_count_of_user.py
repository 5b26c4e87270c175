"""CountOfUser counts the messages of a queue by their user."""

from mayfly.mqi import constants as c
from mayfly.verbs import requests as ask
from tests.client.conftest import MakeClient


def test_messages_are_counted_by_their_user(make_client: MakeClient) -> None:
    client = make_client("fred")
    client.put("Q1", b"a", persistent=True)
    client.put("Q1", b"b")
    connection = client._connection
    handle = connection.call(ask.Open("Q1", c.MQOO_INQUIRE)).handle
    counts = [connection.call(ask.CountOfUser(handle, user)) for user in ("fred", "anna")]
    assert counts == [2, 0]

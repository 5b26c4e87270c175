"""docs/DEVELOPING.md: its tests pass, and its tables name what is there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from mayfly import MQError, QueueManager
from mayfly.client.connection import remote
from mayfly.client.connection.routes import endpoint_of_mqserver
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.testing.served import PASSWORDS, ServedQueueManager
from tests.pages import part

PAGE = part("DEVELOPING.md", "Programs for IBM MQ")


def shown_tests() -> dict[str, Callable[..., None]]:
    """Return the tests that the page shows, by name, as its reader would type them."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "DEVELOPING.md", "exec"), names)
    return {name: value for name, value in names.items() if name.startswith("test_")}


SHOWN = shown_tests()
#: The tests of the page whose block gives the clock ``autojump``.
JUMPING = {
    name
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if "VirtualClock(autojump=True)" in block
    for name in re.findall(r"def (test_\w+)", block)
}
pytestmark = pytest.mark.slow


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> VirtualClock:
    """The clock of the plugin, or that of the block."""
    callspec = getattr(request.node, "callspec", None)
    name = None if callspec is None else callspec.params["name"]
    return VirtualClock(autojump=name in JUMPING)


@pytest.mark.parametrize("name", SHOWN)
def test_each_test_in_the_page_about_developing_passes(
    name: str, served_queue_manager: ServedQueueManager, clock: VirtualClock
) -> None:
    given = {"served_queue_manager": served_queue_manager, "clock": clock}
    shown = SHOWN[name]
    shown(**{parameter: given[parameter] for parameter in inspect.signature(shown).parameters})


def test_the_served_queue_manager_is_what_the_page_says(
    served_queue_manager: ServedQueueManager, queue_manager: QueueManager
) -> None:
    """MQSERVER leads there, app may use DEV.** alone, and what the page lists is there."""
    assert (len(SHOWN), len(JUMPING)) == (5, 1)
    served = served_queue_manager
    [row] = [row for row in PAGE.splitlines() if "pymqi.connect`" in row]
    table = PAGE[PAGE.index(row) :].partition("\n\n")[0]
    for line in table.splitlines():
        for name in re.findall(r"`(\w+)[`(]", line.split("|")[1]):
            assert hasattr(served, name), name
    assert served.queue_manager is queue_manager
    endpoint = endpoint_of_mqserver(served.mqserver)
    assert served.conn_info == str(endpoint.addresses[0])
    assert served.url.endswith(f"/{served.name}?channel={served.channel}")
    connected = remote.connect(endpoint, served.user, served.password)
    connected.close()
    with pytest.raises(MQError) as caught:
        remote.connect(endpoint, served.user, "guessed")
    assert caught.value.reason == rc.MQRC_NOT_AUTHORIZED
    assert served.mqsc("DEFINE QLOCAL(OTHER)").ok
    with served.connect() as program, pytest.raises(MQError, match="MQRC_NOT_AUTHORIZED"):
        program.put("OTHER", b"x")
    objects = re.findall(r"^\| (DEV\.[^|]*) \|", PAGE, re.MULTILINE)
    named = {name for cell in objects for name in re.findall(r"DEV[.A-Z\d]+", cell)}
    known = {
        row[kind]
        for kind, command in (
            ("QUEUE", "DISPLAY QUEUE(DEV.*)"),
            ("TOPIC", "DISPLAY TOPIC(DEV.*)"),
            ("CHANNEL", "DISPLAY CHANNEL(DEV.*)"),
        )
        for row in queue_manager.mqsc(command).rows
    }
    assert known - {"DEV.QUEUE.2"} == named
    assert PASSWORDS["app"] == served.password

"""A queue manager of this machine that another process has open: reached by the socket there."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mayfly.aio
from mayfly import MQError, QueueManager, jms, pymqi

SERVER = """
import sys
from pathlib import Path
from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.servers.wire import WireServer

folder = Path(sys.argv[1])
with QueueManager("QH", folder) as manager:
    server = WireServer([manager], Admission([manager.engine], token="s3cret"))
    server.listen_unix(folder / "mq.sock")
    print("ready", flush=True)
    sys.stdin.read()
"""


async def connect_in_a_loop() -> None:
    await mayfly.aio.connect("QH")


WAYS: dict[str, Callable[[], object]] = {
    "mayfly": lambda: mayfly.connect("QH"),
    "aio": lambda: asyncio.run(connect_in_a_loop()),
    "pymqi": lambda: pymqi.connect("QH"),
    "jms": lambda: jms.ConnectionFactory(queue_manager="QH").create_context(),
}


def reason_of(connect: Callable[[], object]) -> int:
    """Return why a connection is refused."""
    try:
        connect()
    except (MQError, pymqi.MQMIError, jms.JMSRuntimeException) as error:
        return error.reason
    return 0


@pytest.mark.slow
def test_a_name_finds_the_server_of_its_folder_and_nothing_when_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    folder = tmp_path / "QH"
    with QueueManager("QH", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
    command = [sys.executable, "-c", SERVER, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        with pytest.raises(MQError, match="operator's token") as raised:
            mayfly.connect("QH")
        assert raised.value.reason == 2035
        token = tmp_path / "token"
        token.write_text("s3cret\n")
        (folder / "served.json").write_text(json.dumps({"token_file": str(token)}))
        with mayfly.connect("QH", user="anna") as client:
            client.put("Q1", b"kept", persistent=True)
            [message] = client.browse("Q1")
            assert message.descriptor.user_identifier == "anna"
            assert client.mqsc("DISPLAY QLOCAL(Q1)").ok
        server.kill()
    # The socket of a server that was killed is there, and nobody answers.
    assert (folder / "mq.sock").is_socket()
    assert {way: reason_of(connect) for way, connect in WAYS.items()} == dict.fromkeys(WAYS, 2059)
    # So the server starts again, whatever its programs did meanwhile.
    with QueueManager("QH", folder) as manager, mayfly.connect("QH") as client:
        assert client.get("Q1") is not None
        assert manager.curdepth("Q1") == 0

"""A program: serves the queue managers of $MAYFLY_HOME on ports until its standard input ends.

``python -m tests.pymqi.samples_server AIRPORT 1414``; says ``ready`` when it listens.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from mayfly import QueueManager
from mayfly.servers.wire import WireServer
from tests.pymqi.conftest import HOST, AsInProcess


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.isdigit()]
    with ExitStack() as stack:
        managers = [stack.enter_context(QueueManager.open(name)) for name in names]
        server = WireServer(managers, AsInProcess())
        stack.callback(server.close)
        ports = [server.listen_tcp(HOST, int(port)) for port in sys.argv[1:] if port.isdigit()]
        print("ready", *ports, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

"""Serves a queue manager of a folder on a port until it is killed; says the port.

``python -m tests.libmqm.server FOLDER PORT``
"""

from __future__ import annotations

import sys

from mayfly import QueueManager
from mayfly.servers.wire import WireServer
from tests.connection.serving import HOST, AdmitEverybody

if __name__ == "__main__":
    with QueueManager("QM1", sys.argv[1]) as manager:
        manager.mqsc(
            "DEFINE QLOCAL(Q1) REPLACE\nDEFINE QLOCAL(Q2) REPLACE\n"
            "DEFINE CHANNEL(APP.SVRCONN) CHLTYPE(SVRCONN) REPLACE"
        )
        server = WireServer([manager], AdmitEverybody())
        print(server.listen_tcp(HOST, int(sys.argv[2])), flush=True)
        sys.stdin.read()

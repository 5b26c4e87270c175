"""A thousand connections over TLS that ask for nothing: what they cost a server."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mayfly.client.connection.endpoint import Address, Endpoint, Tls
from mayfly.client.connection.remote import RemoteConnection, connect
from tests.client.processes import serving

CONNECTIONS = 1_000
MAX_KIB = 150 * 1_024
WATCHED_SECONDS = 10
#: Of a core; a server without any connection uses some 0.3 %.
MAX_LOAD = 0.02


@pytest.mark.soak
def test_a_thousand_idle_connections_over_TLS_take_little_memory_and_no_time(
    tmp_path: Path,
) -> None:
    words = ("--dev", "--tls")
    with serving(tmp_path, ["QM1"], "127.0.0.1:0", *words) as ready:
        host, port = ready["mq"].split(":")
        tls = Tls(authorities=Path(ready["tls_certificate"]))
        endpoint = Endpoint((Address(host, int(port)),), "DEV.APP.SVRCONN", "QM1", tls)
        endpoint = endpoint._replace(share_conversations=1)
        pid = ready["pid"]

        def connected() -> RemoteConnection:
            return connect(endpoint, ready["user"], ready["password"], application="idle")

        kept = [connected() for _ in range(10)]
        before_kib = resident_kib(pid)
        kept += [connected() for _ in range(CONNECTIONS)]
        assert resident_kib(pid) - before_kib < MAX_KIB
        before = processor_seconds(pid)
        threading.Event().wait(WATCHED_SECONDS)
        load = (processor_seconds(pid) - before) / WATCHED_SECONDS
        assert load < MAX_LOAD
        for each in kept:
            each.close()


def resident_kib(pid: int) -> int:
    """Return the memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def processor_seconds(pid: int) -> float:
    """Return how long a process has run on a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

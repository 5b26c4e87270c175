"""Two machines: network namespaces of this one, with a wire between them that a test can spoil.

They need no root where users may make namespaces; a test is skipped where nobody may. Everything
ends with the processes that hold the namespaces, however the test ends.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

import pytest

from tests.facts import wait_until

_WIRE: Final = "wire"
_HOLDS: Final = ("sh", "-c", "echo here; exec cat")


class Machine(NamedTuple):
    """One of the two: its address, and the process that holds its namespace."""

    address: str
    holder: int

    def command(self, *words: str) -> list[str]:
        """Return the command that runs words on this machine."""
        entered = f"nsenter --preserve-credentials -U -n -t {self.holder} --".split()
        return [*entered, *words]

    def run(self, *words: str) -> str:
        """Run a command of the network to its end, which has to be a good one."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def cut(self) -> None:
        """Take the interface down: packets under way are lost, and neither side is told."""
        self.run("ip", "link", "set", _WIRE, "down")

    def mend(self) -> None:
        """Bring it up again; returns when it carries."""
        self.run("ip", "link", "set", _WIRE, "up")
        wait_until(lambda: "state UP" in self.run("ip", "link", "show", _WIRE))

    def throttle(self, rate: str) -> None:
        """Send no faster than a rate, as ``1mbit``; skips the test where the kernel cannot."""
        shaped = f"tc qdisc add dev {_WIRE} root tbf rate {rate} burst 16kb latency 100ms".split()
        if shutil.which("tc") is None:
            pytest.skip("tc shapes the traffic")
        done = subprocess.run(self.command(*shaped), capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the kernel shapes no traffic: {done.stderr.strip()}")


class TwoMachines(NamedTuple):
    """A machine with the server, and one with its clients."""

    server: Machine
    clients: Machine


@contextmanager
def two_machines() -> Iterator[TwoMachines]:
    """Have two machines for a block; skips the test where there can be none."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} makes the network namespaces")
    with ExitStack() as stack:
        first = _held(stack, ["unshare", "-Urn", *_HOLDS])
        server = Machine("10.77.0.1", first)
        inside = f"nsenter --preserve-credentials -U -t {first} -- unshare -n".split()
        clients = Machine("10.77.0.2", _held(stack, [*inside, *_HOLDS]))
        server.run(*f"ip link add {_WIRE} type veth peer {_WIRE} netns {clients.holder}".split())
        for machine in (server, clients):
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", _WIRE)
            machine.run("ip", "link", "set", "lo", "up")
            machine.run("ip", "link", "set", _WIRE, "up")
        for machine in (server, clients):
            machine.mend()
        yield TwoMachines(server, clients)


def _held(stack: ExitStack, command: list[str]) -> int:
    """Start what makes a namespace and holds it; return its process when it is there."""
    holder = stack.enter_context(
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(holder.kill)
    assert holder.stdout is not None
    assert holder.stderr is not None
    if holder.stdout.readline().strip() != "here":
        pytest.skip(f"no network namespace: {holder.stderr.read().strip()}")
    return holder.pid

"""Run the tests of clients of other languages against a server that this starts.

python interop/run.py [client ...]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
SECONDS = 900


class Client(NamedTuple):
    """A client: the programs that it needs, and what prepares and runs its tests."""

    needs: tuple[str, ...]
    prepare: tuple[str, ...]
    run: tuple[str, ...]


CLIENTS = {
    "qpid-jms": Client(("java", "mvn"), (), ("mvn", "-q", "-B", "test")),
    "rhea": Client(("node", "npm"), ("npm", "install", "--silent"), ("npm", "test", "--silent")),
    "go-amqp": Client(("go",), ("go", "mod", "tidy"), ("go", "test", "-count=1", "./...")),
}


def main(names: list[str]) -> int:
    """Run them all, or those named; return how many have failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        command = ["-m", "mayfly", "serve", "QM1", "--dev", "--json", "--amqp", "127.0.0.1:0"]
        server = subprocess.Popen(
            [sys.executable, *command, "--mq", "127.0.0.1:0"],
            env={**os.environ, "MAYFLY_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line:
                print("interop: the server has not started")
                return 1
            ready = json.loads(line)
            for name in names or CLIENTS:
                failed += not ran(name, CLIENTS[name], ready)
        finally:
            server.terminate()
            server.wait(60)
    return failed


def ran(name: str, client: Client, ready: dict[str, str]) -> bool:
    """Run the tests of one client; True as well when its toolchain is not here."""
    missing = [program for program in client.needs if shutil.which(program) is None]
    if missing:
        print(f"interop {name}: skipped, {', '.join(missing)} is not installed")
        return True
    given = {
        **os.environ,
        "AMQP_URL": f"amqp://{ready['amqp']}",
        "AMQP_USER": ready["user"],
        "AMQP_PASSWORD": ready["password"],
    }
    for command in filter(None, (client.prepare, client.run)):
        done = subprocess.run(
            command,
            cwd=HERE / name,
            env=given,
            timeout=SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            print(f"interop {name}: FAILED\n{done.stdout}")
            return False
    print(f"interop {name}: passed")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

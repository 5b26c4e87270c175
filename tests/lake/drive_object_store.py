"""A process that is an S3 with one empty bucket until its standard input ends."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    server = import_module("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()

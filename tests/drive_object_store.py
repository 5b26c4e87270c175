"""A process that is an S3 with the empty bucket ``lakes`` until its standard input ends.

It runs in an environment that has moto and nothing of Mayfly.
"""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    server = import_module("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    import_module("boto3").client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    ).create_bucket(Bucket="lakes")
    print(url, flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()

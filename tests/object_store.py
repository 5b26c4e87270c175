"""An S3 of this machine for tests: moto's, in a process and an environment of its own.

Moto's packages do not go with our pins, so ``make interop`` puts them into ``interop/.moto``.
Without that folder the tests are skipped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PYTHON = _ROOT / "interop" / ".moto" / "bin" / "python"
needs_object_store = pytest.mark.skipif(
    not _PYTHON.exists(), reason="moto is not there: `make interop` puts it into interop/.moto"
)


@pytest.fixture(scope="module")
def store() -> Iterator[None]:
    """An S3 with the empty bucket ``lakes``, named by the variables that tools of S3 read."""
    server = subprocess.Popen(
        [_PYTHON, _ROOT / "tests" / "drive_object_store.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), (url, server.communicate())
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            environment.setenv(name, value)
        try:
            yield
        finally:
            server.communicate()

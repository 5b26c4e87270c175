"""A certificate for 127.0.0.1 that nobody has signed but itself."""

import shutil
import subprocess
from pathlib import Path

import pytest


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate and its key; skips the test where nothing makes them."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate")
    subprocess.run(
        f"{openssl} req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"

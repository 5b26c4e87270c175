"""Certificates that nobody has signed but themselves: for 127.0.0.1, and for clients."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mayfly.runtime import SystemClock


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


def certificate_of(file: Path, **attributes: str) -> Path:
    """Write a key and a certificate for a name that has signed itself into a file; return it."""
    key = ec.generate_private_key(ec.SECP256R1())
    oids = {"CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME}
    name = x509.Name([x509.NameAttribute(oids[k], v) for k, v in reversed(attributes.items())])
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file

"""The key repository of IBM MQ, as PEM files (docs/CLIENTS.md).

A program names a key repository by ``SCO.KeyRepository`` or MQSSLKEYR as for IBM MQ, for instance
``/var/mqm/ssl/key``. Its PEM file, ``key.pem``, holds the certificates that the client trusts, and
the client's own certificate with the private key when it has one. Further certificates of the
client stand beside it, named by their label: ``LABEL.pem``.
"""

from __future__ import annotations

from pathlib import Path

from mayfly.client.connection.endpoint import Tls
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

#: Endings of key files of IBM's clients, and the command that makes a PEM file of them.
_FOREIGN = {".kdb", ".p12", ".pfx", ".jks", ".sth"}
_CONVERT = "keys are PEM files here: `openssl pkcs12 -in key.p12 -out key.pem -nodes` makes one"


def with_key_repository(tls: Tls, repository: str, label: str = "") -> Tls:
    """Return TLS with the files of a key repository; an empty one is the machine's trust.

    Raises MQRC_KEY_REPOSITORY_ERROR for a repository in another format, for one that is not there
    and for a label without a file.
    """
    if not repository:
        if label:
            said = f"certificate label {label!r} without a key repository (MQSSLKEYR)"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, said)
        return tls
    given = Path(repository)
    if given.suffix.lower() in _FOREIGN:
        raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, f"{repository}: {_CONVERT}")
    trusted = given if given.suffix == ".pem" else given.with_name(f"{given.name}.pem")
    own = trusted.with_name(f"{label}.pem") if label else trusted
    for path in (trusted, own):
        if not path.is_file():
            said = f"{path} is not there: {_CONVERT}"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, said)
    has_own = bool(label) or b"PRIVATE KEY-----" in trusted.read_bytes()
    return tls._replace(authorities=trusted, certificate=own if has_own else None)

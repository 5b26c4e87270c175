"""Developer definitions of ``mayfly serve --dev``: objects, users and a certificate.

Names are those of IBM's image for developers, so that its tutorials and examples run.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from mayfly.admin.security.users import Users, is_right
from mayfly.engine.api.admission import ADMINISTRATORS
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime.files import Files

APP, ADMIN = "app", "admin"
#: The environment variables that give the passwords.
PASSWORD_VARIABLES: Final = {APP: "MAYFLY_APP_PASSWORD", ADMIN: "MAYFLY_ADMIN_PASSWORD"}
PASSWORDS_FILE: Final = "developer.json"
CERTIFICATE_FILE, KEY_FILE = "developer-cert.pem", "developer-key.pem"
_GROUP: Final = "developers"
_GROUPS: Final = {APP: (_GROUP,), ADMIN: (ADMINISTRATORS,)}
_PASSWORD_BYTES: Final = 12
_VALID_DAYS, _RENEWED_DAYS = 365, 30

#: Queues and topics of programs.
OBJECTS: Final = """\
DEFINE QLOCAL('DEV.QUEUE.1') REPLACE
DEFINE QLOCAL('DEV.QUEUE.2') REPLACE
DEFINE QLOCAL('DEV.QUEUE.3') REPLACE
DEFINE QLOCAL('DEV.DEAD.LETTER.QUEUE') REPLACE
DEFINE QMODEL('DEV.APP.MODEL.QUEUE') REPLACE
ALTER QMGR DEADQ('DEV.DEAD.LETTER.QUEUE')
DEFINE TOPIC('DEV.BASE.TOPIC') TOPICSTR('dev/') REPLACE
* The string dev/ has an empty second level; dev is above dev/ and above dev/prices
DEFINE TOPIC('DEV.TOPIC') TOPICSTR('dev') REPLACE
"""
#: MQSC that is run at each start, as by IBM's image: it sets back what was altered of its objects.
DEFINITIONS: Final = f"""\
* Queues and topics
{OBJECTS}
* Passwords: administrators need one here, programs by the rule of their channel
DEFINE AUTHINFO('DEV.AUTHINFO') AUTHTYPE(IDPWOS) CHCKCLNT(REQDADM) CHCKLOCL(OPTIONAL) +
  ADOPTCTX(YES) REPLACE
ALTER QMGR CONNAUTH('DEV.AUTHINFO') CHLAUTH(ENABLED)
REFRESH SECURITY TYPE(CONNAUTH)

* Channels, and who comes in by them: nobody by any other
DEFINE CHANNEL('DEV.APP.SVRCONN') CHLTYPE(SVRCONN) MCAUSER('{APP}') REPLACE
DEFINE CHANNEL('DEV.ADMIN.SVRCONN') CHLTYPE(SVRCONN) REPLACE
SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS) +
  DESCR('All other channels are closed') ACTION(REPLACE)
SET CHLAUTH('DEV.APP.SVRCONN') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL) +
  CHCKCLNT(REQUIRED) DESCR('Programs with a password') ACTION(REPLACE)
SET CHLAUTH('DEV.ADMIN.SVRCONN') TYPE(BLOCKUSER) USERLIST('nobody') +
  DESCR('Administrators come in here') ACTION(REPLACE)
SET CHLAUTH('DEV.ADMIN.SVRCONN') TYPE(USERMAP) CLNTUSER('{ADMIN}') USERSRC(CHANNEL) +
  CHCKCLNT(REQUIRED) DESCR('The administrator with a password') ACTION(REPLACE)

* Authority of programs
SET AUTHREC OBJTYPE(QMGR) GROUP('{_GROUP}') AUTHADD(CONNECT,INQ)
SET AUTHREC PROFILE('DEV.**') OBJTYPE(QUEUE) GROUP('{_GROUP}') AUTHADD(BROWSE,GET,INQ,PUT,DSP)
SET AUTHREC PROFILE('SYSTEM.DEFAULT.MODEL.QUEUE') OBJTYPE(QUEUE) GROUP('{_GROUP}') +
  AUTHADD(GET,PUT,DSP)
SET AUTHREC PROFILE('AMQ*.**') OBJTYPE(QUEUE) GROUP('{_GROUP}') AUTHADD(BROWSE,GET,INQ,PUT,DSP)
SET AUTHREC PROFILE('DEV.**') OBJTYPE(TOPIC) GROUP('{_GROUP}') AUTHADD(PUB,SUB,RESUME)
"""


class DeveloperPasswords(NamedTuple):
    """The passwords of the users app and admin.

    ``file`` has the generated passwords; it is None if no password was generated, or in memory.
    """

    app: str
    admin: str
    file: Path | None


def developer_users(
    users: Users, folder: Path | None, environment: Mapping[str, str]
) -> DeveloperPasswords:
    """Create or update the users app and admin; return their passwords.

    Passwords come from MAYFLY_APP_PASSWORD and MAYFLY_ADMIN_PASSWORD in ``environment``. A missing
    one is generated once, and stored in a private file of ``folder``; with None it is not stored.
    Raises ValueError for an invalid password, OSError, StoreDamaged for a damaged file.
    """
    kept = _stored_passwords(folder)
    chosen, generated = {}, {}
    for name, variable in PASSWORD_VARIABLES.items():
        chosen[name] = environment.get(variable, "")
        if not chosen[name]:
            chosen[name] = generated[name] = kept.get(name) or secrets.token_urlsafe(
                _PASSWORD_BYTES
            )
        _add_or_update(users, name, chosen[name])
    file = None if folder is None or not generated else folder / PASSWORDS_FILE
    if file is not None and generated != kept:
        Files().write_atomically(file, json.dumps(generated, indent=2) + "\n")
    return DeveloperPasswords(chosen[APP], chosen[ADMIN], file)


def check_passwords(file: Path) -> None:
    """Raise StoreDamaged if the file of generated passwords is damaged, OSError if unreadable.

    A missing file is valid.
    """
    _stored_passwords(file.parent)


def check_certificate(certificate: Path, key: Path) -> None:
    """Raise ValueError if a self-signed certificate is damaged or does not belong to its key.

    Raises OSError if a file is missing or unreadable.
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        found.verify_directly_issued_by(found)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise ValueError(f"{certificate} is damaged: {error!r}; remove it") from error
    try:
        own = load_pem_private_key(key.read_bytes(), None).public_key()
    except (ValueError, TypeError) as error:
        raise ValueError(f"{key} is damaged: {error!r}; remove it") from error
    if own != found.public_key():
        raise ValueError(f"{key} is not the key of {certificate.name}; remove both")


def _add_or_update(users: Users, name: str, password: str) -> None:
    """Add a user, or set the password if the user has another one; else do nothing.

    Raises ValueError for an invalid password.
    """
    found = users.find(name)
    if found is None:
        users.add(name, password, _GROUPS[name])
    elif not is_right(password, found.password_hash):
        users.change(name, password=password)


def _stored_passwords(folder: Path | None) -> dict[str, str]:
    """Return the generated passwords by user; empty without a folder or a file.

    Raises StoreDamaged for a damaged file, OSError.
    """
    if folder is None:
        return {}
    file = folder / PASSWORDS_FILE
    try:
        content: Any = json.loads(file.read_text("utf-8"))
        return {str(name): str(password) for name, password in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError) as error:
        raise StoreDamaged(f"the file {file} cannot be read: {error}", file) from error


def self_signed_certificate(folder: Path, hosts: Sequence[str], now_ms: int) -> tuple[Path, Path]:
    """Return (file of a self-signed certificate for some hosts, file of its key).

    Clients trust the certificate file itself. Both files are created again for other hosts, a
    damaged file, or less than 30 of 365 days left at ``now_ms`` (ms since 1970). Raises OSError.
    """
    certificate, key = folder / CERTIFICATE_FILE, folder / KEY_FILE
    now = datetime.fromtimestamp(now_ms / SECOND_MS, UTC)
    if not _is_usable(certificate, key, hosts, now):
        key_text, certificate_text = _create_certificate(hosts, now)
        Files().write_atomically(key, key_text)
        Files().write_atomically(certificate, certificate_text)
    return certificate, key


def _is_usable(certificate: Path, key: Path, hosts: Sequence[str], now: datetime) -> bool:
    """Return True if a certificate is for these hosts and this key, with more than 30 days left.

    Returns False for missing or damaged files.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        own = load_pem_private_key(key.read_bytes(), None).public_key() == found.public_key()
    except (FileNotFoundError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    is_fresh = found.not_valid_after_utc - now > timedelta(days=_RENEWED_DAYS)
    return own and is_fresh and list(names) == _alternative_names(hosts)


def _alternative_names(hosts: Sequence[str]) -> list[Any]:
    """Return host names and IP addresses as names of an X.509 certificate, in order."""
    from cryptography import x509

    names: list[Any] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _create_certificate(hosts: Sequence[str], now: datetime) -> tuple[str, str]:
    """Return (a new private key, a self-signed certificate), both as PEM text.

    The certificate is for ``hosts``. It is valid from a day before ``now`` until 365 days after it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Mayfly for developers"),
            x509.NameAttribute(NameOID.COMMON_NAME, hosts[0]),
        ]
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of clients may be behind.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(_alternative_names(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return key_text, made.public_bytes(serialization.Encoding.PEM).decode()

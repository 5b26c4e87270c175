"""``mayfly serve``: keep queue managers open, and serve ledgers, queues and channels."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mayfly.cli.configuration import (
    LevelOption,
    PlatformOption,
    SettingOption,
    configuration_of,
)
from mayfly.cli.managers import FolderOption, JsonOption, folder_of, opened
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.served import Served, Serving
from mayfly.cli.show import print_json
from mayfly.cli.signals import stop_event
from mayfly.engine import Configuration, manager_definition, scan_every, volatile_count
from mayfly.mqi.constants import MQEXPI_OFF
from mayfly.queue_manager import QueueManager
from mayfly.runtime.files import Files

if TYPE_CHECKING:
    from mayfly.servers.flight import FlightServer

TOKEN_FILE = "token"
#: The scan runs this often unless the queue manager says otherwise (X9).
EXPIRY_INTERVAL_SECONDS = 5
_TOKEN_BYTES = 32

Names = Annotated[
    list[str], typer.Argument(metavar="QMGR...", help="Queue managers; made when missing.")
]
HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
PortOption = Annotated[int | None, typer.Option(min=0, max=65535, help="0 is any. [default: 9414]")]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with the token that readers must show; without it MAYFLY_TOKEN, else one is "
        "made in the folder.",
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-certificate",
        metavar="FILE",
        help="Certificate chain, PEM; with --tls-key nobody overhears messages and token.",
    ),
]
KeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key, PEM.")
]
ClientRootsOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-roots",
        metavar="FILE",
        help="Certificates, PEM, of the authorities that sign those of clients; who has none "
        "cannot connect. Required beyond the loopback interface.",
    ),
]
OpenOption = Annotated[
    bool,
    typer.Option(
        "--without-client-certificates",
        help="Let everybody connect who can reach a --host of other machines. Calls still need "
        "the token, but are read, whatever their size, before it is checked.",
    ),
]
IntervalOption = Annotated[
    int | None,
    typer.Option(
        "--expiry-interval",
        metavar="SECONDS",
        min=0,
        max=99_999_999,
        help="Scan for expired messages this often, 0 never. [default: EXPRYINT, 5 when it is OFF]",
    ),
]


def serve(
    names: Names,
    *,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    token_file: TokenOption = None,
    tls_certificate: CertificateOption = None,
    tls_key: KeyOption = None,
    tls_client_roots: ClientRootsOption = None,
    without_client_certificates: OpenOption = False,
    expiry_interval_seconds: IntervalOption = None,
    platform: PlatformOption = None,
    command_level: LevelOption = None,
    setting: SettingOption = None,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep queue managers open; serve their ledgers, queues to pipelines, receiver channels.

    Delayed messages are released and expired ones discarded at their time. Runs until it is
    interrupted or terminated, which ends it in good order. Meanwhile the folders belong to it,
    their sender channels run, and commands about them are carried out here: mqsc, put, get, …
    Messages that are not persistent, the default of a queue, end with it.

    \b
    Examples:
      mayfly serve QM1 --port 9414
      mayfly serve QM1 --host 10.0.0.1 --tls-certificate chain.pem --tls-key key.pem \\
        --tls-client-roots clients.pem
    """
    if path is not None and len(names) > 1:
        raise CommandFailed(ExitCode.USAGE, "--path is for one queue manager alone")
    given = configuration_of(platform, command_level, setting)
    pair = _certificate(tls_certificate, tls_key)
    clients = _clients(host, pair, tls_client_roots, is_open=without_client_certificates)
    with contextlib.ExitStack() as stack:
        stopped = stack.enter_context(stop_event())
        held = stack.enter_context(_held(names, path, given))
        _set_scans(held.managers, expiry_interval_seconds)
        token, shown_file = _token(token_file, held.folders[names[0]])
        server = _server(held, (host, port), token, clients)
        stack.enter_context(_started(server))
        served = Served(server.url, _absolute(shown_file), _absolute(tls_certificate))
        for serving in held.servings:
            stack.enter_context(serving.announced(served))
        _say_ready(names, served, as_json=as_json)
        stopped.wait()
    if server.is_held:
        # All is closed and on the disk.
        os._exit(ExitCode.DONE)


def _absolute(file: Path | None) -> str | None:
    return None if file is None else str(file.absolute())


def _say_ready(names: Sequence[str], served: Served, *, as_json: bool) -> None:
    if as_json:
        print_json({"managers": names, **served._asdict()}, indent=None)
    else:
        with_token = served.token_file or "the one in MAYFLY_TOKEN"
        print(f"serving {', '.join(names)} at {served.url}, token: {with_token}")
    typer.get_text_stream("stdout").flush()


def _say_lost(managers: Sequence[QueueManager]) -> None:
    """Say how many messages end with this process, because they are not persistent."""
    for manager in managers:
        count = volatile_count(manager)
        if count:
            print(
                f"mayfly: {manager.name}: {count:,} messages are not persistent and end now; "
                "DEFPSIST(YES) on their queue, or a put that says so, keeps them",
                file=sys.stderr,
            )


class _Clients(NamedTuple):
    """How the server shows itself over TLS, and which clients may connect."""

    certificate: tuple[bytes, bytes] | None
    roots: bytes | None
    is_open: bool


class _Held(NamedTuple):
    """The queue managers of the server, with the folder of each by its name."""

    folders: dict[str, Path]
    servings: list[Serving]
    managers: list[QueueManager]


@contextlib.contextmanager
def _held(names: Sequence[str], path: Path | None, given: Configuration) -> Iterator[_Held]:
    """Have queue managers open for a block; commands that find them in use learn that.

    Their folders count as served from before they are opened until they are closed.
    """
    folders = {name: folder_of(name, path) for name in names}
    with contextlib.ExitStack() as stack:
        servings = [stack.enter_context(contextlib.closing(Serving(folders[n]))) for n in names]
        opening = [opened(name, path, make=True, given=given) for name in names]
        managers = [stack.enter_context(one) for one in opening]
        # Called when the server has stopped and nobody puts any more.
        stack.callback(_say_lost, managers)
        yield _Held(folders, servings, managers)


def _set_scans(managers: Sequence[QueueManager], seconds: int | None) -> None:
    for manager in managers:
        _set_scan(manager, seconds)


def _set_scan(manager: QueueManager, seconds: int | None) -> None:
    """Set the scan, 0 being OFF, while it is served; the stored definition stays as it is."""
    if seconds is None and manager_definition(manager).expryint == MQEXPI_OFF:
        seconds = EXPIRY_INTERVAL_SECONDS
    if seconds is not None:
        scan_every(manager, seconds)


def _token(token_file: Path | None, folder: Path) -> tuple[str, Path | None]:
    """Return the token and the file it stands in, None when it comes from MAYFLY_TOKEN."""
    from mayfly.bulk.client import TOKEN_VARIABLE, check_token, read_token
    from mayfly.bulk.errors import NoToken

    if token_file is None and not os.environ.get(TOKEN_VARIABLE, "").strip():
        token_file = folder / TOKEN_FILE
        if not token_file.exists():
            Files().write_whole(token_file, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
    try:
        return check_token(read_token(token_file)), token_file
    except NoToken as error:
        raise CommandFailed(ExitCode.FILE, error.text) from error
    except ValueError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error


def _certificate(chain: Path | None, key: Path | None) -> tuple[bytes, bytes] | None:
    """Return what TLS needs, None where it is not wanted."""
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        raise CommandFailed(ExitCode.USAGE, "--tls-certificate and --tls-key go together")
    return _content(chain), _content(key)


def _optional(file: Path | None) -> bytes | None:
    return None if file is None else _content(file)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandFailed(ExitCode.FILE, f"{error.filename}: {error.strerror}") from error


def _clients(
    host: str, pair: tuple[bytes, bytes] | None, roots: Path | None, *, is_open: bool
) -> _Clients:
    """Return which clients may connect, before a queue manager is made or opened for them."""
    from mayfly.servers.flight import check_clients

    clients = _Clients(pair, _optional(roots), is_open)
    with wrong_values():
        check_clients(
            host,
            has_tls=pair is not None,
            has_roots=clients.roots is not None,
            is_open=is_open,
        )
    return clients


def _server(
    held: _Held, address: tuple[str, int | None], token: str, clients: _Clients
) -> FlightServer:
    from mayfly.bulk.client import DEFAULT_PORT
    from mayfly.servers.flight import FlightServer

    host, port = address
    with wrong_values():
        return FlightServer(
            held.managers,
            host,
            DEFAULT_PORT if port is None else port,
            token=token,
            tls_certificate=clients.certificate,
            client_roots=clients.roots,
            without_client_certificates=clients.is_open,
            folders=held.folders,
        )


@contextlib.contextmanager
def _started(server: FlightServer) -> Iterator[None]:
    try:
        server.start()
    except OSError as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    try:
        yield
    finally:
        server.stop()

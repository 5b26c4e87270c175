"""``mayfly serve``: keep queue managers open, and serve ledgers, queues and channels."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.configuration import (
    LevelOption,
    PlatformOption,
    SettingOption,
    configuration_of,
)
from mayfly.cli.managers import FolderOption, JsonOption, folder_of, opened
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.served import Served, announced
from mayfly.cli.show import print_json
from mayfly.cli.signals import stop_event
from mayfly.mqi.constants import MQEXPI_OFF
from mayfly.queue_manager import QueueManager
from mayfly.store.private_files import write_whole

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

    \b
    Example:
      mayfly serve QM1 --port 9414
    """
    if path is not None and len(names) > 1:
        raise CommandFailed(ExitCode.USAGE, "--path is for one queue manager alone")
    given = configuration_of(platform, command_level, setting)
    folders = [folder_of(name, path) for name in names]
    with contextlib.ExitStack() as stack:
        stopped = stack.enter_context(stop_event())
        opening = [opened(name, path, make=True, given=given) for name in names]
        managers = [stack.enter_context(one) for one in opening]
        for manager in managers:
            _set_scan(manager, expiry_interval_seconds)
        token, shown_file = _token(token_file, folders[0])
        pair = _certificate(tls_certificate, tls_key)
        server = stack.enter_context(_started(managers, (host, port), token, pair))
        served = Served(
            server.url,
            None if shown_file is None else str(shown_file.absolute()),
            None if tls_certificate is None else str(tls_certificate.absolute()),
        )
        for folder in folders:
            stack.enter_context(announced(folder, served))
        _say_ready(names, served, as_json=as_json)
        stopped.wait()
    if server.is_held:
        # All is closed and on the disk.
        os._exit(ExitCode.DONE)


def _say_ready(names: Sequence[str], served: Served, *, as_json: bool) -> None:
    if as_json:
        print_json({"managers": names, **served._asdict()}, indent=None)
    else:
        with_token = served.token_file or "the one in MAYFLY_TOKEN"
        print(f"serving {', '.join(names)} at {served.url}, token: {with_token}")
    typer.get_text_stream("stdout").flush()


def _set_scan(manager: QueueManager, seconds: int | None) -> None:
    """Set the scan, 0 being OFF, while it is served; the stored definition stays as it is."""
    definition = manager.registry.queue_manager
    if seconds is None and definition.number("EXPRYINT") == MQEXPI_OFF:
        seconds = EXPIRY_INTERVAL_SECONDS
    if seconds is not None:
        with manager.latch:
            definition.attributes["EXPRYINT"] = seconds
        manager.wake()


def _token(token_file: Path | None, folder: Path) -> tuple[str, Path | None]:
    """Return the token and the file it stands in, None when it comes from MAYFLY_TOKEN."""
    from mayfly.bulk.client import TOKEN_VARIABLE, check_token, read_token
    from mayfly.bulk.errors import NoToken

    if token_file is None and not os.environ.get(TOKEN_VARIABLE, "").strip():
        token_file = folder / TOKEN_FILE
        if not token_file.exists():
            write_whole(token_file, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
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
    try:
        return chain.read_bytes(), key.read_bytes()
    except OSError as error:
        raise CommandFailed(ExitCode.FILE, f"{error.filename}: {error.strerror}") from error


@contextlib.contextmanager
def _started(
    managers: Sequence[QueueManager],
    address: tuple[str, int | None],
    token: str,
    tls_certificate: tuple[bytes, bytes] | None,
) -> Iterator[FlightServer]:
    from mayfly.bulk.client import DEFAULT_PORT
    from mayfly.servers.flight import FlightServer

    host, port = address
    server = FlightServer(
        managers,
        host,
        DEFAULT_PORT if port is None else port,
        token=token,
        tls_certificate=tls_certificate,
    )
    try:
        server.start()
    except OSError as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    try:
        yield server
    finally:
        server.stop()

"""``mayfly serve``: keep queue managers open for the programs of other processes and machines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.managers import (
    FolderOption,
    LevelOption,
    PlatformOption,
    SettingOption,
    configuration_of,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption
from mayfly.cli.values import local_path
from mayfly.servers.addresses import ListenAddress, listen_address
from mayfly.servers.logs import LogForm
from mayfly.servers.settings import (
    Development,
    Listen,
    ServedFolder,
    ServeSettings,
    TlsFiles,
    read_settings,
)
from mayfly.verbs.contracts.config_files import ConfigurationError

_FILE_SUFFIX = ".toml"

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="QMGR...|CONFIG.toml",
        help="Queue managers, made when missing; or a file that names them.",
    ),
]
MqOption = Annotated[
    str | None,
    typer.Option(
        "--mq",
        metavar="HOST:PORT",
        help="Serve programs here; port 0 is any. [default: 127.0.0.1:1414]",
    ),
]
FlightOption = Annotated[
    str | None,
    typer.Option(
        "--flight",
        metavar="HOST:PORT",
        help="Serve pipelines by Arrow Flight here; port 0 is any. [default: 127.0.0.1:9414]",
    ),
]
AmqpOption = Annotated[
    str | None,
    typer.Option(
        "--amqp",
        metavar="HOST:PORT",
        help="Serve programs of AMQP 1.0 here; port 0 is any. Needs mayfly-mq[amqp].",
    ),
]
HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve IBM's REST API, probes and administration by HTTP here; port 0 is any. Needs "
        "mayfly-mq[http].",
    ),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        parser=local_path,
        metavar="FILE",
        help="File with the operator's token; without it MAYFLY_TOKEN, else one is made in the "
        "folder.",
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-certificate",
        parser=local_path,
        metavar="FILE",
        help="Certificate chain, PEM; with --tls-key nobody overhears messages and passwords.",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--tls-key", parser=local_path, metavar="FILE", help="Its private key, PEM."),
]
ClientRootsOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-roots",
        parser=local_path,
        metavar="FILE",
        help="Certificates, PEM, of the authorities that sign those of clients. Required for "
        "--flight beyond the loopback interface.",
    ),
]
OpenOption = Annotated[
    bool,
    typer.Option(
        "--without-client-certificates",
        help="Let everybody connect who can reach a --flight of other machines. Calls still need "
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
LakeOption = Annotated[
    Path | None,
    typer.Option(
        "--lake",
        parser=local_path,
        metavar="FOLDER",
        help="A lake of the ledger, in which traces of messages look as well. Needs "
        "mayfly-mq[lake].",
    ),
]
ReplicaOption = Annotated[
    str | None,
    typer.Option(
        "--replica",
        metavar="URL",
        help="A database of PostgreSQL: commits are there before they are acknowledged, and of "
        "several servers one owns the queue manager while the others follow. Needs "
        "mayfly-mq[replica].",
    ),
]
ScriptOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--mqsc",
        parser=local_path,
        metavar="FILE",
        help="MQSC script that is run at the start; may be given repeatedly.",
    ),
]
DevOption = Annotated[
    bool,
    typer.Option(
        "--dev",
        help="For development: define queues, channels and users to begin with, and say their "
        "passwords. On the loopback interface, or with TLS.",
    ),
]
TlsOption = Annotated[
    bool,
    typer.Option(
        "--tls", help="With --dev: TLS, with a certificate made for it, which the first line names."
    ),
]
VirtualClockOption = Annotated[
    bool,
    typer.Option(
        "--virtual-clock",
        help="With --dev: time stands still until `mayfly clock advance` moves it on.",
    ),
]
LogOption = Annotated[
    LogForm | None,
    typer.Option(
        "--log",
        help="Log to stderr: plain has warnings alone, text and json all that happens. "
        "[default: plain]",
    ),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Say what is wrong with what is given, and end.")
]


def serve(
    names: Names,
    *,
    mq: MqOption = None,
    flight: FlightOption = None,
    amqp: AmqpOption = None,
    http: HttpOption = None,
    token_file: TokenOption = None,
    tls_certificate: CertificateOption = None,
    tls_key: KeyOption = None,
    tls_client_roots: ClientRootsOption = None,
    without_client_certificates: OpenOption = False,
    expiry_interval_seconds: IntervalOption = None,
    platform: PlatformOption = None,
    command_level: LevelOption = None,
    setting: SettingOption = None,
    mqsc: ScriptOption = None,
    lake: LakeOption = None,
    replica: ReplicaOption = None,
    path: FolderOption = None,
    dev: DevOption = False,
    virtual_clock: VirtualClockOption = False,
    tls: TlsOption = False,
    log: LogOption = None,
    check: CheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keep queue managers open for the programs of other processes and machines.

    Runs until it is interrupted or terminated, and then ends in good order. Meanwhile the folders
    belong to it, channels run, and commands are carried out here. SIGHUP reads users, certificates
    and limits again. Messages that are not persistent, the default of a queue, end with it.

    \b
    Examples:
      mayfly serve QM1 --mq 127.0.0.1:1414 --flight 127.0.0.1:9414
      mayfly serve QM1 --replica postgresql://mayfly@db.example/queues
      mayfly serve /etc/mayfly/config.toml --check
    """
    configuration = configuration_of(platform, command_level, setting)
    scripts = tuple(mqsc or ())
    served = ServedFolder(
        names[0], path, configuration, scripts, expiry_interval_seconds, lake, replica
    )
    tls_files = TlsFiles(tls_certificate, tls_key, tls_client_roots, without_client_certificates)
    given_addresses = {"mq": mq, "flight": flight, "amqp": amqp, "http": http}
    listen = Listen(**{name: _address(f"--{name}", text) for name, text in given_addresses.items()})
    development = Development(dev, virtual_clock, tls)
    read = partial(_settings, names, served, listen, tls_files, token_file, log, development)
    from mayfly.cli.hosting import check_channels, check_served, commands_of, run_server

    settings = read()
    check_served(settings)
    if check:
        check_channels(settings, [commands_of(each) for each in settings.queue_managers])
        print(f"{', '.join(names)}: nothing is wrong")
    else:
        run_server(settings, read, as_json=as_json)


def _settings(
    names: list[str],
    served: ServedFolder,
    listen: Listen,
    tls: TlsFiles,
    token_file: Path | None,
    log: LogForm | None,
    development: Development,
) -> ServeSettings:
    """Return the settings from options and file; an option takes precedence over the file.

    If ``listen`` has any address, its addresses replace all those of the file. The same is true of
    the files in ``tls``. ``token_file`` and ``log`` None leave those of the file. ``served`` is
    used for each queue manager on the command line. Raises CommandFailed for a wrong file or
    options that contradict each other.
    """
    file = local_path(names[0])
    settings = (_of_file if file.suffix == _FILE_SUFFIX else _named)(names, served)
    if any(listen):
        settings = settings._replace(listen=listen)
    if tls != TlsFiles():
        settings = settings._replace(tls=tls)
    if token_file is not None:
        settings = settings._replace(token_file=token_file)
    settings = settings._replace(development=development)
    return settings if log is None else settings._replace(log=log)


def _named(names: list[str], given: ServedFolder) -> ServeSettings:
    """Return the settings for the queue managers that the command line names.

    ``given`` has the options, the same for each. Raises CommandFailed if --path is used with
    several of them.
    """
    if given.path is not None and len(names) > 1:
        raise CommandFailed(ExitCode.USAGE, "--path is for one queue manager alone")
    return ServeSettings(tuple(given._replace(name=name) for name in names))


def _of_file(names: list[str], given: ServedFolder) -> ServeSettings:
    """Return the settings in a TOML file, which names its queue managers.

    ``names`` are the words of the command line, of which the file is the first. ``given`` has the
    options about one queue manager. Raises CommandFailed if the file is wrong, if there is a second
    name, or if such an option is used: it belongs in the file.
    """
    file = local_path(names[0])
    if len(names) > 1:
        raise CommandFailed(ExitCode.USAGE, f"{file} names its queue managers: {names[1]!r} cannot")
    if given != ServedFolder(names[0]):
        raise CommandFailed(
            ExitCode.USAGE, f"write what is about one queue manager into {file}, not as an option"
        )
    try:
        return read_settings(file)
    except ConfigurationError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error


def _address(option: str, text: str | None) -> ListenAddress | None:
    """Return the address in an option's text, None for None; raises CommandFailed if wrong."""
    if text is None:
        return None
    try:
        return listen_address(text)
    except ValueError as error:
        raise CommandFailed(ExitCode.USAGE, f"{option}: {error}") from error

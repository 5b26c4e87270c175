"""``mayfly serve --check``: whether every channel that the settings name is defined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mayfly.admin.mqsc.grammar import Command, Parameter
from mayfly.cli.managers import folder_of
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.mqi.constants import MQCHT_SVRCONN
from mayfly.servers.settings import (
    AMQP_CHANNEL,
    DEVELOPMENT_HTTP_ADMIN_CHANNEL,
    DEVELOPMENT_HTTP_CHANNEL,
    ServedFolder,
    ServeSettings,
)
from mayfly.store.stored_objects import stored_objects

_KEYS = ("amqp_channel", "http_channel", "http_admin_channel")
_WORDS = ("CHANNEL", "CHL")


def check_channels(settings: ServeSettings, scripts: Sequence[Sequence[Command]]) -> None:
    """Raise CommandFailed for a channel that is named and will not be there when clients come.

    ``scripts`` has for each queue manager the commands of all its MQSC scripts, in their order. A
    channel is there when the scripts define it with CHLTYPE(SVRCONN), when the folder of the queue
    manager has it, or with ``--dev`` when it is one of developers. Folders are read, also those
    that a server has open, and not changed. Raises StoreError for a folder that cannot be read.
    """
    named = [(key, name) for key in _KEYS if (name := getattr(settings, key))]
    if not named:
        return
    for served, commands in zip(settings.queue_managers, scripts, strict=True):
        defined = _client_channels(served, commands)
        if settings.development.is_on:
            defined |= {DEVELOPMENT_HTTP_CHANNEL, DEVELOPMENT_HTTP_ADMIN_CHANNEL}
        for key, name in named:
            if name not in defined:
                text = f"no channel {name} with CHLTYPE(SVRCONN) is defined at {served.name}"
                raise CommandFailed(
                    ExitCode.USAGE, f"{key}: {text}: neither in its folder nor by its mqsc scripts"
                )


def _client_channels(served: ServedFolder, commands: Sequence[Command]) -> set[str]:
    """Return the names of the SVRCONN channels that exist once the scripts have run.

    They are those in the folder of ``served``, as ``commands`` of the scripts add or delete them.
    """
    stored = stored_objects(folder_of(served.name, served.path), "CHANNEL")
    found = {name for name, each in stored.items() if each["CHLTYPE"] == MQCHT_SVRCONN}
    # Every queue manager is made with this one.
    found.add(AMQP_CHANNEL)
    for command in commands:
        if command.object.keyword in _WORDS:
            for name in _texts(command.object):
                if command.verb.keyword == "DELETE":
                    found.discard(name)
                elif command.verb.keyword in ("DEFINE", "DEF") and _is_for_clients(command):
                    found.add(name)
    return found


def _is_for_clients(command: Command) -> bool:
    """Return True if a command has CHLTYPE(SVRCONN)."""
    kinds = [each for each in command.parameters if each.keyword == "CHLTYPE"]
    return any("SVRCONN" in _texts(each) for each in kinds)


def _texts(parameter: Parameter) -> Iterator[str]:
    """Yield the values of a parameter."""
    return (value.text for value in parameter.values or ())

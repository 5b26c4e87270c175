"""The options that configure a queue manager: platform, command level and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from mayfly.engine import PLATFORMS, Configuration, SettingValue, setting_value


class Given(NamedTuple):
    """One ``--setting``."""

    name: str
    value: SettingValue


def setting_of(text: str) -> Given:
    """Return ``NAME=VALUE``; raises BadParameter naming what is unknown or wrong."""
    name, equals, typed = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, as in expiry.max_check=always")
    try:
        return Given(name, setting_value(name, typed))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


PlatformOption = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="|".join(PLATFORMS),
        help="What it is made for; never changes. [default: distributed]",
    ),
]
LevelOption = Annotated[
    int | None,
    typer.Option("--command-level", metavar="NUMBER", help="CMDLEVEL; kept. [default: 940]"),
]
SettingOption = Annotated[
    list[Given] | None,
    typer.Option(
        "--setting",
        parser=setting_of,
        metavar="NAME=VALUE",
        help="A setting, as in expiry.max_check=always; kept; may be given repeatedly.",
    ),
]


def configuration_of(
    platform: str | None, command_level: int | None, settings: Sequence[Given] | None
) -> Configuration:
    """Return what the options say; of a setting that is given twice the last one counts."""
    return Configuration(platform, command_level, dict(settings or ()))

"""The options that configure a queue manager: platform, command level and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from mayfly.engine import PLATFORMS, SETTINGS, Configuration, SettingValue


class Given(NamedTuple):
    """One ``--setting``."""

    name: str
    value: SettingValue


def setting_of(text: str) -> Given:
    """Return ``NAME=VALUE``; raises BadParameter naming what is unknown or wrong."""
    name, equals, typed = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, as in expiry.max_check=always")
    setting = next((setting for setting in SETTINGS if setting.name == name), None)
    if setting is None:
        known = ", ".join(setting.name for setting in SETTINGS)
        raise typer.BadParameter(f"unknown setting {name!r}; known are {known}")
    if setting.choices is None:
        if not typed.isdecimal() or not int(typed):
            raise typer.BadParameter(f"{name}: {typed!r} is not a positive number")
        return Given(name, int(typed))
    words = {str(choice).lower(): choice for choice in setting.choices}
    if typed.lower() not in words:
        raise typer.BadParameter(f"{name}: {typed!r} is not one of {', '.join(words)}")
    return Given(name, words[typed.lower()])


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

"""Settings: switches for what the source documents leave open, with their defaults by platform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from mayfly.lifetime.window import LONGEST_ENFORCED_LIFE_MS, LONGEST_LIFE_MS

SettingValue: TypeAlias = str | int | bool


class Setting(NamedTuple):
    """One setting; ``choices`` are its allowed values, None for any positive integer."""

    name: str
    default: SettingValue
    choices: tuple[SettingValue, ...] | None
    meaning: str


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "expiry.max_check",
        "env",
        ("env", "always", "never"),
        "K1: whether an Expiry above 999,999,999 fails with MQRC_EXPIRY_ERROR; env = while "
        "AMQ_ENFORCE_MAX_EXPIRY_ERROR is in the environment at the start of the queue manager",
    ),
    Setting(
        "expiry.zero_check",
        "always",
        ("always", "env"),
        "K2: whether an Expiry of 0 fails always or only under AMQ_ENFORCE_MAX_EXPIRY_ERROR; "
        "where it does not fail, the message has expired at once",
    ),
    Setting(
        "expiry.discard_on_empty",
        True,
        (True, False),
        "K7: whether a get or browse that finds nothing alive discards the expired messages it "
        "met; False discards only on the way to a live one",
    ),
    Setting(
        "xqh.enforce_format",
        True,
        (True, False),
        "K3: whether what a program puts on a transmission queue must have Format MQXMIT and begin "
        "with an MQXQH, else MQRC_XQH_ERROR",
    ),
    Setting(
        "xqh.check_expiry",
        True,
        (True, False),
        "K4, K5: whether the Expiry in that MQXQH must be there and valid",
    ),
    Setting(
        "xqh.expiry_conflict",
        "consistent",
        ("consistent", "reject", "allow"),
        "K6: whether it may differ from that of the message: consistent = both or neither are "
        "unlimited, reject = they are equal",
    ),
    Setting(
        "delay.volatile_check",
        "warn",
        ("warn", "refuse", "off"),
        "D33: what happens to a delay above one minute of a message that is not persistent, which "
        "a restart would lose: warn = a warning in the log, refuse = MQRC_OPTIONS_ERROR",
    ),
    Setting(
        "ledger.retention_count",
        10_000_000,
        None,
        "how many ledger rows are kept; a reader of an older position gets PositionTrimmed",
    ),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
#: Platform -> the settings whose defaults are others there. MQMD on IBM i (seed 001) enforces no
#: maximum, and checks neither the Format nor the embedded Expiry on a transmission queue.
PLATFORMS: Mapping[str, Mapping[str, SettingValue]] = {
    "distributed": {},
    "ibmi": {
        "expiry.max_check": "never",
        "xqh.enforce_format": False,
        "xqh.check_expiry": False,
        "xqh.expiry_conflict": "allow",
    },
    "zos": {},
}
MAX_EXPIRY_VARIABLE = "AMQ_ENFORCE_MAX_EXPIRY_ERROR"


class Settings:
    """The settings in force for one queue manager.

    ``given`` has the settings that were set; others have the default of the platform. Environment
    variables are read at the start only.
    """

    def __init__(
        self, values: Mapping[str, SettingValue], environment: Mapping[str, str], platform: str
    ) -> None:
        """Check and resolve settings; raises ValueError for an unknown setting or a wrong value.

        A setting that ``values`` leaves out has the default of ``platform``. In ``environment`` the
        variable AMQ_ENFORCE_MAX_EXPIRY_ERROR turns on the checks of the expiry in puts.
        """
        check_settings(values)
        chosen = {**defaults_on(platform), **values}
        self.given: Mapping[str, SettingValue] = dict(values)
        #: Every setting with the value in force.
        self.in_force: Mapping[str, SettingValue] = chosen
        # The value of the variable does not matter, even empty text or "False" enforces (E3).
        enforced = MAX_EXPIRY_VARIABLE in environment
        self._environment = {MAX_EXPIRY_VARIABLE: ""} if enforced else {}
        self._platform = platform
        max_check = chosen["expiry.max_check"]
        self.is_maximum_enforced = max_check == "always" or (max_check == "env" and enforced)
        #: The longest life that a put may ask for (E3).
        self.longest_life_ms = (
            LONGEST_ENFORCED_LIFE_MS if self.is_maximum_enforced else LONGEST_LIFE_MS
        )
        self.is_zero_refused = chosen["expiry.zero_check"] == "always" or enforced
        self.discard_on_empty = bool(chosen["expiry.discard_on_empty"])
        self.enforces_xqh = bool(chosen["xqh.enforce_format"])
        self.checks_embedded = bool(chosen["xqh.check_expiry"])
        self.expiry_conflict = str(chosen["xqh.expiry_conflict"])
        self.volatile_delay_check = str(chosen["delay.volatile_check"])
        self.ledger_retention_count = int(chosen["ledger.retention_count"])

    def changed(self, values: Mapping[str, SettingValue]) -> Settings:
        """Return settings with ``values`` in place of all that were set before.

        A setting that ``values`` leaves out has its default. Raises ValueError for a wrong one.
        """
        return Settings(values, self._environment, self._platform)


def defaults_on(platform: str) -> dict[str, SettingValue]:
    """Return every setting with its default on a platform."""
    return {**{setting.name: setting.default for setting in SETTINGS}, **PLATFORMS[platform]}


def setting_value(name: str, text: str) -> SettingValue:
    """Return the value of a setting from its text, in upper or lower case.

    Raises ValueError for an unknown setting or a wrong value, with the allowed ones.
    """
    setting = _known(name)
    if setting.choices is None:
        if not (text.isascii() and text.isdecimal()) or not int(text):
            raise ValueError(f"{name}: {text!r} is not a positive number")
        return int(text)
    words = {str(choice).lower(): choice for choice in setting.choices}
    if text.lower() not in words:
        raise ValueError(f"{name}: {text!r} is not one of {', '.join(words)}")
    return words[text.lower()]


def check_settings(values: Mapping[str, SettingValue]) -> None:
    """Raise ValueError for an unknown setting or a wrong value."""
    for name, value in values.items():
        choices = _known(name).choices
        if choices is None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"setting {name}: {value!r} is not a positive number")
        elif not any(value == choice and type(value) is type(choice) for choice in choices):
            raise ValueError(f"setting {name}: {value!r} is not one of {choices}")


def _known(name: str) -> Setting:
    """Return the setting with this name; raises ValueError for an unknown name."""
    setting = _BY_NAME.get(name)
    if setting is None:
        raise ValueError(f"unknown setting {name!r}; known are {', '.join(_BY_NAME)}")
    return setting

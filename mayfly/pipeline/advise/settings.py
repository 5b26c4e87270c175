"""The settings of a non-ASF listener port that are checked and advised, and their bounds."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.lifetime.time_limits import TOTAL_TRAN_LIFETIME_TIMEOUT_S
from mayfly.lifetime.times import SECOND_MS

#: The listener waits for one message at a time in each; more threads than this hold no port.
MAX_SESSIONS = 1_000
_LONGEST_MS = 2**31 - 1
_BOTHRESH_MAX = 999_999_999


class AdviseError(ValueError):
    """A setting, configuration file or recording is invalid; the text names it and its value."""


class ListenSettings(NamedTuple):
    """The settings of a port: NON.ASF.RECEIVE.TIMEOUT, total transaction lifetime, sessions.

    ``receive_timeout_ms`` None means not decided yet. A lifetime of 0 means that no transaction
    times out. With BOTHRESH 0 a message is redelivered without limit.
    """

    receive_timeout_ms: int | None = None
    total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S
    max_sessions: int = 1
    bothresh: int = 0

    @property
    def lifetime_ms(self) -> int:
        """The total transaction lifetime in ms."""
        return self.total_tran_lifetime_timeout_s * SECOND_MS

    @property
    def timeout_ms(self) -> int:
        """The receive timeout in ms; raises AdviseError when the setting has None for it."""
        if self.receive_timeout_ms is None:
            raise AdviseError("receive_timeout_ms is None: without a timeout nothing can be tried")
        return self.receive_timeout_ms


#: The lowest and the highest value of each setting. A timeout of 0 would be ASF: no receive waits.
BOUNDS = {
    "receive_timeout_ms": (1, _LONGEST_MS),
    "total_tran_lifetime_timeout_s": (0, _LONGEST_MS // SECOND_MS),
    "max_sessions": (1, MAX_SESSIONS),
    "bothresh": (0, _BOTHRESH_MAX),
    "longest_on_message_ms": (0, _LONGEST_MS),
    "margin_ms": (1, _LONGEST_MS),
    "idle_per_hour": (1, _LONGEST_MS),
}


def check_bounds(**values: int) -> None:
    """Raise AdviseError, with name and value, for a value outside of its range in BOUNDS."""
    for name, value in values.items():
        lowest, highest = BOUNDS[name]
        if type(value) is not int or not lowest <= value <= highest:
            why = " (0 is ASF mode, where no transaction waits)" if name in _ASF_WHEN_ZERO else ""
            raise AdviseError(f"{name} is {value!r}, not a number from {lowest} to {highest}{why}")


def check_setting(setting: ListenSettings) -> None:
    """Raise AdviseError, with name and value, for a field outside of BOUNDS; None is allowed."""
    values = setting._asdict()
    if setting.receive_timeout_ms is None:
        del values["receive_timeout_ms"]
    check_bounds(**values)


def duration_text(duration_ms: int) -> str:
    """Return a duration as text: ``104 s``, ``1.5 s``, ``20 ms``."""
    if duration_ms < SECOND_MS:
        return f"{duration_ms} ms"
    return f"{duration_ms / SECOND_MS:,.3f}".rstrip("0").rstrip(".") + " s"


def problems_of(setting: ListenSettings, longest_on_message_ms: int) -> list[str]:
    """Return the reasons why a setting is unsafe, as sentences; [] if it is safe or undecided.

    Safe is a receive timeout below the transaction lifetime that leaves *more* than the longest
    on_message. If it leaves exactly as much, a message at the very end of a receive is finished
    when its transaction times out.
    """
    if setting.receive_timeout_ms is None:
        return []
    # Imported late: the listener loads the whole queue manager.
    from mayfly.services.listener.settings import check_timeouts

    return check_timeouts(
        receive_timeout_ms=setting.receive_timeout_ms,
        total_tran_lifetime_timeout_s=setting.total_tran_lifetime_timeout_s,
        longest_on_message_ms=longest_on_message_ms,
    )


_ASF_WHEN_ZERO = ("receive_timeout_ms",)

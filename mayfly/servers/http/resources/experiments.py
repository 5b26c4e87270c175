"""``…/replay`` and ``…/advice``: experiments with the ended messages of the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine.api.operating import EndedFilter
from mayfly.servers.http.experiments import Experiment, ExperimentProgress, TooManyExperiments
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation

_LONGEST_MS: Final = 2**41
_QUEUE: Final = r"^[A-Za-z0-9./_%]{1,48}$"
_Duration: TypeAlias = Annotated[int, Meta(ge=0, le=_LONGEST_MS, description="ms")]
_Moment: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1, description="ms since 1970, UTC")]
_Count: TypeAlias = Annotated[int, Meta(ge=1, le=999_999_999)]
_QueueName: TypeAlias = Annotated[str, Meta(pattern=_QUEUE, title="a name of a queue")]


class TriedSetting(Struct, forbid_unknown_fields=True):
    """Settings to try on one queue, or on all queues that are not named (docs/LAKE.md)."""

    queue: _QueueName | None = None
    cap_ms: _Duration | None = None
    delay_ms: _Duration | None = None
    life_ms: _Duration | None = None
    ttl_from: Literal["send", "release"] | None = None
    sequence: Literal["priority", "fifo"] | None = None
    consumers: _Count | None = None
    service_ms: _Duration | None = None
    receive_timeout_ms: _Duration | None = None


class Replayed(Struct, forbid_unknown_fields=True):
    """Which ended messages are replayed, and under which settings."""

    settings: Annotated[list[TriedSetting], Meta(max_length=100)]
    queue: _QueueName | None = None
    from_ms: _Moment | None = None
    before_ms: _Moment | None = None
    late_after_ms: _Duration | None = None


class Advised(Struct, forbid_unknown_fields=True):
    """The settings of a listener on a queue, as the options of `mayfly advise`."""

    queue: _QueueName
    longest_on_message_ms: _Duration
    receive_timeout_ms: _Duration | None = None
    total_tran_lifetime_timeout_s: Annotated[int, Meta(ge=0, le=2**31 // 1_000)] | None = None
    max_sessions: _Count | None = None
    bothresh: Annotated[int, Meta(ge=0, le=999_999_999)] | None = None
    margin_ms: _Duration | None = None
    idle_per_hour: _Count | None = None
    from_ms: _Moment | None = None
    before_ms: _Moment | None = None


class ExperimentShown(Struct):
    """The state of an experiment, and its result once it is done."""

    id: Annotated[str, Meta(description="the last part of its path")]
    state: ExperimentProgress
    is_cut: Annotated[bool, Meta(description="whether lives before the newest million are missing")]
    error: Annotated[str, Meta(description="why it has failed, empty if it has not")]
    result: Annotated[
        dict[str, Any] | None, Meta(description="what the command says with --json, null before")
    ]


def replayed(call: Call[NoQuery, Replayed]) -> ExperimentShown:
    """Start to replay the ended messages of the ledger under other settings.

    After some seconds the result of ``mayfly replay`` is at the id of the answer: by queue, and for
    the messages that would have ended differently. 429 while two experiments run.
    """
    asked = call.body
    options = [option for tried in asked.settings for option in _options_of(tried)]
    if asked.late_after_ms is not None:
        options += ["--late-after", f"{asked.late_after_ms}ms"]
    where = EndedFilter(asked.queue, None, asked.from_ms, asked.before_ms)
    return _begin(call, Experiment(call.manager.engine, "replay", options, where))


def advised(call: Call[NoQuery, Advised]) -> ExperimentShown:
    """Start to search a receive timeout and a transaction lifetime that are safe for a listener.

    After some seconds the result of ``mayfly advise`` is at the id of the answer: problems of the
    present setting, the recommended setting, and what both would have done with the arrivals in the
    ledger. 429 while two experiments run.
    """
    asked = call.body
    lifetime_s = asked.total_tran_lifetime_timeout_s
    given = {
        "--longest": _ms(asked.longest_on_message_ms),
        "--receive-timeout": _ms(asked.receive_timeout_ms),
        "--lifetime": None if lifetime_s is None else f"{lifetime_s}s",
        "--sessions": asked.max_sessions,
        "--bothresh": asked.bothresh,
        "--margin": _ms(asked.margin_ms),
        "--idle-per-hour": asked.idle_per_hour,
    }
    where = EndedFilter(asked.queue, None, asked.from_ms, asked.before_ms)
    return _begin(call, Experiment(call.manager.engine, "advise", _as_words(given), where))


def replay_shown(call: Call[NoQuery, None]) -> ExperimentShown:
    """Show a replay: its state, and its result once it is done; 404 for an unknown id."""
    return _find(call, "replay")


def advice_shown(call: Call[NoQuery, None]) -> ExperimentShown:
    """Show an advice: its state, and its result once it is done; 404 for an unknown id."""
    return _find(call, "advise")


def _options_of(tried: TriedSetting) -> list[str]:
    """Return the options of ``mayfly replay`` for the settings of one queue, as words."""
    given = {
        "--cap": _ms(tried.cap_ms),
        "--delay": _ms(tried.delay_ms),
        "--life": _ms(tried.life_ms),
        "--ttl-from": tried.ttl_from,
        "--sequence": tried.sequence,
        "--consumers": tried.consumers,
        "--service": _ms(tried.service_ms),
        "--receive-timeout": _ms(tried.receive_timeout_ms),
    }
    return _as_words(given, "" if tried.queue is None else f"{tried.queue}=")


def _as_words(given: Mapping[str, object], queue: str = "") -> list[str]:
    """Return command-line options as words: ``{'--cap': '5ms'}`` -> ``['--cap', '5ms']``.

    Options whose value is None are left out; ``queue`` is put before each value.
    """
    options = [(option, f"{queue}{value}") for option, value in given.items() if value is not None]
    return [word for option in options for word in option]


def _ms(duration_ms: int | None) -> str | None:
    """Return a duration as the command line writes it: 500 -> ``'500ms'``; None stays None."""
    return None if duration_ms is None else f"{duration_ms}ms"


def _begin(call: Call[NoQuery, Any], one: Experiment) -> ExperimentShown:
    """Start an experiment; return its state.

    Raises HttpError (429) while two experiments are running.
    """
    try:
        call.service.experiments.begin(one)
    except TooManyExperiments as error:
        text = "two experiments run already: try again when one is done"
        raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, text) from error
    return _status_of(one)


def _find(call: Call[NoQuery, None], command: str) -> ExperimentShown:
    """Return the experiment with the id in the path; raises HttpError (404) if unknown.

    One that was started with another ``command`` is unknown, too.
    """
    number = call.names["experiment"]
    found = call.service.experiments.find(call.manager.engine, command, number)
    if found is None:
        text = f"no experiment of this kind has the id {number!r}; the latest 50 are kept"
        raise HttpError(HTTPStatus.NOT_FOUND, text)
    return _status_of(found)


def _status_of(one: Experiment) -> ExperimentShown:
    """Return an experiment as the API shows it; without error and result while it is running."""
    # Its state is set last.
    state = one.state
    is_running = state is ExperimentProgress.RUNNING
    error, result = ("", None) if is_running else (one.error, one.result)
    return ExperimentShown(one.number, state, one.is_cut, error, result)


_NONE: Final = {HTTPStatus.NOT_FOUND: "no experiment has this id"}
_BUSY: Final = {HTTPStatus.TOO_MANY_REQUESTS: "two experiments run already"}


def _operations(path: str, begin: Any, show: Any) -> tuple[Operation, Operation]:
    """Return the POST below ``path`` that starts an experiment, and the GET that shows it.

    ``begin`` and ``show`` are their handlers.
    """
    path = f"{OF_MANAGER}/{path}"
    return (
        Operation("POST", path, begin, Role.LOOK, HTTPStatus.ACCEPTED, problems=_BUSY),
        Operation("GET", f"{path}/{{experiment}}", show, Role.LOOK, problems=_NONE),
    )


OPERATIONS: Final = (
    *_operations("replay", replayed, replay_shown),
    *_operations("advice", advised, advice_shown),
)

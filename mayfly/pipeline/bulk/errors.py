"""Errors between a client of the bulk plane and its server, and their form on the wire.

BulkError
├── WrongToken          wrong-token          the server does not know this token
├── NoToken             no-token             no token was given
├── NoRoots             no-roots             the file of trusted certificates cannot be read
├── NoCertificate       no-certificate       the files of the client's certificate cannot be read
├── BadRequest          bad-request          the server cannot read the request
├── UnknownManager      unknown-manager      the server serves no queue manager of this name
├── OtherInstance       other-instance       the positions belong to another store
├── PositionTrimmed     position-trimmed     the ledger no longer contains the next row
├── PositionBeyondEnd   position-beyond-end  the ledger ends before the position
├── ServerNotReachable  server-not-reachable no server answers at the url
└── ServerFailed        server-failed        any other error, with the server's text
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import ClassVar

import pyarrow.flight as flight

from mayfly.verbs.contracts import bulk_reasons

_PREFIX = "mayfly:"
_PREAMBLE = re.compile(r"^Flight returned [\w ]+ error, with message: ")
_GRPC_CONTEXT = ". gRPC client debug context:"


class BulkError(Exception):
    """A call to a bulk server failed: ``reason`` is a code for programs, ``text`` a sentence."""

    reason: ClassVar[str]

    def __init__(self, text: str) -> None:
        """Keep the sentence about the error; it names the values concerned."""
        super().__init__(text)
        self.text = text


class WrongToken(BulkError):
    """The server does not know the access token of the client."""

    reason = bulk_reasons.WRONG_TOKEN


class NoToken(BulkError):
    """No token was given and none is in MAYFLY_TOKEN."""

    reason = "no-token"


class NoRoots(BulkError):
    """The file of trusted certificates that MAYFLY_TLS_ROOTS names cannot be read."""

    reason = "no-roots"


class NoCertificate(BulkError):
    """The files of the client's own certificate cannot be read, or one is not named."""

    reason = "no-certificate"


class BadRequest(BulkError):
    """The server cannot read the request."""

    reason = bulk_reasons.BAD_REQUEST


class UnknownManager(BulkError):
    """The server serves no queue manager of this name."""

    reason = bulk_reasons.UNKNOWN_MANAGER


class OtherInstance(BulkError):
    """The positions belong to another store: the queue manager is another one, or was recreated."""

    reason = bulk_reasons.OTHER_INSTANCE


class PositionTrimmed(BulkError):
    """The ledger no longer contains the row after the position: retention has removed it."""

    reason = bulk_reasons.POSITION_TRIMMED


class PositionBeyondEnd(BulkError):
    """The ledger ends before the position: the store was restored from an older copy."""

    reason = bulk_reasons.POSITION_BEYOND_END


class ServerNotReachable(BulkError):
    """No server answers at the url."""

    reason = "server-not-reachable"


class ServerFailed(BulkError):
    """The server failed for a reason that is none of the others."""

    reason = "server-failed"


#: Reason -> the error that a server of any kind of request gives.
BY_REASON: Mapping[str, type[BulkError]] = {
    kind.reason: kind
    for kind in (
        WrongToken,
        BadRequest,
        UnknownManager,
        OtherInstance,
        PositionTrimmed,
        PositionBeyondEnd,
    )
}


def to_flight(error: BulkError) -> flight.FlightError:
    """Return the Flight error that a server raises for ``error``: ``mayfly: REASON TEXT``.

    Reason and text are also its JSON detail, from which `from_flight` makes the BulkError again.
    """
    kind = flight.FlightServerError
    if isinstance(error, WrongToken):
        kind = flight.FlightUnauthenticatedError
    detail = json.dumps({"reason": error.reason, "text": error.text})
    return kind(f"{_PREFIX} {error.reason} {error.text}", detail.encode())


def from_flight(
    error: flight.FlightError, url: str, by_reason: Mapping[str, type[BulkError]] = BY_REASON
) -> BulkError:
    """Return the BulkError that a Flight error of the server at ``url`` stands for.

    ``by_reason`` has the errors that the request can get. Without a known reason it is
    ServerNotReachable or ServerFailed. Its text is complete, so raise it ``from None``.
    """
    try:
        detail = json.loads(error.extra_info)
        return by_reason[detail["reason"]](f"{detail['text']} (server {url})")
    except (ValueError, KeyError, TypeError):
        pass
    # The context that gRPC adds is of no use to a user.
    text = _PREAMBLE.sub("", str(error).partition(_GRPC_CONTEXT)[0])
    if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError):
        return ServerNotReachable(f"no Mayfly server answers at {url}: {text}")
    return ServerFailed(f"the server {url} failed: {text}")

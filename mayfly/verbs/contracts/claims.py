"""Reading a queue by claims or by a browse: verbs, requests and answers (docs/SPARK.md).

The comment at each verb names its request and answer; CONSUMERS and MARK have no fields. Ids in a
request are hexadecimal digits.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = 3
#: AttachRequest -> Attached: act as a consumer of a queue.
ATTACH = "attach"
#: ClaimRequest -> Claimed: claim the next messages.
CLAIM = "claim"
#: EndRequest -> Counted: end the lives of the messages that claims hold.
END = "end-claims"
#: EndWrittenRequest -> Counted: end the claims that are written according to a checkpoint.
END_WRITTEN = "end-written-claims"
#: Reader -> {}: the reader ends, and claims nothing more.
QUIESCE = "quiesce-claims"
#: Reader -> {}: the reader is alive, so that its claims do not lapse.
HEARTBEAT = "renew-claims"
#: ClaimsRequest -> ClaimedRows: the rows that claims hold.
ROWS = "claim-rows"
#: BackOutRequest -> BackedOut: back out single messages that the reader cannot process.
BACK_OUT = "back-out-claimed"
#: {} -> Mark: a mark that separates messages put by now from later ones.
MARK = "claim-mark"
#: ReleaseRequest -> Counted: return claimed messages to their queue.
RELEASE = "release-claims"
#: {} -> {"consumers": [ConsumerState, …]}: the state of all consumers.
CONSUMERS = "consumers"
#: RangesRequest -> {"ranges": [[low, high], …]}: parts of a queue to be browsed.
RANGES = "browse-ranges"
#: The verbs of tickets, ClaimedRequest and BrowseRequest: answer with `contracts.messages` rows.
CLAIMED_VERB, BROWSE_VERB = "claimed", "browse"
VERBS = (
    *(ATTACH, CLAIM, END, END_WRITTEN, QUIESCE, HEARTBEAT, ROWS, BACK_OUT, MARK, RELEASE),
    *(CONSUMERS, RANGES),
    *(CLAIMED_VERB, BROWSE_VERB),
)


class AttachRequest(NamedTuple):
    """Attach a reader to a queue, under the name of a consumer."""

    consumer: str
    queue: str


class Attached(NamedTuple):
    """The answer to an attach: the consumer, its epoch, its queue and the store of the queue.

    Claims up to ``closed`` have been ended.
    """

    manager: str
    instance_id: str
    consumer: str
    queue: str
    epoch: int
    closed: int


class ClaimRequest(NamedTuple):
    """Claim the next messages behind claim number ``after``, within two limits.

    ``up_to`` is a :class:`Mark` that no claimed message follows; None is no such limit.
    """

    consumer: str
    epoch: int
    after: int
    max_rows: int
    max_data_bytes: int
    up_to: int | None


class Claimed(NamedTuple):
    """The number of the last claim that can be read, and how many messages it holds."""

    until: int
    messages: int


class Reader(NamedTuple):
    """A reader: the name of its consumer, and the epoch of its attach."""

    consumer: str
    epoch: int


class EndRequest(NamedTuple):
    """End the open claims of a consumer up to number ``until``."""

    consumer: str
    epoch: int
    until: int


class EndWrittenRequest(NamedTuple):
    """End the claims of one store up to ``until``, whichever reader has the consumer's name."""

    consumer: str
    instance_id: str
    until: int


class ReleaseRequest(NamedTuple):
    """Return the claimed messages of a consumer; with an epoch only those of that reader."""

    consumer: str
    epoch: int | None


class Counted(NamedTuple):
    """The number of messages that a call has changed."""

    messages: int


class ClaimsRequest(NamedTuple):
    """Ask for the rows that the claims after ``after`` up to ``until`` hold."""

    consumer: str
    epoch: int
    after: int
    until: int


class ClaimedRows(NamedTuple):
    """Ranges of rows, each the rows after the first number up to the second."""

    ranges: list[tuple[int, int]]


class BackOutRequest(NamedTuple):
    """Back out single rows of open claims; ``reason`` is an MQRC_* for a dead-letter header."""

    consumer: str
    epoch: int
    rows: list[int]
    reason: int


class BackedOut(NamedTuple):
    """How many messages returned to their queue, and how many were moved to another one."""

    returned: int
    moved: int


class Mark(NamedTuple):
    """A position in time: messages put by now are before it, later ones behind it."""

    mark: int


class ConsumerState(NamedTuple):
    """The state of a consumer: its claims after ``closed`` up to ``last`` are open.

    ``message_count`` is how many messages they hold, ``oldest_claimed_ms`` since when, in ms since
    1970, None without any.
    """

    consumer: str
    queue: str
    epoch: int
    closed: int
    last: int
    message_count: int
    oldest_claimed_ms: int | None


class RangesRequest(NamedTuple):
    """Divide the messages of a queue into about ``part_count`` ranges of keys."""

    queue: str
    part_count: int


class ClaimedRequest(NamedTuple):
    """Read the claimed rows after ``after_row`` up to ``until_row`` of a consumer."""

    consumer: str
    epoch: int
    after_row: int
    until_row: int


class BrowseRequest(NamedTuple):
    """Browse the live messages with keys from ``low`` to below ``high``; None matches any value."""

    queue: str
    low: int
    high: int
    msg_id: str | None
    correl_id: str | None
    priority: int | None

"""Reading a queue by claims, or by a browse: verbs, requests and answers.

docs/SPARK.md describes claims. A verb stands beside its request; CONSUMERS and MARK have no
fields. Ids in a request are hex.
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
#: BackOutRequest -> BackedOut: back out single messages, which the reader cannot use.
BACK_OUT = "back-out-claimed"
#: {} -> Mark: a mark that separates messages put by now from later ones.
MARK = "claim-mark"
#: ReleaseRequest -> Counted: give claimed messages back.
RELEASE = "release-claims"
#: {} -> {"consumers": [Standing, …]}: how all consumers stand.
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
    """The consumer that a reader wants to be, and the queue of this consumer."""

    consumer: str
    queue: str


class Attached(NamedTuple):
    """An attached reader: its consumer, epoch, queue and store."""

    manager: str
    instance_id: str
    consumer: str
    queue: str
    epoch: int
    closed: int


class ClaimRequest(NamedTuple):
    """Claim behind ``after`` at most so much; ``up_to`` is a mark, None claims all there is."""

    consumer: str
    epoch: int
    after: int
    max_rows: int
    max_data_bytes: int
    up_to: int | None


class Claimed(NamedTuple):
    """The last claim there is to read, and how many messages it holds."""

    until: int
    messages: int


class Reader(NamedTuple):
    """A consumer under the epoch that its attach gave."""

    consumer: str
    epoch: int


class EndRequest(NamedTuple):
    """End claims up to ``until``."""

    consumer: str
    epoch: int
    until: int


class EndWrittenRequest(NamedTuple):
    """End claims up to ``until`` of a store, whoever reads under the name of the consumer."""

    consumer: str
    instance_id: str
    until: int


class ReleaseRequest(NamedTuple):
    """Give back what a consumer has claimed; with an epoch only for the reader that has it."""

    consumer: str
    epoch: int | None


class Counted(NamedTuple):
    """How many messages a call has changed."""

    messages: int


class ClaimsRequest(NamedTuple):
    """Ask which rows the claims ``(after, until]`` hold."""

    consumer: str
    epoch: int
    after: int
    until: int


class ClaimedRows(NamedTuple):
    """Ranges ``[after_row, until_row]``: the rows after the first one, up to the second."""

    ranges: list[tuple[int, int]]


class BackOutRequest(NamedTuple):
    """Back out rows of open claims; ``reason`` is an MQRC_* for a dead-letter header."""

    consumer: str
    epoch: int
    rows: list[int]
    reason: int


class BackedOut(NamedTuple):
    """How many messages went back to their queue, and how many were moved away from it."""

    returned: int
    moved: int


class Mark(NamedTuple):
    """A mark: messages put by now are before it, later ones behind it."""

    mark: int


class ConsumerState(NamedTuple):
    """The state of a consumer: claims after ``closed`` up to ``last`` are open."""

    consumer: str
    queue: str
    epoch: int
    closed: int
    last: int
    message_count: int
    oldest_claimed_ms: int | None


class RangesRequest(NamedTuple):
    """Cut what is on a queue into about so many parts."""

    queue: str
    part_count: int


class ClaimedRequest(NamedTuple):
    """The claimed rows ``(after_row, until_row]`` of a consumer."""

    consumer: str
    epoch: int
    after_row: int
    until_row: int


class BrowseRequest(NamedTuple):
    """The live messages of a half-open range of keys; None is any id, any priority."""

    queue: str
    low: int
    high: int
    msg_id: str | None
    correl_id: str | None
    priority: int | None

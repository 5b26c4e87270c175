"""Claims of messages by a Spark reader, and browses: verbs, requests, answers (docs/PIPELINE.md).

A claim reserves the next messages of a queue for a consumer, until it is ended (the messages are
done) or released (they return to the queue). Claims of a consumer are numbered from 1.

The comment at each verb names its request and answer; CONSUMERS and MARK have no fields. Ids in a
request are hexadecimal digits.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = 4
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
    """Request to attach a reader to a queue, under the name of a consumer."""

    consumer: str
    queue: str


class Attached(NamedTuple):
    """The answer to an attach: the consumer, its epoch, its queue and the store of the queue.

    ``epoch`` is the number of this attach: a later attach under the same name invalidates it.
    ``instance_id`` identifies the store. Claims up to number ``closed`` have been ended.
    """

    manager: str
    instance_id: str
    consumer: str
    queue: str
    epoch: int
    closed: int


class ClaimRequest(NamedTuple):
    """Request to claim (reserve) the next messages behind claim ``after``, within two limits.

    ``up_to`` is a :class:`Mark`: only messages before it are claimed; None is no such limit.
    """

    consumer: str
    epoch: int
    after: int
    max_rows: int
    max_data_bytes: int
    up_to: int | None


class Claimed(NamedTuple):
    """The number of the last claim that can be read, and how many messages the new claims hold.

    ``until`` is ``after`` of the request when nothing was claimed.
    """

    until: int
    messages: int


class ClaimReader(NamedTuple):
    """A reader: the name of its consumer, and the epoch that its attach returned."""

    consumer: str
    epoch: int


class EndRequest(NamedTuple):
    """Request to end the open claims of a consumer up to number ``until``: messages are done."""

    consumer: str
    epoch: int
    until: int


class EndWrittenRequest(NamedTuple):
    """Request to end the claims of a consumer up to number ``until``, without an epoch.

    ``instance_id`` is the store that the claim numbers belong to.
    """

    consumer: str
    instance_id: str
    until: int


class ReleaseRequest(NamedTuple):
    """Request to return the claimed messages of a consumer to their queue.

    With an epoch only those that the reader with this epoch has claimed; None is for any reader.
    """

    consumer: str
    epoch: int | None


class Counted(NamedTuple):
    """The number of messages that a call has changed."""

    messages: int


class ClaimsRequest(NamedTuple):
    """Request for the row numbers in the claims after ``after`` up to ``until``."""

    consumer: str
    epoch: int
    after: int
    until: int


class ClaimedRows(NamedTuple):
    """Ranges of claimed rows: the rows after the first number up to the second, and their bytes.

    The third number is the length of their data. No range is of two claims, so that a reader can
    divide them by size.
    """

    ranges: list[tuple[int, int, int]]


class BackOutRequest(NamedTuple):
    """Request to back out single rows of open claims; ``reason`` is an MQRC_* for an MQDLH."""

    consumer: str
    epoch: int
    rows: list[int]
    reason: int


class BackedOut(NamedTuple):
    """How many messages returned to their queue, and how many were moved to another one."""

    returned: int
    moved: int


class Mark(NamedTuple):
    """A position between messages: those put until now are before it, later ones behind it."""

    mark: int


class ConsumerState(NamedTuple):
    """The state of a consumer: its claims after number ``closed`` up to ``last`` are open.

    ``message_count`` is the number of messages in these open claims. ``oldest_claimed_ms`` is the
    time of the oldest one, ms since 1970, None without open claims.
    """

    consumer: str
    queue: str
    epoch: int
    closed: int
    last: int
    message_count: int
    oldest_claimed_ms: int | None


class RangesRequest(NamedTuple):
    """Request to divide the messages of a queue into about ``part_count`` ranges of keys."""

    queue: str
    part_count: int


class ClaimedRequest(NamedTuple):
    """Request for the messages in claimed rows after ``after_row`` up to ``until_row``."""

    consumer: str
    epoch: int
    after_row: int
    until_row: int


class BrowseRequest(NamedTuple):
    """Request to browse live messages with keys from ``low`` to below ``high``.

    An id or priority of None matches any message.
    """

    queue: str
    low: int
    high: int
    msg_id: str | None
    correl_id: str | None
    priority: int | None

"""Material of the machines of this folder: queues, strategies, messages as plain rows."""

from collections.abc import Callable, Iterator
from itertools import islice

from hypothesis import strategies as st

from mayfly import MQError
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs.messages import Message
from tests.model.queues import Put, Queue

QUEUES = {"PRIORITY": c.MQMDS_PRIORITY, "FIFO": c.MQMDS_FIFO}
REPLY = "REPLY"
ALIAS = "ALIAS"
#: The first session is not transacted, the others are.
SESSIONS = range(3)
CORREL_IDS = (b"", b"A".ljust(24, b"\0"), b"B".ljust(24, b"\0"))

queues = st.sampled_from(list(QUEUES))
sessions = st.sampled_from(SESSIONS)
labels = st.integers(1, 12)
lives = st.sampled_from((1, 100, 101, 5_000))
delays = st.sampled_from((1, 100, 101, 6_000))
NONE: st.SearchStrategy[int | None] = st.none()
NO_DELAY = st.just(0)
mostly = st.sampled_from((True, True, True, False))
steps = st.sampled_from((0, 1, 99, 100, 101, 5_000, 12_000))


def puts(
    life_ms: st.SearchStrategy[int | None] = NONE, delay_ms: st.SearchStrategy[int] = NO_DELAY
) -> st.SearchStrategy[Put]:
    """Return what may be asked for in a put; the machine gives the MsgId."""
    return st.builds(
        Put,
        msg_id=st.just(b""),
        correl_id=st.sampled_from(CORREL_IDS),
        priority=st.integers(0, 2),
        persistent=st.booleans(),
        life_ms=life_ms,
        delay_ms=delay_ms,
        report=st.sampled_from((0, 0, c.MQRO_EXPIRATION, c.MQRO_DISCARD_MSG)),
        reply_to_q=st.just(REPLY),
    )


def see_next(messages: Iterator[Message], seen: list[Message]) -> None:
    """Add the next message of a browse, if there is one."""
    seen.extend(islice(messages, 1))


def label_id(label: int) -> bytes:
    return f"message {label}".encode().ljust(24, b"\0")


def shown(queue: Queue) -> list[tuple[object, ...]]:
    """Return what is visible in the model, as ``QueueMachine.visible`` returns the real rows."""
    rows: list[tuple[object, ...]] = [
        (
            m.correl_id if m.feedback == c.MQFB_EXPIRATION else m.msg_id, m.priority,
            m.persistent, m.expire_at_ms, m.backout_count, m.put_ms, m.feedback,
        )
        for m in queue.visible()
    ]  # fmt: skip
    return sorted(rows, key=repr) if queue.name == REPLY else rows


def reason_of(call: Callable[[], object]) -> int:
    """Return the reason code of a call, 0 when it succeeds."""
    try:
        call()
    except MQError as error:
        return error.reason
    return rc.MQRC_NONE

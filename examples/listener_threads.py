"""The same messages at a listener port with one thread and with two, drawn from a run of each.

    python examples/listener_threads.py docs/images/listener-threads.svg

Without a file it prints the runs. Drawing needs matplotlib (the extra demo).
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

import mayfly
from mayfly import jms
from mayfly.listener import ListenerPort
from mayfly.testing import VirtualClock

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MESSAGES, EVERY_S, LIFE_S, WORK_S = 8, 5, 30, 12
COLORS, LIFE_COLOR, EXPIRED_COLOR = ("#0072B2", "#A35200"), "#DDDDDD", "#C00000"


class Work(NamedTuple):
    """The call of ``on_message`` with one message: seconds since the start, thread 1, 2, …"""

    begin_s: int
    end_s: int
    thread: int


def run(threads: int) -> dict[int, Work]:
    """Let a port with some threads work on the messages; return the calls by message.

    Message 1 is put at 0 s, the next ones each 5 s later. A message that is missing has expired.
    """
    clock = VirtualClock(autojump=True)
    start_ms = clock.now_ms()
    calls: dict[int, Work] = {}
    workers: list[int] = []

    def pass_time(seconds: int) -> int:
        """Let time pass, as work does, and return the seconds since the start."""
        with manager.session() as session:
            assert session.get("NEVER.FILLED", wait_ms=1000 * seconds) is None
        return (clock.now_ms() - start_ms) // 1000

    def on_message(message: jms.Message) -> None:
        begin_s, thread = (clock.now_ms() - start_ms) // 1000, threading.get_ident()
        if thread not in workers:
            workers.append(thread)
        end_s = pass_time(WORK_S)
        number = message.get_int_property("number")
        calls[number] = Work(begin_s, end_s, workers.index(thread) + 1)

    with mayfly.QueueManager("QM1", clock=clock) as manager:
        manager.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(NEVER.FILLED)")
        properties = {"NON.ASF.RECEIVE.TIMEOUT": "60000"}
        port = ListenerPort(
            manager,
            destination="ORDERS",
            on_message=on_message,
            max_sessions=threads,
            properties=properties,
        )
        port.start()
        for number in range(1, MESSAGES + 1):
            with manager.session() as session:
                life_ms, known_as = 1000 * LIFE_S, {"number": number}
                session.put("ORDERS", b"", time_to_live_ms=life_ms, properties=known_as)
            pass_time(EVERY_S)
        pass_time(LIFE_S + WORK_S)
        port.stop()
    return dict(sorted(calls.items()))


def draw(file: str) -> None:
    """Write a picture of both runs: a row for each message, with its life and its work."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Names in the file that are the same each time.
    mpl.rcParams["svg.hashsalt"] = "listener-threads"
    picture = Figure((9, 6.4), layout="constrained")
    one, two = picture.subplots(2, sharex=True)
    draw_run(one, "One thread", run(1))
    draw_run(two, "Two threads", run(2))
    two.set_xlabel("seconds")
    picture.savefig(file, metadata={"Date": None})


def draw_run(axes: Axes, title: str, calls: dict[int, Work]) -> None:
    """Draw the messages of a run from top to bottom, and count what became of them."""
    for number in range(1, MESSAGES + 1):
        put_s = EVERY_S * (number - 1)
        expiry_s = put_s + LIFE_S
        axes.barh(number, LIFE_S, left=put_s, height=0.72, color=LIFE_COLOR)
        call = calls.get(number)
        if call is None:
            axes.plot(expiry_s, number, "X", color=EXPIRED_COLOR, markersize=10)
            axes.text(expiry_s + 1.5, number, "expired", va="center", color=EXPIRED_COLOR)
        else:
            work = axes.barh(
                number,
                call.end_s - call.begin_s,
                left=call.begin_s,
                height=0.72,
                color=COLORS[call.thread - 1],
            )
            axes.bar_label(work, [f"thread {call.thread}"], label_type="center", color="white")
    axes.text(LIFE_S + 1.5, 1, f"grey: from put to expiry, {LIFE_S} s", va="center")
    axes.set_yticks(range(1, MESSAGES + 1), [f"message {n}" for n in range(1, MESSAGES + 1)])
    axes.invert_yaxis()
    axes.set_xlim(0, EVERY_S * (MESSAGES - 1) + LIFE_S + 15)
    expired = MESSAGES - len(calls)
    axes.set_title(f"{title}: {len(calls)} messages done, {expired} expired", loc="left")
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(sys.argv[1])
    else:
        for threads in (1, 2):
            for number, work in run(threads).items():
                print(threads, number, *work)

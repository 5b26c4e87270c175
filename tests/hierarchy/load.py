"""Queue managers of a tree that publish and subscribe, to be killed, in one process or in three.

Called as ``python -m tests.hierarchy.load NAMES FOLDER JOURNALS SEED``. Alone in its process, a
queue manager is served; it says ``port N`` then, and reads a line with the ports of all. The word
``ready`` comes when each has published something. Journals have what is about to be done, and once
more, marked, that it was.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from mayfly import QueueManager
from tests.channel.network_scene import Served
from tests.hierarchy.scene import run

NEIGHBOURS = {"TOP": ("LEFT", "RIGHT"), "LEFT": ("TOP",), "RIGHT": ("TOP",)}
#: The body of a retained publication begins with this; the label of its unit follows.
KEPT = b"kept "
TOPICS = ("news/#", "news/+/0", "+/LEFT/#", "kept/TOP", "kept/+")


class Journal:
    """Lines of JSON, each on the disk of a process that is killed once it was written."""

    def __init__(self, path: Path) -> None:
        self._out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    @contextmanager
    def doing(self, *what: Any) -> Iterator[None]:
        """Note what is about to be done, and behind it that it was."""
        self._write(False, *what)
        yield
        self._write(True, *what)

    def _write(self, *line: Any) -> None:
        os.write(self._out, (json.dumps(line) + "\n").encode())


def publish_for_ever(
    manager: QueueManager, journal: Journal, seed: str, has_begun: threading.Event
) -> None:
    """Publish in units of work, the last of each retained; labels are used once."""
    random, name = Random(seed), manager.name
    labels = (f"{seed}.{n:06}" for n in itertools.count())
    session = manager.session(transacted=True)
    while True:
        unit = [next(labels) for _ in range(random.randrange(1, 6))]
        for label in unit:
            topic = f"news/{name}/{random.randrange(3)}"
            session.publish(topic, label.encode(), persistent=True)
        kept = KEPT + unit[-1].encode()
        session.publish(f"kept/{name}", kept, persistent=True, retain=True)
        with journal.doing("publish", unit):
            session.commit()
        has_begun.set()


def subscribe_for_ever(
    manager: QueueManager, journal: Journal, seed: str, has_begun: threading.Event
) -> None:
    """Make durable subscriptions and remove some of them, a few in a second."""
    random, pause, there_are = Random(seed), threading.Event(), []
    for number in itertools.count():
        name, topic = f"S{seed}.{number}", random.choice(TOPICS)
        run(manager, f"DEFINE QLOCAL('{name}') MAXDEPTH(999999)")
        with journal.doing("subscribe", name, topic):
            run(manager, f"DEFINE SUB('{name}') TOPICSTR('{topic}') DEST('{name}')")
        there_are.append(name)
        if random.random() < 0.7:
            over = there_are.pop(random.randrange(len(there_are)))
            with journal.doing("unsubscribe", over):
                run(manager, f"DELETE SUB('{over}')")
        has_begun.set()
        pause.wait(random.uniform(0.0, 0.1))


def lead_to_each_other(manager: QueueManager) -> None:
    """Serve it, learn where the others are served, and let its channels lead there."""
    server = Served(manager)
    print(f"port {server.port}", flush=True)
    ports = json.loads(sys.stdin.readline())
    for other in NEIGHBOURS[manager.name]:
        name = f"{manager.name}.TO.{other}"
        run(manager, f"ALTER CHANNEL({name}) TRPTYPE(TCP) CONNAME('127.0.0.1({ports[other]})')")


def main() -> None:
    names, folder, journals, seed = sys.argv[1:]
    managers = [QueueManager(name, Path(folder) / name) for name in names.split(",")]
    if len(managers) == 1:
        lead_to_each_other(managers[0])
    for manager in managers:
        for other in NEIGHBOURS[manager.name]:
            run(manager, f"START CHANNEL({manager.name}.TO.{other})")
    works = [
        _begun(work, manager, Path(journals), seed)
        for manager in managers
        for work in (publish_for_ever, subscribe_for_ever)
    ]
    for has_begun in works:
        has_begun.wait()
    print("ready", flush=True)
    threading.Event().wait()


def _begun(
    work: Callable[[QueueManager, Journal, str, threading.Event], None],
    manager: QueueManager,
    journals: Path,
    seed: str,
) -> threading.Event:
    """Let a thread work; return what is set when it has done something."""
    name, has_begun = f"{manager.name}.{seed}", threading.Event()
    journal = Journal(journals / f"{work.__name__}.{name}")
    threading.Thread(target=work, args=(manager, journal, name, has_begun)).start()
    return has_begun


if __name__ == "__main__":
    main()

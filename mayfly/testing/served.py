"""A served queue manager for tests: clients reach it over a real socket, in virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import (
    ADMIN,
    APP,
    DEFINITIONS,
    PASSWORD_VARIABLES,
    developer_users,
)
from mayfly.admin.security.users import users_of
from mayfly.channel import clients_known
from mayfly.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect
from mayfly.queue_manager import QueueManager
from mayfly.servers.wire import WireServer
from mayfly.verbs.facts import MqscResult

HOST = "127.0.0.1"
CHANNEL, ADMIN_CHANNEL = "DEV.APP.SVRCONN", "DEV.ADMIN.SVRCONN"
#: The passwords of every test: the server is gone with it.
PASSWORDS = {APP: "app-password", ADMIN: "admin-password"}


@dataclass(frozen=True)
class ServedQueueManager:
    """A served queue manager, and how clients reach it.

    User ``app`` connects by ``channel`` and may use the queues DEV.**; user ``admin`` connects by
    DEV.ADMIN.SVRCONN. ``queue_manager`` is the same queue manager as an object of this process.
    """

    queue_manager: QueueManager
    port: int
    user: str = APP
    password: str = PASSWORDS[APP]
    channel: str = CHANNEL

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        return self.queue_manager.name

    @property
    def conn_info(self) -> str:
        """``host(port)``, the form of CONNAME and of pymqi."""
        return f"{HOST}({self.port})"

    @property
    def mqserver(self) -> str:
        """The value of the environment variable MQSERVER for clients."""
        return f"{self.channel}/TCP/{self.conn_info}"

    @property
    def url(self) -> str:
        """The URL for ``mayfly.connect``."""
        return f"mq://{HOST}:{self.port}/{self.name}?channel={self.channel}"

    def connect(self, *, transacted: bool = False) -> Client:
        """Return a new client connection of user ``app``; raises MQError when it fails.

        With ``transacted`` its puts and gets belong to a unit of work until ``commit``.
        """
        return self._connected(self.channel, APP, transacted=transacted)

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands as user ``admin`` over the socket, and return their result.

        ``script`` has one or more commands. A failing command makes ``ok`` of the result False.
        Raises MQError when the connection fails.
        """
        with self._connected(ADMIN_CHANNEL, ADMIN, transacted=False) as admin:
            return admin.mqsc(script)

    def _connected(self, channel: str, user: str, *, transacted: bool) -> Client:
        """Return a new client connection of a user over a channel; raises MQError when it fails.

        With ``transacted`` its puts and gets belong to a unit of work.
        """
        endpoint = Endpoint((Address(HOST, self.port),), channel, self.name)
        made = connect(endpoint, user, PASSWORDS[user], application="pytest")
        return Client(made, transacted=transacted)


@contextlib.contextmanager
def served(queue_manager: QueueManager) -> Iterator[ServedQueueManager]:
    """Serve a queue manager for a ``with`` block, with the objects of ``mayfly serve --dev``.

    Yields a ServedQueueManager on a free port of 127.0.0.1; the end of the block stops the server.
    PCF commands need ``start_command_server`` as well: its thread counts as one that may end a
    wait, so that a wait without an end is no error then.
    """
    given = {PASSWORD_VARIABLES[user]: password for user, password in PASSWORDS.items()}
    engine = queue_manager.engine
    developer_users(users_of(engine), None, given)
    defined = queue_manager.mqsc(DEFINITIONS)
    assert defined.ok, defined.text
    with contextlib.ExitStack() as stack:
        admission = Admission([engine])
        stack.callback(admission.close)
        server = WireServer([queue_manager], admission)
        stack.callback(server.close)
        stack.enter_context(clients_known(engine, server))
        yield ServedQueueManager(queue_manager, server.listen_tcp(HOST, 0))

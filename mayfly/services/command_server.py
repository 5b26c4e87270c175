"""The command server: runs the PCF commands on SYSTEM.ADMIN.COMMAND.QUEUE, and answers them.

See docs/ADMINISTRATION.md. The commands are those of ``mayfly.admin.pcf``.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice
from typing import Final

from mayfly.admin import QLOCAL, define
from mayfly.admin.events import Origin, commanded_by, report_pcf, report_refused_command
from mayfly.admin.pcf.commands import COMMANDS, answer, refusal
from mayfly.admin.security.applicant import Admitted
from mayfly.admin.security.roles import Role, admitted_as
from mayfly.client.connection import Connection, LocalConnection
from mayfly.engine import Engine, manager_definition
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage
from mayfly.mqi.event_constants import MQEVO_MSG
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.pcf import PcfError, unpack
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Loop
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import packed_descriptor
from mayfly.verbs.messages import Message

COMMAND_QUEUE: Final = "SYSTEM.ADMIN.COMMAND.QUEUE"
_LOG: Final = logging.getLogger("mayfly.command_server")
_PROGRAM: Final = "mayfly commands"
_FORMAT: Final = c.MQFMT_ADMIN.decode().rstrip()
_GET: Final = c.MQGMO_WAIT | c.MQGMO_NO_SYNCPOINT | c.MQGMO_NO_PROPERTIES
_MAX_DEPTH: Final = 3_000
#: Replies in one unit of work, at most: an inquiry may have many, and they wait in memory.
_REPLIES_AT_ONCE: Final = 500
#: The servers that run, by queue manager.
_RUNNING: Final[dict[QueueManager, CommandServer]] = {}


def start_command_server(manager: QueueManager) -> CommandServer:
    """Start the command server of a queue manager, unless it runs; return it.

    SYSTEM.ADMIN.COMMAND.QUEUE is defined if it is missing. The server ends when the queue manager
    is closed. Raises MQError when the queue cannot be opened.
    """
    server = _RUNNING.setdefault(manager, CommandServer(manager))
    try:
        server.start()
    except MQError:
        _RUNNING.pop(manager, None)
        raise
    return server


class CommandServer:
    """Gets the commands of one queue manager, runs them one after the other, and answers them.

    A command is got outside of a unit of work: it is run once at most, also where the queue manager
    is killed meanwhile. It is run under the authority of its UserIdentifier.
    """

    def __init__(self, manager: QueueManager) -> None:
        """Take an open queue manager; nothing is started."""
        self._manager = manager
        self._starting = manager.engine.runtime.lock("command server")
        self._connection: Connection | None = None
        self._handle: int | None = None
        self._is_stopping = False
        self._loop = Loop(manager.engine.runtime, self._turn, "mayfly-commands")

    def start(self) -> None:
        """Define the queue if it is missing, connect, and start the thread; a second call waits.

        Raises MQRC_CONNECTION_BROKEN when the queue manager is closed.
        """
        manager = self._manager
        with self._starting:
            if self._connection is not None:
                return
            try:
                define(manager.engine, QLOCAL, COMMAND_QUEUE, {"MAXDEPTH": _MAX_DEPTH})
            except MQError as error:
                if error.reason != rc.MQRC_OBJECT_ALREADY_EXISTS:
                    raise
            self._connection = self._connect()
            manager.engine.before_close.insert(0, self.stop)
            self._loop.start()

    def stop(self) -> None:
        """End the present command, then the thread and the connection; later calls do nothing."""
        connection = self._connection
        if self._is_stopping or connection is None:
            return
        self._is_stopping = True
        _RUNNING.pop(self._manager, None)
        handle = self._handle
        if handle is not None:
            with suppress(MQError):
                connection.call(ask.CloseObject(handle))
        self._loop.join()
        with suppress(MQError):
            connection.close(commit=False)

    def _connect(self) -> Connection:
        """Return a new connection, which may do everything."""
        return LocalConnection(self._manager.session(program=_PROGRAM), self._manager)

    def _turn(self) -> bool:
        """Wait for a command, run and answer it; return False when the server ends.

        Raises the MQError of a queue that cannot be read: the loop logs it, and tries again.
        """
        connection = self._connection
        assert connection is not None
        try:
            message = self._next(connection)
        except NoMessage:
            return not self._is_stopping
        except ConnectionBroken:
            if self._is_stopping or self._manager.is_stopped:
                return False
            # STOP CONN has ended it.
            self._connection, self._handle = self._connect(), None
            return True
        except MQError:
            if self._is_stopping:
                return False
            raise
        self._serve(connection, message)
        return not self._is_stopping

    def _next(self, connection: Connection) -> Message:
        """Wait for the next command and get it; the queue is opened first, also after an error."""
        if self._handle is None:
            opened = connection.call(ask.Open(COMMAND_QUEUE, c.MQOO_INPUT_SHARED))
            self._handle = opened.handle
        if self._is_stopping:
            # A stop that did not find the handle, to close it, waits for this thread.
            raise NoMessage(rc.MQRC_NO_MSG_AVAILABLE, "the command server ends")
        try:
            return connection.get(self._handle, _GET, wait_ms=c.MQWI_UNLIMITED).message
        except NoMessage:
            raise
        except MQError:
            if not self._is_stopping:
                # Else ``stop`` closes the handle, and may be about to.
                handle, self._handle = self._handle, None
                with suppress(MQError):
                    connection.call(ask.CloseObject(handle))
            raise

    def _serve(self, connection: Connection, message: Message) -> None:
        """Run a command, and put the replies if it asks for them; nothing is raised."""
        descriptor = message.descriptor
        if descriptor.msg_type not in (c.MQMT_REQUEST, c.MQMT_DATAGRAM):
            _LOG.warning("%s is no command: MsgType %d", message, descriptor.msg_type)
            return
        replies = self._answer(message)
        if descriptor.msg_type == c.MQMT_DATAGRAM:
            return
        waiting = iter(replies)
        limit = min(_REPLIES_AT_ONCE, manager_definition(self._manager.engine).maxumsgs)
        while some := list(islice(waiting, limit)):
            try:
                _put_replies(connection, message, some)
            except MQError as error:
                _LOG.warning("the answer to %s is lost: %s", message, error)
                with suppress(MQError):
                    connection.call(ask.Backout())
                return

    def _answer(self, message: Message) -> list[bytes]:
        """Run the command in a message; return the messages of the answer."""
        descriptor = message.descriptor
        if descriptor.format.rstrip() != _FORMAT:
            text = f"Format {descriptor.format!r} is not {_FORMAT!r}"
            return [refusal(PcfError(k.MQRCCF_MD_FORMAT_ERROR, text))]
        engine, big_endian = self._manager.engine, is_big_endian(descriptor.encoding)
        try:
            with commanded_by(_origin(descriptor)):
                replies = answer(
                    engine,
                    message.body,
                    big_endian=big_endian,
                    ccsid=descriptor.coded_char_set_id,
                    admitted=_admitted(self._manager, descriptor),
                )
                _report(engine, message, replies[-1], big_endian=big_endian)
            return replies
        except Exception as error:  # noqa: BLE001 - one command must not end the server
            _LOG.exception("%s cannot be run", message)
            return [refusal(PcfError(k.MQRCCF_COMMAND_FAILED, repr(error)))]


def _origin(descriptor: Descriptor) -> Origin:
    """Return where a command comes from, as its events say: the context of its message."""
    return Origin(
        descriptor.user_identifier.rstrip(),
        MQEVO_MSG,
        descriptor.accounting_token,
        descriptor.appl_identity_data,
        descriptor.put_appl_type,
        descriptor.put_appl_name,
        descriptor.appl_origin_data,
    )


def _report(engine: Engine, message: Message, reply: bytes, *, big_endian: bool) -> None:
    """Make the event of a command: that it was done, or refused for want of authority.

    ``reply`` is the last message of its answer. A command that fails otherwise makes no event.
    """
    outcome = unpack(reply, big_endian=is_big_endian(c.MQENC_NATIVE)).header
    if outcome.reason == rc.MQRC_NOT_AUTHORIZED:
        user = message.descriptor.user_identifier.rstrip()
        report_refused_command(engine, outcome.command, user)
    elif outcome.comp == c.MQCC_OK:
        given = unpack(message.body, big_endian=big_endian)
        looks = COMMANDS[outcome.command].role is Role.LOOK
        report_pcf(engine, outcome.command, given.structures, looks=looks)


def _admitted(manager: QueueManager, descriptor: Descriptor) -> Admitted:
    """Return the user under whose authority a command is run.

    A blank user is the one who opened the queue manager, as in messages of its sessions; but a
    message without context is nobody's.
    """
    user = descriptor.user_identifier.rstrip()
    if not user and descriptor.put_appl_type != c.MQAT_NO_CONTEXT:
        return Admitted(user="", is_operator=True)
    return admitted_as(manager.engine, user)


def _put_replies(connection: Connection, message: Message, replies: list[bytes]) -> None:
    """Put some messages of the answer to a command together.

    If their queue refuses one, they go to the dead-letter queue, or with MQRO_DISCARD_MSG in the
    command nowhere. Raises MQError if neither takes them.
    """
    for body in replies:
        reason = connection.call(_reply(message, body))
        if reason:
            _LOG.warning("the answer to %s was refused: reason %d", message, reason)
            if message.descriptor.report & c.MQRO_DISCARD_MSG:
                connection.call(ask.Backout())
                return
    connection.call(ask.Commit())


def _reply(message: Message, body: bytes) -> ask.Reply:
    """Return one message of the answer to a command.

    MsgId and CorrelId follow the report options of the command. The reply never expires, unless the
    command has MQRO_PASS_DISCARD_AND_EXPIRY: then it has the remaining expiry of the command, and
    its MQRO_DISCARD_MSG.
    """
    command = message.descriptor
    passes_expiry = command.report & c.MQRO_PASS_DISCARD_AND_EXPIRY
    descriptor = Descriptor(
        report=command.report & c.MQRO_DISCARD_MSG if passes_expiry else c.MQRO_NONE,
        msg_type=c.MQMT_REPLY,
        format=_FORMAT,
        priority=command.priority,
        persistence=command.persistence,
        user_identifier=command.user_identifier,
        accounting_token=command.accounting_token,
        appl_identity_data=command.appl_identity_data,
        put_appl_type=c.MQAT_QMGR,
        put_appl_name=_PROGRAM,
    )
    remaining_ms = message.remaining_ms if passes_expiry else None
    return ask.Reply(
        command.reply_to_q,
        command.reply_to_q_mgr,
        body,
        packed_descriptor(descriptor),
        # As with reports (R6): nobody gets the server to put where the user may not.
        putter=command.user_identifier.rstrip(),
        msg_id=message.msg_id if command.report & c.MQRO_PASS_MSG_ID else b"",
        correl_id=message.correl_id if command.report & c.MQRO_PASS_CORREL_ID else message.msg_id,
        time_to_live_ms=None if remaining_ms is None else max(remaining_ms, 1),
    )

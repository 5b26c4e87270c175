"""``…/events``: the live statistics of a queue manager as server-sent events."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mayfly.admin.security.roles import Role, check_role
from mayfly.mqi.errors import MQError
from mayfly.servers.http.connection import ClientGone, http_connection_of
from mayfly.servers.http.feed import Feed, FeedReader, Frame, end_event
from mayfly.servers.http.problems import HttpError, Unauthorized
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation

#: After this time without a frame, a stream checks whether its user may still look.
LOOK_SECONDS: Final = 5.0
#: After this number of checks without a frame, a comment shows that the server lives.
_LOOKS_A_HEARTBEAT: Final = 3
#: The connection of a client that reads nothing for this time is closed.
_UNREAD_SECONDS: Final = 30.0
#: When a browser asks anew after a stream has broken.
_RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b":\n\n"
_TYPE: Final = "text/event-stream"


async def streamed(call: Call[NoQuery, None]) -> Response:
    """Stream changes of the live statistics as server-sent events overview, queues and gone.

    The first frame has all statistics, unless Last-Event-ID is the id of the newest frame. The
    stream ends with the event ``end`` when the server shuts down, the queue manager stops, or the
    user loses the right to look.
    """
    feed, reader = call.service.feeds.of(call.manager.engine), FeedReader()
    last_id = call.request.headers.get("last-event-id", "")
    try:
        first = await run_in_threadpool(feed.join, reader, last_id)
    except BaseException:
        # The thread may still join, after this task has ended.
        _leave(feed, reader)
        raise
    return _Stream(call, feed, reader, first)


class _Stream(Response):
    """A response that sends the frames of a feed until the stream ends."""

    def __init__(
        self, call: Call[NoQuery, None], feed: Feed, reader: FeedReader, first: Frame
    ) -> None:
        """Prepare to send ``first``, then the later frames that ``reader`` gets from ``feed``."""
        super().__init__(headers={"content-type": _TYPE})
        del self.headers["content-length"]
        self._call, self._feed = call, feed
        self._reader, self._first = reader, first
        self._quiet_looks = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send frames until the stream ends or the client goes, then leave the feed.

        A client that reads nothing for 30 seconds is cut off.
        """
        line, reader = http_connection_of(self._call.request), self._reader
        line.when_closing().add_done_callback(lambda _lost: reader.end())
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            reader.begin(self._first)
            await send(start)
            if scope["method"] != "HEAD":
                await self._send(send, _RETRY + self._first.content)
                why = await self._send_frames(send)
                await self._send(send, end_event(why))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            line.reset()
            await line.when_closing()
        finally:
            await asyncio.shield(_leave(self._feed, reader))

    async def _send_frames(self, send: Send) -> str:
        """Send frames, and a comment after 15 seconds without one; return why the stream ends.

        Raises TimeoutError if the client reads nothing for 30 seconds.
        """
        reader, has_frame = self._reader, True
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await reader.wait()
            except TimeoutError:
                has_frame = False
            if reader.is_over:
                return "the server drains, or the queue manager has stopped"
            why = await self._why_not()
            if why:
                return why
            content = await self._next_content(reader)
            self._quiet_looks = 0 if content or has_frame else self._quiet_looks + 1
            has_frame = True
            if content:
                await self._send(send, content)
            elif self._quiet_looks >= _LOOKS_A_HEARTBEAT:
                self._quiet_looks = 0
                await self._send(send, _HEARTBEAT)

    async def _next_content(self, reader: FeedReader) -> bytes:
        """Return the next frame, encoded; b"" if no frame waits.

        If frames were dropped it is a complete frame with all statistics.
        """
        if reader.is_behind:
            complete_frame = await run_in_threadpool(self._feed.complete_frame)
            reader.begin(complete_frame)
            return complete_frame.content
        frame = reader.take()
        return b"" if frame is None else frame.content

    async def _why_not(self) -> str:
        """Return the reason why the user may no longer look; "" while it is allowed."""
        call = self._call
        try:
            authenticated = await call.service.admit(call.request, manager=call.names["qmgr"])
            check_role(call.manager.engine, authenticated.admitted, Role.LOOK)
        except Unauthorized as error:
            return error.detail
        except (HttpError, MQError) as error:
            return str(error)
        except ClientGone:
            # Nobody reads it.
            return "the client has gone"
        return ""

    async def _send(self, send: Send, content: bytes) -> None:
        """Send a part of the stream to the client.

        Raises TimeoutError if the client reads nothing for 30 seconds.
        """
        async with asyncio.timeout(_UNREAD_SECONDS):
            await send({"type": "http.response.body", "body": content, "more_body": True})


def _leave(feed: Feed, reader: FeedReader) -> asyncio.Future[None]:
    """Remove a reader from a feed in a thread, since that may wait; return the thread's future."""
    return asyncio.get_running_loop().run_in_executor(None, feed.leave, reader)


OPERATIONS: Final = (
    Operation("GET", f"{OF_MANAGER}/events", streamed, Role.LOOK, media_type=_TYPE),
)

"""A web application that puts orders and serves them: one connection for its lifespan.

A restart of the server loses no order, and the application goes on.

    mayfly serve QM1 --dev --mq 127.0.0.1:1414
    ORDERS_URL='mq://127.0.0.1:1414/QM1?channel=DEV.APP.SVRCONN' ORDERS_PASSWORD=… \\
        uvicorn examples.web.orders:app
    curl -X POST 'http://127.0.0.1:8000/orders?ready_in_ms=5000' -d 'two teas'
    curl 'http://127.0.0.1:8000/orders/next?wait_ms=10000'
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, Response

import mayfly
from mayfly import MQError

QUEUE = "DEV.QUEUE.1"
#: An order that nobody has served by then is not served at all.
LIFE_MS = 60_000


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect when the application starts, and disconnect when it ends."""
    connecting = mayfly.aio.connect(
        os.environ["ORDERS_URL"],
        user=os.environ.get("ORDERS_USER", "app"),
        password=os.environ["ORDERS_PASSWORD"],
        reconnect=mayfly.Reconnect.YES,
    )
    async with connecting as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(MQError)
async def refused(_request: Request, error: Exception) -> Response:
    """Tell the reason code of a verb that has failed."""
    return Response(str(error), status_code=502, media_type="text/plain")


@app.post("/orders", status_code=202)
async def order(request: Request, ready_in_ms: int = 0) -> dict[str, str]:
    """Put an order, which can be served from ``ready_in_ms`` on."""
    msg_id = await request.app.state.client.put(
        QUEUE,
        await request.body(),
        delay_ms=ready_in_ms,
        time_to_live_ms=LIFE_MS,
        persistent=True,
    )
    return {"id": msg_id.hex()}


@app.get("/orders/next")
async def serve(request: Request, wait_ms: int = 0) -> Response:
    """Return the next order; waiting requests hold no thread, and one that is cut takes none."""
    message = await request.app.state.client.get(QUEUE, wait_ms=wait_ms)
    if message is None:
        raise HTTPException(404, "no order is ready")
    return Response(message.body, headers={"X-Remaining-Ms": str(message.remaining_ms)})

"""A FastAPI service that pays sellers: POST /orders stores an order and pays for it, and Remit's webhook ends it.

It may be killed at any line: an order is stored before it is paid, the order is the intent, and a start pays again for
every order that has not ended. Remit pays each order once.

In the checkout beside `make run`, since remit-sdk is not published yet:

    pip install -r requirements.txt
    ../../.cache/run/remit listen --key KEY --forward http://localhost:3000/hook    # prints WEBHOOK_SECRET
    REMIT_URL=… REMIT_API_KEY=… WEBHOOK_SECRET=whsec_… ORDERS=orders.db uvicorn service:app --port 3000
    curl localhost:3000/orders -H 'Content-Type: application/json' -d '{"id":"1042","to":"0x…","amount":"2500000"}'
"""

import asyncio
import os
import sqlite3
from contextlib import asynccontextmanager

import remit
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field

api = remit.AsyncClient(os.environ["REMIT_URL"], os.environ["REMIT_API_KEY"])
db = sqlite3.connect(os.environ["ORDERS"], isolation_level=None)  # each statement is a transaction
db.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, recipient TEXT, amount TEXT, status TEXT, why TEXT)")
paying: set[asyncio.Task[None]] = set()


class Order(BaseModel):
    id: str = Field(pattern=r"^\w{1,64}$")
    to: str
    amount: str = Field(pattern=r"^[1-9]\d{0,77}$")


def end(order_id: str, status: str, why: str) -> None:
    if status != "pending":
        db.execute("UPDATE orders SET status = ?, why = ? WHERE id = ? AND status = 'ordered'", (status, why, order_id))


async def pay(order_id: str, to: str, amount: str) -> None:
    while True:
        try:
            payment = await api.pay(f"order {order_id}", to, amount, reference=order_id, settle=True)
            return end(order_id, payment["status"], payment["tx_hash"])
        except remit.Refused as refused:
            if refused.settled:
                return end(order_id, "refused", refused.detail)
        except remit.OutcomeUnknown as unknown:
            print(f"order {order_id}: {unknown}")
        await asyncio.sleep(10)  # perhaps paid: the same intent finds out


def start(order_id: str, to: str, amount: str) -> None:
    task = asyncio.create_task(pay(order_id, to, amount))
    paying.add(task)  # asyncio itself keeps no reference
    task.add_done_callback(paying.discard)


@asynccontextmanager
async def lifespan(_: FastAPI):
    for order in db.execute("SELECT id, recipient, amount FROM orders WHERE status = 'ordered'").fetchall():
        start(*order)
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def order(asked: Order) -> dict[str, str | None]:
    added = db.execute("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, 'ordered', NULL)", (asked.id, asked.to, asked.amount))
    if added.rowcount:
        start(asked.id, asked.to, asked.amount)
    return await show(asked.id)


@app.get("/orders/{order_id}")
async def show(order_id: str) -> dict[str, str | None]:
    found = db.execute("SELECT id, status, why FROM orders WHERE id = ?", (order_id,)).fetchone()
    if not found:
        raise HTTPException(404)
    return dict(zip(("id", "status", "why"), found))


@app.post("/hook")
async def hook(request: Request) -> Response:
    try:
        event = remit.verify_webhook(os.environ["WEBHOOK_SECRET"], await request.body(), request.headers)
    except Exception:  # of a body that nobody signed
        return Response(status_code=401)
    data = event["data"]
    if data.get("reference"):
        end(data["reference"], data["status"], data["tx_hash"])
    return Response(status_code=204)  # only now: an event that was not stored comes again

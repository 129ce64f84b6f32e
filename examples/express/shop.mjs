// An Express shop that pays its sellers: POST /orders stores an order and pays for it, and Remit's webhook ends it.
// It may be killed at any line: an order is stored before it is paid, the order is the intent, and a start pays again
// for every order that has not ended. Remit pays each order once.
//
// In the checkout beside `make run`, since remit-sdk is not published yet:
//
//   npm install --prefix ../../sdk/typescript && npm install --no-save ../../sdk/typescript
//   ../../.cache/run/remit listen --key KEY --forward http://localhost:3000/hook    # prints WEBHOOK_SECRET
//   REMIT_URL=… REMIT_API_KEY=… WEBHOOK_SECRET=whsec_… PORT=3000 ORDERS=orders node shop.mjs
//   curl localhost:3000/orders -H 'Content-Type: application/json' -d '{"id":"1042","to":"0x…","amount":"2500000"}'
import { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import express from "express";
import { Client, Refused, verifyWebhook } from "remit-sdk";

const { REMIT_URL, REMIT_API_KEY, WEBHOOK_SECRET, PORT, ORDERS } = process.env;
const api = new Client({ url: REMIT_URL, key: REMIT_API_KEY });
mkdirSync(ORDERS, { recursive: true });

function load(id) {
  try {
    return JSON.parse(readFileSync(`${ORDERS}/${id}.json`, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

// store replaces an order: a process that is killed here leaves the old one or the new one.
function store(order) {
  writeFileSync(`${ORDERS}/${order.id}.tmp`, JSON.stringify(order), { flush: true });
  renameSync(`${ORDERS}/${order.id}.tmp`, `${ORDERS}/${order.id}.json`);
}

function end(id, status, why) {
  const order = load(id);
  if (order?.status === "ordered" && status !== "pending") store({ ...order, status, why });
}

async function pay({ id, to, amount }) {
  try {
    const payment = await api.pay(`order ${id}`, to, amount, { reference: id, settle: true });
    end(id, payment.status, payment.tx_hash);
  } catch (error) {
    if (error instanceof Refused && error.settled) return end(id, "refused", error.detail);
    console.error(`order ${id}: ${error.message}`); // perhaps paid: the same intent finds out
    setTimeout(pay, 10_000, { id, to, amount });
  }
}

const app = express();

app.post("/orders", express.json(), (req, res) => {
  const { id, to, amount } = req.body;
  if (![id, to, amount].every((text) => typeof text === "string" && /^\w{1,64}$/.test(text))) return res.sendStatus(400);
  if (!load(id)) {
    store({ id, to, amount, status: "ordered" });
    void pay({ id, to, amount });
  }
  res.status(202).json(load(id));
});

app.get("/orders/:id", (req, res) => {
  const order = /^\w+$/.test(req.params.id) && load(req.params.id);
  order ? res.json(order) : res.sendStatus(404);
});

// The signature covers the raw bytes, so nothing may parse them before.
app.post("/hook", express.raw({ type: "*/*" }), (req, res) => {
  let event;
  try {
    event = verifyWebhook(WEBHOOK_SECRET, req.body, req.headers);
  } catch {
    return res.sendStatus(401);
  }
  if (/^\w+$/.test(event.data.reference ?? "")) end(event.data.reference, event.data.status, event.data.tx_hash);
  res.sendStatus(204); // only now: an event that was not stored comes again
});

for (const file of readdirSync(ORDERS).filter((file) => file.endsWith(".json"))) {
  const order = load(file.slice(0, -".json".length));
  if (order.status === "ordered") void pay(order);
}
app.listen(Number(PORT), "127.0.0.1", () => console.log(`POST http://localhost:${PORT}/orders`));

// Holds the package to sdk/testdata, which the other languages' tests read too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";

import { Client, IntentReused, key, OutcomeUnknown, parse, formatUnits, parseUnits, Refused, verifyWebhook } from "../dist/index.js";

const read = (name) => parse(readFileSync(new URL(`../../testdata/${name}`, import.meta.url), "utf8"));
const largest = 2n ** 256n - 1n;

test("keys", () => {
  const { keys, refused } = read("keys.json");
  for (const v of keys) assert.equal(key(v.intent.repeat(v.times ?? 1)), v.key);
  for (const v of refused) {
    if (v.utf8 === undefined) assert.throws(() => key(v.intent ?? String.fromCharCode(...v.utf16)), TypeError, JSON.stringify(v));
  }
  for (const v of [7, undefined, null, ["order-7"]]) assert.throws(() => key(v), TypeError);
});

test("units", () => {
  const check = (rows, convert) => {
    for (const [text, decimals, want] of rows) {
      if (want === null) assert.throws(() => convert(text, decimals), TypeError, `${text} ${decimals}`);
      else assert.equal(String(convert(text, decimals)), want);
    }
  };
  const { parse: parses, format } = read("units.json");
  check(parses, parseUnits);
  check(format, formatUnits);
});

test("numbers are exact, and strings are left alone", () => {
  const text = `{"amount":${largest},"network_fee":1,"block_number":7,"metadata":{"amount":"${largest}","\\"9007199254740993":"[0,\\"1\\"]"},"x":[12345678901234567890]}`;
  assert.deepEqual(parse(text), {
    amount: largest, network_fee: 1n, block_number: 7, metadata: { amount: String(largest), '"9007199254740993': '[0,"1"]' }, x: [12345678901234567890n],
  });
});

/** Returns what answers the requests of a scenario, and a clock that only waits move. */
function api(table, scenario, limit) {
  const state = { POST: 0, GET: 0, keys: new Set(), ms: 0 };
  const send = async (method, url, headers, body, timeoutMs) => {
    const list = scenario[method === "POST" ? "post" : "look"];
    const words = list[Math.min(state[method]++, list.length - 1)].split(" ");
    state.keys.add((headers["idempotency-key"] ?? "") + (new URL(url).searchParams.get("idempotency_key") ?? ""));
    if (words[0] === "lost") throw new Error("lost");
    if (words[0] === "hang") {
      state.ms += timeoutMs;
      throw new Error("hung");
    }
    const after = words.includes("after") ? words[words.indexOf("after") + 1] : null;
    const index = words.includes("index") ? Number(words[words.indexOf("index") + 1]) : null;
    const named = table.bodies[words.at(-1)];
    const status = words[0] in table.bodies ? 200 : Number(words[0]);
    const code = words[1];
    const json =
      named ?? (code === "{}" ? {} : status === 201 ? table.bodies.payment
        : { code: code ?? "", index, detail: status === 422 ? [{ type: code, loc: ["body", "payments", index ?? "to"], msg: "m" }] : "d" });
    if (status === 422) delete json.code, delete json.index;
    const text = JSON.stringify(json, (_, v) => (typeof v === "bigint" ? `<${v}>` : v)).replace(/"<(\d+)>"/g, "$1");
    return { status, retryAfter: after, text: code === "html" ? "<html>" : text };
  };
  const now = () => state.ms;
  const sleep = async (ms) => void (state.ms += ms);
  return { state, client: new Client({ url: "http://remit.test/", key: "k", send, now, sleep, ...limit }) };
}

async function outcome(call) {
  try {
    await call();
    return "paid";
  } catch (e) {
    if (e instanceof Refused) return `refused ${e.code}${e.index === undefined ? "" : " " + e.index}`;
    if (e instanceof IntentReused) return e.stored && e.message.includes("2500000") ? "reused stored" : "reused";
    if (e instanceof OutcomeUnknown) return "unknown";
    throw e;
  }
}

const table = read("scenarios.json");
for (const scenario of table.scenarios) {
  test(scenario.name, async () => {
    const limit = scenario.timeout === undefined ? {} : { timeoutMs: scenario.timeout * 1000 };
    const { state, client } = api(table, scenario, scenario.call === "balance" ? limit : {});
    const calls = {
      pay: () => client.pay("order-7", table.order.to, table.order.amount, { ...table.order, ...limit }),
      payMany: () => client.payMany("order-7", table.batch.payments, { ...table.batch, ...limit }),
      balance: async () => assert.equal((await client.balance(table.order.to)).balance, largest),
      createKey: () => client.createKey(),
      wait: () => client.wait(table.bodies.payment, limit),
      list: async () => assert.equal((await all(client.list({ status: "pending" }))).length, 2),
    };
    assert.equal(await outcome(calls[scenario.call ?? "pay"]), scenario.want);
    for (const [made, want] of [[state.POST, scenario.posts], [state.GET, scenario.looks]]) {
      assert.ok(want === "some" ? made > 1 : made === want, `${made} requests, want ${want}`);
    }
    const [from, to] = scenario.seconds;
    assert.ok(state.ms >= from * 1000 && state.ms <= to * 1000, `it took ${state.ms} ms`);
    assert.ok(state.keys.size <= 1);
  });
}

async function all(list) {
  const items = [];
  for await (const item of list) items.push(item);
  return items;
}

test("nothing is sent of what is no amount or intent", async () => {
  const client = new Client({ url: "http://remit.test", send: assert.fail });
  for (const amount of [0.5, 1e21, NaN, "1.5", "1e6", "-1", "01", "1 ", "", largest + 1n, null, true]) {
    await assert.rejects(async () => client.pay("order-7", "0x1", amount), TypeError, String(amount));
  }
  await assert.rejects(async () => client.payMany("", []), TypeError);
});

test("fetch repeats nothing and follows no redirect", async () => {
  let n = 0;
  const server = createServer((request, response) => {
    n++;
    if (n === 1) return response.writeHead(201).end('{"tx_hash":"0x1"}');
    if (n === 2) return request.socket.destroy();
    if (n === 3) return response.writeHead(307, { location: "/again" }).end();
    response.writeHead(400).end('{"detail":"No.","code":"insufficient_funds"}');
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const client = new Client({ url: `http://127.0.0.1:${server.address().port}` });
  await client.pay("order-1", "0x1", 1);
  assert.equal(await outcome(() => client.pay("order-2", "0x1", 1, { timeoutMs: 8000 })), "unknown");
  assert.equal(n, 4);
  server.closeAllConnections();
  server.close();
});

test("webhooks", () => {
  const secret = "whsec_DA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKis=";
  const body = '{"id":"evt_1","type":"payment.confirmed","timestamp":"2026-01-02T15:04:05.000Z","data":{"amount":9007199254740993}}';
  const headers = {
    "webhook-id": "evt_1", "webhook-timestamp": String(Math.floor(Date.now() / 1000)), "webhook-signature": new Webhook(secret).sign("evt_1", new Date(), body),
  };
  assert.equal(verifyWebhook(secret, body, headers).data.amount, 9007199254740993n);
  assert.equal(verifyWebhook(secret, Buffer.from(body), headers).id, "evt_1");
  assert.equal(verifyWebhook(secret, body, new Headers(headers)).id, "evt_1");
  assert.throws(() => verifyWebhook(secret, body + " ", headers));
  assert.throws(() => verifyWebhook("", body, headers));
});

test("options that are undefined are the defaults", async () => {
  const send = async () => ({ status: 200, retryAfter: null, text: '{"tx_hash":"0x1","status":"confirmed"}' });
  const api = new Client({ url: "http://remit.example", key: undefined, timeoutMs: undefined, send });
  assert.equal((await api.get("0x1")).tx_hash, "0x1");
  assert.throws(() => new Client({ url: undefined }), TypeError);
  await assert.rejects(api.pay("order-7", "0x2222222222222222222222222222222222222222", 1.5), TypeError);
});

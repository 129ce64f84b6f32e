// Holds the package to sdk/testdata, which the other languages' tests read too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";

import { Client, IntentReused, key as keyOf, OutcomeUnknown, parse, formatUnits, parseUnits, Refused, verifyWebhook } from "../dist/index.js";

const read = (name) => parse(readFileSync(new URL(`../../testdata/${name}`, import.meta.url), "utf8"));
const largest = 2n ** 256n - 1n;

test("keys", () => {
  const { keys, refused } = read("keys.json");
  for (const v of keys) assert.equal(keyOf(v.intent.repeat(v.times ?? 1)), v.key);
  for (const v of refused) {
    if (v.utf8 === undefined) assert.throws(() => keyOf(v.intent ?? String.fromCharCode(...v.utf16)), TypeError, JSON.stringify(v));
  }
  for (const v of [7, undefined, null, ["order-7"]]) assert.throws(() => keyOf(v), TypeError);
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

const answer = /^(\d*) ?(\S*)(?: index (\d+))?(?: after (\S+))?$/;

/** Returns a client, what answers its requests by a scenario, and a clock that only waits move. */
function api(scenario, url, key) {
  const state = { POST: 0, GET: 0, queries: [], ms: 0 };
  const send = async (method, url, headers, body, timeoutMs) => {
    const at = new URL(url);
    const used = (headers["idempotency-key"] ?? "") + (at.searchParams.get("idempotency_key") ?? "");
    if (used !== keyOf("order-7") && (used || at.pathname.startsWith("/send-payment"))) throw new Error("another intent's");
    const list = scenario[method === "POST" ? "post" : "look"];
    const [, status, code, index, after] = answer.exec(list[Math.min(state[method]++, list.length - 1)]);
    state.queries.push(at.search.slice(1));
    if (code === "meanwhile") throw new Error(await call("pay", 40));
    if (code === "lost") throw new Error("lost");
    if (code === "hang") {
      state.ms += timeoutMs;
      throw new Error("hung");
    }
    const place = index === undefined ? undefined : Number(index);
    const json =
      table.bodies[code] ??
      (status === "422" ? { detail: [{ type: code, loc: ["body", "payments", place ?? "to"], msg: "m" }] } : { code, index: place, detail: "d" });
    const text = JSON.stringify(json, (_, v) => (typeof v === "bigint" ? `<${v}>` : v)).replace(/"<(\d+)>"/g, "$1");
    return { status: Number(status || 200), retryAfter: after ?? null, text: code === "html" ? "<html>" : text };
  };
  const now = () => state.ms;
  const sleep = async (ms) => void (state.ms += ms);
  const client = () => new Client({ url, key, send, now, sleep, timeoutMs: (scenario.timeout ?? 120) * 1000 });
  let same;
  const call = (name, seconds) => outcome(() => {
    const limit = seconds === undefined ? {} : { timeoutMs: seconds * 1000 };
    const [kind, other] = name.split(" ");
    const api = (same ??= client());
    return {
      pay: () => api.pay(other ?? "order-7", table.order.to, table.order.amount, { ...table.order, ...limit }),
      payMany: () => api.payMany("order-7", table.batch.payments, { ...table.batch, ...limit }),
      balance: async () => assert.equal((await api.balance(table.order.to)).balance, largest),
      createKey: () => api.createKey(),
      get: () => api.get("0x1"),
      wait: () => api.wait(table.bodies.payment, limit),
      list: async () => assert.equal((await all(api.list({ status: "pending", cursor: undefined }))).length, 2),
      listKeys: () => api.listKeys(),
    }[kind]();
  });
  return { state, call };
}

async function outcome(call) {
  try {
    await call();
    return "paid";
  } catch (e) {
    if (e instanceof Refused) return `refused ${e.code}${e.index === undefined ? "" : " " + e.index}`;
    if (e instanceof IntentReused) return e.stored && e.message.includes("2500000") ? "reused stored" : "reused";
    if (e instanceof OutcomeUnknown) return "unknown";
    if (e instanceof TypeError && e.message.includes("give ")) return "unusable"; // it says what to do
    throw e;
  }
}

const table = read("scenarios.json");
for (const scenario of table.scenarios) {
  for (const of of scenario.clients ?? [["http://remit.test/", "k"]]) {
    test(scenario.name, async () => {
      const { state, call } = api(scenario, ...of);
      for (const step of [...(scenario.earlier ?? []), scenario]) {
        for (let i = 0; i < (step.others ?? 1); i++) {
          assert.equal(await call(step.others ? `pay other-${i}` : (scenario.call ?? "pay"), step.timeout), step.want);
        }
        state.ms += (step.idle ?? 0) * 1000;
      }
      for (const [made, want] of [[state.POST, scenario.posts], [state.GET, scenario.looks]]) {
        assert.ok(want === "some" ? made > 1 : made === want, `${made} requests, want ${want}`);
      }
      const [from, to] = scenario.seconds;
      assert.ok(state.ms >= from * 1000 && state.ms <= to * 1000, `it took ${state.ms} ms`);
      if (scenario.queries) assert.deepEqual(state.queries, scenario.queries);
    });
  }
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
  const end = await outcome(() => client.pay("order-2", "0x1", 1, { timeoutMs: 8000 }));
  server.closeAllConnections();
  server.close();
  assert.deepEqual([end, n], ["unknown", 4]);
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

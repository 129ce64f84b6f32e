// What only JavaScript has: sdk/go/remit_test.go holds the package to what every language promises.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";

import { Client, parse, verifyWebhook } from "../dist/index.js";

const largest = 2n ** 256n - 1n;

test("numbers are exact, and strings are left alone", () => {
  const text = `{"amount":${largest},"network_fee":1,"approve_above":2,"spendable":3,"block_number":7,"metadata":{"amount":"${largest}","\\"9007199254740993":"[0,\\"1\\"]"},"x":[12345678901234567890]}`;
  assert.deepEqual(parse(text), {
    amount: largest, network_fee: 1n, approve_above: 2n, spendable: 3n, block_number: 7, metadata: { amount: String(largest), '"9007199254740993': '[0,"1"]' }, x: [12345678901234567890n],
  });
});

test("webhooks in bytes, with a request's headers", () => {
  const secret = "whsec_DA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKis=";
  const now = new Date();
  const signature = new Webhook(secret).sign("evt_1", now, "{}");
  const headers = new Headers({ "webhook-id": "evt_1", "webhook-timestamp": String(Math.floor(now / 1000)), "webhook-signature": signature });
  assert.deepEqual(verifyWebhook(secret, Buffer.from("{}"), headers), {});
});

test("options that are undefined are the defaults", async () => {
  const send = async () => ({ status: 200, retryAfter: null, text: '{"tx_hash":"0x1","status":"confirmed"}' });
  const api = new Client({ url: "https://remit.example", key: undefined, timeoutMs: undefined, send });
  assert.equal((await api.get("0x1")).tx_hash, "0x1");
  assert.throws(() => new Client({ url: undefined }), TypeError);
  await assert.rejects(api.pay("order-7", "0x1", NaN), TypeError);
  for (const bad of [{ timeoutMs: NaN }, { assett: "x" }]) await assert.rejects(api.pay("a", "b", 1n, bad), TypeError);
});

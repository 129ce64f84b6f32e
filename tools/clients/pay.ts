// Completes a payment with the generated TypeScript client.
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";

import { client } from "./client/client.gen.js";
import { createApiKey, getBalance, getTransaction, listTransactions, sendPayment } from "./client/index.js";
import type { Payment } from "./client/index.js";

const recipient = "0x1111111111111111111111111111111111111111";
client.setConfig({ baseUrl: process.env.REMIT_URL as never });

const created = await createApiKey({ body: { merchant_name: "TypeScript" }, throwOnError: true });
client.setConfig({ auth: created.data.api_key });

const request = {
  body: { wallet_address: recipient, amount: 2_500_000, reference: "typescript" },
  headers: { "Idempotency-Key": randomUUID() },
};
const { data: paid } = await sendPayment({ ...request, throwOnError: true });
const { data: again } = await sendPayment({ ...request, throwOnError: true });
if (paid.tx_hash !== again.tx_hash) throw new Error("one key, two payments");
console.log("paid", paid.tx_hash, paid.status, paid.amount);

let seen: Payment = paid;
for (let i = 0; i < 150 && seen.status === "pending"; i++) {
  await setTimeout(200);
  seen = (await getTransaction({ path: { tx_hash: paid.tx_hash }, throwOnError: true })).data;
}
if (seen.status !== "confirmed") throw new Error(`ended as ${seen.status}`);
console.log("confirmed in block", seen.block_number);

const listed = await listTransactions({ query: { idempotency_key: request.headers["Idempotency-Key"] }, throwOnError: true });
if (listed.data.data[0]?.tx_hash !== paid.tx_hash) throw new Error("not listed");
const { data: balance } = await getBalance({ path: { address: recipient }, throwOnError: true });
if (balance.balance < paid.amount) throw new Error(`balance ${balance.balance}`);
console.log("balance of the recipient", balance.balance);

const refused = await sendPayment({ body: { wallet_address: "0x0", amount: 1 } });
if (!refused.error || typeof refused.error.detail === "string") throw new Error("not refused");
console.log("refused:", refused.error.detail[0]?.msg);

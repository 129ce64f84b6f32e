// Pays what it reads, for the suite of sdk/conformance_test.go: see sdk/go/internal/conformance.
import { createInterface } from "node:readline";

import { Client, OutcomeUnknown } from "../dist/index.js";

const api = new Client({ url: process.env.REMIT_URL, key: process.env.REMIT_API_KEY, timeoutMs: 60_000 });

async function pay(intent, to, amounts) {
  try {
    const p = amounts.length === 1 ? await api.pay(intent, to, amounts[0]) : await api.payMany(intent, amounts.map((amount) => ({ to, amount })));
    return p.tx_hash;
  } catch (error) {
    return error instanceof OutcomeUnknown ? "unknown" : String(error);
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
await Promise.all(
  Array.from({ length: 16 }, async () => {
    for (let line = await lines.next(); !line.done; line = await lines.next()) {
      const [intent, to, ...amounts] = line.value.split(" ");
      console.log(intent, await pay(intent, to, amounts));
    }
  }),
);

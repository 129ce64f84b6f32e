import type { components } from "./openapi";

type Payment = components["schemas"]["Payment"];
const headers = { "x-api-key": process.env.REMIT_API_KEY!, "content-type": "application/json", "idempotency-key": "openapi-typescript" };
const body: components["schemas"]["SendPaymentRequest"] = { to: "0x2222222222222222222222222222222222222222", amount: "5000000000" };

async function main() {
  const sent = await fetch(process.env.REMIT_URL + "/send-payment", { method: "POST", headers, body: JSON.stringify(body) });
  const paid = (await sent.json()) as Payment;
  const read = (await (await fetch(process.env.REMIT_URL + "/transaction/" + paid.tx_hash, { headers })).json()) as Payment;
  console.log(paid.amount_text, read.amount_text);
}

main();

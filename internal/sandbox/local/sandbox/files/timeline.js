// A payment's timeline: all that the tables, the nodes and the receiver have of it.
import { $, make, clock, after, assetOf, steps, decimal, ending, title } from "./draw.js";

const table = (head, lines) => make("table", "", [
  make("thead", "", make("tr", "", head.map((h) => make("th", "", h, { scope: "col" })))),
  make("tbody", "", lines.map((cells) => make("tr", "", cells.map((c, i) => (i ? make("td", "", c) : make("th", "", c, { scope: "row" })))))),
]);
const part = (head, content) => [make("h3", "", head), content];
const none = (text) => make("p", "none", text);

// show opens the timeline of the payment with that id, hash, or key.
export async function show(find, facts, refuse) {
  const answer = await fetch(`/page/payment?${new URLSearchParams({ find })}`);
  const t = await answer.json();
  if (!answer.ok) return refuse(`${title(t.detail)}.`);
  const p = t.payment, asset = assetOf(facts, p.asset);
  $("timeline-title").textContent = `${p.key || p.id}: ${ending(p)[1]}`;
  $("timeline-body").replaceChildren(
    make("p", "", `${decimal(p.amount || 0, asset.decimals)} ${asset.symbol} on chain ${asset.chain_id} to ${p.to}, by wallet ${p.wallet || "none yet"}${p.hash ? `, nonce ${p.nonce}` : ""}.`),
    make("p", "mono", p.id),
    ...(t.entries ? part("Entries: one transaction pays all or none", table(["recipient", "amount", "reference"], t.entries.map((e) => [e.to, `${decimal(e.amount, asset.decimals)} ${asset.symbol}`, e.reference]))) : []),
    ...part("Steps", table(["step", "at"], steps.map((name, i) => [name,
      p.at[i] > 0 ? `${clock(p.at[i])}, +${after(Math.max(0, p.at[i] - p.begun))}` : p.at[i] ? "before the page was opened" : "not yet"]))),
    ...(t.progress ? [make("p", "", `Answers show it as ${t.progress}.`)] : []),
    ...part("Requests of this page", make("p", "", p.ours ? `${p.asked} ${p.asked === 1 ? "request" : "requests"}, ${p.answers} answered 201, ${p.refusals} refused. The last answer: ${p.answer || "none yet"}.` : "Another client requested it.")),
    ...(p.refusals ? [make("p", "wrong", `The last refusal: ${p.detail}`)] : []),
    ...part("Attempts: all at one nonce, so at most one is mined", t.attempts.length
      ? table(["hash", "signed", "fees"], t.attempts.map((a) => [a.hash, clock(a.at), `at most ${a.max_fee} wei per gas, tip ${a.tip}, for ${a.gas} gas${a.noop ? ": pays nothing" : ""}`]))
      : none("No bytes are signed yet.")),
    ...part("Receipts and logs, as each node has them", t.receipts.length ? table(["node", "receipts"], t.receipts.map((r) => [r.node, r.lines.join("; ") || "no receipt"])) : none("Nodes are queried after the commit.")),
    ...part("Deliveries of its event", t.deliveries.length
      ? table(["delivery", "status", "attempts"], t.deliveries.map((d) => [d.id, d.status, (d.attempts ?? []).map((a) => a.status_code || a.error).join(", ")]))
      : none("None yet.")),
    ...part("Gas paid", make("p", "", t.fee ? `${decimal(t.fee, 18, 0)} ${asset.gas}` : "Known once it is final.")),
    ...part("The bytes", t.bytes ? make("pre", "", t.bytes, { tabindex: "0" }) : none("Kept until the payment is final and published.")),
  );
  $("timeline").showModal();
}

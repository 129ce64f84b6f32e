// What the page shows of the stack. Text is set as text, never as HTML.
export const steps = ["prepared", "committed", "sent", "mined", "final", "published"];

export const $ = (id) => document.getElementById(id);

// make returns an element with a class, children and attributes.
export function make(tag, kind, children = [], attributes = {}) {
  const e = document.createElement(tag);
  if (kind) e.className = kind;
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...[].concat(children));
  return e;
}

// put sets the text of an element, if it is another.
export function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export const title = (text) => text[0].toUpperCase() + text.slice(1);
export const short = (text) => (text.startsWith("0x") ? `${text.slice(0, 6)}…${text.slice(-4)}` : text);
export const clock = (ms) => new Date(ms).toTimeString().slice(0, 8);
export const after = (ms) => (ms < 10_000 ? `${(ms / 1000).toFixed(2)} s` : `${Math.round(ms / 1000)} s`);

// decimal writes units of a token with so many decimals.
export function decimal(units, decimals, least = 2) {
  const text = String(units).padStart(decimals + 1, "0");
  const part = text.slice(-decimals).replace(/0+$/, "").padEnd(least, "0");
  return text.slice(0, -decimals).replace(/\B(?=(\d{3})+$)/g, ",") + (part ? "." + part : "");
}

// units reads a decimal as units of the token; null if it is none.
export function units(text, decimals) {
  const m = /^(\d+)(?:\.(\d+))?$/.exec(text.trim());
  if (!m || (m[2] ?? "").length > decimals) return null;
  return BigInt(m[1] + (m[2] ?? "").padEnd(decimals, "0")).toString();
}

// assetOf returns the asset of a name, the default if it is not known.
export const assetOf = (facts, name) => facts.assets.find((a) => a.asset === name) ?? facts.assets[0];

export function drawCount(c, chains, facts) {
  for (const name of ["asked", "once", "twice", "unpaid"]) put($(name), c[name].toLocaleString("en"));
  $("twice-box").className = c.twice ? "bad" : "quiet";
  $("unpaid-box").className = c.unpaid ? "warn" : "quiet";
  let verdict = "No payment yet.";
  if (c.twice || c.unasked) verdict = "This must not happen: a chain has an extra transfer. Please report it.";
  else if (c.asked && c.unpaid === c.failed) verdict = c.failed ? `Every payment was made once, except ${c.failed} that failed and moved nothing.` : "Every payment was made exactly once.";
  else if (c.asked) verdict = `${c.unpaid - c.failed} on the way. None twice.`;
  put($("verdict"), verdict);
  const transfers = chains.map((c) => `${c.logs.toLocaleString("en")} of ${assetOf(facts, c.asset).symbol}`);
  put($("counted"), `Counted on the chains themselves: ${transfers.join(", ")}.`);
}

// drawChains draws each chain with its newest blocks, and its wallets.
export function drawChains(chains, facts) {
  $("chains").replaceChildren(...chains.map((c) => {
    const asset = assetOf(facts, c.asset), gwei = Number(c.base_fee) / 1e9;
    return make("div", "", [
      make("h3", "", [`${asset.symbol}, chain ${asset.chain_id} `,
        make("small", "", `${c.logs.toLocaleString("en")} ${c.logs === 1 ? "transfer" : "transfers"}, block ${c.number}, final up to ${c.final}, base fee ${gwei < 0.01 ? "under 0.01" : gwei.toFixed(2)} gwei`)]),
      make("ol", "blocks", (c.blocks ?? []).map((b) => {
        const state = b.replaced ? "replaced" : b.number <= c.final ? "final" : "open";
        const line = !b.replaced && b.number === c.final ? " line" : "";
        const says = `Block ${b.number}, ${state === "open" ? "not final yet" : state}, ${b.paid} transfers`;
        return make("li", state + line, [`${b.number}`, make("b", "", b.paid ? `${b.paid}` : "")], { title: says });
      }), { "aria-label": `The newest blocks of ${asset.symbol}, the newest last` }),
    ]);
  }));
  $("wallets").replaceChildren(...chains.flatMap((c) => (c.wallets ?? []).map((w) => {
    const asset = assetOf(facts, c.asset);
    return make("li", "", [
      make("span", "mono", short(w.address)),
      `${decimal(w.tokens, asset.decimals)} ${asset.symbol}${asset.gas === asset.symbol ? "" : `, ${decimal(w.wei, 18, 0).slice(0, 9)} ${asset.gas}`}`,
      make("br"),
      make("small", "", `next nonce ${w.next}, ${w.mined} mined; in flight: ${w.sent} sent, ${w.reserved} reserved`),
      ...(w.paused ? [make("br"), make("span", "wrong", `paused: ${w.paused}`)] : []),
    ]);
  })));
}

export function drawSteps(counts) {
  $("steps").replaceChildren(...steps.map((name, i) => make("div", "", [make("dt", "", name), make("dd", "", counts[i].toLocaleString("en"))])));
}

// ending says where a payment is, and in which colour.
export function ending(p) {
  if (p.paid > 1) return ["wrong", `paid ${p.paid} times`];
  if (p.refused) return ["wrong", `refused${p.answer && `: ${p.answer}`}`];
  if (p.failure) return ["warned", `failed: ${p.failure}`];
  if (p.at[4]) return ["ok", p.paid ? "confirmed, paid once" : "confirmed, mined again soon"];
  if (p.answer === "no answer") return ["warned", "no answer"];
  const reached = steps.filter((_, i) => p.at[i]).pop();
  return ["", reached ?? "asked"];
}

const rows = new Map();

// clear empties the lists: the stack tells all that is listed again.
export function clear() {
  rows.clear();
  for (const id of ["rows", "log", "hooks"]) {
    $(id).replaceChildren();
    delete $(id).dataset.last;
  }
}

// drawPayments draws the payments that have changed, the newest first, and no more than the page lists.
export function drawPayments(payments, facts, open) {
  for (const p of payments) {
    let row = rows.get(p.id);
    if (!row) {
      const button = make("button", "", [make("span", "name"), make("span", "what"), make("span", "end"), make("span", "track", steps.map(() => make("i")))], { type: "button" });
      button.addEventListener("click", () => open(p.id));
      row = { li: make("li", "", button), button };
      rows.set(p.id, row);
    }
    if (row.li.begun !== p.begun) {
      $("rows").insertBefore(row.li, [...$("rows").children].find((li) => li.begun <= p.begun) ?? null);
      row.li.begun = p.begun;
    }
    const [name, what, end, track] = row.button.children;
    put(name, p.key || p.id);
    const asset = assetOf(facts, p.asset);
    put(what, `${decimal(p.amount || 0, asset.decimals)} ${asset.symbol}${p.asked > 1 ? `, ${p.asked} requests` : ""}${p.refusals && !p.refused ? `, ${p.refusals} refused` : ""} to ${short(p.to)}`);
    const [kind, text] = ending(p);
    put(end, text);
    end.className = `end ${kind}`;
    [...track.children].forEach((cell, i) => {
      cell.className = p.at[i] ? (p.failure ? "on failed" : "on") : "";
      put(cell, p.at[i] > 0 ? `+${after(Math.max(0, p.at[i] - p.begun))}` : "");
    });
  }
  const list = [...rows.entries()].sort((a, b) => a[1].li.begun - b[1].li.begun);
  for (const [id, row] of list.slice(0, Math.max(0, list.length - facts.listed))) {
    row.li.remove();
    rows.delete(id);
  }
  $("none").hidden = rows.size > 0;
}

// drawLines adds the items that are new on top of a list and keeps it short.
export function drawLines(list, items, most, make) {
  for (const item of (items ?? []).filter((i) => i.n > Number(list.dataset.last ?? 0))) list.prepend(make(item));
  list.dataset.last = items?.at(-1)?.n ?? 0;
  while (list.children.length > most) list.lastChild.remove();
}

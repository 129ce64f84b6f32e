// What a person may do on the page of remit local: pay, propose and break.
import { $, assetOf, decimal, make, put, short, title, units } from "./draw.js";

// wire makes the buttons do what they say. It returns what draws what is broken, and what draws proposals.
export function wire(facts) {
  const buttons = new Map();
  let last = null; // the payment that was asked for last

  function said(text, kind = "") {
    put($("said"), text);
    $("said").className = kind;
  }

  // act has the stack do something, and returns its answer; null if it was refused.
  async function act(what) {
    if (["pay", "propose"].includes(what.do)) {
      said("Asking…");
      await turn;
    }
    try {
      const answer = await fetch("/page/do", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) });
      const told = await answer.json();
      if (!answer.ok) said(told.detail, "bad");
      return answer.ok ? told : null;
    } catch {
      said("The stack does not answer. Is it still running?", "bad");
      return null;
    }
  }

  let turn = Promise.resolve(); // one breaks, mends and then pays in the order in which one presses
  const inTurn = (what) => (turn = turn.then(() => act(what)));

  const asset = () => assetOf(facts, $("asset").value);

  function curl() {
    const body = JSON.stringify({ to: $("to").value, amount: "AMOUNT", ...(asset() === facts.assets[0] ? {} : { asset: asset().asset }) })
      .replace('"AMOUNT"', units($("amount").value, asset().decimals) ?? 0);
    const line = `curl -s ${facts.url}/send-payment -H "x-api-key: $KEY" -H 'Idempotency-Key: ${$("key").value.replaceAll("'", "'\\''")}' -H 'Content-Type: application/json' -d '${body}'`;
    put($("curl"), `KEY=${facts.key}\n\n# pay, and the same again\n${line}\n\n# fifty at once\nfor i in $(seq 50); do ${line} & done; wait`);
  }

  // pay asks for an order so often, and says how the stack answered.
  async function pay(order, times) {
    const told = await act({ ...order, do: "pay", times });
    if (!told) return null;
    const texts = told.replies.map((r) => `${times > 1 ? `${r.n} × ` : ""}${r.status ? `${r.status} ${r.text}` : "no answer: it may be paid or not, so repeat it"}${r.detail ? `: ${r.detail}` : ""}`);
    said(`${order.key}: ${texts.join("; ")}`, told.replies.some((r) => r.final && r.status >= 400) ? "bad" : told.replies.some((r) => !r.status) ? "warned" : "");
    return told;
  }

  const ordinary = "0x2222222222222222222222222222222222222222";
  const behaviours = { revert: "fails: it reverts", stuck: "stays pending", reorg: "is removed by a reorg once" };
  $("who").append(make("option", "", "an ordinary address", { value: ordinary }), ...facts.recipients.map((r) => make("option", "", behaviours[r.behaviour] ?? r.behaviour, { value: r.address })));
  $("to").value = ordinary;
  $("asset").append(...facts.assets.map((a) => make("option", "", a.symbol, { value: a.asset })));
  $("asset-box").hidden = facts.assets.length < 2;
  $("key").value = facts.unused ?? "order-1";
  $("who").addEventListener("change", () => { $("to").value = $("who").value; curl(); });
  $("pay").addEventListener("input", curl);
  curl();
  for (const [id, form] of [["amount", "Write digits, with a point before decimals, such as 1.50."], ["to", "Write 0x and 40 hex digits."]]) {
    $(id).addEventListener("invalid", () => { said(""); $(id).setCustomValidity(form); });
    $(id).addEventListener("input", () => $(id).setCustomValidity(""));
  }

  $("pay").addEventListener("submit", async (e) => {
    e.preventDefault();
    const amount = units($("amount").value, asset().decimals);
    if (amount === null) return said(`The amount has at most ${asset().decimals} decimals.`, "bad");
    const order = { to: $("to").value, amount, asset: asset().asset, key: $("key").value };
    const proposed = e.submitter.value;
    const told = await (proposed ? act({ ...order, do: "propose" }) : pay(order, 1));
    if (!told) return;
    if (!proposed) last = order;
    else said(`${order.key} is proposed: below, another key approves it.`);
    $("do-again").disabled = $("do-fifty").disabled = !last;
    if ($("key").value === order.key) $("key").value = told.unused;
    curl();
  });
  $("do-again").addEventListener("click", () => pay(last, 1));
  $("do-fifty").addEventListener("click", () => pay(last, 50));

  $("mend").addEventListener("click", () => inTurn({ do: "mend" }));
  $("settle").addEventListener("click", () => act({ do: "settle" }));

  const notes = { "Kill the next request": "Its process ends there, as by SIGKILL, and its client gets no answer." };
  const wide = matchMedia("(min-width: 901px)").matches;
  for (const [i, group] of [...new Set(facts.breakages.map((b) => b.group))].entries()) {
    const box = make("details", "", [make("summary", "", group), ...(notes[group] ? [make("p", "small", notes[group])] : [])]);
    box.open = wide || i === 0;
    $("breakages").append(box);
    for (const b of facts.breakages.filter((b) => b.group === group)) {
      const button = make("button", "", [title(b.label), make("small")], { type: "button", "data-break": b.id, "aria-pressed": "false" });
      button.addEventListener("click", () => inTurn({ do: "break", fault: b.id }));
      buttons.set(b.id, button);
      box.append(button);
    }
  }

  function drawBroken(broken) {
    for (const b of facts.breakages) {
      const button = buttons.get(b.id);
      button.setAttribute("aria-pressed", String(b.id in broken));
      put(button.lastChild, b.id in broken ? b.does : b.text);
    }
    const now = facts.breakages.filter((b) => b.id in broken).map((b) => (b.group in notes ? `the next request is killed ${b.label}` : b.label));
    put($("broken"), now.length ? `Broken now: ${now.join(", ")}.` : "");
  }

  function drawProposals(all) {
    $("proposals").replaceChildren(...all.map((p) => {
      const asset = assetOf(facts, p.request.asset), key = p.idempotency_key;
      const to = short(p.request.to ?? `${p.request.payments.length} recipients`);
      const state = p.status.replace("_", " ") + (p.last_refusal ? `, refused: ${p.last_refusal.code}` : "");
      const may = { awaiting_approval: ["Approve", "Cancel"], scheduled: ["Cancel"] }[p.status] ?? [];
      const buttons = may.map((does) => {
        const button = make("button", "", does, { type: "button", "aria-label": `${does} ${key}` });
        button.addEventListener("click", () => act({ do: does.toLowerCase(), id: p.id }));
        return button;
      });
      const words = `${key}: ${decimal(p.request.amount, asset.decimals)} ${asset.symbol} to ${to}, ${state}`;
      return make("li", "", [words, make("div", "buttons", buttons)]);
    }));
  }

  return [drawBroken, drawProposals];
}

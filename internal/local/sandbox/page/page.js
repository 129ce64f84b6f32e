// The page of remit local. All state is in the stack: this only asks and draws.
import { $, make, put, title, clear, clock, units, drawCount, drawChain, drawWallets, drawSteps, drawPayments, drawLines } from "./draw.js";
import { tell } from "./story.js";

const facts = await (await fetch("/sandbox/facts")).json();
const buttons = new Map();
let last = null; // the payment that was asked for last

function said(text, bad = false) {
  put($("said"), text);
  $("said").className = bad ? "bad" : "";
}

// act has the stack do something, and returns its answer; null if it was refused.
async function act(what) {
  try {
    const answer = await fetch("/sandbox/do", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) });
    const told = await answer.json();
    said(answer.ok ? "" : told.detail, !answer.ok);
    return answer.ok ? told : null;
  } catch {
    said("The stack does not answer. Is it still running?", true);
    return null;
  }
}

const open = (find) => tell(find, facts, said).catch(() => said("The stack does not answer.", true));

function curl() {
  const body = `{"to":${JSON.stringify($("to").value)},"amount":${units($("amount").value, facts.decimals) ?? 0}}`;
  const line = `curl -s ${facts.url}/send-payment -H "x-api-key: $KEY" -H 'Idempotency-Key: ${$("key").value.replaceAll("'", "'\\''")}' -H 'Content-Type: application/json' -d '${body}'`;
  put($("curl"), `KEY=${facts.key}\n\n# pay, and the same again\n${line}\n\n# fifty at once\nfor i in $(seq 50); do ${line} & done; wait`);
}

const ordinary = "0x2222222222222222222222222222222222222222";
const behaviours = { revert: "fails: the token reverts", stuck: "stays pending for ever", reorg: "is re-organised away once" };
$("who").append(make("option", "", "an ordinary address", { value: ordinary }), ...facts.recipients.map((r) => make("option", "", behaviours[r.behaviour] ?? r.behaviour, { value: r.address })));
$("to").value = ordinary;
put($("amount-label"), `Amount, ${facts.symbol}`);
$("who").addEventListener("change", () => { $("to").value = $("who").value; curl(); });
$("pay").addEventListener("input", curl);
curl();

$("pay").addEventListener("submit", async (e) => {
  e.preventDefault();
  const amount = units($("amount").value, facts.decimals);
  if (amount === null) return said(`The amount has at most ${facts.decimals} decimals.`, true);
  const told = await act({ do: "pay", to: $("to").value, amount, key: $("key").value });
  if (!told) return;
  last = told.id;
  said(`Asked for ${$("key").value}.`);
  $("do-again").disabled = $("do-fifty").disabled = false;
  $("key").value = $("key").value.replace(/\d*$/, (n) => (n ? String(BigInt(n) + 1n) : "-2"));
  curl();
});
async function again(times) {
  if (await act({ do: "again", id: last, times })) said(`Asked again, ${times === 1 ? "once" : `${times} times at once`}, under the same key.`);
}
$("do-again").addEventListener("click", () => again(1));
$("do-fifty").addEventListener("click", () => again(50));
$("copy").addEventListener("click", async () => { await navigator.clipboard.writeText($("curl").textContent); said("Copied."); });
$("random").addEventListener("submit", (e) => { e.preventDefault(); act({ do: "random", seed: Number($("seed").value) }); });
for (const id of ["mend", "mend-now"]) $(id).addEventListener("click", () => act({ do: "mend" }));
$("settle").addEventListener("click", () => act({ do: "settle" }));
$("search").addEventListener("submit", (e) => { e.preventDefault(); if ($("find").value) open($("find").value.trim()); });

const notes = { "Cut the next request off": "The process of the next request ends there, as by SIGKILL: no answer, and not one more line of it runs." };
const wide = matchMedia("(min-width: 901px)").matches;
for (const [i, group] of [...new Set(facts.breakages.map((b) => b.group))].entries()) {
  const box = make("details", "", [make("summary", "", group), ...(notes[group] ? [make("p", "small", notes[group])] : [])]);
  box.open = wide || i === 0;
  $("breakages").append(box);
  for (const b of facts.breakages.filter((b) => b.group === group)) {
    const button = make("button", "", [title(b.label), make("small", "", b.text)], { type: "button", "data-break": b.id, "aria-pressed": "false" });
    const depth = b.id === "reorg" && make("input", "", [], { type: "number", min: "1", max: "5", value: "1", id: "depth" });
    button.addEventListener("click", () => act({ do: "break", fault: b.id, depth: depth ? Number(depth.value) : 0 }));
    buttons.set(b.id, button);
    box.append(depth ? make("div", "depth", [button, make("label", "", ["Blocks", depth])]) : button);
  }
}

function drawBroken(broken, random) {
  for (const [id, b] of buttons) b.setAttribute("aria-pressed", String(id in broken));
  const now = facts.breakages.filter((b) => b.id in broken);
  const items = now.map((b) => make("li", "", [make("b", "", title(b.label)), ". ", b.does, make("small", "rule", `docs/guarantees.md: ${b.rule}`)]));
  if (random.on) items.unshift(make("li", "", `Everything at random, seed ${random.seed}.`));
  $("now").classList.toggle("calm", items.length === 0);
  if (items.length === 0) items.push(make("li", "", "Nothing."));
  if ($("broken").textContent !== items.map((i) => i.textContent).join("")) $("broken").replaceChildren(...items);
  $("do-random").disabled = random.on;
}

function draw(u) {
  drawCount(u.count);
  drawChain(u.chain, u.blocks ?? []);
  drawWallets(u.wallets ?? [], facts);
  drawSteps(u.steps);
  drawPayments(u.payments ?? [], facts, open);
  drawBroken(u.broken, u.random);
  drawLines($("log"), u.lines ?? [], 120, (l) => make("li", l.kind, [make("time", "", clock(l.at)), l.text]));
  drawLines($("hooks"), u.arrivals ?? [], 30, (a) => make("li", "", [make("time", "", clock(a.at)), a.type, " ",
    make("span", a.genuine ? "ok" : "wrong", a.genuine ? "signature verified" : "signature is wrong"), a.times > 1 ? `, delivered ${a.times} times, counted once` : ""]));
  const all = u.count.asked;
  put($("older"), all > facts.listed ? `The newest ${facts.listed} of ${all.toLocaleString("en")} are listed; all are counted, and any opens by its id, hash or key.` : "");
}

function live(text, kind) {
  put($("live"), text);
  $("live").className = kind;
}

if ("EventSource" in window) {
  const events = new EventSource("/sandbox/events");
  events.addEventListener("open", () => {
    clear();
    live("live", "on");
  });
  events.addEventListener("error", () => live("the stack does not answer; trying again", "off"));
  events.addEventListener("message", (e) => draw(JSON.parse(e.data)));
} else {
  live("this browser cannot follow the stack: it has no server-sent events", "off");
}

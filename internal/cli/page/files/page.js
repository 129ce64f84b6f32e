// The page of a stack. All state is in the stack: this only asks and draws.
import { $, make, put, clear, clock, drawCount, drawChain, drawWallets, drawSteps, drawPayments, drawLines } from "./draw.js";
import { drawStates, drawNodes, drawAlarms, drawEndpoints } from "./console.js";
import { tell } from "./story.js";

const facts = await (await fetch("/page/facts")).json();
for (const panel of document.querySelectorAll("[data-part]")) panel.hidden = !facts.parts.includes(panel.dataset.part);
put($("name"), facts.name);
document.title = `Remit ${facts.name}`;

function found(text) {
  put($("found"), text);
  $("found").className = text ? "bad" : "";
}

// open shows a payment's story.
function open(find, merchant = "") {
  found("");
  return tell(find, merchant, facts, found).catch(() => found("The stack does not answer."));
}
$("search").addEventListener("submit", (e) => { e.preventDefault(); if ($("find").value) open($("find").value.trim(), $("merchant").value.trim()); });

const drawBroken = facts.parts.includes("controls") ? (await import("./controls.js")).wire(facts) : () => {};

// draw draws what has changed: an update has no other parts.
const parts = {
  count(c) {
    drawCount(c);
    put($("older"), c.asked > facts.listed ? `The newest ${facts.listed} of ${c.asked.toLocaleString("en")} are listed; all are counted, and any opens by its id, hash or key.` : "");
  },
  wallets: (all) => drawWallets(all ?? [], facts),
  steps: drawSteps,
  payments: (all) => drawPayments(all ?? [], facts, open),
  lines(all) {
    drawLines($("log"), all ?? [], 120, (l) => make("li", l.kind, [make("time", "", clock(l.at)), l.text]));
    $("log").closest("section").hidden = facts.parts.includes("states") && !all?.length; // a console has lines of what it cannot read
  },
  arrivals: (all) => drawLines($("hooks"), all ?? [], 30, (a) => make("li", "", [make("time", "", clock(a.at)), a.type, " ",
    make("span", a.genuine ? "ok" : "wrong", a.genuine ? "signature verified" : "signature is wrong"), a.times > 1 ? `, delivered ${a.times} times, counted once` : ""])),
  states: (s) => drawStates(s, open),
  nodes: drawNodes,
  alarms: drawAlarms,
  endpoints: drawEndpoints,
  calls: (c) => put($("calls"), `${c.used} of ${c.most} calls this minute`),
};
const now = {};

const waiting = [];

// later draws news with the next frame, so that a page that is busy draws less often.
// One that is hidden has no frames.
function later(news) {
  if (waiting.push(news) === 1 && !document.hidden) requestAnimationFrame(() => waiting.splice(0).forEach(draw));
  else if (document.hidden) waiting.splice(0).forEach(draw);
}

function draw(news) {
  Object.assign(now, news);
  for (const [name, part] of Object.entries(news)) parts[name]?.(part);
  if (news.chain || news.blocks) drawChain(now.chain, now.blocks ?? []);
  if (news.broken || news.random) drawBroken(now.broken, now.random);
}

function live(text, kind) {
  put($("live"), text);
  $("live").className = kind;
}

if ("EventSource" in window) {
  const events = new EventSource("/page/events");
  events.addEventListener("open", () => {
    clear();
    live("live", "on");
  });
  events.addEventListener("error", () => live("the stack does not answer; trying again", "off"));
  events.addEventListener("message", (e) => later(JSON.parse(e.data)));
} else {
  live("this browser cannot follow the stack: it has no server-sent events", "off");
}

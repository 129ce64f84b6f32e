// The page of a stack. All state is in the stack: this only asks and draws.
import { $, make, put, clear, clock, drawCount, drawChains, drawSteps, drawPayments, drawLines } from "./draw.js";
import { wire } from "./controls.js";
import { show } from "./timeline.js";

const facts = await (await fetch("/page/facts")).json();
put($("name"), facts.name);
document.title = `Remit ${facts.name}`;

function found(text) {
  put($("found"), text);
  $("found").className = text ? "bad" : "";
}

// open shows a payment's timeline.
function open(find) {
  found("");
  return show(find, facts, found).catch(() => found("The stack does not answer."));
}
$("search").addEventListener("submit", (e) => { e.preventDefault(); open($("find").value.trim()); });

const [drawBroken, drawProposals] = wire(facts);

// Each part draws itself.
const parts = {
  count(c, update) {
    drawCount(c, update.chains ?? [], facts);
    put($("older"), c.asked > facts.listed ? `The newest ${facts.listed} of ${c.asked.toLocaleString("en")} are listed; all are counted, and any opens by its id, hash or key.` : "");
  },
  chains: (all) => drawChains(all ?? [], facts),
  steps: drawSteps,
  proposals: (all) => drawProposals(all ?? []),
  payments: (all) => drawPayments(all ?? [], facts, open),
  lines: (all) => drawLines($("log"), all, 120, (l) => make("li", l.kind, [make("time", "", clock(l.at)), l.text])),
  arrivals: (all) => drawLines($("hooks"), all, 30, (a) => make("li", "", [make("time", "", clock(a.at)), a.type, " ",
    make("span", a.genuine ? "ok" : "wrong", a.genuine ? "signature verified" : "signature is wrong"), a.times > 1 ? `, delivered ${a.times} times, counted once` : ""])),
};
let drawn = {}; // the text of each part

// draw draws the parts that have changed.
function draw(update) {
  const changed = (name) => drawn[name] !== (drawn[name] = JSON.stringify(update[name]));
  for (const [name, part] of Object.entries(parts)) if (changed(name) && name in update) part(update[name], update);
  if ("broken" in update && changed("broken")) drawBroken(update.broken);
}

function live(text, kind) {
  put($("live"), text);
  $("live").className = kind;
}

const events = new EventSource("/page/events");
events.addEventListener("open", () => {
  clear();
  drawn = {};
  live("live", "on");
});
events.addEventListener("error", () => live("the stack does not answer; trying again", "off"));
events.addEventListener("message", (e) => draw(JSON.parse(e.data)));

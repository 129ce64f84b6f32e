// What the page shows of a deployed stack.
import { $, make, put, clock } from "./draw.js";

// since says how long ago a time is.
export function since(ms) {
  const s = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (s < 120) return `${s} s`;
  return s < 7200 ? `${Math.round(s / 60)} min` : s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

const count = (n) => n.toLocaleString("en");
const cells = (all) => make("tr", "", all.map((text, i) => (i ? make("td", "", text) : make("th", "", text, { scope: "row" }))));
const list = (id, items, none) => $(id).replaceChildren(...(items.length ? items : [make("li", "small", none)]));

export function drawStates(s, open) {
  $("ages").replaceChildren(...s.ages.map((r) => cells([r.name, count(r.count)])));
  const ids = s.oldest.map((p) => p.id).join(" ");
  if ($("oldest").dataset.ids !== ids) { // a button that has the focus keeps it
    $("oldest").replaceChildren(s.oldest.length ? "Longest under way: " : "Nothing is under way.", ...s.oldest.map((p) => {
      const button = make("button", "", [`${p.id.slice(0, 12)}… `, make("b")], { type: "button", title: `wallet ${p.wallet}, nonce ${p.nonce}` });
      button.addEventListener("click", () => open(p.id));
      return button;
    }));
    $("oldest").dataset.ids = ids;
  }
  $("oldest").querySelectorAll("b").forEach((b, i) => put(b, since(s.oldest[i].since)));
}

export function drawNodes(nodes) {
  const highest = Math.max(0, ...nodes.map((n) => n.head));
  list("nodes", nodes.map((n) => make("li", "", [make("b", "", n.name), " ", n.error ? make("span", "wrong", `no answer: ${n.error}`)
    : make("span", highest - n.head > 10 ? "warned" : "ok", `head ${n.head}${highest > n.head ? `, ${highest - n.head} behind` : ""}, final ${n.final}, answered in ${n.ms} ms`)])), "Not read yet.");
}

const kinds = { ALARM: "wrong", INSUFFICIENT_DATA: "warned", OK: "ok" };
export function drawAlarms(a) {
  const loud = a.all.filter((x) => x.state !== "OK");
  list("alarms", [...loud.map((x) => make("li", "", [make("span", kinds[x.state] ?? "", x.state), ` ${x.name}, since ${since(x.since)}`, make("br"), make("small", "", x.why)])),
    ...(a.all.length ? [make("li", "small", `${a.all.length - loud.length} of ${a.all.length} are OK, read at ${clock(a.at)}.`)] : [])], a.at ? "The stack has no alarms." : "Not read yet.");
}

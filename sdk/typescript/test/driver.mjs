// Makes the calls that a test reads and prints how they end, a line each: see sdk/go/driver_test.go.
import { createInterface } from "node:readline";

import * as sdk from "../dist/index.js";
import { write } from "../dist/json.js";

const print = (line) => console.log(write(line));
const waiting = new Map(); // for an answer, by request
let api;
let ms = 0;

const send = (method, url, headers, body, timeoutMs) =>
  new Promise((resolve, reject) => {
    const request = waiting.size + 1;
    waiting.set(request, (answer) => {
      ms += answer.seconds * 1000;
      if (answer.status) resolve(answer);
      else reject(new Error("lost"));
    });
    print({ request, seconds: ms / 1000, method, url, headers, body, timeout: timeoutMs / 1000 });
  });
const fakes = { send, now: () => ms, sleep: async (more) => void (ms += more) };

async function value(call, args, { timeout, fakes: names, ...options }) {
  const timeoutMs = timeout === undefined ? undefined : timeout * 1000;
  if (call === "idle") return fakes.sleep(args[0] * 1000);
  if (call === "open") {
    ms = 0;
    const faked = Object.fromEntries((names ?? []).map((name) => [name, fakes[name]]));
    api = new sdk.Client({ url: args[0], key: args[1], timeoutMs, ...faked });
    return;
  }
  if (sdk[call]) return sdk[call](...args);
  const made = await api[call](...args, { ...options, timeoutMs });
  if (call !== "list") return made;
  const all = [];
  for await (const item of made) all.push(item);
  return all;
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { answer, id, call, args, options, ...rest } = sdk.parse(line);
  if (answer) return waiting.get(answer)(rest);
  try {
    print({ id, value: await value(call, args ?? [], options), seconds: ms / 1000 });
  } catch (e) {
    const error = e instanceof TypeError ? ["invalid"] : [e.name, e.code, e.index, e.txHash, e.stored && "stored", e.settled && "settled"];
    print({ id, error: error.filter((word) => word || word === 0).join(" "), message: e.message, seconds: ms / 1000 });
  }
});

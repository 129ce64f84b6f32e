import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Webhook as Verifier } from "standardwebhooks";

import { Endpoints, type Filters } from "./api.gen.js";
import { amountOf, parse, write, type AmountLike } from "./json.js";
import type { components, CreateProposalRequest, Event, Payment, Proposal } from "./types.gen.js";

type Batch = components["schemas"]["Batch"];
type Post = () => Promise<Payment>;
type Entry = { to: string; amount: AmountLike; reference?: string };

/** A whole HTTP answer of any status. */
export interface Answer {
  status: number;
  retryAfter: string | null;
  text: string;
  /** The header Date. */
  date?: string | null;
}

/** Carries one request, and throws without a whole answer. It must not repeat a request, or follow redirects. */
export type Send = (method: string, url: string, headers: Record<string, string>, body: string | undefined, timeoutMs: number) => Promise<Answer>;

export interface Deadline {
  /** How long the call may take, in milliseconds: two minutes if absent. */
  timeoutMs?: number;
}

export interface ClientOptions extends Deadline {
  /** Where the API is. */
  url: string;
  /** API key. Absent, none is sent. */
  key?: string;
  send?: Send;
  /** Milliseconds of a clock that never goes back. */
  now?: () => number;
  sleep?: (ms: number) => Promise<void>;
}

export interface Details extends Deadline {
  /** Makes a call that is refused go on until the refusal is settled, some 75 seconds, if its deadline allows. */
  settle?: boolean;
  reference?: string;
  metadata?: Record<string, string>;
  /** One of assets(); absent: the default. */
  asset?: string;
  /** The txHash of a Refused similar_payment, to pay again. */
  differentFrom?: string;
}

/** The API refused the request, which started nothing. After proposal_open, the open proposal may still pay. */
export class Refused extends Error {
  override name = "Refused";
  /** No earlier request can pay either: only then pay by another way. Without settle, it only covers this client's. */
  settled = false;
  constructor(
    readonly status: number,
    /** Stable; of a 422, the type of its first problem; "" of a 401. */
    readonly code: string,
    /** For people. */
    readonly detail: string,
    /** Of the refused entry of a batch, if one is named. */
    readonly index: number | undefined,
    /** Of a similar_payment: differentFrom pays again. */
    readonly txHash?: string,
  ) {
    super(`refused with ${`${status} ${code}`.trim()}: ${detail}`);
  }
}

/** The intent belongs to another payment, which may be made, or to a proposal that has ended. The call pays nothing. */
export class IntentReused extends Error {
  override name = "IntentReused";
  constructor(
    readonly intent: string,
    /** Of one payment after pay. */
    readonly asked: Batch,
    /** The other payment; absent for an ended proposal, before it is signed, or if no look-up found it. */
    readonly stored?: Payment,
  ) {
    super(`the intent ${JSON.stringify(intent)} has another payment or ended proposal: ${write({ asked, stored })}`);
  }
}

/** No answer settled the call: it may be carried out, even later. Repeat a payment with the same intent only. */
export class OutcomeUnknown extends Error {
  override name = "OutcomeUnknown";
  constructor(readonly last: Answer | undefined, cause: unknown = "the deadline passed", pays = true) {
    const text = pays ? "unknown outcome: repeat a payment with the same intent" : "no final answer";
    super(`${text} (${last ? `${last.status} ${last.text.slice(0, 300)}` : cause})`, { cause });
  }
}

// Longer than the API works on a request: then one without an answer commits nothing more.
const lifetime = 35_000;

// A POST of a payment carries a Remit-Not-After so many seconds ahead. It begins nothing once an answer's Date is later
// than that and the grace.
const [ahead, grace] = [30, 40];

/**
 * Returns the Idempotency-Key of an intent. One that is empty, not well-formed Unicode in NFC, or has blanks around it
 * throws a TypeError: two intents that look the same are two payments.
 */
export function key(intent: string): string {
  const unusable = /^$|\p{Surrogate}|^\p{White_Space}|\p{White_Space}$/u;
  if (typeof intent !== "string" || unusable.test(intent) || intent.normalize("NFC") !== intent) {
    throw new TypeError("no intent: name what is paid, such as an order, in well-formed NFC without blanks around");
  }
  return "sdk1-" + createHash("sha256").update(`remit intent\0${intent}`, "utf8").digest("hex");
}

async function overFetch(method: string, url: string, headers: Record<string, string>, body: string | undefined, timeoutMs: number) {
  const r = await fetch(url, { method, headers, body, redirect: "manual", signal: AbortSignal.timeout(Math.ceil(timeoutMs)) });
  const [retryAfter = null, date] = ["retry-after", "date"].map((name) => r.headers.get(name));
  return { status: r.status, retryAfter, text: await r.text(), date };
}

/** Returns the Date of an answer in seconds, 0 if it has none. */
const dated = (answer?: Answer) => Date.parse(answer?.date ?? "") / 1000 || 0;

// What a request can have as its URL and its key.
const urls = /^(https:\/\/([\w.-]+|\[[\da-fA-F:.]+\])|http:\/\/(localhost|127(\.\d{1,3}){3}|\[::1\]))(:[1-6]?\d{1,4})?(\/[\w.~%/-]*)?$/;
const keys = /^[!-~]*$/;

// last is when the last one without an answer ended, paid also true after Memory forgot, until the newest deadline.
const none = { open: 0, last: -Infinity, paid: false, until: 0 };

/** The attempts to pay that may still be carried out, or were, by Idempotency-Key. */
class Memory {
  readonly keys = new Map<string, typeof none>();
  private rest = -Infinity; // when the last one of all keys ended that were too many to keep
  private forgot = false;
  private skew: number; // from now to the API's time

  constructor(private readonly now: () => number) {
    this.skew = Date.now() - now();
  }

  /** Returns the API's time in seconds, after it was corrected by an answer. */
  time(answer?: Answer): number {
    if (dated(answer)) this.skew = dated(answer) * 1000 - this.now();
    return (this.now() + this.skew) / 1000;
  }

  /** Counts an attempt that begins (1) or ends (-1), and returns all: the last one ended now if one is open. */
  note(key: string, step = 0, ended?: number, until = 0): typeof none {
    if (this.keys.size > 10_000) {
      this.forgot = true;
      for (const [name, a] of this.keys) if (a.open === 0 && a.last === -Infinity) this.keys.delete(name);
      if (this.keys.size > 5_000) {
        this.keys.clear();
        this.rest = this.now() + lifetime;
      }
    }
    const was = this.keys.get(key) ?? none;
    const a = { ...was, open: Math.max(0, was.open + step), until: Math.max(was.until, until) };
    if (ended !== undefined) [a.last, a.paid] = [ended, ended === -Infinity];
    if (a.open > 0 || a.paid || a.last > -Infinity) this.keys.set(key, a);
    else this.keys.delete(key);
    const rest = this.now() - this.rest < lifetime ? this.rest : -Infinity;
    return { ...a, last: a.open > 0 ? this.now() : Math.max(a.last, rest), paid: a.paid || this.forgot };
  }
}

type Over = Required<ClientOptions> & { memory: Memory };

/** One call of the API until its deadline, in as many attempts as it takes. */
class Call {
  private readonly end: number;
  private pays: boolean;
  private past = false; // POSTs carry a time that has passed
  private until = 0; // the latest Remit-Not-After that was sent
  tries = 0;
  cause: unknown;
  last?: Answer;

  constructor(private readonly over: Over, timeoutMs = over.timeoutMs, private key = "") {
    if (Number.isNaN(timeoutMs)) throw new TypeError("timeoutMs is not a number");
    this.end = over.now() + timeoutMs;
    this.pays = key !== "";
  }

  /** Makes one attempt, keeps its answer, and returns the JSON in it. */
  private async attempt(method: string, path: string, body: string | undefined, until: number): Promise<any> {
    const headers: Record<string, string> = {};
    if (this.over.key) headers["x-api-key"] = this.over.key;
    if (body !== undefined) headers["content-type"] = "application/json";
    if (this.key) Object.assign(headers, { "idempotency-key": this.key, "remit-not-after": String(until) });
    this.last = this.cause = undefined;
    try {
      const left = this.end - this.over.now();
      if (left <= 0) throw new Error("the deadline passed");
      this.last = await this.over.send(method, this.over.url + path, headers, body, Math.min(lifetime, left));
      this.over.memory.time(this.last);
      return parse(this.last.text);
    } catch (cause) {
      this.cause = cause;
      return undefined;
    }
  }

  /** Returns the last answer as a refusal, undefined if it leaves open what became of the request. */
  private refusal(json: any): Refused | undefined {
    const status = this.last?.status ?? 0;
    if (status < 400 || status > 499 || status === 408 || status === 429 || json?.detail == null) return undefined;
    if (status === 409 && (json.code === "idempotency_in_progress" || (this.pays && json.code !== "proposal_open"))) return undefined;
    const item = Array.isArray(json.detail) ? json.detail[0] : undefined;
    const place = typeof item?.loc?.[2] === "number" ? item.loc[2] : undefined; // body.payments.PLACE
    const detail = item ? JSON.stringify(json.detail) : String(json.detail);
    return new Refused(status, item?.type ?? json.code ?? "", detail, json.index ?? place, json.tx_hash);
  }

  /** Waits before the next attempt: for ms, as Retry-After asks, with backoff. False at once if there is no time. */
  async pause(ms: number): Promise<boolean> {
    const backoff = 1000 * 2 ** Math.min(this.tries++, 3);
    const after = /^[0-9]+$/.test(this.last?.retryAfter ?? "") ? Math.min(Number(this.last?.retryAfter), 1e6) : 0;
    const wait = Math.max(ms, (backoff * (1 + Math.random())) / 2, after * 1000);
    if (this.over.now() + wait >= this.end) return false;
    await this.over.sleep(wait);
    return true;
  }

  /** Repeats payments and reads until an answer settles them, others only after an answer that nothing was started. */
  async ask(wanted: string, method: string, path: string, body?: string): Promise<any> {
    for (;;) {
      const until = this.past ? 1 : Math.floor(this.over.memory.time()) + ahead;
      this.until = Math.max(this.until, until);
      this.over.memory.note(this.key, 1, undefined, until);
      const json = await this.attempt(method, path, body, until);
      const status = this.last?.status ?? 0;
      const has = wanted === "data" ? Array.isArray(json?.data) : wanted === "" || typeof json?.[wanted] === "string";
      const whole = status >= 200 && status < 300 && json != null && has;
      const nothing = status === 429 || (status === 503 && json?.code === "payment_rail_unavailable");
      const refusal = this.refusal(json);
      const lost = !whole && !nothing && !refusal;
      const { last } = this.over.memory.note(this.key, -1, whole ? -Infinity : lost ? this.over.now() : undefined);
      if (whole) return json;
      const late = refusal && this.key && !this.past && /^(request_expired|not_after_invalid)$/.test(refusal.code);
      const stored = path === "/proposals" && last > -Infinity && refusal?.code !== "idempotency_key_reused"; // perhaps, by a lost one
      const doubt = stored && ([401, 403, 413].includes(status) || this.over.now() - last < lifetime);
      if (refusal && !late && !doubt) throw refusal;
      if ((lost && !this.pays && (method !== "GET" || status === 409)) || !(await this.pause(0))) throw new OutcomeUnknown(this.last, this.cause, this.pays);
    }
  }

  /**
   * Repeats a refused payment with a time that has passed, and returns it if it is paid, else a refusal: a settled one
   * once such a request expired that began after a Date later than each Remit-Not-After of the intent and the grace.
   */
  private async prove(refusal: Refused, post: Post): Promise<Payment | Refused> {
    const memory = this.over.memory;
    this.past = true;
    for (let seen = 0; ; seen = dated(this.last)) {
      this.tries = 0;
      this.until = Math.max(this.until, memory.note(this.key).until);
      if (!(await this.pause((this.until + grace + 1 - memory.time()) * 1000))) return refusal;
      try {
        return await post();
      } catch (newer) {
        if (!(newer instanceof Refused)) throw newer;
        if (newer.code !== "request_expired") return newer;
      }
      const { open, until } = memory.note(this.key);
      if (open === 0 && seen > Math.max(this.until, until) + grace) {
        memory.keys.delete(this.key);
        refusal.settled = true;
        return refusal;
      }
    }
  }

  /** Finds out what a refusal means: without settle, by a look-up 35 s after the end of the last unanswered attempt. */
  async settle(refusal: Refused, intent: string, asked: Batch, post: Post, settle = false): Promise<Payment> {
    if (settle && !["idempotency_key_reused", "proposal_open"].includes(refusal.code)) {
      const made = await this.prove(refusal, post);
      if (!(made instanceof Refused)) return made;
      if (made.settled) throw made;
      refusal = made;
    }
    const reused = refusal.code === "idempotency_key_reused";
    const [idempotencyKey, memory] = [this.key, this.over.memory];
    this.key = "";
    const { last, paid } = memory.note(idempotencyKey);
    this.pays = last > -Infinity && refusal.code !== "proposal_open";
    if (!this.pays && !reused) {
      refusal.settled = !settle && !paid && ![401, 403, 409, 413].includes(refusal.status); // judged first, or open
      throw refusal;
    }
    for (let wait; (wait = memory.note(idempotencyKey).last + lifetime - this.over.now()) > 0.001; ) {
      if (!(await this.pause(wait))) throw new OutcomeUnknown(this.last, this.cause);
    }
    const found = await this.ask("data", "GET", "/transactions?idempotency_key=" + idempotencyKey).catch(() => {
      throw this.pays ? new OutcomeUnknown(this.last, this.cause) : new IntentReused(intent, asked);
    });
    const stored: Payment | undefined = found.data[0];
    if (stored) memory.keys.set(idempotencyKey, { ...(memory.keys.get(idempotencyKey) ?? none), paid: true });
    if (stored && same(asked, stored)) {
      if (asked.asset) return stored;
      this.key = idempotencyKey; // of the default asset? The API knows
      this.pays = true;
      const made = await post().catch((error) => error);
      if (!(made instanceof Error)) return made;
      if (!(made instanceof Refused)) throw made;
      if (made.code !== "idempotency_key_reused") throw new OutcomeUnknown(this.last, this.cause);
    }
    throw stored || reused ? new IntentReused(intent, asked, stored) : refusal;
  }
}

/** Throws a TypeError for a field that the API would ignore, such as a mistyped one, or for an empty asset. */
function known(given: object, fields: string): void {
  for (const [name, value] of Object.entries(given)) {
    if (!fields.split(" ").includes(name)) throw new TypeError(`there is no field ${name}: use some of ${fields}`);
    if (name === "asset" && value === "") throw new TypeError("the asset is empty: name one of assets(), or undefined");
  }
}

/** Reports whether a stored payment is what was asked for. */
function same(asked: Batch, p: Payment): boolean {
  const have = p.payments ?? [{ to: p.to ?? "", amount: p.amount, reference: p.reference }];
  const pairs = (m?: Record<string, string>) => JSON.stringify(Object.entries(m ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
  if (asked.asset && asked.asset.toLowerCase() !== String(p.asset).toLowerCase()) return false;
  return (asked.reference ?? null) === p.reference && pairs(asked.metadata) === pairs(p.metadata) && have.length === asked.payments.length &&
    asked.payments.every((a, i) => {
      const b = have[i]!;
      return String(a.to).toLowerCase() === b.to.toLowerCase() && BigInt(a.amount) === b.amount && (a.reference ?? null) === b.reference;
    });
}

/** One merchant, or a caller without a key. */
export class Client extends Endpoints {
  private readonly over: Over;

  constructor({ url, key = "", timeoutMs = 120_000, send = overFetch, now = () => performance.now(), sleep = delay }: ClientOptions) {
    super();
    if (!urls.test(url ?? "")) throw new TypeError("the URL is unusable: give https://, or http:// to this machine, and a host");
    if (!keys.test(key)) throw new TypeError("the API key has a blank or a letter that no key has: give it as shown");
    this.over = { url: url.replace(/\/$/, ""), key, timeoutMs, send, now, sleep, memory: new Memory(now) };
  }

  /**
   * Pays once for an intent (what is paid, such as an order), however often it is called, and returns the committed
   * payment. Throws Refused (it started nothing), IntentReused, or OutcomeUnknown: then repeat the call.
   */
  async pay(intent: string, to: string, amount: AmountLike, details: Details = {}): Promise<Payment> {
    return this.paid(intent, false, [{ to, amount, reference: details.reference }], details);
  }

  /** Is pay for a batch: all its payments are made, or none. */
  async payMany(intent: string, payments: Entry[], details: Omit<Details, "differentFrom"> = {}): Promise<Payment> {
    return this.paid(intent, true, payments, details);
  }

  private async paid(intent: string, many: boolean, payments: Entry[], details: Details): Promise<Payment> {
    known(details, "reference metadata asset timeoutMs settle" + (many ? "" : " differentFrom"));
    for (const entry of payments) known(entry, "to amount reference");
    const { reference, metadata, asset, timeoutMs, settle, differentFrom } = details;
    const items = payments.map((p) => ({ to: p.to, amount: amountOf(p.amount), reference: p.reference || undefined }));
    const batch = { payments: items, reference: reference || undefined, metadata, asset };
    const call = new Call(this.over, timeoutMs, key(intent));
    const asked: Batch = parse(write(batch)); // as the API reads it; the caller may change it meanwhile
    const text = write(many ? batch : { ...items[0], metadata, asset, different_from: differentFrom || undefined });
    const post: Post = () => call.ask("tx_hash", "POST", many ? "/send-payments" : "/send-payment", text);
    try {
      return await post();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return call.settle(error, intent, asked, post, settle);
    }
  }

  /**
   * Proposes the payment of an intent, for another key to approve or for a later time. It is repeated as pay is, with
   * which it shares its intents: one of them pays. Throws Refused or OutcomeUnknown.
   */
  async propose(intent: string, asked: CreateProposalRequest, { timeoutMs }: Deadline = {}): Promise<Proposal> {
    const entry = "to wallet_address amount reference";
    known(asked, `${entry} payments asset metadata not_before expires_in_seconds approval different_from`);
    for (const given of asked.payments ?? []) known(given, entry);
    for (const { amount } of [asked, ...(asked.payments ?? [])]) if (amount != null) amountOf(amount);
    return new Call(this.over, timeoutMs, key(intent)).ask("id", "POST", "/proposals", write(asked));
  }

  /** Returns a payment once it is confirmed or failed. Throws OutcomeUnknown if it is pending at the deadline. */
  async wait(payment: Payment | string, deadline: Deadline = {}): Promise<Payment> {
    const hash = typeof payment === "string" ? payment : payment.tx_hash;
    for (const call = new Call(this.over, deadline.timeoutMs); ; ) {
      const p: Payment = await call.ask("tx_hash", "GET", "/transaction/" + encodeURIComponent(hash));
      if (p.status !== "pending") return p;
      call.tries = 0;
      if (!(await call.pause(1000))) throw new OutcomeUnknown(call.last, call.cause, false);
    }
  }

  protected override request(wanted: string, method: string, path: string, body?: unknown): Promise<any> {
    return new Call(this.over).ask(wanted, method, path, body === undefined ? undefined : write(body));
  }

  protected override async *pages(path: string, filters: Filters): AsyncGenerator<any, void, undefined> {
    const given = Object.entries(filters).filter(([, value]) => value != null).map(([k, v]) => [k, String(v)]);
    for (let query: Record<string, string> | undefined = Object.fromEntries(given); query; ) {
      const page: any = await this.request("data", "GET", `${path}?${new URLSearchParams(query)}`);
      yield* page.data;
      query = page.next_cursor ? { cursor: page.next_cursor } : undefined;
    }
  }
}

/** Returns the event of a raw body that was signed with the secret in the last five minutes. Throws for any other. */
export function verifyWebhook(secret: string, body: string | Uint8Array, headers: Headers | Record<string, string | string[] | undefined>): Event {
  const text = typeof body === "string" ? body : new TextDecoder("utf8", { fatal: true, ignoreBOM: true }).decode(body);
  new Verifier(secret).verify(text, (headers instanceof Headers ? Object.fromEntries(headers) : headers) as Record<string, string>);
  return parse(text);
}

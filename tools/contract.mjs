// Compiles a Solidity source with a given soljson.js, which is the Solidity compiler
// as one file, and prints the artifact of the contract that the source is named after:
//   node contract.mjs path/to/soljson.js path/to/Name.sol > path/to/Name.json
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, resolve } from "node:path";

const soljson = createRequire(import.meta.url)(resolve(process.argv[2]));
const compile = soljson.cwrap("solidity_compile", "string", ["string", "number", "number"]);
const compilerVersion = soljson.cwrap("solidity_version", "string", []);

const file = basename(process.argv[3]);
const content = readFileSync(process.argv[3], "utf8");
const settings = {
  evmVersion: "shanghai", // the newest that every node of tools/nodes runs
  optimizer: { enabled: true, runs: 10000 },
  // No metadata at the end of the code: equal code gives equal bytes, whatever the comments say.
  metadata: { bytecodeHash: "none", appendCBOR: false },
  outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
};
const input = { language: "Solidity", sources: { [file]: { content } }, settings };
const output = JSON.parse(compile(JSON.stringify(input), 0, 0));

for (const problem of output.errors ?? []) console.error(problem.formattedMessage);
if (output.errors?.length) process.exit(1);

const { abi, evm } = output.contracts[file][basename(file, ".sol")];
delete settings.outputSelection;
const code = { bytecode: "0x" + evm.bytecode.object, deployedBytecode: "0x" + evm.deployedBytecode.object };
console.log(JSON.stringify({ compiler: compilerVersion(), settings, abi, ...code }, null, 1));

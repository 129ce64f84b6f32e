export default {
  input: "../openapi.json",
  output: { path: "client", module: { extension: ".js" } }, // Node wants to be told the extension
  plugins: ["@hey-api/client-fetch", "@hey-api/sdk", "@hey-api/typescript"],
};

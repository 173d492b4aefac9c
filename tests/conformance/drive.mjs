// Call tools with an official TypeScript SDK: drive.mjs MODULES 1|2 ERA CALLS.json PROGRAM [ARGUMENT...]
// CALLS: [[tool, arguments], ...]. Prints {version, tools, results} as one line of JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, line, era, calls, command, ...args] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(createRequire(`${modules}/`).resolve(name)));
const names = {
  1: ["@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/stdio.js"],
  2: ["@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio"],
}[line];
const [{ Client }, { StdioClientTransport }] = await Promise.all(names.map(load));

const options = line === "2" ? { versionNegotiation: { mode: era } } : {};
const client = new Client({ name: "drive", version: "1" }, options);
await client.connect(new StdioClientTransport({ command, args, stderr: "ignore", env: process.env }));
const version = client.getServerVersion(); // 2.x forgets it when it closes
const { tools } = await client.listTools();
const results = [];
for (const [name, given] of JSON.parse(readFileSync(calls))) {
  try {
    results.push(await client.callTool({ name, arguments: given }));
  } catch (error) {
    results.push({ thrown: String(error) });
  }
}
await client.close();
console.log(JSON.stringify({ version, tools: tools.map((tool) => tool.name), results }));

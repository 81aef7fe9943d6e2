// A server that keeps state in its process, as a browser or a thinking server does: notes, and who it acts for.
import { createInterface } from "node:readline";

const text = { type: "object", properties: { text: { type: "string" } } };
const tools = ["remember", "recall", "who", "wait", "shout"].map((name) => ({
  name,
  description: name,
  inputSchema: text,
}));
const notes = [];
const said = (words) => ({ content: [{ type: "text", text: words }] });

async function call({ name, arguments: { text = "" } = {} }) {
  if (name === "remember") notes.push(text);
  if (text === "die") process.exit(1);
  if (name === "who") return said(`${process.env.WHO ?? "nobody"} in ${process.env.PLACE ?? "no place"}`);
  if (name === "wait") await new Promise((resolve) => setTimeout(resolve, Number(text)));
  if (name === "shout") console.error(`stderr of ${text}`);
  return said(notes.join(","));
}

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, resources: {} },
    serverInfo: { name: "notes", version: "1.0.0" },
  }),
  "tools/list": () => ({ tools }),
  "resources/list": () => ({ resources: [{ uri: "notes://all", name: "all" }] }),
  "resources/templates/list": () => ({ resourceTemplates: [] }),
  "resources/read": ({ uri }) => ({ contents: [{ uri, text: notes.join(",") }] }),
  "tools/call": call,
  ping: () => ({}),
};

for await (const line of createInterface(process.stdin)) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const answer = (outcome) => console.log(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
  if (!Object.hasOwn(methods, method)) answer({ error: { code: -32601, message: "Method not found" } });
  else void Promise.resolve(methods[method](params)).then((result) => answer({ result }));
}

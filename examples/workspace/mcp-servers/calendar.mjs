// A whole MCP server without any package: JSON-RPC, one message a line.
import { createInterface } from "node:readline";

const tools = [
  {
    name: "weekday",
    title: "Day of the week",
    description: "Says on which day of the week a date falls.",
    inputSchema: {
      type: "object",
      properties: { date: { type: "string", format: "date", description: "Such as 2026-07-28." } },
      required: ["date"],
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: "days_between",
    title: "Days between",
    description: "Counts the days from one date to another.",
    inputSchema: {
      type: "object",
      properties: {
        from: { type: "string", format: "date", description: "The earlier date, such as 2026-01-31." },
        to: {
          type: "string",
          format: "date",
          description: "The later date; one before it counts backwards.",
        },
      },
      required: ["from", "to"],
    },
    outputSchema: { type: "object", properties: { days: { type: "integer" } }, required: ["days"] },
    annotations: { readOnlyHint: true },
  },
];

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

function call({ name, arguments: { date, from, to } = {} }) {
  if (name === "weekday") return { content: [{ type: "text", text: days[new Date(date).getUTCDay()] }] };
  const between = Math.round((Date.parse(to) - Date.parse(from)) / 86_400_000);
  return { content: [{ type: "text", text: `${between} days` }], structuredContent: { days: between } };
}

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "calendar", version: "1.0.0" },
  }),
  "tools/list": () => ({ tools }),
  "tools/call": call,
  ping: () => ({}),
};

for await (const line of createInterface(process.stdin)) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const answer = Object.hasOwn(methods, method)
    ? { result: methods[method](params) }
    : { error: { code: -32601, message: "Method not found" } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
}

import type { JsonSchemaObject } from "@toolrack/core";

const text: JsonSchemaObject = { type: "string" };
const names: JsonSchemaObject = { type: "array", items: text };
const amount: JsonSchemaObject = { type: "number", minimum: 0 };
const whole: JsonSchemaObject = { type: "integer", minimum: 0 };
const moment: JsonSchemaObject = { type: "number", description: "Milliseconds since the epoch." };

const token = {
  id: text,
  name: text,
  scopes: {
    type: "object",
    description: "What it may do; nothing else. `*` in a name stands for anything.",
    properties: {
      tools: names,
      experts: names,
      approve: names,
      admin: { type: "boolean" },
      chat: { type: "boolean" },
    },
  },
  createdAt: moment,
  lastUsedAt: { ...moment, description: "To the minute. Absent while it was never used." },
  expiresAt: moment,
};
const tokenRequired = ["id", "name", "scopes", "createdAt"];

const totals = {
  calls: { ...whole, description: "Those that have ended." },
  errors: { ...whole, description: "Those of them that did not complete." },
  p50: { ...amount, description: "Milliseconds that half of them took at the most." },
  p95: { ...amount, description: "Milliseconds that nineteen of twenty took at the most." },
};
const totalsRequired = ["calls", "errors"];

/** The named schemas of what the server says of itself, and of who may use it. */
export const serverSchemas = {
  Server: {
    type: "object",
    properties: {
      version: text,
      workspace: { ...text, description: "The directory that is served." },
      program: {
        ...names,
        description:
          "The words that start the program again, from any folder. Absent where the server is a part of another program.",
      },
      startedAt: moment,
      limits: {
        type: "object",
        properties: {
          maxBody: { ...whole, description: "The largest body of a request, in bytes." },
          maxCallsPerTool: { ...whole, description: "Calls of one tool that may be under way." },
          timeout: {
            ...amount,
            description: "Milliseconds that a tool may run unless it says otherwise; 0 for any time.",
          },
          requestsPerSecond: { ...amount, description: "For each token; 0 for any number." },
        },
        required: ["maxBody", "maxCallsPerTool", "timeout", "requestsPerSecond"],
      },
      retention: {
        type: "object",
        description: "What is kept of calls that have ended.",
        properties: { days: amount, maxBytes: amount },
        required: ["days", "maxBytes"],
      },
    },
    required: ["version", "workspace", "startedAt", "limits", "retention"],
  },
  Reload: {
    type: "object",
    description: "One load of the tool files.",
    properties: {
      at: moment,
      added: { ...names, description: "Names of tools, like those of `changed` and `removed`." },
      changed: names,
      removed: names,
      failed: { ...names, description: "Files that could not be loaded." },
      duration: amount,
    },
    required: ["at", "added", "changed", "removed", "failed", "duration"],
  },
  Token: { type: "object", properties: token, required: tokenRequired },
  NewToken: {
    type: "object",
    properties: { ...token, token: { ...text, description: "Its text, shown only here." } },
    required: [...tokenRequired, "token"],
  },
  Secret: {
    type: "object",
    properties: { name: text, createdAt: moment, updatedAt: moment },
    required: ["name", "createdAt", "updatedAt"],
    additionalProperties: false,
  },
  Client: {
    type: "object",
    description: "A program that has spoken to the rack over MCP.",
    properties: {
      name: text,
      version: text,
      transport: { enum: ["http"] },
      era: { enum: ["legacy", "modern"], description: "`modern`: version 2026-07-28 of the protocol." },
      caller: { ...text, description: "Which token it bears, as records name it." },
      expert: { ...text, description: "The expert that it uses instead of the whole rack." },
      lastSeenAt: moment,
      stale: {
        type: "boolean",
        description: "It listed the tools before they changed last, and has not since.",
      },
    },
    required: ["name", "transport", "era", "caller", "lastSeenAt"],
  },
  Statistics: {
    type: "object",
    properties: {
      since: moment,
      until: moment,
      ...totals,
      interval: { ...whole, description: "Milliseconds of one slice of time." },
      buckets: {
        type: "array",
        description: "The slices, oldest first. Those without a call are left out.",
        items: { type: "object", properties: { at: moment, ...totals }, required: ["at", ...totalsRequired] },
      },
      tools: {
        type: "array",
        description: "The tools with the most calls first, at most 500.",
        items: {
          type: "object",
          properties: { toolName: text, ...totals },
          required: ["toolName", ...totalsRequired],
        },
      },
    },
    required: ["since", "until", ...totalsRequired, "interval", "buckets", "tools"],
  },
} as const satisfies Readonly<Record<string, JsonSchemaObject>>;

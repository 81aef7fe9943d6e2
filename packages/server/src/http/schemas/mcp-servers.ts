import type { JsonSchemaObject } from "@toolrack/core";

const text: JsonSchemaObject = { type: "string" };
const whole: JsonSchemaObject = { type: "integer", minimum: 0 };
const moment: JsonSchemaObject = { type: "number", description: "Milliseconds since the epoch." };

/** An upstream MCP server. */
export const mcpServerSchema = {
  type: "object",
  properties: {
    key: text,
    place: {
      enum: ["file", "store"],
      description: "`file`: it stands in the workspace's file and is changed there.",
    },
    enabled: { type: "boolean" },
    problem: {
      ...text,
      description:
        "What is wrong with its entry as it is written now, while it goes on as the entry last said; otherwise, which of its lists were not read to their ends, and why.",
    },
    problemOf: { enum: ["entry", "lists"], description: "What the problem is with." },
    entry: {
      type: "object",
      description: "As it stands in `mcpServers`; values that may be secret are hidden.",
    },
    state: { enum: ["starting", "ready", "needs-auth", "backoff", "failed", "disabled"] },
    reason: { ...text, description: "Why it is not ready." },
    lastWord: { ...text, description: "The last line that its process wrote, while it cannot be used." },
    since: moment,
    resting: {
      type: "boolean",
      description: "Nobody called it for a while, so its process was ended; the next call starts it.",
    },
    circuit: {
      enum: ["closed", "open", "half-open"],
      description: "`open`: calls fail at once. `half-open`: it is being tried again.",
    },
    failures: { ...whole, description: "How often it failed in a row." },
    nextAttemptAt: moment,
    transport: { enum: ["stdio", "http", "sse"] },
    era: { enum: ["modern", "legacy"], description: "`modern`: the stateless protocol of 2026-07-28." },
    protocolVersion: text,
    serverInfo: { type: "object", properties: { name: text, version: text } },
    pid: whole,
    inFlight: { ...whole, description: "Calls that it works on." },
    waiting: { ...whole, description: "Calls that wait for their turn." },
    noise: { ...whole, description: "Lines on its standard output that were no messages." },
    tools: whole,
    leftOut: {
      ...whole,
      description: "Tools that its entry lets in and that cannot be used; `refused` says why.",
    },
    quarantined: { ...whole, description: "Tools that changed since they were approved." },
    prompts: whole,
    resources: whole,
    refused: {
      type: "array",
      description: "Tools, prompts, resources and templates that it lists and that cannot be used.",
      items: { type: "object", properties: { name: text, reason: text }, required: ["name", "reason"] },
    },
    signIn: {
      type: "object",
      description: "Only of a server at an address that is sent no `Authorization` header of its entry.",
      properties: {
        signedIn: { type: "boolean" },
        pending: { type: "boolean", description: "Somebody was sent to sign in and has not come back." },
        problem: { ...text, description: "Why the last attempt came to nothing." },
      },
      required: ["signedIn", "pending"],
    },
  },
  required: [
    "key",
    "place",
    "enabled",
    "entry",
    "state",
    "since",
    "circuit",
    "transport",
    "tools",
    "quarantined",
  ],
} as const satisfies JsonSchemaObject;

/** A tool of an upstream MCP server. */
export const mcpServerToolSchema = {
  type: "object",
  properties: {
    name: { ...text, description: "As the server names it." },
    rackName: { ...text, description: "As the rack names it." },
    description: text,
    hash: {
      ...text,
      description: "Of its definition as it is now. Sent back with an approval, it says what was looked at.",
    },
    offered: { type: "boolean", description: "Whether the entry lets it in, and it can be used." },
    pin: { enum: ["approved", "quarantined", "unpinned"] },
    unchecked: {
      type: "array",
      description: "Parts of the schemas of an offered tool that are not checked here, and why.",
      items: { type: "object", properties: { part: text, reason: text }, required: ["part", "reason"] },
    },
    changes: {
      type: "array",
      description: "What changed since it was approved.",
      items: { type: "object", properties: { path: text, before: {}, after: {} }, required: ["path"] },
    },
    approvedAt: moment,
    approvedBy: { ...text, description: "`first use` when nobody was asked." },
    override: { type: "object", properties: { rename: text, describe: text } },
  },
  required: ["name", "rackName", "hash", "offered", "pin", "changes", "override"],
} as const satisfies JsonSchemaObject;

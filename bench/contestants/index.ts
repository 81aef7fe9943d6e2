import type { Contestant } from "./contestant.ts";

interface Entry {
  readonly title: string;
  /** Imported only in the process that measures it. */
  load(): Promise<Contestant>;
}

export const contestants = {
  bare: { title: "bare async function", load: async () => (await import("./bare.ts")).bare },
  zod: { title: "zod + function", load: async () => (await import("./zod.ts")).zod },
  ajv: { title: "ajv + function", load: async () => (await import("./ajv.ts")).ajv },
  map: { title: "plain Map", load: async () => (await import("./map.ts")).map },
  "ours-json-schema": {
    title: "ours (json schema)",
    load: async () => (await import("./ours.ts")).oursJsonSchema,
  },
  "ours-zod": { title: "ours (zod)", load: async () => (await import("./ours.ts")).oursZod },
  "ours-session": {
    title: "ours + session + loop guard",
    load: async () => (await import("./ours.ts")).oursSession,
  },
  // The suite of records measures this one by itself.
  "ours-record": { title: "ours + record", load: async (): Promise<Contestant> => ({}) },
  // The suite of tool files measures these two by itself; they set nothing up.
  "node-import": { title: "plain import()", load: async (): Promise<Contestant> => ({}) },
  "ours-files": { title: "ours (tool files)", load: async (): Promise<Contestant> => ({}) },
  // So does the suite of HTTP with these.
  "node-http": { title: "plain node:http", load: async (): Promise<Contestant> => ({}) },
  "ours-http": { title: "ours (toolrack serve)", load: async (): Promise<Contestant> => ({}) },
  // And the suite of nodes with this one and the one before.
  "ours-postgres": {
    title: "ours (toolrack serve) on PostgreSQL",
    load: async (): Promise<Contestant> => ({}),
  },
  // And the suite of lanes with these.
  bullmq: { title: "BullMQ alone", load: async (): Promise<Contestant> => ({}) },
  "ours-arrival": {
    title: "ours, where it arrives, PostgreSQL",
    load: async (): Promise<Contestant> => ({}),
  },
  "ours-lane-again": {
    title: "ours, by a worker, idempotent, PostgreSQL",
    load: async (): Promise<Contestant> => ({}),
  },
  "ours-lane": { title: "ours, by a worker, PostgreSQL", load: async (): Promise<Contestant> => ({}) },
  "ours-lane-sqlite": { title: "ours, by a worker, SQLite", load: async (): Promise<Contestant> => ({}) },
  // And the suite of MCP with these.
  "node-mcp": { title: "plain node:http, or lines", load: async (): Promise<Contestant> => ({}) },
  "ours-mcp": { title: "ours (toolrack serve, mcp)", load: async (): Promise<Contestant> => ({}) },
  // And the suite of the sandbox with these.
  "node-pipe": { title: "plain node over a pipe", load: async (): Promise<Contestant> => ({}) },
  "ours-sandbox-3": { title: "ours, sandbox level 3", load: async (): Promise<Contestant> => ({}) },
  "ours-sandbox-2": { title: "ours, sandbox level 2", load: async (): Promise<Contestant> => ({}) },
  "sdk-2-mcp": { title: "mcp sdk 2", load: async (): Promise<Contestant> => ({}) },
  "sdk-1-mcp": { title: "mcp sdk 1, stateless", load: async (): Promise<Contestant> => ({}) },
  "sdk-1-session-mcp": { title: "mcp sdk 1, one session", load: async (): Promise<Contestant> => ({}) },
  "fastmcp-mcp": { title: "fastmcp, stateless", load: async (): Promise<Contestant> => ({}) },
  "mcp-framework-mcp": { title: "mcp-framework, one session", load: async (): Promise<Contestant> => ({}) },
  // And the suite of gateways with these.
  "node-direct": { title: "the server itself", load: async (): Promise<Contestant> => ({}) },
  "node-bridge": { title: "plain bridge", load: async (): Promise<Contestant> => ({}) },
  "ours-gateway": { title: "ours (toolrack serve)", load: async (): Promise<Contestant> => ({}) },
  "supergateway-gateway": { title: "supergateway, stateful", load: async (): Promise<Contestant> => ({}) },
  "mcp-proxy-gateway": { title: "mcp-proxy", load: async (): Promise<Contestant> => ({}) },
  // And the suite of chat with this.
  "ours-chat": { title: "ours (toolrack serve)", load: async (): Promise<Contestant> => ({}) },
  // And the suite of APIs with these.
  "node-fetch": { title: "fetch by hand", load: async (): Promise<Contestant> => ({}) },
  "ours-api": { title: "ours (a tool of apis.json)", load: async (): Promise<Contestant> => ({}) },
  // And the suite of saved calls with these.
  "ours-calls": { title: "the calls made directly", load: async (): Promise<Contestant> => ({}) },
  "ours-direct": { title: "direct calls", load: async (): Promise<Contestant> => ({}) },
  "ours-search": { title: "search + call", load: async (): Promise<Contestant> => ({}) },
  "ours-code": { title: "code", load: async (): Promise<Contestant> => ({}) },
  "ours-tests": { title: "ours (toolrack test)", load: async (): Promise<Contestant> => ({}) },
  // And the suite of processes at rest with these.
  "node-servers": { title: "the servers alone", load: async (): Promise<Contestant> => ({}) },
  "ours-joined": { title: "ours, 5 joined clients", load: async (): Promise<Contestant> => ({}) },
  "ours-alone": { title: "ours, 1 client by itself", load: async (): Promise<Contestant> => ({}) },
  mastra: { title: "mastra", load: async () => (await import("./mastra.ts")).mastra },
  ai: { title: "ai sdk", load: async () => (await import("./ai.ts")).ai },
  "openai-agents": {
    title: "openai agents",
    load: async () => (await import("./openai-agents.ts")).openaiAgents,
  },
  langchain: { title: "langchain", load: async () => (await import("./langchain.ts")).langchain },
  "mcp-sdk-1-server": {
    title: "mcp sdk 1, server",
    load: async () => (await import("./mcp-sdk-1.ts")).mcpSdk1Server,
  },
  "mcp-sdk-1-client": {
    title: "mcp sdk 1, client + server",
    load: async () => (await import("./mcp-sdk-1.ts")).mcpSdk1Client,
  },
  "mcp-sdk-2-server": {
    title: "mcp sdk 2, server",
    load: async () => (await import("./mcp-sdk-2.ts")).mcpSdk2Server,
  },
  "mcp-sdk-2-client": {
    title: "mcp sdk 2, client + server",
    load: async () => (await import("./mcp-sdk-2.ts")).mcpSdk2Client,
  },
} satisfies Record<string, Entry>;

export type ContestantName = keyof typeof contestants;

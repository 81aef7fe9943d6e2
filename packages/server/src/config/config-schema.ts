import type { JsonSchemaObject } from "@toolrack/core";
import { sandboxConfigSchema } from "./sandbox-config.ts";

const texts = { type: "array", items: { type: "string" } } as const;
const modelTraits = {
  toolCalls: { enum: ["native", "tags"] },
  images: { type: "boolean" },
  contextTokens: { type: "integer", minimum: 1024 },
} as const;
const anything = { type: "object", additionalProperties: true } as const;

/** What a config may say. Variables of the environment, and their documentation, are derived from it. */
export const configSchema = {
  type: "object",
  additionalProperties: false,
  properties: {
    tools: texts,
    builtins: { type: "boolean" },
    services: anything,
    models: anything,
    context: anything,
    roots: texts,
    databases: { type: "object", additionalProperties: { type: "string" } },
    network: { type: "object", additionalProperties: false, properties: { allowPrivate: texts } },
    log: {
      type: "object",
      additionalProperties: false,
      properties: {
        file: { type: "string", minLength: 1 },
        maxBytes: { type: "integer", minimum: 1024 },
        keep: { type: "integer", minimum: 0, maximum: 1000 },
      },
    },
    server: {
      type: "object",
      additionalProperties: false,
      properties: {
        host: { type: "string", minLength: 1 },
        port: { type: "integer", minimum: 0, maximum: 65_535 },
        allowedHosts: texts,
        allowedOrigins: texts,
        maxBody: { type: "integer", minimum: 1024 },
        rateLimit: { type: "number", minimum: 0 },
        maxCallsPerTool: { type: "integer", minimum: 1 },
        drainTimeout: { type: "integer", minimum: 0 },
      },
    },
    approvals: {
      type: "object",
      additionalProperties: false,
      properties: { timeout: { type: "integer", minimum: 1_000 } },
    },
    retention: {
      type: "object",
      additionalProperties: false,
      properties: {
        days: { type: "number", exclusiveMinimum: 0 },
        maxBytes: { type: "integer", minimum: 1024 },
      },
    },
    mcp: {
      type: "object",
      additionalProperties: false,
      properties: {
        file: { type: "string", minLength: 1 },
        pinning: { enum: ["quarantine", "trust", "off"] },
        metaTools: { enum: ["auto", "on", "off"] },
        threshold: { type: "integer", minimum: 0 },
        alwaysListed: texts,
        approvals: { enum: ["client", "inbox"] },
      },
    },
    skills: {
      type: "object",
      additionalProperties: false,
      properties: {
        toolNames: { enum: ["id", "readable"] },
        folders: texts,
        allowPrivateNetwork: { type: "boolean" },
      },
    },
    providers: {
      type: "object",
      additionalProperties: {
        type: "object",
        additionalProperties: false,
        properties: {
          baseURL: { type: "string", minLength: 1 },
          apiKey: { type: "string" },
          headers: { type: "object", additionalProperties: { type: "string" } },
          models: {
            type: "array",
            items: {
              anyOf: [
                { type: "string", minLength: 1 },
                {
                  type: "object",
                  additionalProperties: false,
                  properties: { id: { type: "string", minLength: 1 }, ...modelTraits },
                  required: ["id"],
                },
              ],
            },
          },
          ...modelTraits,
        },
        required: ["baseURL"],
      },
    },
    chat: {
      type: "object",
      additionalProperties: false,
      properties: {
        model: { type: "string", minLength: 1 },
        maxRounds: { type: "integer", minimum: 1 },
        maxSeconds: { type: "number", exclusiveMinimum: 0 },
        maxTokens: { type: "integer", minimum: 1 },
        maxAnswer: { type: "integer", minimum: 1000, maximum: 100_000_000 },
        contextTokens: { type: "integer", minimum: 1024 },
        toolBudget: { type: "integer", minimum: 0 },
      },
    },
    sandbox: sandboxConfigSchema,
    timeout: { type: "number", minimum: 0 },
    permissions: texts,
  },
} as const satisfies JsonSchemaObject;

import { type JsonSchemaObject, toolErrorCodes } from "@toolrack/core";
import { httpErrorCodes } from "../wire/index.ts";
import { mcpServerSchema, mcpServerToolSchema } from "./mcp-servers.ts";
import { serverSchemas } from "./server.ts";
import { skillSchemas } from "./skills.ts";

const text: JsonSchemaObject = { type: "string" };
const names: JsonSchemaObject = { type: "array", items: text };
const amount: JsonSchemaObject = { type: "number", minimum: 0 };
const whole: JsonSchemaObject = { type: "integer", minimum: 0 };
const anyObject: JsonSchemaObject = { type: "object" };
const moment: JsonSchemaObject = { type: "number", description: "Milliseconds since the epoch." };

const toolSummary = {
  name: { ...text, description: "The name by which the tool is called." },
  displayName: { ...text, description: "The name people see." },
  toolId: { ...text, description: "What it is known by for good: the id of a skill's tool, or the name." },
  skillName: { ...text, description: "The skill that it belongs to." },
  toolName: { ...text, description: "Its name within the skill." },
  title: text,
  description: text,
  status: {
    enum: ["ok", "stale", "disabled"],
    description: "`stale`: its file changed and no longer loads; the last good version serves.",
  },
  switched: {
    type: "object",
    description: "What an operator decided about it last, by whom and when.",
    properties: { enabled: { type: "boolean" }, by: text, at: moment },
    required: ["enabled", "by", "at"],
  },
  category: text,
  tags: names,
  aliases: names,
  dangerous: { type: "boolean", description: "Needs a person's consent before it runs." },
  readOnly: { type: "boolean" },
  permissions: names,
  origin: { ...text, description: "Where it came from." },
  createdAt: moment,
};
const toolRequired = ["name", "displayName", "status", "dangerous", "readOnly", "createdAt"];

const callFacts = {
  callId: text,
  parentCallId: { ...text, description: "The call that made this one." },
  replayOf: { ...text, description: "The call that this one repeats." },
  toolName: text,
  displayName: text,
  sessionID: text,
  messageID: text,
  caller: text,
  tid: text,
  depth: whole,
  timestamp: moment,
  duration: { ...amount, description: "Milliseconds from arrival to end." },
  runDuration: { ...amount, description: "The part of it that the tool itself ran." },
  parametersHash: text,
  flags: { $ref: "#/components/schemas/CallFlags" },
  error: { $ref: "#/components/schemas/ToolError" },
  resultSize: { ...whole, description: "Characters of the whole result." },
};

const approvalRule = {
  id: text,
  tool: { ...text, description: "The tool's name; `*` stands for anything." },
  decision: { enum: ["allow", "ask", "deny"] },
  input: { ...anyObject, description: "Arguments that a call must have at least." },
  exact: { type: "boolean", description: "The call has no other arguments than these." },
  sessionID: text,
  caller: { ...text, description: "Only for calls of this caller." },
  createdBy: text,
  createdAt: moment,
};

/** The named schemas of `/openapi.json`. */
export const schemas = {
  ...skillSchemas,
  Error: {
    type: "object",
    description: "Every error has this form.",
    properties: {
      error: {
        type: "object",
        properties: {
          code: { enum: Object.keys(httpErrorCodes) },
          message: { ...text, description: "What happened, and what to do next." },
          details: anyObject,
          type: { ...text, description: "Of a model provider's error: its own." },
          param: {
            ...text,
            description: "Of a model provider's error: which member of the request is wrong.",
          },
        },
        required: ["code", "message", "details"],
      },
    },
    required: ["error"],
  },
  ToolError: {
    type: "object",
    properties: {
      name: text,
      code: { enum: Object.keys(toolErrorCodes) },
      message: text,
      details: anyObject,
      recoverable: { type: "boolean" },
    },
    required: ["name", "code", "message", "recoverable"],
  },
  ToolResult: {
    type: "object",
    properties: {
      content: { ...text, description: "The text a model reads." },
      type: { enum: ["text", "json", "error"] },
      attachments: { type: "array", items: { $ref: "#/components/schemas/FilePart" } },
      structured: {
        description:
          "The machine-readable value, when there is one. One of more than 1 Mi characters is left out: `metadata.truncated` says so, and `GET /api/calls/{callId}/result` has it as JSON, behind the text.",
      },
      blocks: { type: "array", items: anyObject },
      metadata: anyObject,
      error: { $ref: "#/components/schemas/ToolError" },
    },
    required: ["content", "type"],
  },
  FilePart: {
    type: "object",
    description: "A file or medium that came with a result.",
    properties: {
      type: { const: "file" },
      mime: text,
      url: { ...text, description: "A `data:` URL or an address." },
      filename: text,
    },
    required: ["type", "mime", "url"],
  },
  CallFlags: {
    type: "object",
    description: "What was done to a call that a reader of its record should know.",
    properties: {
      repaired: { type: "boolean", description: "The arguments were not JSON and were mended." },
      dropped: { ...names, description: "Unknown arguments that were dropped." },
      edited: { type: "boolean", description: "A person changed the arguments before agreeing." },
      truncated: { type: "boolean", description: "The model was given a part of the result only." },
      outputMismatch: { ...text, description: "How the result does not fit the output schema." },
      loop: {
        ...anyObject,
        description: "What the loop guard said: `action`, `signal`, `count`, `evidence`.",
      },
      waited: { ...amount, description: "Milliseconds that it waited for a person to agree." },
    },
  },
  ToolSummary: { type: "object", properties: toolSummary, required: toolRequired },
  Tool: {
    type: "object",
    properties: {
      ...toolSummary,
      inputSchema: anyObject,
      outputSchema: anyObject,
      metadata: anyObject,
      isolation: {
        type: "object",
        description: "How a tool of the sandbox is kept from doing harm here; absent for other tools.",
        properties: {
          level: { enum: [0, 2, 3] },
          label: { enum: ["none", "reduced", "full"] },
          reason: { ...text, description: "Why the level is not 3, and what would change it." },
        },
        required: ["level", "label"],
      },
    },
    required: [...toolRequired, "metadata"],
  },
  ToolPage: {
    type: "object",
    properties: {
      items: { type: "array", items: { $ref: "#/components/schemas/ToolSummary" } },
      total: whole,
      version: { ...whole, description: "Grows with every change of the rack." },
      next: { ...text, description: "The `cursor` of the next page; absent on the last." },
    },
    required: ["items", "total", "version"],
  },
  CallAnswer: {
    type: "object",
    properties: {
      callId: text,
      toolName: text,
      status: { enum: ["completed", "error"] },
      duration: amount,
      result: { $ref: "#/components/schemas/ToolResult" },
      recorded: {
        type: "boolean",
        description: "False when the record is not safe yet: the store cannot take it now, or refused it.",
      },
      replayOf: text,
    },
    required: ["callId", "toolName", "status", "duration", "result", "recorded"],
  },
  CallSummary: {
    type: "object",
    properties: {
      ...callFacts,
      status: { enum: ["pending", "running", "completed", "error", "interrupted"] },
      parametersPreview: text,
      resultType: { enum: ["text", "json", "error"] },
      resultPreview: text,
    },
    required: ["callId", "toolName", "status"],
  },
  Call: {
    type: "object",
    description: "A call under way has no result yet.",
    properties: {
      ...callFacts,
      status: { enum: ["pending", "running", "completed", "error", "interrupted"] },
      parameters: { ...anyObject, description: "Secrets are masked." },
      result: { $ref: "#/components/schemas/ToolResult" },
      title: text,
      metadata: anyObject,
      startedAt: moment,
      log: {
        type: "array",
        description:
          "What the tool said while it ran, also while it still runs: its log, what it printed, and the messages of its progress. Secrets are masked. At most 200 lines or 32 KiB: of more, the first and the last, with a `note` between them. Absent when it said nothing.",
        items: {
          type: "object",
          properties: {
            at: moment,
            level: { enum: ["debug", "info", "warn", "error", "progress", "note"] },
            text: { ...text, description: "At most 2,000 characters." },
          },
          required: ["at", "level", "text"],
        },
      },
      stages: {
        type: "array",
        description: "What its time went into, in order, once it has ended.",
        items: {
          type: "object",
          properties: {
            name: {
              enum: ["validate", "approve", "run", "after"],
              description:
                "`approve`: a person was waited for. `validate`: everything else before the tool ran: finding it, checking the arguments, permissions and loops. `run`: the tool itself. `after`: checking, masking and cutting its result.",
            },
            duration: amount,
          },
          required: ["name", "duration"],
        },
      },
    },
    required: ["callId", "toolName", "status", "parameters"],
  },
  CallPage: {
    type: "object",
    properties: {
      items: { type: "array", items: { $ref: "#/components/schemas/CallSummary" } },
      next: { ...text, description: "The `cursor` of the next page; absent on the last." },
    },
    required: ["items"],
  },
  ResultPage: {
    type: "object",
    properties: {
      text,
      offset: whole,
      nextOffset: { ...whole, description: "Where the next page starts; absent on the last." },
      total: { ...whole, description: "Characters in all." },
    },
    required: ["text", "offset", "total"],
  },
  Approval: {
    type: "object",
    description: "A question that a call waits for, and the answer.",
    properties: {
      id: text,
      callId: text,
      parentCallId: text,
      toolName: text,
      displayName: text,
      sessionID: text,
      caller: text,
      message: { ...text, description: "The question." },
      input: { ...anyObject, description: "The arguments; secrets are masked." },
      details: anyObject,
      dangerous: { type: "boolean" },
      stage: {
        enum: ["before", "during"],
        description:
          "`before`: whether the call may run. `during`: something that the tool asks while it runs.",
      },
      state: {
        enum: ["pending", "allowed", "denied", "expired"],
        description: "`expired`: nobody answered in time, which is a denial.",
      },
      createdAt: moment,
      expiresAt: moment,
      decidedAt: moment,
      decidedBy: { ...text, description: "`toolrack` when the call was gone before anybody answered." },
      reason: text,
      arguments: { ...anyObject, description: "The arguments as whoever agreed changed them." },
      rule: {
        type: "object",
        description: "The rule that the answer became; absent when it was given for this call only.",
        properties: {
          tool: approvalRule.tool,
          input: approvalRule.input,
          exact: approvalRule.exact,
          sessionID: text,
        },
        required: ["tool"],
      },
    },
    required: ["id", "callId", "toolName", "state", "message", "input", "createdAt", "expiresAt"],
  },
  ApprovalPage: {
    type: "object",
    properties: {
      items: { type: "array", items: { $ref: "#/components/schemas/Approval" } },
      next: { ...text, description: "The `cursor` of the next page; absent on the last." },
    },
    required: ["items"],
  },
  ApprovalRule: {
    type: "object",
    properties: approvalRule,
    required: ["id", "tool", "decision", "createdBy", "createdAt"],
  },
  Schedule: {
    type: "object",
    description: "A tool that is to run later. One of `time`, `interval` and `cron` says when.",
    properties: {
      id: text,
      toolName: text,
      toolArgs: anyObject,
      state: { enum: ["active", "finished", "cancelled"] },
      time: { ...text, description: "Once." },
      interval: { ...text, description: "Again and again, such as `every@5m`." },
      cron: text,
      timeZone: text,
      nextRun: text,
      lastRun: text,
      lastCallId: { ...text, description: "The call that ran last." },
      runs: whole,
      missed: {
        enum: ["skip", "run_once"],
        description: "What becomes of times that pass while the server is down.",
      },
    },
    required: ["id", "toolName", "toolArgs", "state", "runs", "missed"],
  },
  McpServer: mcpServerSchema,
  McpServerTool: mcpServerToolSchema,
  FileReport: {
    type: "object",
    properties: {
      file: text,
      status: { enum: ["loaded", "adapted", "stale", "failed", "helper"] },
      contract: {},
      tools: names,
      warnings: names,
      failure: {
        type: "object",
        properties: {
          file: text,
          line: whole,
          reason: text,
          remedy: text,
          frame: { ...text, description: "The lines around the trouble, which is marked." },
        },
        required: ["file", "reason", "remedy"],
      },
    },
    required: ["file", "status", "tools", "warnings"],
  },
  LoadReport: {
    type: "object",
    properties: {
      files: { type: "array", items: { $ref: "#/components/schemas/FileReport" } },
      compiled: names,
      added: names,
      changed: names,
      removed: names,
      duration: amount,
    },
    required: ["files", "compiled", "added", "changed", "removed", "duration"],
  },
  ...serverSchemas,
  OpenAITool: {
    type: "object",
    properties: { type: { const: "function" }, function: anyObject },
    required: ["type", "function"],
  },
  OpenAIToolMessage: {
    type: "object",
    properties: {
      role: { const: "tool" },
      tool_call_id: text,
      name: { ...text, description: "Exactly as the model wrote it." },
      content: text,
    },
    required: ["role", "tool_call_id", "name", "content"],
  },
} as const satisfies Readonly<Record<string, JsonSchemaObject>>;

/** A schema of the document by its name. */
export function ref(name: keyof typeof schemas): JsonSchemaObject {
  return { $ref: `#/components/schemas/${name}` };
}

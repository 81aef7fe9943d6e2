import type { JsonSchemaObject } from "@toolrack/core";

const text: JsonSchemaObject = { type: "string" };
const texts: JsonSchemaObject = { type: "array", items: text };
const moment: JsonSchemaObject = {
  type: "number",
  description: "Milliseconds since the epoch; 0 for one in a folder.",
};

const skill = {
  id: text,
  name: { ...text, description: "For people; no two skills share it." },
  mark: { ...text, description: "What readable names of its tools begin with." },
  description: text,
  instructions: { ...text, description: "The Markdown of its SKILL.md." },
  frontMatter: { type: "object", description: "What else its SKILL.md says of it." },
  sourcePath: { ...text, description: "The folder of its scripts, relative to the workspace." },
  owner: {
    enum: ["folder", "database"],
    description: "`folder`: it is changed in its folder, and only read here.",
  },
  enabled: { type: "boolean" },
  trusted: {
    type: "boolean",
    description:
      "False for what was imported, or written by a tool call: its scripts have no network, its tools no secrets.",
  },
  toolCount: { type: "integer" },
  failedTools: { type: "integer", description: "How many of its tools cannot be used." },
  warnings: texts,
  createdAt: moment,
  updatedAt: moment,
};
const skillRequired = [
  "id",
  "name",
  "description",
  "owner",
  "enabled",
  "trusted",
  "toolCount",
  "failedTools",
];

const expert = {
  id: text,
  name: { ...text, description: "Stands in addresses: `/mcp/{name}`." },
  description: text,
  instructions: { ...text, description: "What a model is told that speaks as this expert." },
  skills: { ...texts, description: "Ids of skills." },
  tools: { ...texts, description: "Patterns over the names of tools; `*` stands for anything." },
  createdAt: moment,
  updatedAt: moment,
};

/** The named schemas of skills and experts in `/openapi.json`. */
export const skillSchemas = {
  SkillSummary: { type: "object", properties: skill, required: skillRequired },
  Skill: {
    type: "object",
    properties: {
      ...skill,
      tools: { type: "array", items: { $ref: "#/components/schemas/SkillTool" } },
      files: {
        type: "array",
        description: "What lies beside its SKILL.md.",
        items: {
          type: "object",
          properties: {
            path: text,
            size: { type: "integer" },
            executable: { type: "boolean" },
            text: { ...text, description: "The content, when it is text and not too long." },
          },
          required: ["path", "size", "executable"],
        },
      },
    },
    required: [...skillRequired, "tools", "files"],
  },
  SkillTool: {
    type: "object",
    properties: {
      id: { ...text, description: "The name that models are given, unless readable names are configured." },
      skillId: text,
      skillName: text,
      name: text,
      displayName: { ...text, description: "For people." },
      description: text,
      type: { enum: ["http", "script", "builtin"] },
      usage: { description: "What it takes: a JSON Schema, or one of the shorter forms." },
      command: text,
      endpoint: text,
      method: text,
      enabled: { type: "boolean" },
      toolId: { ...text, description: "The same as `id`, as lists of tools call it." },
      toolName: { ...text, description: "The same as `name`, as lists of tools call it." },
      rackName: { ...text, description: "Its name on the rack; absent while it cannot be used." },
      status: { enum: ["ok", "disabled", "failed"] },
      failure: { ...text, description: "Why it cannot be used." },
      createdAt: moment,
      updatedAt: moment,
    },
    required: ["id", "skillId", "skillName", "name", "description", "type", "enabled", "status"],
  },
  SkillImport: {
    type: "object",
    properties: {
      dryRun: { type: "boolean", description: "True: nothing was changed." },
      skills: {
        type: "array",
        items: {
          type: "object",
          properties: {
            id: text,
            name: text,
            description: text,
            replaces: { type: "boolean", description: "Of a dry run: one with its id would go." },
            tools: {
              type: "array",
              items: {
                type: "object",
                properties: {
                  name: text,
                  type: { enum: ["http", "script", "builtin"] },
                  failure: { ...text, description: "Why it cannot be used." },
                },
                required: ["name", "type"],
              },
            },
            files: { ...texts, description: "Of a dry run: paths beside its SKILL.md." },
          },
          required: ["id", "name", "description", "tools"],
        },
      },
      experts: {
        type: "array",
        items: {
          type: "object",
          properties: { id: text, name: text, replaces: { type: "boolean" } },
          required: ["id", "name"],
        },
      },
      failed: {
        type: "array",
        description: "What is not imported, and why.",
        items: {
          type: "object",
          properties: {
            name: text,
            reason: text,
            replaceable: {
              type: "boolean",
              description: "It is there already: `replace` would take its place.",
            },
          },
          required: ["name", "reason"],
        },
      },
      warnings: texts,
    },
    required: ["dryRun", "skills", "experts", "failed", "warnings"],
  },
  Expert: {
    type: "object",
    properties: { ...expert, toolCount: { type: "integer", description: "How many tools it has now." } },
    required: ["id", "name", "description", "skills", "tools", "toolCount"],
  },
} as const satisfies Readonly<Record<string, JsonSchemaObject>>;

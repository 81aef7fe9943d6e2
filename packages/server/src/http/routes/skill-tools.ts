import { isUtf8 } from "node:buffer";
import type { JsonSchemaObject } from "@toolrack/core";
import type { SkillLibrary } from "../../skills/index.ts";
import type { NewSkillTool, SkillToolChanges, SkillToolType, StoredSkillTool } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import { refusals, serveCall } from "../call-answers.ts";
import { ref } from "../schemas/common.ts";
import { defineRoute, type Route } from "../wire/index.ts";
import { refusing, refusingUnseen, seenVersion } from "./skill-transfer.ts";
import { skillParams } from "./skills.ts";
import { callResponses, chosenCallId } from "./tools.ts";

interface ToolBody {
  readonly name: string;
  readonly type: SkillToolType;
  readonly displayName?: string | null;
  readonly description?: string;
  readonly usage?: unknown;
  readonly command?: string | null;
  readonly endpoint?: string | null;
  readonly method?: string | null;
  readonly enabled?: boolean;
}

const line = (longest: number, description: string): JsonSchemaObject => ({
  type: ["string", "null"],
  maxLength: longest,
  description,
});

const fields = {
  name: {
    type: "string",
    minLength: 1,
    maxLength: 64,
    description: "Unique within the skill: `web_search`.",
  },
  displayName: line(128, "For people: `网页搜索`."),
  description: { type: "string", maxLength: 100_000, description: "What models are told of it." },
  type: { enum: ["http", "script", "builtin"] },
  usage: {
    description:
      "What it takes, as an object or as its JSON text: a JSON Schema, `{parameters, …settings}`, `{properties}` or a list of parameters.",
  },
  command: line(512, "`script`: what to run. `builtin`: the tool that it stands for."),
  endpoint: line(
    4_096,
    "`http`: the address, with `{name}` for parameters and `{{secret:NAME}}` for secrets.",
  ),
  method: { ...line(16, "`http`: GET unless said otherwise."), pattern: "^[A-Za-z]*$" },
  enabled: { type: "boolean" },
};
const toolSchema = {
  type: "object",
  properties: fields,
  required: ["name", "type"],
  additionalProperties: false,
};
const toolParams = {
  ...skillParams,
  toolId: { type: "string", minLength: 1, maxLength: 128, description: "Its id or name." },
};

/** The tools of a skill. */
export function skillToolRoutes({ skills, registry, desk }: HttpParts): Route[] {
  const viewOf = (skillId: string, toolId: string) => {
    const skill = skills.require(skillId);
    return skillToolView(skills, skill, skills.requireTool(skill, toolId));
  };
  return [
    defineRoute<{ id: string }>({
      method: "GET",
      path: "/api/skills/{id}/tools",
      id: "listSkillTools",
      tag: "skills",
      summary: "The tools of a skill",
      access: "admin",
      params: skillParams,
      responses: {
        200: {
          description: "In the skill's order.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("SkillTool") } },
            required: ["items"],
          },
        },
      },
      errors: ["skill_not_found"],
      handle: async ({ params }) => ({
        body: await refusing(() => {
          const skill = skills.require(params.id);
          return { items: skill.tools.map((tool) => skillToolView(skills, skill, tool)) };
        }),
      }),
    }),
    defineRoute<{ id: string }, object, ToolBody>({
      method: "POST",
      path: "/api/skills/{id}/tools",
      id: "addSkillTool",
      tag: "skills",
      summary: "Adds a tool to a skill",
      access: "admin",
      params: skillParams,
      body: { required: true, schema: toolSchema },
      responses: { 200: { description: "The tool, on the rack.", schema: ref("SkillTool") } },
      errors: ["skill_not_found", "skill_read_only"],
      handle: async ({ params, body }) => ({
        body: await refusing(async () => {
          const tool = await skills.addTool(params.id, toNewTool(body));
          return viewOf(tool.skillId, tool.id);
        }),
      }),
    }),
    defineRoute<{ id: string; toolId: string }>({
      method: "GET",
      path: "/api/skills/{id}/tools/{toolId}",
      id: "getSkillTool",
      tag: "skills",
      summary: "One tool of a skill",
      access: "admin",
      params: toolParams,
      responses: { 200: { description: "The tool.", schema: ref("SkillTool") } },
      errors: ["skill_not_found", "skill_tool_not_found"],
      handle: async ({ params }) => ({ body: await refusing(() => viewOf(params.id, params.toolId)) }),
    }),
    defineRoute<{ id: string; toolId: string }, object, Partial<ToolBody> & { updatedAt?: number }>({
      method: "PATCH",
      path: "/api/skills/{id}/tools/{toolId}",
      id: "changeSkillTool",
      tag: "skills",
      summary: "Changes a tool of a skill",
      description:
        "Only what the body has is changed; null takes a field away. With `updatedAt`, only if nobody else changed it since. Calls under way end on the old version.",
      access: "admin",
      params: toolParams,
      body: {
        required: true,
        schema: { type: "object", properties: { ...fields, ...seenVersion }, additionalProperties: false },
      },
      responses: { 200: { description: "The tool as it is now.", schema: ref("SkillTool") } },
      errors: ["skill_not_found", "skill_tool_not_found", "skill_changed", "skill_read_only"],
      handle: async ({ params, body: { updatedAt: seen, ...body } }) => ({
        body: await refusingUnseen(body, async () => {
          const tool = await skills.updateTool(params.id, params.toolId, toChanges(body), { seen });
          return viewOf(tool.skillId, tool.id);
        }),
      }),
    }),
    defineRoute<{ id: string; toolId: string }>({
      method: "DELETE",
      path: "/api/skills/{id}/tools/{toolId}",
      id: "removeSkillTool",
      tag: "skills",
      summary: "Deletes a tool of a skill",
      access: "admin",
      params: toolParams,
      responses: {
        200: {
          description: "It is gone.",
          schema: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
        },
      },
      errors: ["skill_not_found", "skill_tool_not_found", "skill_read_only"],
      handle: async ({ params }) => ({
        body: { id: (await refusing(() => skills.removeTool(params.id, params.toolId))).id },
      }),
    }),
    defineRoute<{ id: string }, object, { tool: ToolBody; arguments?: unknown; callId?: string }>({
      method: "POST",
      path: "/api/skills/{id}/try",
      id: "trySkillTool",
      tag: "skills",
      summary: "Calls a tool that has not been saved",
      description:
        "It is on the rack under a name of its own while the call lasts. The call is recorded like any other.",
      access: "admin",
      params: skillParams,
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            tool: toolSchema,
            arguments: { description: "An object, or its JSON as text." },
            callId: chosenCallId,
          },
          required: ["tool"],
          additionalProperties: false,
        },
      },
      responses: callResponses,
      errors: [...refusals, "call_exists", "skill_not_found", "stopping"],
      async handle({ params, body, grant, incoming, outgoing }) {
        const draft = await refusing(() => skills.draft(params.id, toNewTool(body.tool)));
        registry.register(draft);
        try {
          return await serveCall(
            desk,
            {
              name: draft.name,
              input: body.arguments,
              grant,
              ...(body.callId === undefined ? {} : { callId: body.callId }),
            },
            incoming,
            outgoing,
          );
        } finally {
          registry.unregister(draft.name);
        }
      },
    }),
  ];
}

function toNewTool({ usage, ...tool }: ToolBody): NewSkillTool {
  const given = Object.entries(tool).filter(([, value]) => value !== null);
  // Without what is null it is exactly that: the schema saw to the rest.
  return { ...Object.fromEntries(given), ...usageText(usage) } as NewSkillTool;
}

function toChanges({ usage, ...changes }: Partial<ToolBody>): SkillToolChanges {
  return { ...changes, ...usageText(usage) };
}

function usageText(usage: unknown): { usage?: string } {
  if (usage === undefined) return {};
  if (usage === null) return { usage: "" };
  return { usage: typeof usage === "string" ? usage : JSON.stringify(usage) };
}

type Skill = ReturnType<SkillLibrary["require"]>;

/** Longest file whose text is shown. */
const LONGEST_SHOWN = 256 * 1024;

export function skillSummary(skills: SkillLibrary, skill: Skill): Record<string, unknown> {
  const { directory: _directory, revision: _revision, frontMatterText: _text, tools, ...rest } = skill;
  const failed = tools.filter(({ id }) => skills.failureOf(id) !== undefined);
  return { ...rest, toolCount: tools.length, failedTools: failed.length };
}

export async function skillDetail(skills: SkillLibrary, skill: Skill): Promise<Record<string, unknown>> {
  const files = await skills.filesOf(skill);
  return {
    ...skillSummary(skills, skill),
    tools: skill.tools.map((tool) => skillToolView(skills, skill, tool)),
    files: files.map(({ path, content, executable }) => ({
      path,
      size: content.length,
      executable,
      ...(content.length <= LONGEST_SHOWN && isUtf8(content) ? { text: content.toString("utf8") } : {}),
    })),
  };
}

function skillToolView(skills: SkillLibrary, skill: Skill, tool: StoredSkillTool): Record<string, unknown> {
  const failure = skills.failureOf(tool.id);
  const rackName = skills.nameOf(tool.id);
  const isOff = !tool.enabled || !skill.enabled;
  return {
    ...tool,
    toolId: tool.id,
    toolName: tool.name,
    skillName: skill.name,
    usage: usageOf(tool.usage),
    ...(rackName === undefined ? {} : { rackName }),
    status: failure === undefined ? (isOff ? "disabled" : "ok") : "failed",
    ...(failure === undefined ? {} : { failure }),
  };
}

/** JSON as a value; what is none as the text that it is. */
function usageOf(usage: string): unknown {
  if (usage === "") return undefined;
  try {
    return JSON.parse(usage);
  } catch {
    return usage;
  }
}

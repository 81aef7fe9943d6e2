import type { NewSkillTool, SkillToolChanges } from "../../store/index.ts";
import { refusals, serveCall } from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import { type Route, routesFor, s } from "../wire/index.ts";
import { MOST_TOOLS, seenVersion, showingConflict, skillParams, skillToolView } from "./skill-answers.ts";
import { callAnswer, callOptions } from "./tools.ts";

const line = (maxLength: number, description: string, more = {}) =>
  s.nullable(s.text({ maxLength, description, ...more }));

const fields = {
  name: s.text("Unique within the skill: `web_search`.", { minLength: 1, maxLength: 64 }),
  "displayName?": line(128, "For people: `网页搜索`."),
  "description?": s.text("What models are told of it.", { maxLength: 100_000 }),
  type: s.choice(["http", "script", "builtin"]),
  "usage?": s.anything(
    "What it takes, as an object or as its JSON text: a JSON Schema, `{parameters, …settings}`, `{properties}` or a list of parameters.",
  ),
  "command?": line(512, "`script`: what to run. `builtin`: the tool that it stands for."),
  "endpoint?": line(
    4_096,
    "`http`: the address, with `{name}` for parameters and `{{secret:NAME}}` for secrets.",
  ),
  "method?": line(16, "`http`: GET unless said otherwise.", { pattern: "^[A-Za-z]*$" }),
  "enabled?": s.boolean(),
} as const;
type ToolBody = s.Values<typeof fields>;

const toolParams = {
  ...skillParams,
  toolId: s.text("Its id or name.", { minLength: 1, maxLength: 128 }),
};

export function skillToolRoutes({ skills, registry, service }: HttpServices): Route[] {
  const route = routesFor("skills", "admin");
  const viewOf = (skillId: string, toolId: string) => {
    const skill = skills.require(skillId);
    return skillToolView(skills, skill, skills.requireTool(skill, toolId));
  };
  return [
    route("GET /api/skills/{id}/tools", "listSkillTools", "The tools of a skill", {
      params: skillParams,
      query: {
        limit: s.integer({ minimum: 1, maximum: MOST_TOOLS, default: MOST_TOOLS }),
        cursor: s.text("`next` of the page before.", { pattern: "^\\d{1,9}$" }),
      },
      answer: ["A page, in the skill's order.", s.page(s.ref("SkillTool"))],
      errors: ["skill_not_found"],
      handle({ params, query: { limit = MOST_TOOLS, cursor = "0" } }) {
        const skill = skills.require(params.id);
        const end = Number(cursor) + limit;
        const tools = skill.tools.slice(Number(cursor), end);
        const next = end < skill.tools.length ? String(end) : undefined;
        return { items: tools.map((tool) => skillToolView(skills, skill, tool)), next };
      },
    }),
    route("POST /api/skills/{id}/tools", "addSkillTool", "Adds a tool to a skill", {
      params: skillParams,
      body: s.closed(fields),
      answer: ["The tool, on the rack.", s.ref("SkillTool")],
      errors: ["skill_not_found", "skill_read_only"],
      async handle({ params, body }) {
        const tool = await skills.addTool(params.id, toNewTool(body));
        return viewOf(tool.skillId, tool.id);
      },
    }),
    route("GET /api/skills/{id}/tools/{toolId}", "getSkillTool", "One tool of a skill", {
      params: toolParams,
      answer: ["The tool.", s.ref("SkillTool")],
      errors: ["skill_not_found", "skill_tool_not_found"],
      handle: ({ params }) => viewOf(params.id, params.toolId),
    }),
    route("PATCH /api/skills/{id}/tools/{toolId}", "changeSkillTool", "Changes a tool of a skill", {
      description:
        "Only what the body has is changed; null takes a field away. With `updatedAt`, only if nobody else changed it since. Calls under way end on the old version.",
      params: toolParams,
      body: s.closed({ ...s.partial(fields), ...seenVersion }),
      answer: ["The tool as it is now.", s.ref("SkillTool")],
      errors: ["skill_not_found", "skill_tool_not_found", "skill_changed", "skill_read_only"],
      async handle({ params, body: { updatedAt: seen, ...body } }) {
        const updating = skills.updateTool(params.id, params.toolId, toChanges(body), { seen });
        const tool = await showingConflict(body, updating);
        return viewOf(tool.skillId, tool.id);
      },
    }),
    route("DELETE /api/skills/{id}/tools/{toolId}", "removeSkillTool", "Deletes a tool of a skill", {
      params: toolParams,
      answer: ["It is gone.", s.object({ id: s.text() })],
      errors: ["skill_not_found", "skill_tool_not_found", "skill_read_only"],
      handle: async ({ params }) => ({ id: (await skills.removeTool(params.id, params.toolId)).id }),
    }),
    route("POST /api/skills/{id}/try", "trySkillTool", "Calls a tool that has not been saved", {
      description:
        "It is on the rack under a name of its own while the call lasts. The call is recorded like any other.",
      params: skillParams,
      body: s.closed({
        tool: s.closed(fields),
        "arguments?": s.anything("An object, or its JSON as text."),
        "callId?": callOptions["callId?"],
      }),
      ...callAnswer,
      errors: [...refusals, "call_exists", "skill_not_found", "stopping"],
      async handle({ params, body, grant, incoming, outgoing }) {
        const draft = await skills.draft(params.id, toNewTool(body.tool));
        registry.register(draft);
        try {
          const { arguments: input, callId } = body;
          return await serveCall(service, { name: draft.name, input, grant, callId }, incoming, outgoing);
        } finally {
          registry.unregister(draft.name);
        }
      },
    }),
  ];
}

function toNewTool({ usage, ...tool }: ToolBody): NewSkillTool {
  const given = Object.entries(tool).filter(([, value]) => value !== null);
  // The schema checked the body, so without null members it has this type.
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

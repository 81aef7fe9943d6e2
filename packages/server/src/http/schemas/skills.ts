import { s } from "../wire/index.ts";

const changed = () => s.moment("Milliseconds since the epoch; 0 for one in a folder.");
const toolType = s.choice(["http", "script", "builtin"]);

const skill = {
  id: s.text(),
  name: s.text("For people; no two skills share it."),
  "mark?": s.text("What readable names of its tools begin with."),
  description: s.text(),
  "instructions?": s.text("The Markdown of its SKILL.md."),
  "frontMatter?": s.anyObject("What else its SKILL.md says of it."),
  "sourcePath?": s.text("The folder of its scripts, relative to the workspace."),
  owner: s.choice(["folder", "database"], "`folder`: it is changed in its folder, and only read here."),
  enabled: s.boolean(),
  trusted: s.boolean(
    "False for what was imported, or written by a tool call: its scripts have no network, its tools no secrets.",
  ),
  toolCount: s.integer(),
  failedTools: s.integer("How many of its tools cannot be used."),
  "warnings?": s.texts(),
  "createdAt?": changed(),
  "updatedAt?": changed(),
};

/** The named schemas of skills and experts in `/openapi.json`. */
export const skillSchemas = {
  SkillSummary: s.object(skill),
  Skill: s.object({
    ...skill,
    tools: s.list(s.ref("SkillTool")),
    files: s.list(
      s.object({
        path: s.text(),
        size: s.integer(),
        executable: s.boolean(),
        "text?": s.text("The content, when it is text and not too long."),
      }),
      "What lies beside its SKILL.md.",
    ),
  }),
  SkillTool: s.object({
    id: s.text("The name that models are given, unless readable names are configured."),
    skillId: s.text(),
    skillName: s.text(),
    name: s.text(),
    "displayName?": s.text("For people."),
    description: s.text(),
    type: toolType,
    "usage?": s.anything("What it takes: a JSON Schema, or one of the shorter forms."),
    "command?": s.text(),
    "endpoint?": s.text(),
    "method?": s.text(),
    enabled: s.boolean(),
    "toolId?": s.text("The same as `id`, as lists of tools call it."),
    "toolName?": s.text("The same as `name`, as lists of tools call it."),
    "rackName?": s.text("Its name on the rack; absent while it cannot be used."),
    status: s.choice(["ok", "disabled", "failed"]),
    "failure?": s.text("Why it cannot be used."),
    "createdAt?": changed(),
    "updatedAt?": changed(),
  }),
  SkillImport: s.object({
    dryRun: s.boolean("True: nothing was changed."),
    skills: s.list(
      s.object({
        id: s.text(),
        name: s.text(),
        description: s.text(),
        "replaces?": s.boolean("Of a dry run: one with its id would go."),
        tools: s.list(
          s.object({ name: s.text(), type: toolType, "failure?": s.text("Why it cannot be used.") }),
        ),
        "files?": s.texts("Of a dry run: paths beside its SKILL.md."),
      }),
    ),
    experts: s.list(s.object({ id: s.text(), name: s.text(), "replaces?": s.boolean() })),
    failed: s.list(
      s.object({
        name: s.text(),
        reason: s.text(),
        "replaceable?": s.boolean("It is there already: `replace` would take its place."),
      }),
      "What is not imported, and why.",
    ),
    warnings: s.texts(),
  }),
  Expert: s.object({
    id: s.text(),
    name: s.text("Stands in addresses: `/mcp/{name}`."),
    description: s.text(),
    "instructions?": s.text("What a model is told that speaks as this expert."),
    skills: s.texts("Ids of skills."),
    tools: s.texts("Patterns over the names of tools; `*` stands for anything."),
    "createdAt?": changed(),
    "updatedAt?": changed(),
    toolCount: s.integer("How many tools it has now."),
  }),
};

import { type Expert, expertNamePattern, skillReasonCodes } from "../../skills/index.ts";
import type { SkillChanges, SkillFile } from "../../store/index.ts";
import type { HttpServices } from "../services.ts";
import { expertsOf, findExpert, type Route, routesFor, s, toolPattern } from "../wire/index.ts";
import { seenVersion, showingConflict, skillDetail, skillParams } from "./skill-answers.ts";

const long = (description: string) => s.text({ maxLength: 1_000_000, description });
const gone = ["It is gone.", s.object({ id: s.text() })] as const;

const fields = {
  name: s.text("For people: `SearXNG Search`.", { minLength: 1, maxLength: 128 }),
  "description?": long("What it is for, and when to use it."),
  "mark?": s.nullable(s.text("What readable names of its tools begin with.", { maxLength: 50 })),
  "instructions?": long("The Markdown of its SKILL.md."),
  "frontMatter?": s.anyObject({ additionalProperties: true, description: "What else SKILL.md says." }),
  "sourcePath?": s.nullable(s.text("A folder of the workspace with its scripts.", { maxLength: 512 })),
  "enabled?": s.boolean(),
  "files?": s.map(s.nullable(s.text()), "Text files beside its SKILL.md, by their paths; null removes one."),
} as const;

/** The routes of skills. A change is on the rack before its answer is sent. */
export function skillRoutes({ skills }: HttpServices): Route[] {
  const route = routesFor("skills", "admin");
  return [
    route("GET /api/skills", "listSkills", "The skills, and folders that could not be read", {
      answer: [
        "Those of folders first.",
        s.object({
          items: s.list(s.ref("SkillSummary")),
          failed: s.list(
            s.object({
              folder: s.text(),
              reason: s.text(),
              "code?": s.choice(skillReasonCodes, "The reason, for programs with words of their own."),
              "details?": s.anyObject("The values in the reason."),
            }),
          ),
        }),
      ],
      handle: () => ({
        items: skills.list().map((skill) => skills.summaryOf(skill)),
        failed: skills.failedFolders(),
      }),
    }),
    route("POST /api/skills", "addSkill", "Makes a skill", {
      body: s.closed(fields),
      answer: ["The skill.", s.ref("Skill")],
      async handle({ body: { files = {}, mark, sourcePath, ...skill } }) {
        const bundle = {
          skill: { ...skill, ...(mark ? { mark } : {}), ...(sourcePath ? { sourcePath } : {}) },
          tools: [],
          files: Object.values(toFiles(files)).filter((file) => file !== null),
        };
        return skillDetail(skills, await skills.add(bundle));
      },
    }),
    route("GET /api/skills/{id}", "getSkill", "One skill with its tools and files", {
      description: "Of its tools the first 2,000; `GET /api/skills/{id}/tools` has all, page by page.",
      params: skillParams,
      answer: ["The skill.", s.ref("Skill")],
      errors: ["skill_not_found"],
      handle: ({ params }) => skillDetail(skills, skills.require(params.id)),
    }),
    route("PATCH /api/skills/{id}", "changeSkill", "Changes a skill", {
      description:
        "Only what the body has is changed. With `updatedAt`, only if nobody else changed it since. A skill of a folder is changed in its folder; here it can only be trusted, after a tool call wrote it.",
      params: skillParams,
      body: s.closed({
        ...s.partial(fields),
        ...seenVersion,
        "trusted?": s.boolean("Whether it may have secrets and the network."),
      }),
      answer: ["The skill as it is now.", s.ref("Skill")],
      errors: ["skill_not_found", "skill_changed", "skill_read_only"],
      async handle({ params, body: { files, updatedAt: seen, ...changes } }) {
        const edited: SkillChanges = changes;
        const updating = skills.update(params.id, edited, files && toFiles(files), { seen });
        return skillDetail(skills, await showingConflict(changes, updating));
      },
    }),
    route("DELETE /api/skills/{id}", "removeSkill", "Deletes a skill with its tools", {
      description: "Calls under way end as usual.",
      params: skillParams,
      answer: gone,
      errors: ["skill_not_found", "skill_read_only"],
      handle: async ({ params }) => ({ id: (await skills.remove(params.id)).id }),
    }),
  ];
}

function toFiles(files: Readonly<Record<string, string | null>>): Record<string, SkillFile | null> {
  const entries = Object.entries(files).map(([path, content]) => [
    path,
    content === null ? null : { path, content: Buffer.from(content), executable: false },
  ]);
  return Object.fromEntries(entries);
}

const params = { id: s.text("Its name or id.", { minLength: 1, maxLength: 128 }) };
const patterns = (description: string) =>
  s.list(s.text({ minLength: 1, maxLength: 200 }), { maxItems: 1_000, description });

const expertFields = {
  name: s.text("Stands in addresses, so without `/`, `?`, `#` and `%`.", {
    minLength: 1,
    maxLength: 64,
    pattern: expertNamePattern,
  }),
  "description?": s.text({ maxLength: 100_000 }),
  "instructions?": long("What a model is told that speaks as it."),
  "skills?": patterns("Ids or names of skills."),
  "tools?": patterns(toolPattern),
} as const;

export function expertRoutes({ skills: { experts } }: HttpServices): Route[] {
  const route = routesFor("experts", "admin");
  return [
    route("GET /api/experts", "listExperts", "The experts that the token may use", {
      access: "token",
      answer: ["In order of their making.", s.items(s.ref("Expert"))],
      handle: ({ grant }) => ({ items: expertsOf(grant, experts).map(viewOf) }),
    }),
    route("POST /api/experts", "addExpert", "Makes an expert", {
      body: s.closed(expertFields),
      answer: ["The expert.", s.ref("Expert")],
      handle: async ({ body }) => viewOf(await experts.create(body)),
    }),
    route("GET /api/experts/{id}", "getExpert", "One expert", {
      access: "token",
      params,
      answer: ["The expert.", s.ref("Expert")],
      errors: ["expert_not_found"],
      handle: ({ params: { id }, grant }) => viewOf(findExpert(grant, experts, id)),
    }),
    route("PATCH /api/experts/{id}", "changeExpert", "Changes an expert", {
      description:
        "Only what the body has is changed. With `updatedAt`, only if nobody else changed it since.",
      params,
      body: s.closed({ ...s.partial(expertFields), ...seenVersion }),
      answer: ["The expert as it is now.", s.ref("Expert")],
      errors: ["expert_not_found", "skill_changed"],
      handle: async ({ params: { id }, body: { updatedAt: seen, ...changes } }) =>
        viewOf(await showingConflict(changes, experts.update(id, changes, { seen }))),
    }),
    route("DELETE /api/experts/{id}", "removeExpert", "Deletes an expert", {
      params,
      answer: gone,
      errors: ["expert_not_found"],
      handle: async ({ params: { id } }) => ({ id: (await experts.remove(id)).id }),
    }),
  ];
}

function viewOf({
  allows: _allows,
  version: _version,
  list: tools,
  ...expert
}: Expert): Record<string, unknown> {
  return { ...expert, toolCount: tools().length };
}

import type { JsonSchemaObject } from "@toolrack/core";
import { type Expert, expertNamePattern } from "../../skills/index.ts";
import type { ExpertChanges, SkillChanges, SkillFile, StoredSkill } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import { ref } from "../schemas/common.ts";
import { defineRoute, findExpert, type Route, toolPattern } from "../wire/index.ts";
import { skillDetail, skillSummary } from "./skill-tools.ts";
import { refusing, refusingUnseen, seenVersion } from "./skill-transfer.ts";

interface SkillBody
  extends Partial<Pick<StoredSkill, "description" | "instructions" | "frontMatter" | "enabled">> {
  readonly name?: string;
  readonly mark?: string | null;
  readonly sourcePath?: string | null;
  readonly trusted?: boolean;
  readonly files?: Readonly<Record<string, string | null>>;
  readonly updatedAt?: number;
}

const text = { type: "string", maxLength: 1_000_000 };
const optional = (schema: JsonSchemaObject): JsonSchemaObject => ({ ...schema, type: [schema.type, "null"] });

const fields = {
  name: { type: "string", minLength: 1, maxLength: 128, description: "For people: `SearXNG Search`." },
  description: { ...text, description: "What it is for, and when to use it." },
  mark: optional({
    type: "string",
    maxLength: 50,
    description: "What readable names of its tools begin with.",
  }),
  instructions: { ...text, description: "The Markdown of its SKILL.md." },
  frontMatter: { type: "object", additionalProperties: true, description: "What else SKILL.md says." },
  sourcePath: optional({
    type: "string",
    maxLength: 512,
    description: "A folder of the workspace with its scripts.",
  }),
  enabled: { type: "boolean" },
  files: {
    type: "object",
    additionalProperties: { type: ["string", "null"] },
    description: "Text files beside its SKILL.md, by their paths; null removes one.",
  },
};

export const skillParams = {
  id: { type: "string", minLength: 1, maxLength: 128, description: "Its id or name." },
};

/** Skills: read, made, changed and deleted. What is changed is on the rack when the answer comes. */
export function skillRoutes({ skills }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/skills",
      id: "listSkills",
      tag: "skills",
      summary: "The skills, and folders that could not be read",
      access: "admin",
      responses: {
        200: {
          description: "Those of folders first.",
          schema: {
            type: "object",
            properties: {
              items: { type: "array", items: ref("SkillSummary") },
              failed: {
                type: "array",
                items: {
                  type: "object",
                  properties: { folder: { type: "string" }, reason: { type: "string" } },
                  required: ["folder", "reason"],
                },
              },
            },
            required: ["items", "failed"],
          },
        },
      },
      handle: () => ({
        body: {
          items: skills.list().map((skill) => skillSummary(skills, skill)),
          failed: skills.failedFolders(),
        },
      }),
    }),
    defineRoute<object, object, SkillBody & { readonly name: string }>({
      method: "POST",
      path: "/api/skills",
      id: "addSkill",
      tag: "skills",
      summary: "Makes a skill",
      access: "admin",
      body: {
        required: true,
        schema: { type: "object", properties: fields, required: ["name"], additionalProperties: false },
      },
      responses: { 200: { description: "The skill.", schema: ref("Skill") } },
      async handle({ body }) {
        const { files = {}, mark, sourcePath, ...skill } = body;
        const bundle = {
          skill: { ...skill, ...(mark ? { mark } : {}), ...(sourcePath ? { sourcePath } : {}) },
          tools: [],
          files: Object.values(toFiles(files)).filter((file) => file !== null),
        };
        return { body: await refusing(async () => skillDetail(skills, await skills.add(bundle))) };
      },
    }),
    defineRoute<{ id: string }>({
      method: "GET",
      path: "/api/skills/{id}",
      id: "getSkill",
      tag: "skills",
      summary: "One skill with its tools and files",
      access: "admin",
      params: skillParams,
      responses: { 200: { description: "The skill.", schema: ref("Skill") } },
      errors: ["skill_not_found"],
      handle: async ({ params }) => ({
        body: await refusing(() => skillDetail(skills, skills.require(params.id))),
      }),
    }),
    defineRoute<{ id: string }, object, SkillBody>({
      method: "PATCH",
      path: "/api/skills/{id}",
      id: "changeSkill",
      tag: "skills",
      summary: "Changes a skill",
      description:
        "Only what the body has is changed. With `updatedAt`, only if nobody else changed it since. A skill of a folder is changed in its folder; here it can only be trusted, after a tool call wrote it.",
      access: "admin",
      params: skillParams,
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            ...fields,
            ...seenVersion,
            trusted: { type: "boolean", description: "Whether it may have secrets and the network." },
          },
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The skill as it is now.", schema: ref("Skill") } },
      errors: ["skill_not_found", "skill_changed", "skill_read_only"],
      async handle({ params, body }) {
        const { files, updatedAt: seen, ...changes } = body;
        // The schema let through exactly what may be changed.
        const edited = changes as SkillChanges;
        return {
          body: await refusingUnseen(changes, async () => {
            const updated = await skills.update(params.id, edited, files && toFiles(files), { seen });
            return skillDetail(skills, updated);
          }),
        };
      },
    }),
    defineRoute<{ id: string }>({
      method: "DELETE",
      path: "/api/skills/{id}",
      id: "removeSkill",
      tag: "skills",
      summary: "Deletes a skill with its tools",
      description: "Calls under way end as usual.",
      access: "admin",
      params: skillParams,
      responses: {
        200: {
          description: "It is gone.",
          schema: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
        },
      },
      errors: ["skill_not_found", "skill_read_only"],
      handle: async ({ params }) => ({ body: { id: (await refusing(() => skills.remove(params.id))).id } }),
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

const params = { id: { type: "string", minLength: 1, maxLength: 128, description: "Its name or id." } };
const texts = { type: "array", maxItems: 1_000, items: { type: "string", minLength: 1, maxLength: 200 } };

const expertFields = {
  name: {
    type: "string",
    minLength: 1,
    maxLength: 64,
    pattern: expertNamePattern,
    description: "Stands in addresses, so without `/`, `?`, `#` and `%`.",
  },
  description: { type: "string", maxLength: 100_000 },
  instructions: {
    type: "string",
    maxLength: 1_000_000,
    description: "What a model is told that speaks as it.",
  },
  skills: { ...texts, description: "Ids or names of skills." },
  tools: { ...texts, description: toolPattern },
};

/** Experts: named sets of skills and tools. */
export function expertRoutes({ skills: { experts } }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/experts",
      id: "listExperts",
      tag: "experts",
      summary: "The experts that the token may use",
      access: "token",
      responses: {
        200: {
          description: "In order of their making.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Expert") } },
            required: ["items"],
          },
        },
      },
      handle: ({ grant }) => ({
        body: {
          items: experts
            .list()
            .filter(({ id, name }) => grant.mayUseExpert(name) || grant.mayUseExpert(id))
            .map(viewOf),
        },
      }),
    }),
    defineRoute<object, object, ExpertChanges & { readonly name: string }>({
      method: "POST",
      path: "/api/experts",
      id: "addExpert",
      tag: "experts",
      summary: "Makes an expert",
      access: "admin",
      body: {
        required: true,
        schema: { type: "object", properties: expertFields, required: ["name"], additionalProperties: false },
      },
      responses: { 200: { description: "The expert.", schema: ref("Expert") } },
      handle: async ({ body }) => ({ body: viewOf(await refusing(() => experts.create(body))) }),
    }),
    defineRoute<{ id: string }>({
      method: "GET",
      path: "/api/experts/{id}",
      id: "getExpert",
      tag: "experts",
      summary: "One expert",
      access: "token",
      params,
      responses: { 200: { description: "The expert.", schema: ref("Expert") } },
      errors: ["expert_not_found"],
      handle: ({ params: { id }, grant }) => ({ body: viewOf(findExpert(grant, experts, id)) }),
    }),
    defineRoute<{ id: string }, object, ExpertChanges & { readonly updatedAt?: number }>({
      method: "PATCH",
      path: "/api/experts/{id}",
      id: "changeExpert",
      tag: "experts",
      summary: "Changes an expert",
      description:
        "Only what the body has is changed. With `updatedAt`, only if nobody else changed it since.",
      access: "admin",
      params,
      body: {
        required: true,
        schema: {
          type: "object",
          properties: { ...expertFields, ...seenVersion },
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The expert as it is now.", schema: ref("Expert") } },
      errors: ["expert_not_found", "skill_changed"],
      handle: async ({ params: { id }, body: { updatedAt: seen, ...changes } }) => ({
        body: viewOf(await refusingUnseen(changes, () => experts.update(id, changes, { seen }))),
      }),
    }),
    defineRoute<{ id: string }>({
      method: "DELETE",
      path: "/api/experts/{id}",
      id: "removeExpert",
      tag: "experts",
      summary: "Deletes an expert",
      access: "admin",
      params,
      responses: {
        200: {
          description: "It is gone.",
          schema: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
        },
      },
      errors: ["expert_not_found"],
      handle: async ({ params: { id } }) => ({ body: { id: (await refusing(() => experts.remove(id))).id } }),
    }),
  ];
}

function viewOf({ allows: _allows, version: _version, list, ...expert }: Expert): Record<string, unknown> {
  return { ...expert, toolCount: list().length };
}

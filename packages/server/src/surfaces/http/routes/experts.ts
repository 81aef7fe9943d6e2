import { type Expert, expertNamePattern } from "../../../skills/experts.ts";
import type { ExpertChanges } from "../../../store/experts/expert-store.ts";
import { findExpert } from "../expert-access.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route } from "../route.ts";
import { ref } from "../schemas.ts";
import { toolPattern } from "../tool-pattern.ts";
import { refusing, refusingUnseen, seenVersion } from "./skill-errors.ts";

const params = { id: { type: "string", minLength: 1, maxLength: 128, description: "Its name or id." } };
const texts = { type: "array", maxItems: 1_000, items: { type: "string", minLength: 1, maxLength: 200 } };

const fields = {
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
        schema: { type: "object", properties: fields, required: ["name"], additionalProperties: false },
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
        schema: { type: "object", properties: { ...fields, ...seenVersion }, additionalProperties: false },
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

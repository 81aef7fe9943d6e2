import { redact, type ToolInfo, toDefinition } from "@toolrack/core";
import { parseToolReference, unknownTool } from "../../calls/index.ts";

import { skillToolInfo } from "../../skills/index.ts";
import type { ToolSwitch } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import { refusals, serveCall } from "../call-answers.ts";
import { ref } from "../schemas/common.ts";
import {
  defineRoute,
  expertQuery,
  HttpError,
  type Route,
  type RouteRequest,
  reachOf,
} from "../wire/index.ts";

interface ListQuery {
  readonly q?: string;
  readonly category?: string;
  readonly tag?: string;
  readonly status?: "ok" | "stale" | "disabled";
  readonly expert?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

interface CallBody {
  readonly arguments?: unknown;
  readonly sessionID?: string;
  readonly messageID?: string;
  readonly callId?: string;
  readonly timeout?: number;
  readonly keep?: boolean;
  readonly dryRun?: boolean;
}

const named = {
  name: {
    type: "string",
    minLength: 1,
    description: "The tool's name, an alias, or `tool://` and one of them.",
  },
};

/** What a caller may say about a call, beside its arguments. */
export const callOptions = {
  sessionID: {
    type: "string",
    maxLength: 200,
    description: "Calls of one session share loop detection. Without one, it is off.",
  },
  messageID: { type: "string", maxLength: 200, description: "The model turn that makes the call." },
  timeout: { type: "integer", minimum: 1, description: "Shortens the tool's own limit, in milliseconds." },
  keep: {
    type: "boolean",
    default: false,
    description:
      "`true`: the call goes on when the caller closes the connection. Its record, under `callId`, says how it ended.",
  },
} as const;

/** So that a caller can follow, or cancel, a call before it is answered. */
export const chosenCallId = {
  type: "string",
  pattern: "^[A-Za-z0-9_.:-]{1,128}$",
  description: "The id the call is to have; made when not given.",
} as const;

/** The answers to every request that makes one call. */
export const callResponses: Route["responses"] = {
  200: [
    {
      description:
        "The tool ran, whatever came of it: `result.type` is `error` when it failed, ran too long or was cancelled. What was refused before the tool ran is a 4xx.",
      schema: ref("CallAnswer"),
    },
    {
      description:
        "With `Accept: text/event-stream`: `state` and `progress` events, then `result` with the answer, or `error` with the envelope when the call was refused after the stream had opened.",
      contentType: "text/event-stream",
      schema: { type: "string" },
    },
  ],
};

export function toolRoutes(parts: HttpParts): Route[] {
  const { registry, desk, switches } = parts;
  return [
    defineRoute<object, ListQuery>({
      method: "GET",
      path: "/api/tools",
      id: "listTools",
      tag: "tools",
      summary: "The tools that the token may see",
      description: "Sorted by name; with `q`, the enabled tools that fit it, best first.",
      access: "token",
      query: {
        q: { type: "string", description: "Words to search for." },
        category: { type: "string" },
        tag: { type: "string" },
        status: { enum: ["ok", "stale", "disabled"] },
        expert: expertQuery,
        limit: { type: "integer", minimum: 1, maximum: 1000, default: 100 },
        cursor: { type: "string", pattern: "^\\d{1,9}$", description: "`next` of the page before." },
      },
      responses: { 200: { description: "A page of tools.", schema: ref("ToolPage") } },
      errors: ["expert_not_found"],
      handle: (request) => ({ body: listTools(parts, request) }),
    }),
    defineRoute<{ name: string }>({
      method: "GET",
      path: "/api/tools/{name}",
      id: "getTool",
      tag: "tools",
      summary: "One tool with its schemas",
      access: "token",
      params: named,
      responses: { 200: { description: "The tool.", schema: ref("Tool") } },
      errors: ["tool_not_found"],
      async handle({ params, grant }) {
        const info = registry.get(nameIn(params));
        if (info === undefined || !grant.mayUse(info)) {
          throw unknownTool(registry, params.name, grant.mayUse);
        }
        return { body: await detailOf(info, parts) };
      },
    }),
    defineRoute<{ name: string }, object, { enabled: boolean }>({
      method: "PATCH",
      path: "/api/tools/{name}",
      id: "switchTool",
      tag: "tools",
      summary: "Switches a tool on or off",
      description:
        "Calls under way end as usual. The switch is kept: it outlives reloads and restarts, and holds for a tool that comes later under the same name.",
      access: "admin",
      params: named,
      body: {
        required: true,
        schema: {
          type: "object",
          properties: { enabled: { type: "boolean" } },
          required: ["enabled"],
          additionalProperties: false,
        },
      },
      responses: { 200: { description: "The tool as it is now.", schema: ref("Tool") } },
      errors: ["tool_not_found"],
      async handle({ params, body, grant }) {
        const info = registry.get(nameIn(params));
        if (info === undefined) throw unknownTool(registry, params.name, grant.mayUse);
        await switches.set(info.name, body.enabled, grant.caller);
        // A reload may have taken it away while the decision was written, which holds all the same.
        return { body: await detailOf(registry.get(info.name) ?? info, parts) };
      },
    }),
    defineRoute<object, object, { names: readonly string[]; enabled: boolean }>({
      method: "PATCH",
      path: "/api/tools",
      id: "switchTools",
      tag: "tools",
      summary: "Switches several tools on or off",
      description: "Like one after the other. Names that no tool has are answered in `missing`.",
      access: "admin",
      body: {
        required: true,
        schema: {
          type: "object",
          properties: {
            names: { type: "array", minItems: 1, maxItems: 10_000, items: named.name },
            enabled: { type: "boolean" },
          },
          required: ["names", "enabled"],
          additionalProperties: false,
        },
      },
      responses: {
        200: {
          description: "They are switched.",
          schema: {
            type: "object",
            properties: {
              changed: {
                type: "array",
                items: { type: "string" },
                description:
                  "Those that were otherwise before, by their names: what an undo has to switch back.",
              },
              missing: { type: "array", items: { type: "string" } },
            },
            required: ["changed", "missing"],
          },
        },
      },
      async handle({ body: { names, enabled }, grant }) {
        const changed: string[] = [];
        const missing: string[] = [];
        for (const name of new Set(names)) {
          const info = registry.get(nameIn({ name }));
          if (info === undefined) missing.push(name);
          else if (info.disabled === enabled) changed.push(info.name);
        }
        await switches.setAll(changed, enabled, grant.caller);
        return { body: { changed, missing } };
      },
    }),
    defineRoute<{ name: string }, { expert?: string }, CallBody>({
      method: "POST",
      path: "/api/tools/{name}/calls",
      id: "callTool",
      tag: "calls",
      summary: "Calls a tool",
      description:
        "Closing the connection before the answer has come cancels the call, unless it was made with `keep`.",
      access: "token",
      params: named,
      query: { expert: expertQuery },
      body: {
        schema: {
          type: "object",
          properties: {
            arguments: { description: "An object, or its JSON as text the way a model wrote it." },
            callId: chosenCallId,
            dryRun: {
              type: "boolean",
              description:
                "Only tools of the sandbox have one: mocks stand in for what reaches outside, and nothing is kept.",
            },
            ...callOptions,
          },
          additionalProperties: false,
        },
      },
      responses: callResponses,
      errors: [...refusals, "expert_not_found", "call_exists", "too_many_calls", "stopping"],
      handle({ params, query, body, grant, incoming, outgoing }) {
        const { arguments: input, ...options } = body;
        const { grant: reached, allow } = reachOf(grant, parts.skills.experts, query.expert);
        const limit = allow === undefined ? {} : { allow };
        const name = nameIn(params);
        const info = registry.get(name);
        // What the token may not see is refused with all the rest that is not there.
        if (body.dryRun === true && info !== undefined && reached.mayUse(info)) requireDryRun(info);
        const call = { name, input, grant: reached, ...options, ...limit };
        return serveCall(desk, call, incoming, outgoing);
      },
    }),
  ];
}

function nameIn({ name }: { readonly name: string }): string {
  return parseToolReference(name) ?? name;
}

function requireDryRun(info: ToolInfo): void {
  if (isSandboxed(info)) return;
  throw new HttpError(
    "invalid_request",
    `The tool "${info.name}" has no dry run, and was not called. Only tools that run in the sandbox have one.`,
    { details: { toolName: info.name } },
  );
}

function isSandboxed({ metadata }: ToolInfo): boolean {
  return metadata.singleFile !== undefined;
}

const isolationLabels = { 0: "none", 2: "reduced", 3: "full" } as const;

async function isolationOf(info: ToolInfo, { sandbox }: HttpParts): Promise<object> {
  if (!isSandboxed(info)) return {};
  const { level, reason } = await sandbox();
  const why = reason === undefined ? {} : { reason };
  return { isolation: { level, label: isolationLabels[level], ...why } };
}

function listTools(parts: HttpParts, request: RouteRequest<object, ListQuery, unknown>): unknown {
  const { registry } = parts;
  const { query } = request;
  const { grant, allow } = reachOf(request.grant, parts.skills.experts, query.expert);
  const { q, category, tag, status, limit = 100 } = query;
  const snapshot = registry.snapshot();
  const all =
    q === undefined ? snapshot.getAll().sort(byName) : snapshot.search(q, snapshot.getStats().totalTools);
  const stale = staleTools(parts);
  const wanted = all.filter(
    (info) =>
      grant.mayUse(info) &&
      allow?.(info) !== false &&
      (category === undefined || info.metadata.category === category) &&
      (tag === undefined || (info.metadata.tags?.includes(tag) ?? false)) &&
      (status === undefined || statusOf(info, stale) === status),
  );
  const start = Number(query.cursor ?? 0);
  const end = start + limit;
  return {
    items: wanted.slice(start, end).map((info) => summaryOf(info, stale, parts)),
    total: wanted.length,
    version: snapshot.version,
    ...(end < wanted.length ? { next: String(end) } : {}),
  };
}

/** Tools whose file no longer loads, served in their last good version. */
function staleTools({ files }: HttpParts): ReadonlySet<string> {
  const stale = files.report().filter(({ status }) => status === "stale");
  return new Set(stale.flatMap(({ tools }) => tools));
}

function statusOf(info: ToolInfo, stale: ReadonlySet<string>): "ok" | "stale" | "disabled" {
  if (info.disabled) return "disabled";
  return stale.has(info.name) ? "stale" : "ok";
}

function summaryOf(
  info: ToolInfo,
  stale: ReadonlySet<string>,
  { switches }: HttpParts,
): Record<string, unknown> {
  const { name, displayName, title, description, aliases, origin, createdAt, metadata } = info;
  const { category, tags, permissions, dangerous, readOnly } = metadata;
  return {
    name,
    displayName: displayName ?? name,
    ...skillFacts(info),
    title,
    description,
    status: statusOf(info, stale),
    switched: switchOf(switches.get(name)),
    category,
    tags,
    aliases,
    dangerous: dangerous === true,
    readOnly: readOnly === true,
    permissions,
    origin,
    createdAt,
  };
}

/** A tool of a skill by the names that its table has for it. */
function skillFacts(info: ToolInfo): Record<string, unknown> {
  const skill = skillToolInfo(info);
  if (skill === undefined) return { toolId: info.name };
  return { toolId: skill.toolId, skillName: skill.skillName, toolName: skill.toolName };
}

async function detailOf(info: ToolInfo, parts: HttpParts): Promise<Record<string, unknown>> {
  const isolation = await isolationOf(info, parts);
  const summary = { ...summaryOf(info, staleTools(parts), parts), ...isolation };
  const metadata = redact(info.metadata);
  try {
    const { inputSchema, outputSchema } = toDefinition(info);
    return { ...summary, inputSchema, outputSchema, metadata };
  } catch {
    // Some schemas of libraries have no JSON form. Such a tool can still be called.
    return { ...summary, metadata };
  }
}

/** Who decided that the tool is on or off, and when. */
function switchOf(decided: ToolSwitch | undefined): Omit<ToolSwitch, "toolName"> | undefined {
  return decided && { enabled: decided.enabled, by: decided.by, at: decided.at };
}

function byName(left: ToolInfo, right: ToolInfo): number {
  return left.name < right.name ? -1 : 1;
}

import { redact, type ToolInfo, toDefinition } from "@toolrack/core";
import { invisibleTool } from "../../../calls/call-desk.ts";
import { refusals } from "../calls/call-refusal.ts";
import { serveCall } from "../calls/serve-call.ts";
import type { HttpParts } from "../parts.ts";
import { defineRoute, type Route, type RouteRequest } from "../route.ts";
import { ref } from "../schemas.ts";

interface ListQuery {
  readonly q?: string;
  readonly category?: string;
  readonly tag?: string;
  readonly status?: "ok" | "stale" | "disabled";
  readonly limit?: number;
  readonly cursor?: string;
}

interface CallBody {
  readonly arguments?: unknown;
  readonly sessionID?: string;
  readonly messageID?: string;
  readonly callId?: string;
  readonly timeout?: number;
}

const named = { name: { type: "string", minLength: 1, description: "The tool's name or an alias." } };

/** What a caller may say about a call, beside its arguments. */
export const callOptions = {
  sessionID: {
    type: "string",
    maxLength: 200,
    description: "Calls of one session share loop detection. Without one, it is off.",
  },
  messageID: { type: "string", maxLength: 200, description: "The model turn that makes the call." },
  timeout: { type: "integer", minimum: 1, description: "Shortens the tool's own limit, in milliseconds." },
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
  const { registry, desk } = parts;
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
        limit: { type: "integer", minimum: 1, maximum: 1000, default: 100 },
        cursor: { type: "string", pattern: "^\\d{1,9}$", description: "`next` of the page before." },
      },
      responses: { 200: { description: "A page of tools.", schema: ref("ToolPage") } },
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
      handle({ params, grant }) {
        const info = registry.get(params.name);
        if (info === undefined || !grant.mayUse(info.name)) throw invisibleTool(params.name);
        return { body: detailOf(info, staleTools(parts)) };
      },
    }),
    defineRoute<{ name: string }, object, { enabled: boolean }>({
      method: "PATCH",
      path: "/api/tools/{name}",
      id: "switchTool",
      tag: "tools",
      summary: "Switches a tool on or off",
      description: "Calls under way end as usual. A reload of the tool's file keeps the switch as it is.",
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
      handle({ params, body }) {
        const info = registry.get(params.name);
        if (info === undefined) throw invisibleTool(params.name);
        if (body.enabled === info.disabled) registry.update(info.name, { disabled: !body.enabled });
        return { body: detailOf(registry.get(info.name)!, staleTools(parts)) };
      },
    }),
    defineRoute<{ name: string }, object, CallBody>({
      method: "POST",
      path: "/api/tools/{name}/calls",
      id: "callTool",
      tag: "calls",
      summary: "Calls a tool",
      description: "Closing the connection before the answer has come cancels the call.",
      access: "token",
      params: named,
      body: {
        schema: {
          type: "object",
          properties: {
            arguments: { description: "An object, or its JSON as text the way a model wrote it." },
            callId: {
              type: "string",
              pattern: "^[A-Za-z0-9_.:-]{1,128}$",
              description: "The id the call is to have; made when not given.",
            },
            ...callOptions,
          },
          additionalProperties: false,
        },
      },
      responses: callResponses,
      errors: [...refusals, "call_exists", "too_many_calls", "stopping"],
      handle({ params, body, grant, incoming, outgoing }) {
        const { arguments: input, ...options } = body;
        return serveCall(desk, { name: params.name, input, grant, ...options }, incoming, outgoing);
      },
    }),
  ];
}

function listTools(parts: HttpParts, { query, grant }: RouteRequest<object, ListQuery, unknown>): unknown {
  const { registry } = parts;
  const { q, category, tag, status, limit = 100 } = query;
  const snapshot = registry.snapshot();
  const all =
    q === undefined ? snapshot.getAll().sort(byName) : snapshot.search(q, snapshot.getStats().totalTools);
  const stale = staleTools(parts);
  const wanted = all.filter(
    (info) =>
      grant.mayUse(info.name) &&
      (category === undefined || info.metadata.category === category) &&
      (tag === undefined || (info.metadata.tags?.includes(tag) ?? false)) &&
      (status === undefined || statusOf(info, stale) === status),
  );
  const start = Number(query.cursor ?? 0);
  const end = start + limit;
  return {
    items: wanted.slice(start, end).map((info) => summaryOf(info, stale)),
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

function summaryOf(info: ToolInfo, stale: ReadonlySet<string>): Record<string, unknown> {
  const { name, displayName, title, description, aliases, origin, createdAt, metadata } = info;
  const { category, tags, permissions, dangerous, readOnly } = metadata;
  return {
    name,
    displayName: displayName ?? name,
    title,
    description,
    status: statusOf(info, stale),
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

function detailOf(info: ToolInfo, stale: ReadonlySet<string>): Record<string, unknown> {
  const metadata = redact(info.metadata);
  try {
    const { inputSchema, outputSchema } = toDefinition(info);
    return { ...summaryOf(info, stale), inputSchema, outputSchema, metadata };
  } catch {
    // Some schemas of libraries have no JSON form. Such a tool can still be called.
    return { ...summaryOf(info, stale), metadata };
  }
}

function byName(left: ToolInfo, right: ToolInfo): number {
  return left.name < right.name ? -1 : 1;
}

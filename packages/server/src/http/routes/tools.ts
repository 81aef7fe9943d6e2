import type { ToolInfo } from "@toolrack/core";
import { declarationSteps, definitionOf, definitionTokens, safeJson } from "@toolrack/core/internal";
import { type Grant, toolSecretName } from "../../access/index.ts";
import { declaredTool, parseToolReference, unknownTool } from "../../calls/index.ts";
import { inSlices } from "../../helpers/index.ts";
import { skillToolInfo } from "../../skills/index.ts";
import { refusals, serveCall } from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import { placeOf, ToolLists, toolSources } from "../tool-lists.ts";
import {
  expertQuery,
  HttpError,
  type Reach,
  Reply,
  type Route,
  reachOf,
  routesFor,
  s,
} from "../wire/index.ts";
import type { Linters } from "./lint.ts";
import { dataFolders } from "./server.ts";

const name = s.text("The tool's name, an alias, or `tool://` and one of them.", { minLength: 1 });

const toolQuery = {
  q: s.text("Words to search for."),
  words: s.text(
    "Words that all must be part of a tool's name, title, description, category, origin, tags or aliases.",
  ),
  category: s.text(),
  tag: s.text(),
  status: s.choice(["ok", "stale", "disabled"]),
  dangerous: s.boolean(),
  source: s.choice(toolSources),
  group: s.text("A group of a source, as `groups` names it."),
  groups: s.boolean("Whether the answer also says how many of all these tools each group and each tag has.", {
    default: false,
  }),
  expert: expertQuery,
  limit: s.integer({ minimum: 1, maximum: 1000, default: 100 }),
  cursor: s.text("`next` of the page before.", { pattern: "^\\d{1,9}$" }),
} as const;

/** Options of a call, beside its arguments. */
export const callOptions = {
  // Lets the caller follow or cancel the call before it is answered.
  "callId?": s.text("The id the call is to have; made when not given.", {
    pattern: "^[A-Za-z0-9_.:-]{1,128}$",
  }),
  "sessionID?": s.text("Calls of one session share loop detection. Without one, it is off.", {
    maxLength: 200,
  }),
  "messageID?": s.text("The model turn that makes the call.", { maxLength: 200 }),
  "timeout?": s.integer("Shortens the tool's own limit, in milliseconds.", { minimum: 1 }),
  "keep?": s.boolean(
    "`true`: the call goes on when the caller closes the connection. Its record, under `callId`, says how it ended.",
    { default: false },
  ),
} as const;

/** The answers of every route that makes one call. */
export const callAnswer = {
  answer: [
    "The tool ran, whatever came of it: `result.type` is `error` when it failed, ran too long or was cancelled. What was refused before the tool ran is a 4xx.",
    s.ref("CallAnswer"),
  ],
  stream:
    "With `Accept: text/event-stream`: `state` and `progress` events, then `result` with the answer, or `error` with the envelope when the call was refused after the stream had opened.",
} as const;

export function toolRoutes(services: HttpServices, linters: Linters): Route[] {
  const { registry, service, switches, skills } = services;
  const route = routesFor("tools", "token");
  const lists = new ToolLists(registry);
  return [
    route("GET /api/tools", "listTools", "The tools that the token may see", {
      description:
        "Sorted by name; with `q`, the enabled tools that fit it, best first. A search without other conditions finds at most 1,000. The tools that only help a model to find and call others are left out.",
      query: toolQuery,
      answer: ["A page of tools.", s.ref("ToolPage")],
      errors: ["expert_not_found"],
      async handle({ query, grant }) {
        const { limit = 100, cursor = 0, status, expert, groups, ...filter } = query;
        const reach = reachOf(grant, skills.experts, expert);
        const list = await lists.of(grant, reach, { ...filter, status });
        const stale = staleTools(services);
        const wanted =
          status === undefined ? list.tools : list.tools.filter((info) => statusOf(info, stale) === status);
        const start = Number(cursor);
        const end = start + limit;
        const page = wanted.slice(start, end);
        if (filter.q !== undefined) service.searches.noteShown(grant, filter.q, page);
        return {
          items: page.map((info) => summaryOf(info, stale, services)),
          total: wanted.length,
          version: list.version,
          next: end < wanted.length ? String(end) : undefined,
          ...(groups === true && (await lists.facets({ ...list, tools: wanted }))),
        };
      },
    }),
    route("GET /api/types", "getTypes", "The tools as an interface of TypeScript", {
      description:
        "Declares `Rack`, with a method for each tool that the token may see, for `createClient<Rack>` of `@toolrack/core/client`. Disabled tools are left out.",
      query: { expert: expertQuery },
      answer: ["The text of a module.", s.text(), typescript],
      errors: ["expert_not_found"],
      async handle({ query: { expert }, grant }) {
        const { tools } = await lists.of(grant, reachOf(grant, skills.experts, expert), {});
        return new Reply(await inSlices(declarationSteps(declaredTools(tools))), { contentType: typescript });
      },
    }),
    route("GET /api/tools/{name}", "getTool", "One tool with its schemas", {
      params: { name },
      query: {
        about: s.boolean(
          "Whether the answer also has what lint finds and, for admins, the values that are set for the tool and the size of its data folder.",
          { default: false },
        ),
      },
      answer: ["The tool.", s.ref("Tool")],
      errors: ["tool_not_found"],
      async handle({ params, query: { about = false }, grant }) {
        const info = registry.get(nameIn(params.name));
        if (info === undefined || !grant.mayUse(info)) {
          throw unknownTool(registry, params.name, grant.mayUse);
        }
        const detail = await detailOf(info, services);
        return about ? { ...detail, about: await aboutTool(info.name, grant, services, linters) } : detail;
      },
    }),
    route("PATCH /api/tools/{name}", "switchTool", "Switches a tool on or off", {
      description:
        "Calls under way end as usual. The switch is kept: it outlives reloads and restarts, and holds for a tool that comes later under the same name.",
      access: "admin",
      params: { name },
      body: s.closed({ enabled: s.boolean() }),
      answer: ["The tool as it is now.", s.ref("Tool")],
      errors: ["tool_not_found"],
      async handle({ params, body, grant }) {
        const info = registry.get(nameIn(params.name));
        if (info === undefined) throw unknownTool(registry, params.name, grant.mayUse);
        await switches.set(info.name, body.enabled, grant.caller);
        // A reload may have removed the tool meanwhile; the decision is stored all the same.
        return detailOf(registry.get(info.name) ?? info, services);
      },
    }),
    route("PATCH /api/tools", "switchTools", "Switches several tools on or off", {
      description: "Like one after the other. Names that no tool has are answered in `missing`.",
      access: "admin",
      body: s.closed({ names: s.list(name, { minItems: 1, maxItems: 10_000 }), enabled: s.boolean() }),
      answer: [
        "They are switched.",
        s.object({
          changed: s.texts(
            "Those that were otherwise before, by their names: what an undo has to switch back.",
          ),
          missing: s.texts(),
        }),
      ],
      async handle({ body: { names, enabled }, grant }) {
        const changed: string[] = [];
        const missing: string[] = [];
        for (const wanted of new Set(names)) {
          const info = registry.get(nameIn(wanted));
          if (info === undefined) missing.push(wanted);
          else if (info.disabled === enabled) changed.push(info.name);
        }
        await switches.setAll(changed, enabled, grant.caller);
        return { changed, missing };
      },
    }),
    routesFor("calls", "token")("POST /api/tools/{name}/calls", "callTool", "Calls a tool", {
      description:
        "Closing the connection before the answer has come cancels the call, unless it was made with `keep`.",
      params: { name },
      query: { expert: expertQuery },
      optionalBody: s.closed({
        "arguments?": s.anything("An object, or its JSON as text the way a model wrote it."),
        "dryRun?": s.boolean(
          "Only tools of the sandbox have one: mocks stand in for what reaches outside, and nothing is kept.",
        ),
        ...callOptions,
      }),
      ...callAnswer,
      errors: [...refusals, "expert_not_found", "call_exists", "too_many_calls", "busy", "stopping"],
      handle({ params, query, body, grant, incoming, outgoing }) {
        const { arguments: input, ...options } = body;
        const reach: Reach =
          query.expert === undefined ? { grant } : reachOf(grant, skills.experts, query.expert);
        const called = params.name.includes("://") ? nameIn(params.name) : params.name;
        if (body.dryRun === true) requireDryRun(registry.get(called), reach);
        const expert = reach.expert?.name;
        const call = { name: called, input, grant: reach.grant, allow: reach.allow, expert, ...options };
        return serveCall(service, call, incoming, outgoing);
      },
    }),
  ];
}

const typescript = "text/plain; charset=utf-8";

/** Made one by one, because a definition takes longer to make than to declare. */
function* declaredTools(tools: readonly ToolInfo[]): Generator<ReturnType<typeof declaredTool>> {
  for (const info of tools) if (!info.disabled) yield declaredTool(info);
}

function nameIn(wanted: string): string {
  return parseToolReference(wanted) ?? wanted;
}

/** Throws when the tool has no dry run. A tool that the token may not see is refused later, as unknown. */
function requireDryRun(info: ToolInfo | undefined, { grant }: Reach): void {
  if (info === undefined || !grant.mayUse(info) || isSandboxed(info)) return;
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

async function isolationOf(info: ToolInfo, { sandbox }: HttpServices): Promise<object> {
  if (!isSandboxed(info)) return {};
  const { level, reason, code, details } = await sandbox();
  return { isolation: { level, label: isolationLabels[level], reason, code, details } };
}

/** Tools whose file no longer loads, served in their last good version. */
function staleTools({ files }: HttpServices): ReadonlySet<string> {
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
  { switches }: HttpServices,
): Record<string, unknown> {
  const { name, displayName, title, description, aliases, origin, createdAt, metadata } = info;
  const { category, tags, permissions, dangerous, readOnly } = metadata;
  const decided = switches.get(name);
  return {
    name,
    displayName: displayName ?? name,
    ...skillFacts(info),
    title,
    description,
    status: statusOf(info, stale),
    switched: decided && { enabled: decided.enabled, by: decided.by, at: decided.at },
    category,
    tags,
    aliases,
    dangerous: dangerous === true,
    readOnly: readOnly === true,
    tokens: definitionTokens(info),
    permissions,
    origin,
    ...placeOf(info),
    createdAt,
  };
}

/**
 * The id and the names under which the skill tables hold a tool; for a tool of no skill, its name as the id.
 */
function skillFacts(info: ToolInfo): Record<string, unknown> {
  const skill = skillToolInfo(info);
  if (skill === undefined) return { toolId: info.name };
  return { toolId: skill.toolId, skillName: skill.skillName, toolName: skill.toolName };
}

async function detailOf(info: ToolInfo, services: HttpServices): Promise<Record<string, unknown>> {
  const isolation = await isolationOf(info, services);
  const summary = { ...summaryOf(info, staleTools(services), services), ...isolation };
  // Only known secret values are masked in the metadata, not values under names such as `password`: those may be
  // properties of a schema.
  const metadata = services.registry.mask(safeJson(info.metadata).value);
  const { inputSchema, outputSchema } = definitionOf(info) ?? {};
  return { ...summary, inputSchema, outputSchema, metadata };
}

/** What people want to know of a tool beside its definition. Values and data are for admins only. */
async function aboutTool(
  tool: string,
  grant: Grant,
  { values, workspace }: HttpServices,
  linters: Linters,
): Promise<object> {
  const { found: findings } = await linters.lint(grant, tool);
  if (!grant.admin) return { findings };
  const [settings, secrets, data] = await Promise.all([
    values.settings(),
    values.secrets.list(),
    dataFolders(workspace).report(tool),
  ]);
  const set = [...settings, ...secrets.map(({ name }) => ({ name }))];
  return {
    findings,
    values: set.filter(({ name }) => !name.includes("/") || name.startsWith(toolSecretName(tool, ""))),
    data: data.files > 0 ? data : undefined,
  };
}

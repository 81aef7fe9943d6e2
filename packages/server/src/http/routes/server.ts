import type { JsonSchemaObject } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import { creatorOfGrant, maySee, scheduleView } from "../../calls/index.ts";
import { retentionOf } from "../../config/index.ts";
import { productVersion } from "../../helpers/index.ts";
import type { Store, StoredSchedule } from "../../store/index.ts";
import { mostHeld, StoreUnavailable, type UnavailableReason } from "../../store/index.ts";
import type { HttpParts } from "../app.ts";
import { describeApi } from "../openapi.ts";
import { ref } from "../schemas/common.ts";
import { defineRoute, HttpError, type Route } from "../wire/index.ts";

const prometheus = "text/plain; version=0.0.4; charset=utf-8";

/** What the server says of itself. `table` is asked for late: the description is one of the routes it describes. */
export function serverRoutes(
  { registry, files, skills, metrics, feed, recorder, store, log, mcpServers }: HttpParts,
  table: () => readonly Route[],
  schemas: Readonly<Record<string, JsonSchemaObject>>,
): Route[] {
  let description: unknown;
  return [
    defineRoute({
      method: "GET",
      path: "/metrics",
      id: "metrics",
      tag: "server",
      summary: "Counts and times in the text format of Prometheus",
      description: "Speaks only of tools that the token may use.",
      access: "token",
      responses: {
        200: { description: "The metrics.", contentType: prometheus, schema: { type: "string" } },
      },
      handle({ grant }) {
        const { totalTools, disabledTools } = registry.getStats();
        const failed = files.report().filter(({ status }) => status === "failed" || status === "stale");
        const readings = {
          activeCalls: registry.activeCalls().length,
          tools: { enabled: totalTools - disabledTools, disabled: disabledTools },
          failedFiles: failed.length,
          feedReaders: feed.readers,
          feedDropped: feed.dropped,
          recordFailures: recorder.failures,
          held: store.calls.held,
          log,
        };
        const body = metrics.render(readings, (name) => grant.mayUse(registry.get(name) ?? { name }));
        return { body, contentType: prometheus };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/openapi.json",
      id: "describe",
      tag: "server",
      summary: "This description",
      access: "token",
      responses: { 200: { description: "An OpenAPI 3.1 document.", schema: { type: "object" } } },
      handle() {
        description ??= describeApi(table(), schemas);
        return { body: description };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/api/files",
      id: "listFiles",
      tag: "files",
      summary: "The tool files and what became of each",
      access: "admin",
      responses: {
        200: {
          description: "The files as they stand.",
          schema: {
            type: "object",
            properties: { files: { type: "array", items: ref("FileReport") } },
            required: ["files"],
          },
        },
      },
      handle: () => ({ body: { files: files.report() } }),
    }),
    defineRoute({
      method: "POST",
      path: "/api/reload",
      id: "reload",
      tag: "files",
      summary: "Brings the rack in step with the tool files",
      access: "admin",
      body: { schema: { type: "object", additionalProperties: false } },
      responses: {
        200: { description: "What was loaded, removed and refused.", schema: ref("LoadReport") },
      },
      async handle() {
        const report = await files.load();
        // After the files: a skill's tool may stand for one of theirs.
        await skills.reload();
        await mcpServers?.reload();
        return { body: report };
      },
    }),
  ];
}

/** What the server runs with. It is changed in the workspace's config, not here. */
export function settingsRoutes({ workspace, config, registry, settings, program }: HttpParts): Route[] {
  const startedAt = Date.now();
  const { rateLimit, maxBody, maxCallsPerTool } = settings;
  return [
    defineRoute({
      method: "GET",
      path: "/api/server",
      id: "getServer",
      tag: "server",
      summary: "The version, the workspace and the limits of this server",
      access: "admin",
      responses: { 200: { description: "The server.", schema: ref("Server") } },
      handle: () => ({
        body: {
          version: productVersion(),
          workspace: workspace.directory,
          ...(program === undefined ? {} : { program }),
          startedAt,
          limits: {
            maxBody,
            maxCallsPerTool,
            timeout: registry.timeout,
            requestsPerSecond: rateLimit === false ? 0 : rateLimit.perSecond,
          },
          retention: retentionOf(config),
        },
      }),
    }),
  ];
}

export function clientRoutes({ clients }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/clients",
      id: "listClients",
      tag: "server",
      summary: "The MCP clients that were seen since the start",
      description: "Of very many, those that were seen last. A client over stdio has a server of its own.",
      access: "admin",
      responses: {
        200: {
          description: "The clients, the one that was seen last first.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Client") } },
            required: ["items"],
          },
        },
      },
      handle: () => ({ body: { items: clients?.list() ?? [] } }),
    }),
  ];
}

const status = (word: string) => ({
  type: "object",
  properties: { status: { const: word } },
  required: ["status"],
});

const counts = { type: "object", additionalProperties: { type: "number" } };
const readiness = {
  type: "object",
  properties: {
    status: { enum: ["ready", "degraded"] },
    reason: { enum: ["away", "busy", "full", "failing", "damaged"] },
    message: { type: "string" },
    records: { ...counts, description: "Records that wait in memory, and how many may." },
    log: { ...counts, description: "Lines of the log that wait in memory, and those that were given up." },
    freeBytes: { type: "number", description: "Room on the disk of the workspace." },
  },
  required: ["status"],
};

/** How long the store may take to show that it lives, and how long what it showed is believed. */
const PATIENCE = 2_000;
const BELIEVED = 1_000;
/** Less room than this is too little to count on, in bytes. */
const LITTLE_ROOM = 4 * 1024 * 1024;
/** Seconds after which the store may be back. */
const RETRY_AFTER = { "Retry-After": "5" };

/** What load balancers ask. Open to anybody, so it names no place and asks the store once a second at most. */
export function healthRoutes(parts: HttpParts): Route[] {
  const probe = storeProbe(parts.store);
  return [
    defineRoute({
      method: "GET",
      path: "/healthz",
      id: "health",
      tag: "server",
      summary: "Whether the process lives",
      access: "open",
      responses: { 200: { description: "It does.", schema: status("ok") } },
      handle: () => ({ body: { status: "ok" } }),
    }),
    defineRoute({
      method: "GET",
      path: "/readyz",
      id: "ready",
      tag: "server",
      summary: "Whether the server takes work",
      description:
        "`degraded`: it takes calls, but the store or the log cannot take what is recorded of them. That waits in memory, up to the limit in the answer, and is written when there is room; from then on the answer is 503 and calls are refused.",
      access: "open",
      responses: { 200: { description: "It does.", schema: readiness } },
      errors: ["not_ready", "stopping"],
      async handle() {
        if (parts.stopping()) throw new HttpError("stopping", "The server is stopping.");
        const { reason, freeBytes } = await probe();
        const facts = heldBy(parts, freeBytes);
        const why = reason ?? parts.store.calls.held.reason;
        const said = why === undefined ? {} : { reason: why };
        if (reason !== undefined) throw notReady(messages[reason], { ...said, ...facts });
        if (parts.store.calls.held.isFull) throw notReady(NO_MORE, { ...said, ...facts });
        const problem = problemOf(parts, why, freeBytes);
        if (problem === undefined) return { body: { status: "ready" } };
        return { body: { status: "degraded", reason: why ?? "full", message: problem, ...facts } };
      },
    }),
  ];
}

function notReady(message: string, details: Readonly<Record<string, unknown>>): HttpError {
  return new HttpError("not_ready", message, { details, headers: RETRY_AFTER });
}

/** Without the places and the words of the database, which are for who reads the log. */
const messages: Readonly<Record<UnavailableReason, string>> = {
  away: "The store does not answer. The server connects again by itself when it is back.",
  busy: "The store does not answer: another process keeps it locked.",
  full: "The store does not answer: its disk is full.",
  failing: "The store does not answer: its disk cannot be read or written.",
  damaged: "The store is damaged. Stop the server and run `toolrack doctor --repair`.",
};
const NO_MORE =
  "The store cannot take records, and as many as are kept in memory wait for it. Calls are refused until they are written.";

function problemOf(
  { store, log }: HttpParts,
  why: UnavailableReason | undefined,
  freeBytes: number | undefined,
): string | undefined {
  const { records, journaled } = store.calls.held;
  if (records > 0) {
    return `The store cannot take records of calls (${why}); they wait in memory and are written when it can.`;
  }
  if (journaled > 0) return "The database refuses records of calls; they are safe in the journal beside it.";
  if (log.held > 0) return "The log cannot be written; its lines wait in memory.";
  if (freeBytes !== undefined && freeBytes < LITTLE_ROOM)
    return "There is hardly any room left on the disk of the workspace. Make some.";
  return undefined;
}

function heldBy({ store, log }: HttpParts, freeBytes: number | undefined): Record<string, unknown> {
  const { records, bytes, journaled } = store.calls.held;
  return {
    records: { held: records, bytes, journaled, mostHeld: mostHeld.records, mostBytes: mostHeld.bytes },
    log: { held: log.held, lost: log.lost },
    ...(freeBytes === undefined ? {} : { freeBytes }),
  };
}

interface Probed {
  /** Why the store cannot be read; undefined when it can. */
  readonly reason: UnavailableReason | undefined;
  readonly freeBytes: number | undefined;
}

function storeProbe(store: Store): () => Promise<Probed> {
  let latest: Promise<Probed> | undefined;
  let askedAt = 0;
  return () => {
    const now = performance.now();
    if (latest !== undefined && now - askedAt < BELIEVED) return latest;
    askedAt = now;
    latest = Promise.all([whyUnread(store), store.room()]).then(([reason, freeBytes]) => ({
      reason,
      freeBytes,
    }));
    return latest;
  };
}

async function whyUnread(store: Store): Promise<UnavailableReason | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<UnavailableReason>((resolve) => {
    timer = setTimeout(resolve, PATIENCE, "away");
  });
  const answer = store.calls.list({ limit: 1 }).then(
    () => undefined,
    (error) => StoreUnavailable.from(error)?.reason ?? "away",
  );
  const answered = await Promise.race([answer, late]);
  clearTimeout(timer);
  return answered;
}

export function reloadRoutes({ reloads }: HttpParts): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/reloads",
      id: "listReloads",
      tag: "files",
      summary: "The last loads of the tool files, newest first",
      description: "At most 100 since the start, the first load among them. Each list has at most 200 names.",
      access: "admin",
      responses: {
        200: {
          description: "The loads.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Reload") } },
            required: ["items"],
          },
        },
      },
      handle: () => ({ body: { items: reloads.list() } }),
    }),
  ];
}

interface StatsQuery {
  readonly since?: number;
  readonly tool?: string;
}

const DAY = 24 * 60 * 60_000;
const LATEST = 8_640_000_000_000_000;

export function statsRoutes({ store: { calls } }: HttpParts): Route[] {
  return [
    defineRoute<object, StatsQuery>({
      method: "GET",
      path: "/api/stats",
      id: "getStats",
      tag: "calls",
      summary: "How many calls ended, failed and how long they took: in all, over time and by tool",
      description:
        "Of all recorded calls. The slices of time are minutes for the last two hours, quarters of an hour for two days, hours for a week and days for more.",
      access: "admin",
      query: {
        since: {
          type: "integer",
          minimum: 0,
          maximum: LATEST,
          description: "Milliseconds since the epoch. Default a day ago.",
        },
        tool: { type: "string", description: "The tool's name; `*` stands for anything." },
      },
      responses: { 200: { description: "The numbers.", schema: ref("Statistics") } },
      async handle({ query: { since, tool } }) {
        const until = Date.now();
        const from = since ?? until - DAY;
        const found = await calls.statistics({ since: from, until, ...(tool === undefined ? {} : { tool }) });
        return { body: { since: from, until, ...found } };
      },
    }),
  ];
}

/** Schedules are made with `schedule_tool`, like everything that a model may ask for; here people look after them. */
export function scheduleRoutes({ store }: HttpParts): Route[] {
  const { schedules } = store;
  return [
    defineRoute<object, { state?: StoredSchedule["state"] | "all" }>({
      method: "GET",
      path: "/api/schedules",
      id: "listSchedules",
      tag: "schedules",
      summary: "What is to run later, the soonest first",
      description: "An admin sees all schedules; any other token those that were made with it.",
      access: "token",
      query: { state: { enum: ["active", "finished", "cancelled", "all"], default: "active" } },
      responses: {
        200: {
          description: "The schedules.",
          schema: {
            type: "object",
            properties: { items: { type: "array", items: ref("Schedule") } },
            required: ["items"],
          },
        },
      },
      async handle({ query: { state = "active" }, grant }) {
        const creator = creatorOfGrant(grant);
        const found = await schedules.list(state === "all" ? {} : { state });
        return { body: { items: found.filter((one) => maySee(creator, one)).map(scheduleView) } };
      },
    }),
    defineRoute<{ id: string }>({
      method: "DELETE",
      path: "/api/schedules/{id}",
      id: "cancelSchedule",
      tag: "schedules",
      summary: "Cancels a schedule",
      description: "A run that is under way goes on; cancel its call to end it.",
      access: "token",
      params: { id: { type: "string", minLength: 1, maxLength: 80 } },
      responses: { 200: { description: "The schedule as it is now.", schema: ref("Schedule") } },
      errors: ["schedule_not_found", "schedule_ended"],
      async handle({ params: { id }, grant }) {
        const schedule = await requireSchedule(id, grant);
        const isCancelled = await schedules.cancel(id);
        const now = (await schedules.get(id)) ?? schedule;
        if (isCancelled) return { body: scheduleView(now) };
        throw new HttpError("schedule_ended", `The schedule "${id}" is ${now.state} already.`, {
          details: { id, state: now.state },
        });
      },
    }),
  ];

  /** One of others is not told from one that never was. */
  async function requireSchedule(id: string, grant: Grant): Promise<StoredSchedule> {
    const schedule = await schedules.get(id);
    if (schedule !== undefined && maySee(creatorOfGrant(grant), schedule)) return schedule;
    throw new HttpError(
      "schedule_not_found",
      `This token knows no schedule "${id}". GET /api/schedules lists those that it may see.`,
      { details: { id } },
    );
  }
}

export function eventRoutes({ feed, authenticator }: HttpParts): Route[] {
  return [
    defineRoute<object, { since?: string; token?: string }>({
      method: "GET",
      path: "/api/events",
      id: "readEvents",
      tag: "events",
      summary: "What happens on the rack, as it happens",
      description: [
        "A stream of `call.queued`, `call.started`, `call.updated`, `call.progress`, `call.log`, `call.approval_requested`,",
        "`call.approval_resolved`, `call.completed`, `call.failed`, `call.cancelled`, `loop.detected`,",
        "`approval.changed`, `tools.changed`, `tool.switched`, `skill.changed`, `skill.removed`, `expert.changed`,",
        "`expert.removed`, `mcp.server`, `mcp.file`, `client.connected`, `reload.started`, `reload.finished` and `reload.failed`. It opens with `ready`.",
        "A reader that comes back with",
        "`Last-Event-ID` is given what it missed, or `reset` when that is not known any more: then it reads the lists",
        "anew. Events hold ids and summaries. An admin is told of everything, any other token of its own calls.",
      ].join(" "),
      access: "token",
      tokenInQuery: true,
      query: {
        since: { type: "string", maxLength: 64, description: "Like `Last-Event-ID`, for a first request." },
        token: {
          type: "string",
          description:
            "The token, for readers that cannot send headers. No other path takes it from the URL.",
        },
      },
      responses: {
        200: { description: "The stream.", contentType: "text/event-stream", schema: { type: "string" } },
      },
      errors: ["stopping"],
      handle({ query, grant, incoming, outgoing }) {
        if (incoming.method === "HEAD") {
          throw new HttpError("method_not_allowed", "A stream has no HEAD.", { headers: { Allow: "GET" } });
        }
        const header = incoming.headers["last-event-id"];
        const lastEventId = typeof header === "string" ? header : query.since;
        const { authorization } = incoming.headers;
        const isWelcome = async () =>
          (await authenticator.authenticate({ authorization, query: query.token })).ok;
        feed.subscribe(outgoing, grant, lastEventId, isWelcome);
        return "sent";
      },
    }),
  ];
}

import { join } from "node:path";
import type { Grant } from "../../access/index.ts";
import { retentionOf } from "../../config/index.ts";
import { type LaneView, NodeSilent } from "../../fleet/index.ts";
import { productVersion } from "../../helpers/index.ts";
import { DataFolders } from "../../sandbox/index.ts";
import type { HttpServices } from "../services.ts";
import { HttpError, Reply, type Route, refuseHead, routesFor, s, sent, whileAwaited } from "../wire/index.ts";

const prometheus = "text/plain; version=0.0.4; charset=utf-8";
const DAY = 24 * 60 * 60_000;
const LATEST = 8_640_000_000_000_000;

/** Information about the server and its tool files. `describe` makes the OpenAPI document. */
export function serverRoutes(services: HttpServices, describe: () => unknown): Route[] {
  const { registry, files, skills, settings, reloads, clients, mcpServers } = services;
  const startedAt = Date.now();
  let description: unknown;
  const server = routesFor("server", "admin");
  const file = routesFor("files", "admin");
  return [
    server("GET /metrics", "metrics", "Counts and times in the text format of Prometheus", {
      description:
        "Speaks only of tools that the token may use, and except to admins only of its own use of models.",
      access: "token",
      answer: ["The metrics.", s.text(), prometheus],
      handle: ({ grant }) => new Reply(renderMetrics(services, grant), { contentType: prometheus }),
    }),
    server("GET /openapi.json", "describe", "This description", {
      access: "token",
      answer: ["An OpenAPI 3.1 document.", s.anyObject()],
      handle() {
        description ??= describe();
        return description;
      },
    }),
    file("GET /api/files", "listFiles", "The tool files and what became of each", {
      query: {
        problems: s.boolean("Only files that could not be loaded or have warnings.", { default: false }),
      },
      answer: [
        "The files as they stand.",
        s.object({ files: s.list(s.ref("FileReport")), total: s.count() }),
      ],
      handle({ query: { problems } }) {
        const all = files.report();
        const wrong = () =>
          all.filter(({ failure, warnings }) => failure !== undefined || warnings.length > 0);
        return { files: problems ? wrong() : all, total: all.length };
      },
    }),
    file("POST /api/reload", "reload", "Brings the rack in step with the tool files", {
      optionalBody: { type: "object", additionalProperties: false },
      answer: ["What was loaded, removed and refused.", s.ref("LoadReport")],
      async handle() {
        const report = await files.load();
        // After the files, because a skill's tool may refer to a tool of a file.
        await skills.reload();
        await mcpServers?.reload();
        return report;
      },
    }),
    server("GET /api/server", "getServer", "The version, the workspace and the limits of this server", {
      answer: ["The server.", s.ref("Server")],
      handle: () => ({
        version: productVersion(),
        workspace: services.workspace.directory,
        program: services.program,
        startedAt,
        limits: {
          maxBody: settings.maxBody,
          maxCallsPerTool: settings.maxCallsPerTool,
          timeout: registry.timeout,
          requestsPerSecond: settings.rateLimit === false ? 0 : settings.rateLimit.perSecond,
        },
        // Read-only here: retention is set in the workspace's config.
        retention: retentionOf(services.config),
      }),
    }),
    file("GET /api/reloads", "listReloads", "The last loads of the tool files, newest first", {
      description: "At most 100 since the start, the first load among them. Each list has at most 200 names.",
      answer: ["The loads.", s.items(s.ref("Reload"))],
      handle: () => ({ items: reloads.list() }),
    }),
    server("GET /api/clients", "listClients", "The MCP clients that were seen since the start", {
      description: "Of very many, those that were seen last. A client over stdio has a server of its own.",
      answer: ["The clients, the one that was seen last first.", s.items(s.ref("Client"))],
      handle: () => ({ items: clients?.list() ?? [] }),
    }),
  ];
}

export function statsRoute({ store }: HttpServices): Route {
  return routesFor("calls", "admin")(
    "GET /api/stats",
    "getStats",
    "How many calls ended, failed and how long they took, and how many tokens models took",
    {
      description:
        "Of all recorded calls, to the minute; of more than three days to the hour, of more than nine to the day. The slices of time are minutes for the last two hours, quarters of an hour for two days (with a pattern hours), hours for a week and days for more. `p50` and `p95` are from histograms, and leave out the time for which calls waited for an approval. Calls that were cancelled, or that nobody approved, are `cancelled` and no errors. `usage` has the tokens of all models in whole days of UTC, whatever `tool` is.",
      query: {
        since: s.integer("Milliseconds since the epoch. Default a day ago.", { minimum: 0, maximum: LATEST }),
        tool: s.text(
          "The tool's name, or a pattern that means at most 250 tools: `*` stands for anything. Default: all tools.",
        ),
        tools: s.integer("How many tools are listed. Default 500.", { minimum: 0, maximum: 500 }),
      },
      answer: ["The numbers.", s.ref("Statistics")],
      async handle({ query: { since, tool, tools }, incoming, outgoing }) {
        const until = Date.now();
        const asked = { since: since ?? until - DAY, until };
        const read = (signal: AbortSignal) => store.calls.statistics({ ...asked, tool, tools, signal });
        const calls = await whileAwaited(incoming, outgoing, read);
        return { ...asked, ...calls, usage: await store.usage.statistics(asked) };
      },
    },
  );
}

function renderMetrics(
  { registry, files, metrics, feed, recorder, store, log }: HttpServices,
  grant: Grant,
): string {
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
    usage: store.usage.counted().filter(({ caller }) => grant.admin || caller === grant.caller),
  };
  return metrics.render(readings, (name) => grant.mayUse(registry.get(name) ?? { name }));
}

/** The files that sandboxed tools and skills have kept. */
export function dataFolders({ directory }: HttpServices["workspace"]): DataFolders {
  return new DataFolders(join(directory, ".toolrack", "data"));
}

export function dataRoutes({ workspace }: HttpServices): Route[] {
  const route = routesFor("data", "admin");
  const folders = dataFolders(workspace);
  return [
    route("GET /api/data", "listData", "How much each sandboxed tool and skill has kept in its data folder", {
      answer: ["Those with files, by name.", s.items(s.ref("DataFolder"))],
      handle: async () => ({ items: await folders.list() }),
    }),
    route("DELETE /api/data/{name}", "clearData", "Deletes all files in a data folder", {
      description: "A call that is under way finds its files gone.",
      params: { name: s.text("As `GET /api/data` lists it.", { minLength: 1, maxLength: 200 }) },
      answer: ["What was deleted.", s.ref("DataFolder")],
      errors: ["data_not_found"],
      async handle({ params: { name } }) {
        if ((await folders.list()).some((one) => one.name === name)) return folders.clear(name);
        const message = `"${name}" has kept no files. GET /api/data lists those that have.`;
        throw new HttpError("data_not_found", message, { details: { name } });
      },
    }),
  ];
}

export function eventRoute({ feed, authenticator }: HttpServices): Route {
  return routesFor("events", "token")(
    "GET /api/events",
    "readEvents",
    "What happens on the rack, as it happens",
    {
      description: [
        "A stream of `call.queued`, `call.started`, `call.updated`, `call.progress`, `call.log`, `call.approval_requested`,",
        "`call.approval_resolved`, `call.completed`, `call.failed`, `call.cancelled`, `loop.detected`, `loop.resumed`,",
        "`approval.changed`, `tools.changed`, `tool.switched`, `skill.changed`, `skill.removed`, `expert.changed`,",
        "`expert.removed`, `mcp.server`, `mcp.file`, `client.connected`, `reload.started`, `reload.finished` and `reload.failed`. It opens with `ready`.",
        "A reader that comes back with",
        "`Last-Event-ID` is given what it missed, or `reset` when that is not known any more: then it reads the lists",
        "anew. Events hold ids and summaries. An admin is told of everything, any other token of its own calls,",
        "and one with a grant to approve that questions changed, without saying which.",
      ].join(" "),
      tokenInQuery: true,
      query: {
        since: s.text("Like `Last-Event-ID`, for a first request.", { maxLength: 64 }),
        token: s.text(
          "The token, for readers that cannot send headers. No other path takes it from the URL.",
        ),
      },
      answer: ["The stream.", s.text(), "text/event-stream"],
      errors: ["stopping"],
      async handle({ query, grant, incoming, outgoing }) {
        refuseHead(incoming);
        await feed.prepare();
        const { authorization, "last-event-id": header } = incoming.headers;
        const lastEventId = typeof header === "string" ? header : query.since;
        const isAuthorized = async () =>
          (await authenticator.authenticate({ authorization, query: query.token })).ok;
        feed.subscribe(outgoing, grant, lastEventId, isAuthorized);
        return sent;
      },
    },
  );
}

/** The servers and workers that share the database. */
export function nodeRoutes({ nodes, lanes, drain }: HttpServices): Route[] {
  const route = routesFor("server", "admin");
  return [
    route("GET /api/nodes", "listNodes", "The servers and workers on the same database", {
      description:
        "The one that answers comes first. What others tell of themselves is some seconds old. With SQLite there is one. With Redis the lanes are told too, with what each of their workers says of itself.",
      answer: [
        "The nodes, and the lanes.",
        s.object({ items: s.list(s.ref("Node")), lanes: s.list(s.ref("Lane")) }),
      ],
      handle: async () => ({ items: nodes.list(), lanes: ((await lanes?.list()) ?? []).map(laneOf) }),
    }),
    route("POST /api/nodes/{id}/drain", "drainNode", "Has a node hand over and end", {
      description:
        "From then on `GET /readyz` of that node answers 503. After `server.drainDelay` it takes no more calls, and ends when those under way have, or after `server.drainTimeout`.",
      params: { id: s.text({ minLength: 1 }) },
      answer: ["It will.", s.object({ id: s.text() })],
      errors: ["node_not_found"],
      async handle({ params: { id } }) {
        // One that has just started is not in the list yet.
        await drain(id).catch((thrown) => {
          throw thrown instanceof NodeSilent ? unknownNode(id) : thrown;
        });
        return { id };
      },
    }),
  ];
}

function laneOf({ workers, ...lane }: LaneView) {
  return {
    ...lane,
    workers: workers.map(({ id, host, pid, version, concurrency, running, startedAt }) => ({
      ...{ id, name: `${host}:${pid}`, version, concurrency, running, startedAt },
    })),
  };
}

function unknownNode(id: string): HttpError {
  return new HttpError(
    "node_not_found",
    `No node "${id}" answers. GET /api/nodes lists those that are there.`,
  );
}

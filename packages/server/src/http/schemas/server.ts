import { mcpServer, mcpServerTool } from "../../mcp/connect/index.ts";
import { connectedClient } from "../../mcp/wire/index.ts";
import { s } from "../wire/index.ts";
import { callSchemas } from "./calls.ts";
import { skillSchemas } from "./skills.ts";

const token = {
  id: s.text(),
  name: s.text(),
  scopes: s.object(
    {
      "tools?": s.texts(),
      "experts?": s.texts(),
      "approve?": s.texts(),
      "admin?": s.boolean(),
      "chat?": s.boolean(),
    },
    "What it may do; nothing else. `*` in a name stands for anything.",
  ),
  createdAt: s.moment(),
  "lastUsedAt?": s.moment("To the minute. Absent while it was never used."),
  "expiresAt?": s.moment(),
};

const totals = {
  calls: s.count("Those that have ended."),
  errors: s.count("Those of them that failed."),
  cancelled: s.count("Those of them that were cancelled, or that nobody approved; they did not fail."),
  "p50?": s.amount("Milliseconds that half of their tools took at the most, from a histogram."),
  "p95?": s.amount("Milliseconds that nineteen of twenty took at the most."),
};

const usageTotals = {
  requests: s.count("Answers of models."),
  estimated: s.count("Those of them whose tokens are estimated."),
  promptTokens: s.count("What they read."),
  cachedTokens: s.count("What the providers had in their cache of it."),
  completionTokens: s.count("What they wrote."),
  cost: s.amount("By the prices of the config at that time, or else as the provider told. 0 without either."),
};

const fileReport = s.object({
  file: s.text(),
  status: s.choice(["loaded", "adapted", "stale", "failed", "helper"]),
  "contract?": s.anything(),
  tools: s.texts(),
  warnings: s.texts(),
  "failure?": s.object({
    file: s.text(),
    "line?": s.count(),
    reason: s.text(),
    remedy: s.text(),
    "code?": s.choice(
      ["syntax", "not_installed", "threw", "no_tool"],
      "The kind of mistake, if it is a common one.",
    ),
    "frame?": s.text("The lines around the trouble, which is marked."),
  }),
});

/** The named schemas of `/openapi.json`. */
export const schemas: Readonly<Record<string, s.Schema>> = {
  ...skillSchemas,
  ...callSchemas,
  McpServer: mcpServer,
  McpServerTool: mcpServerTool,
  FileReport: fileReport,
  LoadReport: s.object({
    files: s.list(s.ref("FileReport")),
    compiled: s.texts(),
    added: s.texts(),
    changed: s.texts(),
    removed: s.texts(),
    duration: s.amount(),
  }),
  Server: s.object({
    version: s.text(),
    workspace: s.text("The directory that is served."),
    "program?": s.texts(
      "The words that start the program again, from any folder. Absent where the server is a part of another program.",
    ),
    startedAt: s.moment(),
    limits: s.object({
      maxBody: s.count("The largest body of a request, in bytes."),
      maxCallsPerTool: s.count("Calls of one tool that may be under way."),
      timeout: s.amount("Milliseconds that a tool may run unless it says otherwise; 0 for any time."),
      requestsPerSecond: s.amount("For each token; 0 for any number."),
    }),
    retention: s.object({ days: s.amount(), maxBytes: s.amount() }, "What is kept of calls that have ended."),
  }),
  Reload: s.object(
    {
      at: s.moment(),
      added: s.texts("Names of tools, like those of `changed` and `removed`."),
      changed: s.texts(),
      removed: s.texts(),
      failed: s.texts("Files that could not be loaded."),
      duration: s.amount(),
    },
    "One load of the tool files.",
  ),
  Token: s.object(token),
  NewToken: s.object({ ...token, token: s.text("Its text, shown only here.") }),
  DataFolder: s.closed(
    { name: s.text("The tool, or `skill.` with the folder of a skill."), files: s.count(), bytes: s.count() },
    "What a sandboxed tool or skill has kept in `.toolrack/data`.",
  ),
  SearchList: s.object({
    learning: s.boolean("Whether searches are learned, and help others."),
    total: s.count(),
    items: s.list(s.ref("Search")),
  }),
  Search: s.object(
    {
      id: s.text(),
      query: s.text("What was searched for, at most 300 characters."),
      toolName: s.text("The tool that was called afterwards."),
      owner: s.text("Who searched, as records name the caller; empty for the operator."),
      uses: s.count("How often."),
      createdAt: s.moment(),
      usedAt: s.moment(),
    },
    "A search that was followed by a call of a tool that it had found.",
  ),
  Secret: s.closed({ name: s.text(), createdAt: s.moment(), updatedAt: s.moment() }),
  Setting: s.closed({ name: s.text(), value: s.text(), createdAt: s.moment(), updatedAt: s.moment() }),
  Node: s.object(
    {
      id: s.text(),
      role: s.choice(["server", "worker"]),
      name: s.text("The name of its machine and the id of its process."),
      version: s.text(),
      "url?": s.text("Where it listens, as it knows itself."),
      state: s.choice(
        ["serving", "draining", "silent"],
        "`draining`: it takes no new work and ends soon. `silent`: it gave no sign for so long that others take up its work.",
      ),
      startedAt: s.moment(),
      calls: s.count("Calls that it runs."),
      load: s.number("The part of its time in which the process was busy, from 0 to 1."),
      memory: s.count("Bytes."),
      "lag?": s.number(
        "Milliseconds that its last heartbeat took: the way to the database and back. Absent without a database server.",
      ),
      silence: s.number("Milliseconds since its last heartbeat."),
      isSelf: s.boolean("The one that answers."),
      "lanes?": s.list(s.text(), "The lanes of a worker."),
    },
    "A server or worker on the database.",
  ),
  Lane: s.object(
    {
      name: s.text(),
      waiting: s.count("Calls that wait for a worker."),
      tools: s.list(s.text(), "The names of its tools."),
      workers: s.list(
        s.object({
          id: s.text("As in `Node`."),
          name: s.text("Its machine and the id of its process."),
          version: s.text(),
          concurrency: s.count("Calls that it performs at once."),
          running: s.count("Calls that it performs now, of all its lanes."),
          startedAt: s.moment(),
        }),
      ),
    },
    "A lane, as the server that answers sees it.",
  ),
  Client: connectedClient,
  Overview: s.object({
    tools: s.object({
      ready: s.count(),
      disabled: s.count(),
      own: s.count("Those that are not built in."),
    }),
    running: s.list(s.ref("CallSummary"), "Calls under way, at most 500."),
    failures: s.list(s.ref("CallSummary"), "The latest six that failed; cancelled and denied ones did not."),
    loops: s.count("How often a session went in circles in the last 24 hours."),
    hasCalls: s.boolean("Whether any tool was ever called."),
    "files?": s.object({ failed: s.count("Tool files that do not load.") }),
    "mcpServers?": s.object({ enabled: s.count(), ready: s.count(), starting: s.count() }),
    "clients?": s.list(s.ref("Client"), "Those that were seen since the start."),
    "hasClients?": s.boolean("Whether any MCP client, or token, was ever used."),
  }),
  Statistics: s.object({
    since: s.moment(),
    until: s.moment(),
    ...totals,
    interval: s.count("Milliseconds of one slice of time."),
    buckets: s.list(
      s.object({ at: s.moment(), ...totals }),
      "The slices, oldest first. Those without a call are left out.",
    ),
    tools: s.list(
      s.object({ toolName: s.text(), ...totals }),
      "The tools with the most calls first. Of more than three hours, a tool that was not among the first 500 on any day of UTC is missing. Only the first 50 have `p50` and `p95`.",
    ),
    usage: s.object(
      {
        ...usageTotals,
        days: s.list(
          s.object({ day: s.text("Of UTC, such as `2026-11-16`."), ...usageTotals }),
          "The oldest first.",
        ),
        callers: s.list(
          s.object({ caller: s.text("A token, as records name it."), ...usageTotals }),
          "Like the next two, those with the most tokens first, at most 500.",
        ),
        models: s.list(s.object({ model: s.text("`PROVIDER/NAME`."), ...usageTotals })),
        sessions: s.list(
          s.object({ session: s.text(), ...usageTotals }),
          "The conversations that the server keeps.",
        ),
      },
      "What models were asked, from the day of `since` on.",
    ),
  }),
};

import * as s from "../../helpers/schema.ts";
import { serverReasonCodes } from "./failures.ts";

/** The state of a server's connection. */
const status = {
  state: s.choice(["starting", "ready", "needs-auth", "backoff", "failed", "disabled"]),
  "reason?": s.text("Why it is not ready, with the line of its process that says so."),
  "reasonCode?": s.choice(serverReasonCodes, "The reason, for programs with words of their own."),
  "reasonDetails?": s.anyObject("The values in the reason."),
  since: s.moment(),
  resting: s.boolean("Nobody called it for a while, so its process was ended; the next call starts it."),
  circuit: s.choice(
    ["closed", "open", "half-open"],
    "`open`: calls fail at once. `half-open`: it is being tried again.",
  ),
  failures: s.count("How often it failed in a row."),
  "nextAttemptAt?": s.moment(),
  transport: s.choice(["stdio", "http", "sse", "api"], "`api`: it is an HTTP API and no MCP server."),
  "era?": s.choice(["modern", "legacy"], "`modern`: the stateless protocol of 2026-07-28."),
  "protocolVersion?": s.text(),
  "serverInfo?": s.object({ "name?": s.text(), "version?": s.text() }),
  "pid?": s.count(),
  inFlight: s.count("Calls that it works on."),
  waiting: s.count("Calls that wait for their turn."),
  noise: s.count("Lines on its standard output that were no messages."),
};

/** The state of a sign-in. */
const signIn = {
  signedIn: s.boolean(),
  pending: s.boolean("Somebody was sent to sign in and has not come back."),
  "problem?": s.text("Why the last attempt came to nothing."),
};

/** A server as the API and the console show it. */
export const mcpServer = s.object({
  key: s.text(),
  place: s.choice(["file", "store"], "`file`: it stands in the workspace's file and is changed there."),
  enabled: s.boolean(),
  "problem?": s.text(
    "What is wrong with its entry as it is written now, while it goes on as the entry last said; otherwise, which of its lists were not read to their ends, and why.",
  ),
  "problemOf?": s.choice(["entry", "lists"], "What the problem is with."),
  entry: s.anyObject("As it stands in `mcpServers`; values that may be secret are hidden."),
  ...status,
  tools: s.count(),
  leftOut: s.count("Tools that its entry lets in and that cannot be used; `refused` says why."),
  quarantined: s.count("Tools that changed since they were approved."),
  tokens: s.count("What its usable tools cost a context: the tokens of their definitions, estimated."),
  "instructions?": s.object(
    {
      text: s.text(),
      from: s.choice(["entry", "server"], "Whose words they are."),
      "changed?": s.object(
        { text: s.text(), hash: s.text() },
        "What the server says now and nobody has approved. The hash is sent back under the empty name.",
      ),
    },
    "What clients are told about it.",
  ),
  prompts: s.count(),
  resources: s.count(),
  refused: s.list(
    s.object({ name: s.text(), reason: s.text() }),
    "Tools, prompts, resources and templates that it lists and that cannot be used.",
  ),
  "connections?": s.count("Only of a server that keeps its callers apart: how many connections they have."),
  "signIn?": s.object(
    signIn,
    "Only of a server at an address that is sent no `Authorization` header of its entry. Where each token signs in for itself: of the token that asks.",
  ),
});

/** A tool of a server, as the API and the console show it. */
export const mcpServerTool = s.object({
  name: s.text("As the server names it."),
  rackName: s.text("As the rack names it."),
  "description?": s.text(),
  "tokens?": s.count("Of its definition on the rack, estimated."),
  hash: s.text("Of its definition as it is now. Sent back with an approval, it says what was looked at."),
  offered: s.boolean("Whether the entry lets it in, and it can be used."),
  pin: s.choice(["approved", "quarantined", "unpinned"]),
  unchecked: s.list(
    s.object({ part: s.text(), reason: s.text() }),
    "Parts of the schemas of an offered tool that are not checked here, and why.",
  ),
  changes: s.list(
    s.object({ path: s.text(), "before?": s.anything(), "after?": s.anything() }),
    "What changed since it was approved.",
  ),
  "approvedAt?": s.moment(),
  "approvedBy?": s.text("`first use` when nobody was asked."),
  override: s.object({ "rename?": s.text(), "describe?": s.text() }),
});

export type UpstreamStatus = s.Values<typeof status>;
export type SignInView = s.Values<typeof signIn>;
export type McpServerView = s.ValueOf<typeof mcpServer>;
export type McpToolView = s.ValueOf<typeof mcpServerTool>;

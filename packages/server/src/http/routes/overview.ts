import type { Grant } from "../../access/index.ts";
import { isHelperTool, loopKey } from "../../calls/index.ts";
import type { CallQuery } from "../../store/index.ts";
import { summaryOf } from "../call-answers.ts";
import type { HttpServices } from "../services.ts";
import { type Route, routesFor, s } from "../wire/index.ts";

const DAY = 24 * 60 * 60_000;
const MOST = 500;
const MOST_FAILURES = 6;
/** Calls that ended this way did not fail. */
const calledOff: ReadonlySet<unknown> = new Set(["cancelled", "approval_denied"]);

/** What the first page of the console shows, in one answer. */
export function overviewRoute(services: HttpServices): Route {
  return routesFor("server", "token")("GET /api/overview", "getOverview", "How the rack is, in numbers", {
    description: "Of tools and calls, what the token may see. Only admins get what `files` and later have.",
    answer: ["The numbers.", s.ref("Overview")],
    async handle({ grant }) {
      const own = grant.admin ? {} : { owner: grant.caller };
      const list = async (query: CallQuery) => (await services.store.calls.list({ ...query, ...own })).items;
      const [running, failed, looped, latest] = await Promise.all([
        list({ status: "running", limit: MOST }),
        list({ status: "error", limit: MOST_FAILURES * 5 }),
        list({ flag: "loop", since: Date.now() - DAY, limit: MOST }),
        list({ limit: 1 }),
      ]);
      const failures = failed.filter(({ error }) => !calledOff.has(error?.code)).slice(0, MOST_FAILURES);
      return {
        tools: countTools(services, grant),
        running: running.map(summaryOf),
        failures: failures.map(summaryOf),
        loops: new Set(looped.map(loopKey)).size,
        hasCalls: latest.length > 0,
        ...(grant.admin && (await forAdmins(services))),
      };
    },
  });
}

function countTools({ registry }: HttpServices, grant: Grant): object {
  // As lists count them: without the tools that only help a model to find and call others.
  const tools = registry.getAll().filter((tool) => !isHelperTool(tool.name) && grant.mayUse(tool));
  const disabled = tools.filter((tool) => tool.disabled).length;
  const own = tools.filter(({ origin = "built-in" }) => !origin.startsWith("built-in")).length;
  return { ready: tools.length - disabled, disabled, own };
}

async function forAdmins({ files, mcpServers, clients, store }: HttpServices): Promise<object> {
  const upstream = (await mcpServers?.list())?.filter(({ enabled }) => enabled) ?? [];
  const seen = clients?.list() ?? [];
  return {
    files: {
      failed: files.report().filter(({ status }) => status === "failed" || status === "stale").length,
    },
    mcpServers: {
      enabled: upstream.length,
      ready: upstream.filter(({ state }) => state === "ready").length,
      starting: upstream.filter(({ state }) => state === "starting").length,
    },
    clients: seen,
    // A client of an earlier run has used its token.
    hasClients:
      seen.length > 0 || (await store.tokens.list()).some(({ lastUsedAt }) => lastUsedAt !== undefined),
  };
}

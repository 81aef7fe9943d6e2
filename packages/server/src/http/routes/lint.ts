import type { RegistrySnapshot, ToolInfo } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import { isHelperTool } from "../../calls/index.ts";
import { toolMatcher } from "../../config/index.ts";
import type { Finding, Linter } from "../../lint/index.ts";
import type { HttpServices } from "../services.ts";
import { type Route, routesFor, s, whileAwaited } from "../wire/index.ts";

export function lintRoute(linters: Linters): Route {
  return routesFor("tools", "token")(
    "GET /api/lint",
    "lintTools",
    "What in the definitions of tools misleads models",
    {
      description:
        "Enabled tools are judged beside all others that the token may use. The config (`lint.off`) and comments in tool files switch rules off.",
      query: {
        tools: s.text("A pattern: `internal_file_*`, or `mcp:KEY` for those of one MCP server.", {
          default: "*",
        }),
        limit: s.integer({ minimum: 1, maximum: 10_000, default: 1_000 }),
      },
      answer: [
        "The findings.",
        s.object({
          items: s.list(s.ref("Finding")),
          total: s.count("How many findings there are, those beyond `limit` too."),
          tools: s.count("How many tools were looked at."),
        }),
      ],
      async handle({ query: { tools: pattern = "*", limit = 1_000 }, grant, incoming, outgoing }) {
        const lint = (signal: AbortSignal) => linters.lint(grant, pattern, signal);
        const { tools = 0, found = [] } = (await whileAwaited(incoming, outgoing, lint)) ?? {};
        return { items: found.slice(0, limit), total: found.length, tools };
      },
    },
  );
}

interface LintedTools {
  readonly tools: number;
  readonly found: Finding[];
}

type MadeLinter = Promise<{ readonly all: readonly ToolInfo[]; readonly linter: Linter }>;

/** Keeps a linter for each grant and version of the rack. It knows only the tools that the grant may use. */
export class Linters {
  readonly #services: Pick<HttpServices, "registry" | "config" | "workspace">;
  readonly #known = new WeakMap<Grant, { readonly snapshot: RegistrySnapshot; readonly made: MadeLinter }>();

  constructor(services: Pick<HttpServices, "registry" | "config" | "workspace">) {
    this.#services = services;
  }

  /**
   * What is found in the tools that fit the pattern and that the grant may use, and how many tools these are. Rejects when
   * `signal` aborts meanwhile.
   */
  async lint(grant: Grant, pattern: string, signal?: AbortSignal): Promise<LintedTools> {
    const { all, linter } = await this.#of(grant);
    const chosen = all.filter(toolMatcher([pattern]));
    const { readSwitches } = await import("../../lint/index.ts");
    const switches = await readSwitches(this.#services.workspace.directory, chosen);
    return { tools: chosen.length, found: await linter.lint(switches, chosen, signal) };
  }

  #of(grant: Grant): MadeLinter {
    const snapshot = this.#services.registry.snapshot();
    const known = this.#known.get(grant);
    if (known?.snapshot === snapshot) return known.made;
    const made = this.#open(snapshot.list().filter((tool) => grant.mayUse(tool) && !isHelperTool(tool.name)));
    this.#known.set(grant, { snapshot, made });
    return made;
  }

  async #open(all: readonly ToolInfo[]): MadeLinter {
    // Loaded on first use: most servers are never asked.
    const { Linter } = await import("../../lint/index.ts");
    return { all, linter: await Linter.open(all, this.#services.config.lint) };
  }
}

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { Tool, type ToolInfo, ToolRegistry } from "@toolrack/core";
import { definitionTokens, estimateTokens } from "@toolrack/core/internal";
import { metaTools } from "../packages/server/src/calls/index.ts";
import { upstreamOrigin } from "../packages/server/src/config/index.ts";

/**
 * `npm run eval:context -- FILE` measures what tools cost a model's context: whole definitions, and the answers of
 * `toolrack_search` with ten tools. FILE is JSON: a list of servers, each with `tools` by key, as LiveMCPBench has
 * them. Counts with the tokenizer o200k after `npm install --no-save gpt-tokenizer`, otherwise with our estimate.
 */
async function main([file]: readonly string[]): Promise<void> {
  if (file === undefined) {
    console.error(
      "Usage: npm run eval:context -- FILE\nFILE is a JSON list of MCP servers with their tools.",
    );
    process.exitCode = 2;
    return;
  }
  const { count, name } = tokenizer();
  const registry = new ToolRegistry();
  const refused = registry.apply({ put: [...metaTools(), ...readTools(file)] });
  const tools = registry.list().filter((tool) => tool.metadata.mcp !== undefined);
  const whole = sum(tools.map((tool) => count(definitionOf(tool))));
  console.log(`${tools.length} tools (${refused.length} could not be used), counted with ${name}.`);
  console.log(`All definitions: ${whole} tokens, by our estimate ${sum(tools.map(definitionTokens))}.`);

  const queries = tools.flatMap(({ name, description = "" }) => [name, description.slice(0, 300) || name]);
  const measured: { readonly tokens: number; readonly found: number; readonly whole: number }[] = [];
  for (const query of queries) {
    const { content } = await registry.execute("toolrack_search", { query });
    const lines = content.split("\n").filter((line) => !line.startsWith("// "));
    const found = lines.flatMap((line) => registry.get(/^[^(]*/.exec(line)?.[0] ?? "") ?? []);
    const definitions = found.map((tool) => count(definitionOf(tool)));
    measured.push({ tokens: count(content), found: found.length, whole: sum(definitions) });
  }
  const tens = measured.filter(({ found }) => found === 10);
  const sorted = tens.map(({ tokens }) => tokens).sort((one, other) => one - other);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  console.log(`${queries.length} searches, ${tens.length} of them found ten tools. Tokens of these answers:`);
  console.log(
    `mean ${Math.round(sum(sorted) / sorted.length)}, p50 ${at(0.5)}, p95 ${at(0.95)}, most ${at(1)};`,
  );
  console.log(
    `the whole definitions of the same tools: mean ${Math.round(sum(tens.map((one) => one.whole)) / tens.length)}.`,
  );
}

function tokenizer(): { readonly name: string; readonly count: (text: string) => number } {
  try {
    const found: unknown = createRequire(import.meta.url)("gpt-tokenizer/encoding/o200k_base");
    // The package has this function, and no types here, because it is not a dependency.
    const { countTokens } = found as { countTokens: (text: string) => number };
    return { name: "o200k", count: countTokens };
  } catch {
    return { name: "our estimate (gpt-tokenizer is not installed)", count: estimateTokens };
  }
}

function definitionOf({ name, description, parameters }: ToolInfo): string {
  return JSON.stringify({ name, description, inputSchema: parameters });
}

interface GivenTool {
  readonly name: string;
  readonly description?: string | null;
  readonly inputSchema: Record<string, unknown>;
}

/** Names the tools as the rack does. */
function readTools(file: string): ToolInfo[] {
  const given: unknown = JSON.parse(readFileSync(resolve(file), "utf8"));
  if (!Array.isArray(given)) {
    console.error(
      `${file} is no list of servers with their tools. An mcp.json names servers, not what they have.`,
    );
    process.exit(2);
  }
  // The file has the form that the comment above says.
  const servers = given as readonly {
    readonly tools: Readonly<Record<string, { readonly tools: readonly GivenTool[] }>>;
  }[];
  return servers.flatMap(({ tools: byKey }) =>
    Object.entries(byKey).flatMap(([server, { tools }]) =>
      tools.flatMap(({ name, description, inputSchema }) => {
        try {
          return Tool.define({
            name: `mcp_${server}_${name}`.replaceAll(/[^\w-]/g, "_"),
            ...(description ? { description } : {}),
            parameters: inputSchema,
            metadata: { tags: ["mcp", server], mcp: upstreamOrigin({ server, tool: name }) },
            execute: async () => "",
          });
        } catch (error) {
          console.error(`${name} of ${server}: ${error instanceof Error ? error.message : error}`);
          return [];
        }
      }),
    ),
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

await main(process.argv.slice(2));

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Tool, ToolRegistry } from "@toolrack/core";

/**
 * `npm run eval:search -- PATH` measures how well and how fast search finds tools. PATH holds `tools.jsonl`
 * (`id`, `set`, `lang`, `name`, `description`, `parameters`, `category`) and `queries.jsonl` (`id`, `set`,
 * `lang`, `query`, `gold`: the ids of the tools that answer it). Every set and language is its own pool.
 */
function main(args: readonly string[]): void {
  const [path, ...rest] = args;
  if (path === undefined || path.startsWith("-") || rest.length > 0) {
    fail("Usage: npm run eval:search -- PATH\nPATH is a folder that holds tools.jsonl and queries.jsonl.");
  }
  const tools = readLines(join(path, "tools.jsonl"), parseTool);
  const queries = readLines(join(path, "queries.jsonl"), parseQuery);
  const pools = Map.groupBy(tools, poolName);
  const queriesByPool = Map.groupBy(queries, poolName);
  for (const [name, asked] of queriesByPool) {
    const known = new Set((pools.get(name) ?? []).map((tool) => tool.id));
    const stray = asked.find((query) => !query.gold.every((id) => known.has(id)));
    if (stray) fail(`Query ${stray.id} has a gold id that is no tool of its set and language (${name}).`);
  }

  const names = [...queriesByPool.keys()];
  console.log("Quality, each set and language in its own pool:\n");
  printTable(
    ["set", "tools", "queries", "hit@1", "recall@5", "recall@10", "NDCG@10", "p50 ms", "p95 ms"],
    names.map((name) => qualityRow(name, pools.get(name) ?? [], queriesByPool.get(name) ?? [])),
  );
  console.log(`\nSpeed over ${ENLARGED_POOL} tools, each pool enlarged with renamed copies of its tools:\n`);
  printTable(
    ["set", "index ms", "p50 ms", "p95 ms"],
    names.map((name) => speedRow(name, pools.get(name) ?? [], queriesByPool.get(name) ?? [])),
  );
}

interface Candidate {
  readonly id: string;
  readonly set: string;
  readonly lang: string;
  readonly name: string;
  readonly description?: string;
  readonly parameters?: Record<string, unknown>;
  readonly category?: string;
}

interface Query {
  readonly id: string;
  readonly set: string;
  readonly lang: string;
  readonly query: string;
  readonly gold: readonly string[];
}

function qualityRow(name: string, tools: readonly Candidate[], queries: readonly Query[]): string[] {
  const pool = buildPool(tools);
  const scores = queries.map(({ query, gold }) => {
    const found = pool.registry.search(query, 10).map((info) => pool.ids.get(info.name) ?? "");
    const wanted = new Set(gold);
    return {
      hit: wanted.has(found[0] ?? "") ? 1 : 0,
      recall5: recall(found.slice(0, 5), wanted),
      recall10: recall(found, wanted),
      gain: gain(found, wanted) / gain([...wanted].slice(0, 10), wanted),
    };
  });
  const percent = (pick: (score: (typeof scores)[number]) => number) =>
    (100 * mean(scores.map(pick))).toFixed(1);
  const times = timeQueries(pool.registry, queries);
  return [
    name,
    String(tools.length),
    String(queries.length),
    percent((score) => score.hit),
    percent((score) => score.recall5),
    percent((score) => score.recall10),
    percent((score) => score.gain),
    quantile(times, 0.5).toFixed(2),
    quantile(times, 0.95).toFixed(2),
  ];
}

function speedRow(name: string, tools: readonly Candidate[], queries: readonly Query[]): string[] {
  const enlarged = Array.from({ length: Math.max(ENLARGED_POOL, tools.length) }, (_, position) => {
    const tool = tools[position % tools.length]!;
    const copy = Math.floor(position / tools.length);
    return copy === 0 ? tool : { ...tool, name: `${tool.name}_variant${copy}` };
  });
  const start = performance.now();
  const pool = buildPool(enlarged);
  const indexTime = performance.now() - start;
  const times = timeQueries(pool.registry, queries);
  return [name, indexTime.toFixed(0), quantile(times, 0.5).toFixed(2), quantile(times, 0.95).toFixed(2)];
}

interface Pool {
  readonly registry: ToolRegistry;
  /** From the name on the rack to the id in the data. */
  readonly ids: ReadonlyMap<string, string>;
}

/** Hangs every candidate on a registry of its own. Names in public sets repeat; the later one gets a number. */
function buildPool(candidates: readonly Candidate[]): Pool {
  const registry = new ToolRegistry();
  const ids = new Map<string, string>();
  for (const { id, name, description, parameters, category } of candidates) {
    let free = name;
    for (let copy = 2; registry.get(free) !== undefined; copy++) free = `${name} ${copy}`;
    registry.register(
      Tool.define({
        name: free,
        ...(description === undefined ? {} : { description }),
        parameters: toJsonSchema(parameters ?? { type: "object" }),
        metadata: category === undefined ? {} : { category },
        execute: async () => "",
      }),
    );
    const registered = registry.get(free);
    if (registered !== undefined) ids.set(registered.name, id);
  }
  registry.search("build the index now");
  return { registry, ids };
}

const types: Record<string, string> = {
  dict: "object",
  float: "number",
  tuple: "array",
  list: "array",
  double: "number",
};
const jsonTypes = new Set(["object", "array", "string", "number", "integer", "boolean", "null"]);

/** Public sets name types as Python does, and some schemas are broken: what is no JSON Schema is left out. */
function toJsonSchema(schema: Record<string, unknown>): Record<string, unknown> {
  const { type, properties, items, description, default: usual } = schema;
  const values = schema.enum;
  const known = isText(type) ? (types[type.toLowerCase()] ?? type.toLowerCase()) : undefined;
  return {
    ...(known !== undefined && jsonTypes.has(known) ? { type: known } : {}),
    ...(isText(description) ? { description } : {}),
    ...(isObject(properties) ? { properties: mapValues(properties) } : {}),
    ...(isObject(items) ? { items: toJsonSchema(items) } : {}),
    ...(Array.isArray(values) ? { enum: values } : {}),
    ...(usual === undefined ? {} : { default: usual }),
  };
}

function mapValues(properties: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, schema]) =>
      isObject(schema) ? [[name, toJsonSchema(schema)]] : [],
    ),
  );
}

/** Milliseconds per query in ascending order, after a round that warms up. */
function timeQueries(registry: ToolRegistry, queries: readonly Query[]): number[] {
  for (const { query } of queries.slice(0, 200)) registry.search(query, 10);
  return queries
    .map(({ query }) => {
      const start = performance.now();
      registry.search(query, 10);
      return performance.now() - start;
    })
    .sort((left, right) => left - right);
}

function recall(found: readonly string[], wanted: ReadonlySet<string>): number {
  return found.filter((id) => wanted.has(id)).length / wanted.size;
}

function gain(found: readonly string[], wanted: ReadonlySet<string>): number {
  return found.reduce((sum, id, rank) => sum + (wanted.has(id) ? 1 / Math.log2(rank + 2) : 0), 0);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

function poolName({ set, lang }: { readonly set: string; readonly lang: string }): string {
  return `${set} ${lang}`;
}

function readLines<Row>(file: string, parse: (row: Record<string, unknown>) => Row | string): Row[] {
  return readText(file)
    .split("\n")
    .flatMap((line, position): Row[] => {
      if (line.trim() === "") return [];
      const row = parseObject(line);
      const parsed = typeof row === "string" ? row : parse(row);
      if (typeof parsed === "string") fail(`${file}:${position + 1}: ${parsed}`);
      return [parsed];
    });
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    return fail(`Cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function parseObject(line: string): Record<string, unknown> | string {
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : "expected a JSON object";
  } catch (error) {
    return `not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function parseTool({
  id,
  set,
  lang,
  name,
  description,
  parameters,
  category,
}: Record<string, unknown>): Candidate | string {
  if (!isText(id) || !isText(set) || !isText(lang) || !isText(name)) {
    return "a tool needs id, set, lang and name, each of them text";
  }
  return {
    id,
    set,
    lang,
    name,
    ...(isText(description) && { description }),
    ...(isObject(parameters) && { parameters }),
    ...(isText(category) && { category }),
  };
}

function parseQuery({ id, set, lang, query, gold }: Record<string, unknown>): Query | string {
  if (!isText(id) || !isText(set) || !isText(lang) || !isText(query)) {
    return "a query needs id, set, lang and query, each of them text";
  }
  if (!Array.isArray(gold) || gold.length === 0 || !gold.every(isText))
    return "gold must list at least one tool id";
  return { id, set, lang, query, gold };
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function printTable(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]!.length)),
  );
  for (const row of [header, ...rows]) {
    const cells = row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!),
    );
    console.log(cells.join("  "));
  }
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

const ENLARGED_POOL = 15_000;

main(process.argv.slice(2));

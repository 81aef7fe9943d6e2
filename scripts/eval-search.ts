import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type SearchSettings, Tool, ToolRegistry } from "@toolrack/core";
import { STOP_WORDS, tokenize } from "@toolrack/core/internal";
import { openWords } from "@toolrack/words";
import { type PastSearch, PastSearches } from "../packages/server/src/calls/index.ts";

/**
 * `npm run eval:search -- PATH` measures how well and how fast search finds tools. PATH holds `tools.jsonl`
 * (`id`, `set`, `lang`, `name`, `description`, `parameters`, `category`) and `queries.jsonl` (`id`, `set`,
 * `lang`, `query`, `gold`: the ids of the tools that answer it). Each part of search is measured on and off, and a plain
 * BM25F beside them: every set and language in its own pool, then all in one, then across languages.
 */
async function main(args: readonly string[]): Promise<void> {
  const [path, ...rest] = args;
  if (path === undefined || path.startsWith("-") || rest.length > 0) {
    fail("Usage: npm run eval:search -- PATH\nPATH is a folder that holds tools.jsonl and queries.jsonl.");
  }
  const tools = readLines(join(path, "tools.jsonl"), parseTool);
  const queries = readLines(join(path, "queries.jsonl"), parseQuery);
  const pools = Map.groupBy(tools, poolName);
  const sets = [...Map.groupBy(queries, poolName)];
  for (const [name, asked] of sets) {
    const known = new Set((pools.get(name) ?? []).map((tool) => tool.id));
    const stray = asked.find((query) => !query.gold.every((id) => known.has(id)));
    if (stray) fail(`Query ${stray.id} has a gold id that is no tool of its set and language (${name}).`);
  }

  const searchers = Object.keys(parts);
  console.log("Each set and language in its own pool. Recall of the first, of ten, in percent:\n");
  const header = ["set", "tools", "queries", "BM25F", ...searchers];
  const own: string[][] = [];
  for (const [name, asked] of sets) own.push(await qualityRow(name, pools.get(name) ?? [], asked));
  printTable(header, own);
  console.log(`\nAll ${tools.length} tools in one pool:\n`);
  const mixed: string[][] = [];
  for (const [name, asked] of sets) mixed.push(await qualityRow(name, tools, asked));
  printTable(header, mixed);
  const across = sets.flatMap(([name, asked]) => acrossLanguages(name, pools.get(name) ?? [], asked));
  if (across.length > 0) {
    console.log(
      "\nAcross languages: tools with Chinese descriptions and English names, of which one is hidden:\n",
    );
    const rows: string[][] = [];
    for (const { name, tools: hidden, queries: asked } of across)
      rows.push(await qualityRow(name, hidden, asked));
    printTable(header, rows);
  }
  console.log(
    "\nLearning: half of the requests of each tool were made before, at most five; the others are asked:\n",
  );
  const learned: string[][] = [];
  for (const [name, asked] of sets) learned.push(await learningRow(name, pools.get(name) ?? [], asked));
  printTable(["set", "made before", "asked", "all but learning", "all"], learned);
  console.log(
    `\nEverything on, over ${ENLARGED_POOL} tools: each pool enlarged with renamed copies of its tools:\n`,
  );
  const speed: string[][] = [];
  for (const [name, asked] of sets) speed.push(await speedRow(name, pools.get(name) ?? [], asked));
  printTable(["set", "index ms", "index MB", "one change, ms", "p50 ms", "p95 ms"], speed);
}

/** The parts of search, each switched on beside those before it. */
const parts: Readonly<Record<string, SearchSettings>> = {
  words: { intents: false },
  "+ intents": {},
  "+ meaning": { words: openWords },
};
const everything = parts["+ meaning"]!;

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

async function qualityRow(
  name: string,
  tools: readonly Candidate[],
  queries: readonly Query[],
): Promise<string[]> {
  const row = [name, String(tools.length), String(queries.length), quality(plainSearch(tools), queries)];
  for (const settings of Object.values(parts))
    row.push(quality((await buildPool(tools, settings)).search, queries));
  return row;
}

const han = /\p{Script=Han}/u;

/**
 * Chinese requests over tools of which only the English names are left, their own and those of their parameters, and the
 * words of English names as requests over tools of which only the Chinese texts are left.
 */
function acrossLanguages(
  name: string,
  tools: readonly Candidate[],
  queries: readonly Query[],
): { readonly name: string; readonly tools: readonly Candidate[]; readonly queries: readonly Query[] }[] {
  const chinese = tools.filter((tool) => han.test(tool.description ?? "") && !han.test(tool.name));
  if (2 * chinese.length < tools.length) return [];
  const known = new Set(chinese.map(({ id }) => id));
  const wordsOf = (text: string) => text.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/[^A-Za-z]+/g, " ");
  const named = chinese.map(({ id, set, lang, name, parameters }) => {
    const properties = isObject(parameters?.properties) ? Object.keys(parameters.properties) : [];
    const left = Object.fromEntries(properties.map((property) => [property, {}]));
    return { id, set, lang, name, parameters: { type: "object", properties: left } };
  });
  const described = chinese.map(({ id, set, lang, description }, at) => {
    return { id, set, lang, name: `t${at}`, ...(description !== undefined && { description }) };
  });
  const asked = queries.filter(({ gold }) => gold.every((id) => known.has(id)));
  const wanted = new Set(asked.flatMap(({ gold }) => gold));
  const translated = chinese
    .filter(({ id }) => wanted.has(id))
    .map(({ id, set, name: own }) => ({ id, set, lang: "en", query: wordsOf(own), gold: [id] }));
  return [
    { name: `${name} → en`, tools: named, queries: asked },
    { name: `en → ${name}`, tools: described, queries: translated },
  ];
}

/** Finds the ids of at most ten tools, the best first. */
type Search = (query: string) => readonly string[];

function quality(search: Search, queries: readonly Query[]): string {
  const scores = queries.map(({ query, gold }) => {
    const found = search(query);
    const wanted = new Set(gold);
    return [recall(found.slice(0, 1), wanted), recall(found, wanted)] as const;
  });
  return [0, 1].map((at) => (100 * mean(scores.map((score) => score[at]!))).toFixed(1)).join(" ");
}

async function learningRow(
  name: string,
  tools: readonly Candidate[],
  queries: readonly Query[],
): Promise<string[]> {
  const before: Query[] = [];
  const asked: Query[] = [];
  const counts = new Map<string, number>();
  for (const query of queries) {
    const tool = query.gold[0]!;
    const count = counts.get(tool) ?? 0;
    counts.set(tool, count + 1);
    if (count % 2 === 0 && count < 10) before.push(query);
    else asked.push(query);
  }
  const pool = await buildPool(tools, everything);
  const without = quality(pool.search, asked);
  pool.learn(before);
  return [name, String(before.length), String(asked.length), without, quality(pool.search, asked)];
}

async function speedRow(
  name: string,
  tools: readonly Candidate[],
  queries: readonly Query[],
): Promise<string[]> {
  const enlarged = Array.from({ length: Math.max(ENLARGED_POOL, tools.length) }, (_, position) => {
    const tool = tools[position % tools.length]!;
    const copy = Math.floor(position / tools.length);
    return copy === 0 ? tool : { ...tool, name: `${tool.name}_variant${copy}` };
  });
  const pool = await buildPool(enlarged, everything, false);
  pool.learn(queries.slice(0, MOST_LEARNED));
  const before = memory();
  const start = processorTime();
  await pool.registry.prepareSearch();
  const indexTime = processorTime() - start;
  const bytes = memory() - before;
  const times = timeQueries(pool.search, queries);
  const began = processorTime();
  for (let at = 0; at < CHANGES; at++) {
    const tool = pool.registry.list()[at * 7]!;
    pool.registry.update(tool.name, { description: `${tool.description} Changed.` });
    pool.registry.search("tool", 1);
  }
  const change = (processorTime() - began) / CHANGES;
  return [
    name,
    indexTime.toFixed(0),
    (bytes / 2 ** 20).toFixed(0),
    change.toFixed(2),
    quantile(times, 0.5).toFixed(2),
    quantile(times, 0.95).toFixed(2),
  ];
}

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/** Bytes in use: those of the heap, and those of arrays outside it. */
function memory(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

interface Pool {
  readonly registry: ToolRegistry;
  readonly search: Search;
  learn(queries: readonly Query[]): void;
}

/** Hangs every candidate on a registry of its own. Names in public sets repeat; the later one gets a number. */
async function buildPool(
  candidates: readonly Candidate[],
  search: SearchSettings,
  isReady = true,
): Promise<Pool> {
  const registry = new ToolRegistry({ search });
  const past = new PastSearches();
  registry.helpSearch(past);
  const ids = new Map<string, string>();
  const names = new Map<string, string>();
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
    if (registered === undefined) continue;
    ids.set(registered.name, id);
    names.set(id, registered.name);
  }
  if (isReady) await registry.prepareSearch();
  return {
    registry,
    search: (query) => registry.search(query, 10).map((info) => ids.get(info.name) ?? ""),
    learn: (queries) =>
      past.add(
        queries.flatMap(({ query, gold }, at) =>
          gold.map((id): PastSearch => ({ id: `${at} ${id}`, query, toolName: names.get(id) ?? "" })),
        ),
      ),
  };
}

/** The ranking that others use: BM25F with names three times and parameters half, stems and stop words, nothing else. */
function plainSearch(tools: readonly Candidate[]): Search {
  const postings = new Map<string, Map<number, number>>();
  const lengths = tools.map(({ name, description = "", parameters }, at) => {
    let length = 0;
    const count = (text: string, weight: number) =>
      tokenize(text, (term, word, joined) => {
        if (joined && /^[a-z0-9]/.test(term)) return;
        if (STOP_WORDS.has(word)) return;
        length += weight;
        const list = postings.get(term) ?? new Map<number, number>();
        postings.set(term, list.set(at, (list.get(at) ?? 0) + weight));
      });
    count(name, 3);
    count(description, 1);
    count(textIn(parameters?.properties), 0.5);
    return length;
  });
  const usual = mean(lengths);
  return (query) => {
    const terms = new Set<string>();
    tokenize(query, (term, word) => !STOP_WORDS.has(word) && terms.add(term));
    const scores = new Map<number, number>();
    for (const term of terms) {
      const list = postings.get(term);
      if (list === undefined) continue;
      const rarity = Math.log(1 + (tools.length - list.size + 0.5) / (list.size + 0.5));
      for (const [at, count] of list) {
        const share = count / (count + 1.2 * (0.25 + (0.75 * lengths[at]!) / usual));
        scores.set(at, (scores.get(at) ?? 0) + rarity * share);
      }
    }
    const sorted = [...scores].sort((left, right) => right[1] - left[1] || left[0] - right[0]);
    return sorted.slice(0, 10).map(([at]) => tools[at]!.id);
  };
}

/** The names and descriptions of parameters. */
function textIn(properties: unknown): string {
  if (!isObject(properties)) return "";
  return Object.entries(properties)
    .map(([name, schema]) => {
      if (!isObject(schema)) return name;
      const { description, items, properties: inner } = schema;
      const below = isObject(items) ? textIn(items.properties) : "";
      return [name, isText(description) ? description : "", textIn(inner), below].join(" ");
    })
    .join(" ");
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

/** Milliseconds of the processor per query, in ascending order. Its clock is coarse, so each query is asked several times. */
function timeQueries(search: Search, queries: readonly Query[]): number[] {
  for (const { query } of queries.slice(0, 300)) search(query);
  return queries
    .slice(0, MOST_TIMED)
    .map(({ query }) => {
      const start = processorTime();
      for (let time = 0; time < TIMES; time++) search(query);
      return (processorTime() - start) / TIMES;
    })
    .sort((left, right) => left - right);
}

/** Milliseconds that this thread has run: other programs may run meanwhile. */
function processorTime(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function recall(found: readonly string[], wanted: ReadonlySet<string>): number {
  return found.filter((id) => wanted.has(id)).length / wanted.size;
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

const ENLARGED_POOL = 18_000;
const MOST_TIMED = 600;
const TIMES = 20;
const CHANGES = 50;
/** As many as the store keeps. */
const MOST_LEARNED = 10_000;

await main(process.argv.slice(2));

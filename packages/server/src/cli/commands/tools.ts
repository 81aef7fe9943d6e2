import { compileSchema, type JsonSchemaObject, type ToolInfo } from "@toolrack/core";
import { declarationsOf } from "@toolrack/core/format";
import { definitionTokens } from "@toolrack/core/internal";
import { setCommand } from "../../access/index.ts";
import { declaredTool, isHelperTool } from "../../calls/index.ts";
import { asRecord, isRecord } from "../../helpers/index.ts";
import type { App } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";
import {
  describeType,
  exampleCall,
  follow,
  type Property,
  parametersOf,
  propertiesOf,
} from "../parameters.ts";
import { addOthers, toolAt, withAllTools } from "../rack-tools.ts";
import { ServerClient } from "../server-client.ts";
import { type ListedTool, ListingDraft } from "../stored-listing.ts";
import { oneLine, printable, renderTable } from "../text.ts";
import {
  type Listing,
  type ListOptions,
  ownFirst,
  printTools,
  quickListing,
  showListing,
  toolsAt,
} from "../tool-lists.ts";
import { failuresIn, findWorkspace, talkFailures, withApp } from "../workspace.ts";

/**
 * `toolrack list`: the tools on the rack, the workspace's own first. A running server is asked, which has the tools of
 * MCP servers too. Without one the workspace is loaded, unless a listing is stored that still holds.
 */
export async function list(cli: Cli, options: ListOptions): Promise<void> {
  showListing(cli, options, (await quickListing(cli)) ?? (await loadedListing(cli)));
}

async function loadedListing(cli: Cli): Promise<Listing> {
  const draft = new ListingDraft(cli, findWorkspace(cli));
  const listing = await withAllTools(cli, async (app) => {
    const tools = app.registry.getAll().map(toolSummary).sort(ownFirst);
    const { files } = app.report;
    if (failuresIn({ files }).length === 0) await draft.add(app.workspace, tools);
    return { tools, files };
  });
  draft.store();
  return listing;
}

/** `toolrack types`: the tools as an interface of TypeScript, for `createClient` of `@toolrack/core/client`. */
export async function types(cli: Cli, { expert }: { readonly expert?: string }): Promise<void> {
  const server = expert === undefined ? await ServerClient.findIfAny(cli) : await ServerClient.find(cli);
  const query = expert === undefined ? "" : `?expert=${encodeURIComponent(expert)}`;
  const text = await (server === undefined
    ? withAllTools(cli, async ({ registry }) => declarationsOf(ownTools(registry).map(declaredTool)))
    : server.text(`/api/types${query}`));
  cli.answer({ types: text }, () => cli.print(text.trimEnd()));
}

/** The enabled tools that lists show, by name. */
function ownTools(registry: App["registry"]): ToolInfo[] {
  const tools = registry.list().filter(({ name }) => !isHelperTool(name));
  return tools.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** `toolrack search`: the tools that fit the words, best first. */
export async function search(
  cli: Cli,
  words: readonly string[],
  { limit }: { readonly limit: number },
): Promise<void> {
  const text = words.join(" ");
  const server = await ServerClient.findIfAny(cli);
  const tools =
    server === undefined
      ? await withAllTools(cli, async ({ registry, config, existingStore }) => {
          if (config.search?.learning !== false) await usePastSearches(registry, existingStore);
          await registry.prepareSearch();
          return registry.search(text, limit).map(toolSummary);
        })
      : await toolsAt(server, {}, text, limit);
  cli.answer({ tools: tools.map(({ tokens: _, ...tool }) => tool) }, () => {
    if (tools.length > 0) printTools(cli, tools);
    else cli.talk(`No tool fits these words. See all of them with: ${cli.commandLine("list")}`);
  });
}

/** Lets what a server of the workspace has learned help, as long as learning is switched on. */
async function usePastSearches(
  registry: App["registry"],
  existingStore: App["existingStore"],
): Promise<void> {
  const { PastSearches } = await import("../../calls/index.ts");
  const past = new PastSearches(async () => {
    const searches = (await existingStore())?.searches;
    if ((await searches?.state())?.isOn) past.add((await searches?.list()) ?? []);
  });
  registry.helpSearch(past);
}

/** A tool in lists. JSON leaves out undefined members. */
export function toolSummary(info: ToolInfo): ListedTool & { readonly tokens: number } {
  const { name, title, displayName, description, aliases = [], origin, disabled, metadata } = info;
  const { category, tags, dangerous = false, readOnly = false } = metadata;
  return {
    name,
    title,
    displayName,
    description,
    aliases: aliases.length === 0 ? undefined : aliases,
    category,
    tags,
    origin,
    dangerous,
    readOnly,
    disabled,
    tokens: definitionTokens(info),
  };
}

/** `toolrack show`: everything about one tool. */
export function show(cli: Cli, name: string): Promise<void> {
  return withApp(cli, {}, async (app) => {
    const { registry, report, sandbox } = app;
    const server = registry.get(name) === undefined ? await ServerClient.findIfAny(cli) : undefined;
    const isUnknown = registry.get(name) === undefined && server === undefined;
    const remove = isUnknown ? await addOthers(cli, app) : undefined;
    const there = server && (await toolAt(server, name));
    await remove?.();
    // The tool may be in one of the files that failed.
    if (there === undefined && registry.get(name) === undefined) talkFailures(cli, report);
    const info = there ?? registry.require(name);
    const isolation = cli.json ? undefined : await isolationOf(info, sandbox);
    cli.answer(asJson(cli, info), () => {
      for (const part of sections(cli, info, isolation)) cli.print(part);
    });
  });
}

function asJson(cli: Cli, info: ToolInfo): unknown {
  return {
    ...toolSummary(info),
    tokens: undefined,
    parameters: parametersOf(info),
    outputSchema: info.outputSchema && compileSchema(info.outputSchema).jsonSchema(),
    metadata: info.metadata,
    example: cli.commandLine(exampleCall(info)),
  };
}

/** How the tool is confined on this machine. Undefined for a tool that runs inside the server. */
async function isolationOf(info: ToolInfo, sandbox: App["sandbox"]): Promise<string | undefined> {
  if (manualOf(info) === undefined) return undefined;
  const { level, reason } = await sandbox();
  return level === 3 ? "sandbox, level 3" : `sandbox, level ${level} (reduced): ${reason ?? ""}`;
}

function sections(cli: Cli, info: ToolInfo, isolation: string | undefined): string[] {
  const { name, displayName, title: ownTitle, description } = info;
  const title = (text: string) => `\n${cli.style("bold", text)}`;
  const schema = parametersOf(info);
  const parameters = parameterRows(propertiesOf(follow(schema, schema), schema), schema, "");
  const label = displayName ?? ownTitle ?? name;
  return [
    cli.style("bold", name) + (label === name ? "" : `  ${printable(label)}`),
    ...(description ? [printable(description)] : []),
    "",
    ...renderTable(factsOf(info, isolation)),
    title("Parameters"),
    parameters.length === 0 ? "It takes none." : tableOf(cli, parameterHead, parameters, 4),
    ...manualSections(cli, info).flatMap(([name, head, rows]) => [title(name), tableOf(cli, head, rows)]),
    title("JSON Schema of the parameters"),
    printable(JSON.stringify(schema, null, 2)),
    title("Example"),
    cli.commandLine(exampleCall(info)),
  ];
}

function tableOf(cli: Cli, head: readonly string[], rows: readonly string[][], flexible = -1): string {
  const styleHead = (text: string) => cli.style("dim", text);
  const cells = rows.map((row) => row.map(oneLine));
  return renderTable(cells, { head, columns: cli.columns, flexible, styleHead }).join("\n");
}

function factsOf(info: ToolInfo, isolation: string | undefined): string[][] {
  const { category, tags, ...rest } = info.metadata;
  const known: [string, unknown][] = [
    ["from", info.origin],
    ["aliases", info.aliases?.join(", ")],
    ["category", category],
    ["tags", tags?.join(", ")],
    ["state", info.disabled ? "disabled" : "enabled"],
    // Objects such as schemas are left out: they are long, and --json shows them.
    ...Object.entries(rest).filter(([, value]) => typeof value !== "object" || Array.isArray(value)),
    ["isolation", isolation],
  ];
  return known
    .filter(([, value]) => value !== undefined && value !== "" && typeof value !== "function")
    .map(([key, value]) => [key, oneLine(textOf(value))]);
}

const parameterHead = ["NAME", "TYPE", "", "DEFAULT", "DESCRIPTION"];

/** Nested members are listed by the dotted names that `call` takes. */
function parameterRows(
  properties: readonly Property[],
  root: JsonSchemaObject,
  prefix: string,
  depth = 0,
): string[][] {
  return properties.flatMap(({ name, schema, required }) => [
    [
      prefix + name,
      describeType(schema, root),
      required ? "required" : "",
      "default" in schema ? JSON.stringify(schema.default) : "",
      typeof schema.description === "string" ? schema.description : "",
    ],
    ...(depth < 3 ? parameterRows(propertiesOf(schema, root), root, `${prefix}${name}.`, depth + 1) : []),
  ]);
}

/** Documentation of a sandboxed tool, beside its parameters. */
interface Manual {
  readonly environment?: JsonSchemaObject;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly businessErrors?: readonly Readonly<Record<string, unknown>>[];
  readonly bridges?: readonly string[];
  readonly hosts?: readonly string[];
  readonly examples?: readonly unknown[];
}

/** The manual of a sandboxed tool. Undefined for any other tool, which therefore has no dry run either. */
export function manualOf({ metadata }: ToolInfo): Manual | undefined {
  return isRecord(metadata.singleFile) ? metadata.singleFile : undefined;
}

type Section = readonly [title: string, head: readonly string[], rows: readonly string[][]];

/**
 * What the author of a sandboxed tool declared besides its parameters: packages, hosts, errors, examples. Leaves
 * out what is empty.
 */
function manualSections(cli: Cli, info: ToolInfo): Section[] {
  const manual = manualOf(info) ?? {};
  const { dependencies = {}, businessErrors = [], bridges = [], hosts = [], examples = [] } = manual;
  const errors = businessErrors.map(({ code, description, match, solution, retryable }) => [
    ...[code, description, match, solution].map((part) => String(part ?? "")),
    retryable === true ? "yes" : "no",
  ]);
  const all: Section[] = [
    [
      "Environment",
      [...parameterHead, "SET WITH"],
      environmentRows(manual.environment ?? info.metadata.environment).map(([name = "", property, row]) => [
        ...row,
        setCommand(info.name, name, property).replace(/^toolrack/, () => cli.programWords),
      ]),
    ],
    ["Dependencies", ["PACKAGE", "VERSION"], Object.entries(dependencies)],
    ["Network", ["HOST"], hosts.map((host) => [host])],
    ["Business errors", ["CODE", "DESCRIPTION", "WHEN", "SOLUTION", "RETRY"], errors],
    ["Replaced in a dry run", ["BRIDGE"], bridges.map((name) => [name])],
    ["Examples of the author", ["EXAMPLE"], examples.map((example) => [textOf(example)])],
  ];
  return all.filter(([, , rows]) => rows.length > 0);
}

/** For each variable that a tool declares: its name, its schema and its row. */
function environmentRows(schema: unknown): [string, JsonSchemaObject, string[]][] {
  const { required, properties } = asRecord(schema);
  const needed: unknown[] = Array.isArray(required) ? required : [];
  return Object.entries(asRecord(properties)).map(([name, declared]) => {
    const property = asRecord(declared);
    const row = [
      name,
      [property.type ?? "any"].flat().join(" or "),
      needed.includes(name) ? "required" : "",
      "default" in property ? JSON.stringify(property.default) : "",
      typeof property.description === "string" ? property.description : "",
    ];
    return [name, property, row];
  });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : String(JSON.stringify(value));
}

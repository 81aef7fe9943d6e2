import { compileSchema, type JsonSchemaObject, type ToolInfo, type ToolRegistry } from "@toolrack/core";
import { setCommand } from "../../access/index.ts";
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
import { oneLine, printable, renderTable } from "../text.ts";
import { failuresIn, talkFailures, withApp } from "../workspace.ts";

export interface ListOptions {
  readonly category?: string;
  readonly tag?: string;
  readonly all?: boolean;
  readonly tokens?: boolean;
}

/** `toolrack list`: the tools on the rack by name. Failed files are reported on standard error. */
export async function list(cli: Cli, options: ListOptions): Promise<void> {
  // Imported late, because only this option needs the client of a running server.
  if (options.tokens === true) {
    const { listTokens } = await import("./token-costs.ts");
    return listTokens(cli, options, (registry) => choose(registry, options));
  }
  return withApp(cli, {}, async ({ registry, report }) => {
    const tools = choose(registry, options);
    cli.answer({ tools: tools.map(toolSummary), failures: failuresIn(report) }, () => {
      if (tools.length > 0) printTools(cli, tools);
      else cli.talk(emptyNote(cli, registry, options));
      talkFailures(cli, report);
    });
  });
}

/** `toolrack search`: the tools that fit the words, best first. */
export function search(
  cli: Cli,
  words: readonly string[],
  { limit }: { readonly limit: number },
): Promise<void> {
  return withApp(cli, {}, async ({ registry }) => {
    const tools = registry.search(words.join(" "), limit);
    cli.answer({ tools: tools.map(toolSummary) }, () => {
      if (tools.length > 0) printTools(cli, tools);
      else cli.talk(`No tool fits these words. See all of them with: ${cli.commandLine("list")}`);
    });
  });
}

function choose(registry: ToolRegistry, { category, tag, all }: ListOptions): ToolInfo[] {
  return registry
    .getAll()
    .filter((info) => all === true || !info.disabled)
    .filter((info) => category === undefined || info.metadata.category === category)
    .filter((info) => tag === undefined || info.metadata.tags?.includes(tag) === true)
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

function emptyNote(cli: Cli, registry: ToolRegistry, { category, tag }: ListOptions): string {
  if (category === undefined && tag === undefined)
    return `There are no tools here. Make one with: ${cli.commandLine("new")}`;
  const tags = new Set(registry.getAll().flatMap((info) => info.metadata.tags ?? []));
  const known = tag === undefined ? Object.keys(registry.getStats().categories) : [...tags];
  const what = tag === undefined ? `category "${category}"` : `tag "${tag}"`;
  return `No tool has the ${what}. There are: ${known.sort().join(", ")}`;
}

/** Prints one tool per line, clipped to the terminal. */
export function printTools(cli: Cli, tools: readonly ToolInfo[]): void {
  const rows = tools.map((info) => [info.name, aboutOf(info), info.origin ?? ""]);
  cli.table(["NAME", "DESCRIPTION", "FROM"], rows, { flexible: 1, style: "dim" });
}

function aboutOf({ name, title, displayName, description = "", disabled }: ToolInfo): string {
  const label = displayName ?? title;
  const text = label === undefined || label === name ? description : `${label}: ${description}`;
  return disabled ? `(disabled) ${text}` : text;
}

/** A tool in JSON lists, which leave out undefined members. */
function toolSummary(info: ToolInfo) {
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
  };
}

/** `toolrack show`: everything about one tool. */
export function show(cli: Cli, name: string): Promise<void> {
  return withApp(cli, {}, async ({ registry, report, sandbox }) => {
    // The tool may be in one of the files that failed.
    if (registry.get(name) === undefined) talkFailures(cli, report);
    const info = registry.require(name);
    const isolation = cli.json ? undefined : await isolationOf(info, sandbox);
    cli.answer(asJson(cli, info), () => {
      for (const part of sections(cli, info, isolation)) cli.print(part);
    });
  });
}

function asJson(cli: Cli, info: ToolInfo): unknown {
  return {
    ...toolSummary(info),
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

/** The non-empty sections of the manual. */
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

import { readFile } from "node:fs/promises";
import { basename, extname, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createAddressRules } from "../../access/index.ts";
import { Api, type ApiSettings, GraphqlApi } from "../../apis/index.ts";
import { asRecord, parseJsonc, plainHost, reasonOf } from "../../helpers/index.ts";
import type { McpServerView } from "../../mcp/connect/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, usageError } from "../cli-error.ts";
import { askServer } from "../server-client.ts";
import { amount, oneLine } from "../text.ts";
import { findWorkspace } from "../workspace.ts";
import { listServers, type McpServerAction, mcpServers, pairs } from "./mcp-servers.ts";

type ApiAction = Exclude<McpServerAction, "import"> | "check";

export interface ApiOptions {
  readonly key?: string;
  readonly baseUrl?: string;
  readonly auth?: readonly string[];
  readonly header?: readonly string[];
  readonly readOnly?: boolean;
  /** Whether login opens the page in a browser. Default true. */
  readonly open?: boolean;
}

/** `toolrack apis`: the HTTP APIs whose operations are tools. `check` needs no server; all else asks the running one. */
export async function apis(
  cli: Cli,
  action: ApiAction = "list",
  what: string | undefined,
  rest: readonly string[],
  options: ApiOptions,
): Promise<void> {
  if (action === "list") return listServers(cli, ({ transport }) => transport === "api", noApis(cli));
  if (action === "check") return check(cli, what);
  if (action !== "add") return mcpServers(cli, action, what, rest, { open: options.open !== false }, "API");
  if (what === undefined)
    throw usageError(`Which one? ${cli.commandLine("apis add URL")}, or a file of the workspace.`);
  return add(cli, what, options);
}

function noApis(cli: Cli): string {
  return `There are no APIs. Write them into apis.json, or: ${cli.commandLine("apis add URL")}`;
}

const POLL = 200;

/** Adds an API, waits until its description is read, and says what was found. */
async function add(cli: Cli, spec: string, options: ApiOptions): Promise<void> {
  const { key = keyFor(spec), baseUrl, auth = [], header = [], readOnly } = options;
  const entry = {
    spec,
    ...(baseUrl !== undefined && { baseUrl }),
    ...(auth.length > 0 && { auth: credentialsIn(auth) }),
    ...(header.length > 0 && { headers: pairs(header, "--header") }),
    ...(readOnly === true && { readOnly }),
  };
  let api = await askServer<McpServerView>(cli, "/api/mcp-servers", "POST", { key, entry });
  while (api.state === "starting") {
    await delay(POLL);
    api = await askServer<McpServerView>(cli, `/api/mcp-servers/${encodeURIComponent(key)}`);
  }
  if (api.state !== "ready") {
    await askServer(cli, `/api/mcp-servers/${encodeURIComponent(key)}`, "DELETE");
    throw new CliError(`Nothing was added. ${api.reason}`, { code: "mcp_server_invalid" });
  }
  cli.answer({ api }, () => {
    const { serverInfo, tools, refused, problem, reason } = api;
    const name = serverInfo === undefined ? key : `${serverInfo.name} (${serverInfo.version})`;
    cli.talk(`${key}: ${amount(tools, "tool")} of ${oneLine(name)}, named api_${key}_….`);
    if (refused.length > 0) {
      const show = cli.commandLine(`apis show ${key}`);
      cli.talk(`Left out: ${amount(refused.length, "operation")}. See why: ${show}`);
    }
    for (const said of [problem, reason]) if (said !== undefined) cli.talk(oneLine(said));
  });
}

/** Credentials by the names of their schemes. A client of OAuth is given as JSON. */
function credentialsIn(words: readonly string[]): Record<string, unknown> {
  const given = Object.entries(pairs(words, "--auth")).map(([name, value]) => {
    if (!value.startsWith("{")) return [name, value];
    try {
      return [name, JSON.parse(value)];
    } catch (thrown) {
      throw usageError(`--auth ${name} begins like JSON, but is none: ${reasonOf(thrown)}`);
    }
  });
  return Object.fromEntries(given);
}

/** A key from the address or the name of the file, such as `petstore` for `https://petstore.example.com/openapi.json`. */
function keyFor(spec: string): string {
  const url = /^https?:\/\//i.test(spec) ? URL.parse(spec) : null;
  const words =
    url === null ? basename(spec, extname(spec)) : url.hostname.replace(/^(?:www|api|docs)\./, "");
  const [first = ""] = url === null || /^[\d.]+$/.test(words) ? [words] : words.split(".");
  return (
    first
      .toLowerCase()
      .replace(/[^a-z0-9-]+/g, "-")
      .replace(/^-+|-+$/g, "") || "api"
  );
}

/** Reads descriptions without adding them: the one that is named, or all of `apis.json`. */
async function check(cli: Cli, what: string | undefined): Promise<void> {
  const workspace = findWorkspace(cli);
  const specs = what === undefined ? await writtenSpecs(workspace) : [{ name: what, spec: what }];
  if (specs.length === 0) return cli.talk(noApis(cli));
  const found: (Described & { readonly name: string })[] = [];
  for (const { name, ...written } of specs) found.push({ name, ...(await describe(workspace, written)) });
  if (found.some(({ problem }) => problem !== undefined)) cli.exitCode = exitCodes.failure;
  cli.answer({ apis: found }, () => {
    for (const {
      name,
      problem,
      version,
      tools = [],
      skipped = [],
      problems = [],
      credentials = [],
    } of found) {
      if (problem !== undefined) cli.print(`${oneLine(name)}: ${oneLine(problem)}`);
      else {
        const found = amount(tools.length, "operation");
        cli.print(`${oneLine(name)}: ${found} (${version}), ${skipped.length} left out`);
      }
      for (const one of skipped) cli.print(`  ${oneLine(one.name)} is left out: ${oneLine(one.reason)}`);
      for (const text of problems) cli.print(`  ${oneLine(text)}`);
      if (credentials.length > 0) cli.print(`  It needs credentials: ${credentials.join(", ")}`);
    }
  });
}

async function writtenSpecs(workspace: string) {
  const text = await readFile(resolve(workspace, "apis.json"), "utf8").catch(() => "{}");
  return Object.entries(asRecord(asRecord(parseJsonc(text)).apis)).map(([name, entry]) => {
    const { spec, baseUrl, documents } = asRecord(entry);
    const text = (value: unknown) => (typeof value === "string" ? value : undefined);
    return { name, spec: text(spec) ?? "", baseUrl: text(baseUrl), documents: text(documents) };
  });
}

/** What is found in a description, or why it cannot be used. */
interface Described {
  readonly problem?: string;
  readonly version?: string;
  readonly tools?: readonly string[];
  readonly skipped?: Api["skipped"];
  readonly problems?: readonly string[];
  readonly credentials?: readonly string[];
}

interface WrittenSpec {
  readonly spec: string;
  readonly baseUrl?: string | undefined;
  readonly documents?: string | undefined;
}

async function describe(workspace: string, { spec, baseUrl, documents }: WrittenSpec): Promise<Described> {
  if (spec === "") return { problem: "It has no spec: the file or address of its description." };
  const url = /^https?:\/\//i.test(spec) ? URL.parse(spec) : null;
  // The person at the terminal named these addresses, so they may be private.
  const named = [url, baseUrl === undefined ? null : URL.parse(baseUrl)];
  const settings: ApiSettings = {
    spec: url === null ? { kind: "file", path: resolve(workspace, spec) } : { kind: "address", url },
    baseUrl,
    credentials: new Map(),
    headers: {},
    isReadOnly: false,
    rules: createAddressRules(named.flatMap((one) => (one === null ? [] : [plainHost(one.hostname)]))),
  };
  const limit = AbortSignal.timeout(60_000);
  try {
    const api =
      documents === undefined
        ? await Api.open(settings, limit)
        : await GraphqlApi.open(settings, resolve(workspace, documents), limit);
    const { version, tools, skipped, problems, missingCredentials: credentials } = api;
    return { version, tools: tools.map(({ name }) => name), skipped, problems, credentials };
  } catch (thrown) {
    return { problem: reasonOf(thrown) };
  }
}

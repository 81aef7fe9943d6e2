import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { asRecord, defined, isRecord, parseJsonc, reasonOf } from "../../helpers/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes } from "../cli-error.ts";
import { oneLine } from "../text.ts";
import {
  agentgatewayTargets,
  dockerProfile,
  type FoundServer,
  fromAgentgateway,
  fromContextForge,
  fromDocker,
  fromToolHive,
  type Members,
  ownSettings,
  type Read,
  refused,
} from "./gateway-imports.ts";

/**
 * `toolrack mcp-servers import FILE`: adds the servers from another program's file. Servers that exist here stay
 * unchanged. It fails when there was something to add and nothing could be added.
 */
export async function importMcpServers(
  cli: Cli,
  path: string,
  add: (key: string, entry: object) => Promise<unknown>,
): Promise<void> {
  const added: string[] = [];
  const reasons = new Map<string, string>();
  const places = new Map<string, string>();
  const notes: Record<string, readonly string[]> = {};
  let isRefused = false;
  for (const { key, entry, place, problem, notes: own = [] } of await readServers(cli, path)) {
    const first = places.get(key);
    if (first !== undefined) {
      reasons.set(`${place}.${key}`, `It stands under "${first}" too, and that one counts.`);
      continue;
    }
    places.set(key, place);
    if (problem !== undefined) {
      isRefused = true;
      reasons.set(key, problem);
      continue;
    }
    try {
      await add(key, entry);
      added.push(key);
      if (own.length > 0) notes[key] = own;
    } catch (thrown) {
      if (!(thrown instanceof CliError) || thrown.code === "no_server") throw thrown;
      isRefused ||= thrown.code !== "mcp_server_exists";
      reasons.set(key, thrown.message);
    }
  }
  cli.answer({ added, skipped: Object.fromEntries(reasons), notes }, () => {
    cli.talk(added.length === 0 ? "Nothing was added." : `Added: ${added.map(oneLine).join(", ")}`);
    for (const [key, own] of Object.entries(notes))
      for (const note of own) cli.talk(`${oneLine(key)}: ${oneLine(note.replace("KEY", key))}`);
    for (const [key, reason] of reasons) cli.talk(`${oneLine(key)} is left out: ${oneLine(reason)}`);
  });
  if (added.length === 0 && isRefused) cli.exitCode = exitCodes.failure;
}

async function readServers(cli: Cli, path: string): Promise<readonly FoundServer[]> {
  const text = await readFile(resolve(cli.cwd, path), "utf8").catch((error: Error) => {
    throw new CliError(`${path} cannot be read: ${error.message}`, { code: "unreadable_file" });
  });
  const [form, parse] = await parserOf(path);
  let document: unknown;
  try {
    document = parse(text);
  } catch (thrown) {
    const reason = reasonOf(thrown);
    throw new CliError(`${path} is not valid ${form}: ${reason}`, { code: "invalid_file" });
  }
  const servers = serversIn(document);
  if (servers !== undefined) return servers;
  throw new CliError(`${path} names no MCP servers. They stand under ${knownPlaces}.`, {
    code: "invalid_file",
  });
}

/**
 * Chooses the parser by the file's ending. The TOML and YAML parsers are imported here, because most files are JSON.
 */
async function parserOf(path: string): Promise<readonly [form: string, parse: (text: string) => unknown]> {
  if (/\.toml$/i.test(path)) {
    const { getStaticTOMLValue, parseTOML } = await import("toml-eslint-parser");
    return ["TOML", (text) => getStaticTOMLValue(parseTOML(text))];
  }
  if (/\.ya?ml$/i.test(path)) return ["YAML", (await import("yaml")).parse];
  return ["JSON", parseJsonc];
}

/**
 * The keys under which known programs list their servers. Shown in the error for a file that has none of these keys.
 */
const knownPlaces =
  '"mcpServers" (most programs, 1MCP, MCPHub, mcpo, MetaMCP), "servers" or "mcp": { "servers" } (VS Code), "context_servers" (Zed), "mcp" (opencode), "mcp_servers" (Codex), "registry" or "servers" (Docker), "targets" (agentgateway) or "entities": { "gateways" } (ContextForge); a file of ToolHive holds one server';

/** The servers in the file of any known program; undefined when it has no list of servers. */
export function serversIn(document: unknown): FoundServer[] | undefined {
  if (!isRecord(document)) return undefined;
  const { mcpServers, mcpTemplates, servers, mcp, mcp_servers, context_servers, registry, entities } =
    document;
  const nested = asRecord(mcp);
  const isOpencode = Object.values(nested).some((entry) => isOpencodeEntry(entry));
  const found = [
    ...listed("mcpServers", mcpServers, (entry, key) => ordinary(entry, key)),
    ...listed("mcpTemplates", mcpTemplates, () => refused(templateProblem)),
    ...listed("servers", servers, (entry, key) => ordinary(entry, key)),
    ...listed("mcp.servers", nested.servers, (entry, key) => ordinary(entry, key)),
    ...listed("mcp", isOpencode ? mcp : undefined, (entry, key) => ordinary(entry, key)),
    ...listed("context_servers", context_servers, (entry, key) => ordinary(fromZed(entry), key)),
    ...listed("mcp_servers", mcp_servers, (entry) => fromCodex(asRecord(entry))),
    ...listed("registry", registry, (entry, key) => fromDocker({ name: key, ...asRecord(entry) })),
    ...dockerProfile(servers),
    ...named("targets", agentgatewayTargets(document), fromAgentgateway),
    ...named("entities.gateways", asRecord(entities).gateways, fromContextForge),
    ...single(document),
  ];
  const lists = [mcpServers, servers, nested.servers, context_servers, mcp_servers, registry, entities];
  return found.length > 0 || lists.some((list) => isRecord(list)) ? found : undefined;
}

const templateProblem =
  "It is a template of 1MCP, which is filled in for each project. Write an entry for it by hand.";

function listed(place: string, list: unknown, read: (entry: unknown, key: string) => Read): FoundServer[] {
  if (!isRecord(list)) return [];
  return Object.entries(list).map(([key, entry]) => ({ key, place, ...read(entry, key) }));
}

/** Like `listed`, for a list whose entries have names. */
function named(place: string, list: unknown, read: (entry: Members) => Read): FoundServer[] {
  if (!Array.isArray(list)) return [];
  return list.filter(isRecord).map((entry) => ({ key: String(entry.name ?? ""), place, ...read(entry) }));
}

/** A file that describes one server: an export of ToolHive, or a server of Docker's gateway. */
function single(document: Members): FoundServer[] {
  const { name, base_name = name, image, remote, remote_url, type } = document;
  if (typeof base_name !== "string") return [];
  const isToolHive = typeof remote_url === "string" || (type === undefined && typeof image === "string");
  if (isToolHive) return [{ key: base_name, place: "ToolHive", ...fromToolHive(document) }];
  const isDocker =
    ["server", "remote", "poci"].includes(String(type)) && (image ?? remote ?? type) !== undefined;
  return isDocker ? [{ key: base_name, place: "Docker", ...fromDocker(document) }] : [];
}

function isOpencodeEntry(entry: unknown): boolean {
  return isRecord(entry) && (entry.type === "local" || entry.type === "remote");
}

/**
 * An entry of `mcpServers`, with the keys that single programs have besides: 1MCP (`transport`, `connectionTimeout`,
 * `requestTimeout`, `enabledTools`, variables as a list), MCPHub (`options`, `tools`, `perSessionClient`), MetaMCP (types in upper case) and
 * opencode (`local` and `remote`, the command as a list, `environment`, `{env:NAME}`). What is no object goes on as it is.
 */
function ordinary(given: unknown, key: string): Read {
  // An entry that is no object is passed on: the server refuses it with an error that names it.
  if (!isRecord(given)) return { entry: given as unknown as object };
  const isOpencode = isOpencodeEntry(given);
  const source = isOpencode ? asRecord(withVariables(given)) : given;
  const { type, transport, command, environment, env = environment, timeout, options, tools } = source;
  const { connectionTimeout, requestTimeout, enabledTools, perSessionClient, toolrack, ...rest } = source;
  const kind = typeOf(type ?? transport);
  if (kind === "openapi") return refused("It is the description of an HTTP API, not an MCP server.");
  if (isOpencode && JSON.stringify(source).includes("{file:"))
    return refused(
      "It takes a value from {file:…} of opencode. Keep the value as a secret, and add it by hand.",
    );
  const [program, ...words] = Array.isArray(command) ? command : [command];
  const limits = {
    connect: connectionTimeout ?? asRecord(timeout).startup,
    call: requestTimeout ?? asRecord(options).timeout ?? asRecord(timeout).request,
  };
  const off = isRecord(tools)
    ? Object.entries(tools).flatMap(([name, tool]) =>
        asRecord(tool).enabled === false
          ? [name.startsWith(`${key}-`) ? name.slice(key.length + 1) : name]
          : [],
      )
    : [];
  const { environment: _, options: _options, tools: _tools, transport: _transport, ...others } = rest;
  return {
    entry: {
      ...defined({
        ...others,
        type: kind,
        command: program,
        args: words.length > 0 ? words : source.args,
        env: Array.isArray(env) ? variables(env) : env,
        // opencode means the time for reading the list, not that of a call.
        timeout: isOpencode || isRecord(timeout) ? undefined : timeout,
        ...(off.length > 0 ? { disabledTools: off } : {}),
      }),
      ...ownSettings(
        perSessionClient === true ? { isolation: "session", ...asRecord(toolrack) } : toolrack,
        limits,
        enabledTools,
      ),
    },
    notes: notesOn(source),
  };
}

/**
 * Notes about settings of MCPHub and mcpo that pass values of the caller on to a server: Toolrack writes them
 * differently.
 */
function notesOn({ passthroughHeaders, credentialTemplate, client_header_forwarding }: Members) {
  const isPersonal = [passthroughHeaders, credentialTemplate].some(
    (list) => Array.isArray(list) && list.length > 0,
  );
  const isForwarding = isPersonal || asRecord(client_header_forwarding).enabled === true;
  return isForwarding
    ? ["It was sent values of the caller: write {{caller:NAME}} in the headers or env of its entry."]
    : [];
}

/**
 * The type of an entry for `mcp.json`. Undefined for `local` and `remote`, which the entry's command or address
 * shows anyway.
 */
function typeOf(type: unknown): unknown {
  if (typeof type !== "string") return type;
  const plain = type.toLowerCase().replaceAll(/[_-]/g, "");
  if (plain === "local" || plain === "remote") return undefined;
  return plain === "streamablehttp" ? "streamable-http" : plain;
}

/** `["NAME=value", "NAME"]` as an object. A name alone means the variable of the environment. */
function variables(list: readonly unknown[]): Record<string, string> {
  const pairs = list.map((word) => {
    const [, name = "", value] = /^([^=]*)(?:=(.*))?$/s.exec(String(word)) ?? [];
    return [name, value ?? `\${${name}}`] as const;
  });
  return Object.fromEntries(pairs);
}

/** Replaces the variables of opencode by ours, at any depth. */
function withVariables(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll(/\{env:(\w+)\}/g, "$${$1}");
  if (Array.isArray(value)) return value.map(withVariables);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withVariables(inner)]));
}

/** Older versions of Zed kept the command and its arguments in an object. */
function fromZed(entry: unknown): unknown {
  if (!isRecord(entry) || !isRecord(entry.command)) return entry;
  const { path, args, env } = entry.command;
  return { ...entry, command: path, ...defined({ args, env }) };
}

/** Codex: times in seconds, and headers that are taken from variables. */
function fromCodex(entry: Members): Read {
  const { command, args, cwd, url, enabled, env, env_vars, http_headers, env_http_headers, oauth } = entry;
  const { bearer_token_env_var: token, disabled_tools: disabledTools, enabled_tools, scopes } = entry;
  const fromEnvironment = Object.entries(asRecord(env_http_headers)).map(([name, variable]) => [
    name,
    `\${${variable}}`,
  ]);
  const headers = {
    ...asRecord(http_headers),
    ...Object.fromEntries(fromEnvironment),
    ...(typeof token === "string" ? { Authorization: `Bearer \${${token}}` } : {}),
  };
  const names = Array.isArray(env_vars) ? env_vars.map((one) => (isRecord(one) ? one.name : one)) : [];
  const ownEnv = { ...variables(names), ...asRecord(env) };
  const limits = {
    connect: milliseconds(entry.startup_timeout_sec) ?? entry.startup_timeout_ms,
    call: milliseconds(entry.tool_timeout_sec),
  };
  const client = defined({
    clientId: asRecord(oauth).client_id,
    scope: Array.isArray(scopes) && scopes.length > 0 ? scopes.join(" ") : undefined,
  });
  return {
    entry: {
      ...defined({ command, args, cwd, url, enabled, disabledTools }),
      ...(Object.keys(ownEnv).length > 0 ? { env: ownEnv } : {}),
      ...(Object.keys(headers).length > 0 ? { headers } : {}),
      ...ownSettings(undefined, limits, enabled_tools, Object.keys(client).length > 0 ? client : undefined),
    },
  };
}

function milliseconds(seconds: unknown): number | undefined {
  return typeof seconds === "number" ? seconds * 1_000 : undefined;
}

import { asRecord, defined, isRecord } from "../../helpers/index.ts";

/** A server that another program's file lists. */
export interface FoundServer {
  readonly key: string;
  /** The part of the file that lists the server. */
  readonly place: string;
  /** In the form of `mcp.json`. The server checks it. */
  readonly entry: object;
  /** Why the server cannot be taken over. */
  readonly problem?: string;
  /** What the other program did for the server and the rack does not, and what is still to be done. */
  readonly notes?: readonly string[];
}

/** What is known of a server besides its name. */
export type Read = Pick<FoundServer, "entry" | "problem" | "notes">;

export function refused(problem: string): Read {
  return { entry: {}, problem };
}

export type Members = Readonly<Record<string, unknown>>;

/**
 * Returns the member `toolrack` of an entry in `mcp.json`, with these limits and tools. Empty when there is nothing
 * to say.
 */
export function ownSettings(given: unknown, limits: object, include: unknown, oauth?: object): object {
  const known = defined({ ...limits });
  const settings = defined({
    limits: Object.keys(known).length > 0 ? known : undefined,
    tools: Array.isArray(include) ? { include } : undefined,
    oauth,
  });
  const isEmpty = given === undefined && Object.keys(settings).length === 0;
  return isEmpty ? {} : { toolrack: { ...settings, ...asRecord(given) } };
}

interface Container {
  readonly image: unknown;
  readonly words: unknown;
  readonly volumes: unknown;
  readonly env: Readonly<Record<string, string>>;
  /** Further options of `docker run`. */
  readonly options?: readonly string[];
}

/** The values of variables go through the environment of `docker`, so that none stands in its arguments. */
function containerEntry({ image, words, volumes, env, options = [] }: Container): object {
  const mounts = texts(volumes).flatMap((volume) => ["-v", volume]);
  const names = Object.keys(env).flatMap((name) => ["-e", name]);
  const args = ["run", "-i", "--rm", ...options, ...names, ...mounts, String(image), ...texts(words)];
  return { command: "docker", args, ...(names.length > 0 ? { env } : {}) };
}

function texts(list: unknown): string[] {
  return Array.isArray(list) ? list.map(String) : [];
}

function secretNote(names: readonly string[]): string[] {
  return names.length === 0
    ? []
    : [`Set what it needs: ${names.map((name) => `toolrack secrets set ${name}`).join(", ")}`];
}

/** A server of Docker's catalogue or of a profile. `config`: the values that the person gave, by name. */
export function fromDocker(server: Members, config: Members = {}, include?: unknown): Read {
  const { name, type, image, command, volumes, user, remote, sseEndpoint, allowHosts, disableNetwork } =
    server;
  const secrets = Array.isArray(server.secrets) ? server.secrets.map(asRecord) : [];
  const ownSecrets = secrets.flatMap(({ env }) => (typeof env === "string" ? [env] : []));
  const { url = sseEndpoint, transport_type, headers } = asRecord(remote);
  const settings = ownSettings(undefined, {}, include);
  if (typeof url === "string") {
    // Docker writes the variable of a secret into headers as `${NAME}`.
    const own = Object.fromEntries(
      Object.entries(asRecord(headers)).map(([key, text]) => [key, asSecrets(String(text))]),
    );
    const entry = { url, type: transport_type === "sse" ? "sse" : undefined, headers: headers && own };
    return { entry: { ...defined(entry), ...settings }, notes: secretNote(ownSecrets) };
  }
  if (type === "poci" || typeof image !== "string")
    return refused(
      "It has neither an image that speaks MCP nor an address: only Docker's gateway can run it.",
    );
  const fill = (text: string) =>
    text.replaceAll(/\{\{\s*([\w.-]+)\s*\}\}/g, (whole, path: string) => {
      const value = config[path.replace(`${name}.`, "")];
      return ["string", "number", "boolean"].includes(typeof value) ? String(value) : whole;
    });
  const given = Array.isArray(server.env) ? server.env.map(asRecord) : [];
  const env = Object.fromEntries(given.map((one) => [String(one.name), fill(String(one.value))]));
  const words = texts(command).map(fill);
  const mounts = texts(volumes).map(fill);
  const [open] = [...Object.values(env), ...words, ...mounts].filter((text) => text.includes("{{"));
  if (open !== undefined)
    return refused(`It uses ${open}, which Docker's gateway fills in and the file does not. Add it by hand.`);
  const options = [
    ...(disableNetwork === true ? ["--network", "none"] : []),
    ...(typeof user === "string" ? ["-u", user] : []),
  ];
  const withSecrets = { ...env, ...Object.fromEntries(ownSecrets.map((one) => [one, `\${secret:${one}}`])) };
  const hosts = texts(allowHosts);
  const notes = [
    ...secretNote(ownSecrets),
    ...(hosts.length > 0
      ? [`Docker's gateway let it reach ${hosts.join(", ")} only; "docker run" does not limit that.`]
      : []),
  ];
  return {
    entry: { ...containerEntry({ image, words, volumes: mounts, env: withSecrets, options }), ...settings },
    notes,
  };
}

function asSecrets(text: string): string {
  return text.replaceAll(/\$\{?(\w+)\}?/g, "$${secret:$1}");
}

/** The servers of a profile of Docker's gateway, each with a copy of its entry in the catalogue. */
export function dockerProfile(servers: unknown): FoundServer[] {
  if (!Array.isArray(servers)) return [];
  return servers.filter(isRecord).map((given) => {
    const { image, endpoint, source, config, tools, snapshot } = given;
    const server = asRecord(asRecord(snapshot).server);
    const url = typeof endpoint === "string" ? { remote: { url: endpoint } } : {};
    const name =
      server.name ?? /([^/:@]+)(?:[:@][^/]*)?$/.exec(String(image ?? source ?? endpoint ?? ""))?.[1];
    const whole = { ...url, ...defined({ image }), ...server };
    return { key: String(name ?? ""), place: "servers", ...fromDocker(whole, asRecord(config), tools) };
  });
}

/** ToolHive's export of one server. */
export function fromToolHive(document: Members): Read {
  const { image, remote_url, transport, cmd_args, env_vars, volumes, tools_filter, permission_profile } =
    document;
  const settings = ownSettings(
    undefined,
    {},
    Array.isArray(tools_filter) && tools_filter.length > 0 ? tools_filter : undefined,
  );
  if (typeof remote_url === "string") {
    const type = transport === "sse" ? { type: "sse" } : {};
    const notes =
      document.remote_auth_config === undefined ? [] : ["Sign in at it anew: toolrack mcp-servers login KEY"];
    return { entry: { url: remote_url, ...type, ...settings }, notes };
  }
  if (transport !== undefined && transport !== "stdio")
    return refused(
      "Its container serves HTTP. Start it yourself, and add its address: toolrack mcp-servers add KEY --url URL",
    );
  const own = Object.entries(asRecord(env_vars)).filter(([name]) => !/^(?:MCP_|FASTMCP_)/.test(name));
  const targets = texts(document.secrets).flatMap((secret) => /,target=(\w+)$/.exec(secret)?.[1] ?? []);
  const secrets = targets.map((name) => [name, `\${secret:${name}}`]);
  const env = Object.fromEntries([...own.map(([name, value]) => [name, String(value)]), ...secrets]);
  const notes = [
    ...secretNote(targets),
    ...(permission_profile === undefined
      ? []
      : [
          'ToolHive\'s permission profile is not taken over: "docker run" limits neither its network nor its folders.',
        ]),
  ];
  return { entry: { ...containerEntry({ image, words: cmd_args, volumes, env }), ...settings }, notes };
}

/**
 * Finds all targets in a file of agentgateway, at any depth, because versions of agentgateway nest them differently.
 */
export function agentgatewayTargets(part: unknown, depth = 0): Members[] {
  if (depth > 12 || typeof part !== "object" || part === null) return [];
  const isTarget = (entry: unknown) =>
    isRecord(entry) && ["stdio", "mcp", "sse", "openapi"].some((kind) => isRecord(entry[kind]));
  return Object.entries(part).flatMap(([name, inner]) =>
    name === "targets" && Array.isArray(inner)
      ? inner.filter(isRecord).filter(isTarget)
      : agentgatewayTargets(inner, depth + 1),
  );
}

export function fromAgentgateway({ stdio, mcp, sse, openapi }: Members): Read {
  if (isRecord(stdio)) {
    const { cmd: command, args, env } = stdio;
    return { entry: defined({ command, args, env }) };
  }
  if (isRecord(openapi)) return refused("It is the description of an HTTP API, not an MCP server.");
  const { host, port, path = isRecord(sse) ? "/sse" : "/mcp" } = asRecord(mcp ?? sse);
  if (typeof host !== "string")
    return refused("Its address is a backend or service of agentgateway. Add it by hand.");
  const scheme = port === 443 ? "https" : "http";
  const url = /^https?:/.test(host)
    ? host
    : `${scheme}://${host}${port === undefined ? "" : `:${port}`}${path}`;
  return { entry: { url, type: isRecord(sse) ? "sse" : "http" } };
}

/** A server that ContextForge calls a gateway. Its credentials are encrypted with a key that only ContextForge has. */
export function fromContextForge({
  url,
  transport,
  auth_type,
  is_active,
  passthrough_headers,
}: Members): Read {
  const notes = [
    ...(typeof auth_type === "string" && auth_type !== ""
      ? [
          `Its credentials (${auth_type}) are encrypted in the export: give its entry a header, kept as a secret.`,
        ]
      : []),
    ...(texts(passthrough_headers).length > 0
      ? [
          `ContextForge passed on ${texts(passthrough_headers).join(", ")} of the caller: write {{caller:NAME}} in its headers.`,
        ]
      : []),
  ];
  const type = String(transport).toUpperCase() === "SSE" ? "sse" : "http";
  return { entry: { url, type, ...(is_active === false ? { enabled: false } : {}) }, notes };
}

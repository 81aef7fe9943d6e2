import { compileSchema, type InferInput, type SchemaIssue } from "@toolrack/core";
import { hashValue, nearestNames } from "@toolrack/core/internal";
import { isReservedName, reservedNameReason } from "../../../calls/index.ts";
import { defined } from "../../../helpers/index.ts";
import { legacyVersions, modernVersion } from "../../wire/index.ts";
import { api, beginsWith, checkApi, fromApiForm, personAuthOf, refuseIf } from "./api-entry.ts";

const text = { type: "string" } as const;
const filled = { type: "string", minLength: 1 } as const;
const texts = { type: "array", items: text } as const;
const textMap = { type: "object", additionalProperties: text } as const;
const plainMap = { type: "object", additionalProperties: { type: ["string", "number", "boolean"] } } as const;
const time = { type: "number", exclusiveMinimum: 0 } as const;

/** Choices about single tools, by the server's own names for them; `*` stands for anything. */
const toolChoices = {
  type: "object",
  additionalProperties: false,
  properties: {
    include: texts, // Only these tools are offered.
    exclude: texts, // These tools are left out.
    disable: texts, // These tools are listed but switched off.
    ask: texts, // These tools wait for a person's consent before every call.
    rename: textMap, // New names on the rack, without `mcp_{serverKey}_`, by the server's own names for the tools.
    describe: textMap, // New descriptions, by the server's own names for the tools.
  },
} as const;

const flag = { type: "boolean" } as const;
/** Hints about a tool that count instead of the server's own. */
const hints = {
  type: "object",
  additionalProperties: false,
  properties: { readOnlyHint: flag, destructiveHint: flag, idempotentHint: flag, openWorldHint: flag },
} as const;

/** Limits of one server, in milliseconds where they are times. */
const limits = {
  type: "object",
  additionalProperties: false,
  properties: {
    connect: time, // From the start to the end of the handshake. Default 60,000.
    list: time, // For reading one list, with all of its pages. Default 30,000.
    call: time, // The longest call. Default: `timeout` of the entry, or what the config says for all tools.
    idle: time, // The longest time in a call without a progress message. Default: no limit.
    concurrency: { type: "integer", minimum: 1 }, // Calls at one time; further calls wait. Default 16.
    queue: { type: "integer", minimum: 0 }, // Calls that may wait; further calls fail. Default 256.
    // A process without calls for this long is ended, and started by the next call. Default: never. With `isolation`, a
    // connection of any kind, and with it its state. Default 600,000.
    rest: time,
    question: time, // How long a person may think about a question of the server. Default 300,000.
    // The interval at which the lists are read again if the server does not announce changes; 0 is never.
    // Default 600,000.
    refresh: { type: "number", minimum: 0 },
    connections: { type: "integer", minimum: 1 }, // With `isolation`: connections at one time. Default 16.
  },
} as const;

/** How the rack signs in at a server that asks for it. */
const oauth = {
  type: "object",
  additionalProperties: false,
  properties: {
    // `client_credentials`: the rack signs in as a machine, without a person. Default `authorization_code`.
    grant: { enum: ["authorization_code", "client_credentials"] },
    // The address of a document that describes the rack. It is the `client_id` at authorization servers that support such
    // documents. For other authorization servers the settings below count.
    clientMetadataUrl: filled,
    clientId: filled, // The client that was registered for the rack by hand. Default: the rack registers itself.
    clientSecret: filled,
    issuer: filled, // The authorization server that knows the client; the secret is sent to no other.
    scope: filled, // The scopes to ask for, separated by spaces. Default: what the server asks for.
    // `token`: each token of the rack signs in for itself. Default `shared`: one sign-in for all callers.
    signIn: { enum: ["shared", "token"] },
  },
} as const;

/** An entry in the forms that many programs write. Unknown keys belong to other programs and are ignored. */
const writtenEntry = {
  type: "object",
  properties: {
    type: { enum: ["stdio", "http", "sse", "streamable-http", "streamableHttp"] },
    command: filled,
    args: texts,
    env: plainMap,
    envFile: filled,
    cwd: filled,
    url: filled,
    api,
    serverUrl: filled, // The `url` under the name that Windsurf gives it.
    httpUrl: filled, // The `url` of a server that speaks Streamable HTTP, under the name that Gemini CLI gives it.
    headers: plainMap,
    timeout: time, // The longest call in milliseconds, as several clients write it.
    enabled: { type: "boolean" },
    disabled: { type: "boolean" },
    disabledTools: texts, // Tools that are switched off, as Cline, Roo and Windsurf have them.
    // Settings that only Toolrack reads.
    toolrack: {
      type: "object",
      additionalProperties: false,
      properties: {
        install: filled, // A package, `name@version`, installed beforehand and run by Node, instead of `npx` at every start.
        protocol: { enum: [modernVersion, ...legacyVersions] }, // The only version of MCP to speak. Default: the newest of both sides.
        // What stands before the server's names on the rack, such as nothing. Default `mcp_{serverKey}_`.
        prefix: { type: "string", pattern: "^[A-Za-z0-9_-]{0,40}$" },
        roots: texts, // Folders that the server is told of when it asks for roots and no caller can answer. Default none.
        // Who shares one process or connection, and with it the server's state: all callers, the calls of one session, or
        // those of one token. Default `shared`; `token` where callers act with their own credentials.
        isolation: { enum: ["shared", "session", "token"] },
        oauth,
        instructions: text, // What clients are told about the server, instead of its own words. Empty: nothing.
        // Hints instead of the server's own, by its names for the tools; `*` stands for anything.
        annotations: { type: "object", additionalProperties: hints },
        tools: toolChoices,
        limits,
      },
    },
  },
} as const;

type WrittenEntry = InferInput<typeof writtenEntry>;
export type ToolChoices = InferInput<typeof toolChoices>;
export type ServerLimits = InferInput<typeof limits>;
export type OAuthEntry = InferInput<typeof oauth>;

type OtherForms = "type" | "env" | "headers" | "disabled" | "serverUrl" | "httpUrl" | "disabledTools";

/** One entry of `mcpServers` in Toolrack's own form. Its variables are not replaced yet. */
export interface ServerEntry extends Omit<WrittenEntry, OtherForms> {
  /** `stdio`: a process. `http` and `sse`: the transport for an address. */
  readonly type?: "stdio" | "http" | "sse" | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const compiled = compileSchema(writtenEntry);

/** Checks an entry and gives it one form. Throws an `Error` that names each key that is wrong. */
export async function readServerEntry(given: unknown): Promise<ServerEntry> {
  const outcome = await compiled.validate(fromApiForm(given));
  if (!outcome.ok) throw new Error(outcome.issues.map(describe).join(" "));
  // The schema has checked the types.
  const entry = toServerEntry(outcome.value as WrittenEntry);
  checkReach(entry, given);
  if (entry.toolrack?.install !== undefined) packageSpec(entry.toolrack.install, "toolrack.install: ");
  checkOAuth(entry);
  checkPrefix(entry);
  checkCallers(entry);
  return entry;
}

/** Paths that may hold secrets. Errors about them name only the type of the value. */
const secretPath = /^(?:$|args|env|headers|url|serverUrl|httpUrl|api\.auth|toolrack\.oauth)/;

function describe({ path, message, expected, received }: SchemaIssue): string {
  const [kind] = received.split(" ", 1);
  const problem = secretPath.test(path) ? `Expected ${expected}, got ${kind}.` : message;
  return path === "" ? problem : `${path}: ${problem}`;
}

/** A hash of the keys that decide which program or address the entry means. */
export function fingerprintOf({ type, command, args, url, cwd, api, toolrack }: ServerEntry): string {
  const { spec, baseUrl, readOnly, documents } = api ?? {};
  const reached = [type, command, args, url, cwd, toolrack?.install, toolrack?.protocol];
  return hashValue(api === undefined ? reached : [...reached, spec, baseUrl, readOnly, documents]);
}

/** Whether the entry starts a process. */
export function isLocal({ url, type, api }: ServerEntry): boolean {
  return url === undefined && api === undefined && (type === undefined || type === "stdio");
}

function checkReach({ command, url, type, api, toolrack }: ServerEntry, given: unknown): void {
  const starts = command !== undefined || toolrack?.install !== undefined;
  const isRemote = url !== undefined;
  if (api !== undefined) {
    const isOnly = !starts && !isRemote && type === undefined && toolrack?.protocol === undefined;
    refuseIf(!isOnly, "It has a spec, which makes it an API. Take out what starts or reaches an MCP server.");
    refuseIf(toolrack?.oauth !== undefined, "toolrack.oauth is for MCP servers. Write the API's auth.");
    checkApi(api);
    return;
  }
  refuseIf(
    starts && isRemote,
    "It has both a command and a url. Keep the one by which the server is reached.",
  );
  refuseIf(!starts && !isRemote, `It has neither a command nor a url. ${hintAt(given)}`);
  refuseIf(!beginsWith(/^\s*https?:\/\//i, url), "url: It must begin with http:// or https://.");
  const isAddress = type === "http" || type === "sse";
  refuseIf(starts && isAddress, `Its type is "${type}", but it has a command and no url.`);
  refuseIf(!starts && type === "stdio", 'Its type is "stdio", but it has no command.');
  refuseIf(
    type === "sse" && toolrack?.protocol === modernVersion,
    `toolrack.protocol: Version ${modernVersion} is not spoken over SSE. Take out the type "sse", or write an older version.`,
  );
}

function checkPrefix({ toolrack: { prefix = "" } = {} }: ServerEntry): void {
  refuseIf(isReservedName(prefix), `toolrack.prefix: ${reservedNameReason}`);
}

/**
 * Advice for an entry with neither a command nor a url. Unknown keys are allowed, so a misspelt key is noticed
 * only here.
 */
function hintAt(given: unknown): string {
  const known = Object.keys(writtenEntry.properties);
  for (const key of Object.keys(given ?? {})) {
    const [meant] = known.includes(key) ? [] : nearestNames(key, ["command", "url"], 1);
    if (meant !== undefined) return `Did you mean "${meant}" where it says "${key}"?`;
  }
  return "Say how the server is started, or where it is.";
}

function checkOAuth({ url, toolrack: { oauth } = {} }: ServerEntry): void {
  if (oauth === undefined) return;
  const { grant, clientMetadataUrl, clientId, clientSecret, issuer } = oauth;
  const isMachine = grant === "client_credentials";
  const isComplete = clientId !== undefined && clientSecret !== undefined;
  refuseIf(url === undefined, "It has toolrack.oauth, but no url: a process is not signed in at.");
  refuseIf(
    isMachine && !isComplete,
    "toolrack.oauth: the grant client_credentials needs a clientId and a clientSecret.",
  );
  refuseIf(
    isMachine && clientMetadataUrl !== undefined,
    "toolrack.oauth: a machine signs in with its clientId and clientSecret. Take out the clientMetadataUrl, which is for people who sign in.",
  );
  refuseIf(
    !beginsWith(/^https:\/\//i, clientMetadataUrl),
    "toolrack.oauth.clientMetadataUrl: It must begin with https://.",
  );
  if (clientSecret === undefined) return;
  refuseIf(clientId === undefined, "toolrack.oauth has a clientSecret, but no clientId.");
  refuseIf(
    issuer === undefined,
    "toolrack.oauth has a clientSecret, but no issuer. Name the authorization server that knows the client, such as https://login.example.com: otherwise the MCP server could have the secret sent anywhere.",
  );
}

/** How an entry writes a value of the caller. */
export const callerForm = /\{\{\s*caller:(.*?)\}\}/g;
/** Short enough for the name of the secret that holds the value for one token. */
const callerName = /^[A-Za-z][A-Za-z0-9_]{0,47}$/;

/** The names of the values that the entry takes from its callers. */
export function callerNames({ env, headers }: ServerEntry): readonly string[] {
  const texts = [...Object.values(env ?? {}), ...Object.values(headers ?? {})];
  const names = texts.flatMap((text) => [...text.matchAll(callerForm)].map(([, name = ""]) => name.trim()));
  return [...new Set(names)];
}

/** Whether each token signs in for itself. */
export function signsInByToken(entry: ServerEntry): boolean {
  const { signIn } = personAuthOf(entry)?.client ?? entry.toolrack?.oauth ?? {};
  return signIn === "token";
}

/** Whether each caller acts with credentials of its own: its values, or its own sign-in. */
export function isPersonal(entry: ServerEntry): boolean {
  return signsInByToken(entry) || callerNames(entry).length > 0;
}

/** Whether its lists can be read only with the credentials of a caller. The description of an API needs no sign-in. */
export function isListedByCaller(entry: ServerEntry): boolean {
  return callerNames(entry).length > 0 || (entry.api === undefined && signsInByToken(entry));
}

/** Which calls share a connection. */
export function isolationOf(entry: ServerEntry): "shared" | "session" | "token" {
  return entry.toolrack?.isolation ?? (isPersonal(entry) ? "token" : "shared");
}

function checkCallers(entry: ServerEntry): void {
  const { env: _, headers: _headers, ...others } = entry;
  const { isolation, oauth } = entry.toolrack ?? {};
  refuseIf(
    JSON.stringify(others).match(callerForm) !== null,
    "{{caller:NAME}} may stand in the values of env and headers, and nowhere else.",
  );
  refuseIf(
    (oauth ?? personAuthOf(entry)) !== undefined && callerNames(entry).length > 0,
    "{{caller:NAME}} and a sign-in by OAuth do not go together: a caller sends credentials, or signs in.",
  );
  const wrong = callerNames(entry).find((name) => !callerName.test(name));
  refuseIf(
    wrong !== undefined,
    `{{caller:${wrong}}}: a name has letters, digits and _, at most 48, and begins with a letter.`,
  );
  refuseIf(
    isolation === "shared" && isPersonal(entry),
    'toolrack.isolation: Where callers act with their own credentials, they cannot share a connection. Take it out, or write "token" or "session".',
  );
  refuseIf(
    isolationOf(entry) === "shared" && JSON.stringify(entry).includes(`\${callerId}`),
    `\${callerId}: All callers share this server. Write "toolrack": { "isolation": "token" }, or "session".`,
  );
  refuseIf(
    signsInByToken(entry) && oauth?.grant === "client_credentials",
    "toolrack.oauth: a machine signs in once for all callers. Take out signIn or grant.",
  );
}

const packageForm = /^((?:@[a-z0-9~._-]+\/)?[a-z0-9~._-]+)@([A-Za-z0-9~^.*+_-]+)$/i;

/** Reads `name@version`; the version may be a range or a tag. Throws an `Error` that says what to write. */
export function packageSpec(text: string, where = ""): { readonly name: string; readonly version: string } {
  const [, name, version] = packageForm.exec(text) ?? [];
  if (name !== undefined && version !== undefined) return { name, version };
  const example = packageForm.test(`${text}@1`) ? text : "some-server";
  throw new Error(
    `${where}"${text}" is no package to install. Write its name and version: "${example}@1.2.3".`,
  );
}

/**
 * Turns the forms of other programs into Toolrack's own. Their permissions to run without asking (`autoApprove`,
 * `alwaysAllow`) are ignored: the person gave them to another program. Throws an `Error` that names the wrong key.
 */
function toServerEntry(written: WrittenEntry): ServerEntry {
  const {
    type: given,
    disabled,
    enabled,
    serverUrl,
    httpUrl,
    disabledTools,
    env,
    headers,
    ...rest
  } = written;
  const type = given ?? (httpUrl === undefined ? undefined : "http");
  const { tools, ...others } = rest.toolrack ?? {};
  const disable = [...new Set([...(tools?.disable ?? []), ...(disabledTools ?? [])])];
  return {
    ...rest,
    ...defined({
      url: onlyAddress({ url: rest.url, serverUrl, httpUrl }),
      env: env && textFields(env, "env"),
      headers: headers && textFields(headers, "headers"),
      toolrack: disabledTools === undefined ? rest.toolrack : { ...others, tools: { ...tools, disable } },
      type: type && (type === "stdio" || type === "sse" ? type : "http"),
      enabled: disabled === true || enabled === false ? false : undefined,
    }),
  };
}

function onlyAddress(addresses: Readonly<Record<string, string | undefined>>): string | undefined {
  const given = Object.entries(addresses).filter(([, address]) => address !== undefined);
  const [[key, address] = [], [otherKey] = []] = given;
  const isTwice = new Set(given.map(([, one]) => one)).size > 1;
  refuseIf(isTwice, `It has both a ${key} and a ${otherKey}. Keep the one by which the server is reached.`);
  return address;
}

/** Turns numbers and booleans into text. */
function textFields(values: Readonly<Record<string, unknown>>, where: string): Record<string, string> {
  const texts = Object.entries(values).map(([name, value]) => {
    // JSON parsing has already changed the digits of so large a number.
    const isCut = typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER;
    refuseIf(isCut, `${where}.${name}: So long a number loses digits. Write it in quotation marks.`);
    return [name, String(value)];
  });
  return Object.fromEntries(texts);
}

import { compileSchema, hashValue, nearestNames, type SchemaIssue } from "@toolrack/core";
import { messageOf } from "../failures.ts";

/** How an upstream server is reached: a process that talks over its standard streams, or an address. */
type ServerTransport = "stdio" | "http" | "sse";

/** What an entry says about single tools, by the names that the server gives them; `*` stands for anything. */
export interface ToolChoices {
  /** Only these are offered. */
  readonly include?: readonly string[];
  /** These are left out. */
  readonly exclude?: readonly string[];
  /** These are listed but switched off. */
  readonly disable?: readonly string[];
  /** These wait for a person's consent before every call. */
  readonly ask?: readonly string[];
  /** Another last part of the name, by the server's own name for it. */
  readonly rename?: Readonly<Record<string, string>>;
  /** Another description, by the server's own name for the tool. */
  readonly describe?: Readonly<Record<string, string>>;
}

/** Limits of one server, in milliseconds where they are times. */
export interface ServerLimits {
  /** From the start to the end of the handshake. Default 60,000. */
  readonly connect?: number;
  /** For each list, with all of its pages. Default 30,000. */
  readonly list?: number;
  /** The longest call. Default: what the config says for all tools. */
  readonly call?: number;
  /** The longest silence in a call; progress starts it anew. Default: none but the longest call. */
  readonly idle?: number;
  /** Calls at one time; further ones wait. Default 16. */
  readonly concurrency?: number;
  /** Calls that may wait; further ones fail. Default 256. */
  readonly queue?: number;
  /** A process that nobody called for so long is ended, and started by the next call. Default: never. */
  readonly rest?: number;
  /** How long somebody may think about a question of the server. Default 300,000. */
  readonly question?: number;
  /** How often the lists of a server are read again that does not or cannot tell of changes; 0 is never. Default 600,000. */
  readonly refresh?: number;
}

/** How the rack signs in at a server that asks for it. */
export interface OAuthEntry {
  /** `client_credentials`: as a machine, without a person. Default `authorization_code`. */
  readonly grant?: "authorization_code" | "client_credentials";
  /**
   * Where a document says who the rack is: an address that is its `client_id` at every authorization server that reads
   * such documents. The others are asked with what else is said here.
   */
  readonly clientMetadataUrl?: string;
  /** The client that was registered for the rack by hand. Default: it registers itself. */
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** The authorization server that the client was registered with; nobody else is sent its secret. */
  readonly issuer?: string;
  /** Separated by spaces. Default: what the server asks for. */
  readonly scope?: string;
}

/** One entry of `mcpServers`, as it is written; variables are not yet replaced. */
export interface ServerEntry {
  readonly type?: ServerTransport;
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly envFile?: string;
  readonly cwd?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The longest call in milliseconds, as several clients write it. */
  readonly timeout?: number;
  readonly enabled?: boolean;
  /** What only Toolrack reads. */
  readonly toolrack?: {
    /** A package, `name@version`, that is installed beforehand and run by Node, instead of `npx` at every start. */
    readonly install?: string;
    readonly tools?: ToolChoices;
    readonly limits?: ServerLimits;
    readonly oauth?: OAuthEntry;
    /** Folders that the server is told of when it asks for roots outside a call. Default none. */
    readonly roots?: readonly string[];
  };
}

const text = { type: "string" } as const;
const filled = { type: "string", minLength: 1 } as const;
const texts = { type: "array", items: text } as const;
const textMap = { type: "object", additionalProperties: text } as const;
const plainMap = { type: "object", additionalProperties: { type: ["string", "number", "boolean"] } } as const;
const time = { type: "number", exclusiveMinimum: 0 } as const;

/** The schema of an entry. Keys that it does not name are those of other programs and are left out. */
const serverEntrySchema = {
  type: "object",
  properties: {
    type: { enum: ["stdio", "http", "sse", "streamable-http", "streamableHttp"] },
    command: filled,
    args: texts,
    env: plainMap,
    envFile: filled,
    cwd: filled,
    url: filled,
    serverUrl: filled,
    httpUrl: filled,
    headers: plainMap,
    timeout: time,
    enabled: { type: "boolean" },
    disabled: { type: "boolean" },
    disabledTools: texts,
    toolrack: {
      type: "object",
      additionalProperties: false,
      properties: {
        install: filled,
        roots: texts,
        oauth: {
          type: "object",
          additionalProperties: false,
          properties: {
            grant: { enum: ["authorization_code", "client_credentials"] },
            clientMetadataUrl: filled,
            clientId: filled,
            clientSecret: filled,
            issuer: filled,
            scope: filled,
          },
        },
        tools: {
          type: "object",
          additionalProperties: false,
          properties: {
            include: texts,
            exclude: texts,
            disable: texts,
            ask: texts,
            rename: textMap,
            describe: textMap,
          },
        },
        limits: {
          type: "object",
          additionalProperties: false,
          properties: {
            connect: time,
            list: time,
            call: time,
            idle: time,
            concurrency: { type: "integer", minimum: 1 },
            queue: { type: "integer", minimum: 0 },
            rest: time,
            question: time,
            refresh: { type: "number", minimum: 0 },
          },
        },
      },
    },
  },
} as const;

const compiled = compileSchema(serverEntrySchema);

/** Checks an entry and gives it one form. Throws an `Error` that names each key that is wrong. */
export async function readServerEntry(given: unknown): Promise<ServerEntry> {
  const outcome = await compiled.validate(given);
  if (!outcome.ok) {
    throw new Error(outcome.issues.map(describe).join(" "));
  }
  // What passed the schema has these types.
  const { type, ...rest } = oneForm(outcome.value as WrittenEntry);
  checkReach(rest, type, given);
  checkInstall(rest);
  checkOAuth(rest);
  return { ...rest, ...(type === undefined ? {} : { type: type as ServerTransport }) };
}

/** Where secrets stand, and the entry as a whole: of what is wrong there, only the kind is said. */
const secretPath = /^(?:$|args|env|headers|url|serverUrl|httpUrl|toolrack\.oauth)/;

function describe({ path, message, expected, received }: SchemaIssue): string {
  const [kind] = received.split(" ", 1);
  const said = secretPath.test(path) ? `Expected ${expected}, got ${kind}.` : message;
  return path === "" ? said : `${path}: ${said}`;
}

/** Of the part of an entry that decides which program or address it is. */
export function fingerprintOf({ type, command, args, url, cwd, toolrack }: ServerEntry): string {
  return hashValue([type, command, args, url, cwd, toolrack?.install]);
}

/** Whether an entry starts a process. */
export function isLocal({ url, type }: ServerEntry): boolean {
  return url === undefined && (type === undefined || type === "stdio");
}

function checkReach(entry: Omit<ServerEntry, "type">, type: string | undefined, given: unknown): void {
  const starts = entry.command !== undefined || entry.toolrack?.install !== undefined;
  if (starts && entry.url !== undefined) {
    throw new Error("It has both a command and a url. Keep the one by which the server is reached.");
  }
  if (!starts && entry.url === undefined) {
    throw new Error(`It has neither a command nor a url. ${hintAt(given)}`);
  }
  // What begins with a variable is known when it is used.
  if (entry.url !== undefined && !/^\s*(?:https?:\/\/|\$\{)/i.test(entry.url)) {
    throw new Error("url: It must begin with http:// or https://.");
  }
  if (starts && (type === "http" || type === "sse")) {
    throw new Error(`Its type is "${type}", but it has a command and no url.`);
  }
  if (!starts && type === "stdio") throw new Error('Its type is "stdio", but it has no command.');
}

/** Keys of other programs are left as they are, so one that is misspelt is only noticed when it is missed. */
function hintAt(given: unknown): string {
  const known = Object.keys(serverEntrySchema.properties);
  for (const key of Object.keys(given ?? {})) {
    const [meant] = known.includes(key) ? [] : nearestNames(key, ["command", "url"], 1);
    if (meant !== undefined) return `Did you mean "${meant}" where it says "${key}"?`;
  }
  return "Say how the server is started, or where it is.";
}

function checkInstall({ toolrack: { install } = {} }: Omit<ServerEntry, "type">): void {
  if (install === undefined) return;
  try {
    packageSpec(install);
  } catch (thrown) {
    throw new Error(`toolrack.install: ${messageOf(thrown)}`);
  }
}

function checkOAuth({ url, toolrack: { oauth } = {} }: Omit<ServerEntry, "type">): void {
  if (oauth === undefined) return;
  const { grant, clientMetadataUrl, clientId, clientSecret, issuer } = oauth;
  if (url === undefined) throw new Error("It has toolrack.oauth, but no url: a process is not signed in at.");
  if (grant === "client_credentials" && (clientId === undefined || clientSecret === undefined)) {
    throw new Error("toolrack.oauth: the grant client_credentials needs a clientId and a clientSecret.");
  }
  if (grant === "client_credentials" && clientMetadataUrl !== undefined) {
    throw new Error(
      "toolrack.oauth: a machine signs in with its clientId and clientSecret. Take out the clientMetadataUrl, which is for people who sign in.",
    );
  }
  // What begins with a variable is known when it is used.
  if (clientMetadataUrl !== undefined && !/^(?:https:\/\/|\$\{)/i.test(clientMetadataUrl)) {
    throw new Error("toolrack.oauth.clientMetadataUrl: It must begin with https://.");
  }
  if (clientSecret === undefined) return;
  if (clientId === undefined) throw new Error("toolrack.oauth has a clientSecret, but no clientId.");
  if (issuer === undefined) {
    throw new Error(
      "toolrack.oauth has a clientSecret, but no issuer. Name the authorization server that knows the client, such as https://login.example.com: otherwise the MCP server could have the secret sent anywhere.",
    );
  }
}

/** A package of npm and the version of it that is wanted, which may be a range or a tag. */
interface PackageSpec {
  readonly name: string;
  readonly version: string;
}

const form = /^((?:@[a-z0-9~._-]+\/)?[a-z0-9~._-]+)@([A-Za-z0-9~^.*+_-]+)$/i;

/** Reads `name@version`. Throws an `Error` that says what to write. */
export function packageSpec(text: string): PackageSpec {
  const [, name, version] = form.exec(text) ?? [];
  if (name !== undefined && version !== undefined) return { name, version };
  throw new Error(
    `"${text}" is no package to install. Write its name and version: "${example(text)}@1.2.3".`,
  );
}

/** What was meant, where it is a name. */
function example(text: string): string {
  return form.test(`${text}@1`) ? text : "some-server";
}

/** An entry as the files of many programs have it. */
interface WrittenEntry extends Omit<ServerEntry, "type" | "env" | "headers"> {
  readonly type?: string;
  readonly env?: Readonly<Record<string, Plain>>;
  readonly headers?: Readonly<Record<string, Plain>>;
  readonly disabled?: boolean;
  /** A `url`, as Windsurf has it. */
  readonly serverUrl?: string;
  /** The `url` of a server that speaks Streamable HTTP, as Gemini CLI has it. */
  readonly httpUrl?: string;
  /** Tools that are switched off, as Cline, Roo and Windsurf have them. */
  readonly disabledTools?: readonly string[];
}

type Plain = string | number | boolean;

/**
 * What other programs write in another way, as it is written here. What they let tools do without being asked
 * (`autoApprove`, `alwaysAllow`) was agreed to with another program, and does not count here. Throws an `Error` that names
 * a key that cannot be used.
 */
function oneForm(written: WrittenEntry): Omit<ServerEntry, "type"> & { readonly type?: string } {
  const { type, disabled, enabled, serverUrl, httpUrl, disabledTools, env, headers, ...rest } = written;
  const transport = transportOf(type ?? (httpUrl === undefined ? undefined : "http"));
  const url = onlyAddress({ url: rest.url, serverUrl, httpUrl });
  const { tools, ...others } = rest.toolrack ?? {};
  const disable = [...new Set([...(tools?.disable ?? []), ...(disabledTools ?? [])])];
  return {
    ...rest,
    ...(url === undefined ? {} : { url }),
    ...(env === undefined ? {} : { env: textFields(env, "env") }),
    ...(headers === undefined ? {} : { headers: textFields(headers, "headers") }),
    ...(disabledTools === undefined ? {} : { toolrack: { ...others, tools: { ...tools, disable } } }),
    ...(transport === undefined ? {} : { type: transport }),
    ...(disabled === true || enabled === false ? { enabled: false } : {}),
  };
}

function transportOf(type: string | undefined): string | undefined {
  return type === "streamable-http" || type === "streamableHttp" ? "http" : type;
}

function onlyAddress(addresses: Readonly<Record<string, string | undefined>>): string | undefined {
  const given = Object.entries(addresses).filter(([, address]) => address !== undefined);
  const [[key, address] = [], [otherKey] = []] = given;
  if (new Set(given.map(([, one]) => one)).size > 1) {
    throw new Error(`It has both a ${key} and a ${otherKey}. Keep the one by which the server is reached.`);
  }
  return address;
}

/** Numbers and truth values as they are written. */
function textFields(values: Readonly<Record<string, Plain>>, where: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      // A number of so many digits was already read as another one.
      if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
        throw new Error(`${where}.${name}: So long a number loses digits. Write it in quotation marks.`);
      }
      return [name, String(value)];
    }),
  );
}

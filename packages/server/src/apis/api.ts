import { setTimeout as wait } from "node:timers/promises";
import {
  type AddressRules,
  acceptedEncodings,
  KeptConnections,
  openUrl,
  readResponse,
  withTimeLimit,
} from "../access/index.ts";
import { reasonOf } from "../helpers/index.ts";
import { type Credentials, forgetTokens, type Security, type SecurityScheme, sign } from "./credentials.ts";
import { type FetchText, readDocument, SpecError, type SpecPlace } from "./document.ts";
import { type ApiOperations, type Operation, readOperations, type Skipped } from "./operations.ts";
import { type ApiRequest, toRequest } from "./request.ts";
import { type ApiResult, toResult } from "./response.ts";

/** What an entry of `apis.json` says about an API, with all variables replaced. */
export interface ApiSettings {
  readonly spec: SpecPlace;
  /** The address of the API, instead of those in the description. */
  readonly baseUrl?: string | undefined;
  readonly credentials: Credentials;
  /** Sent with every request to the API's own origin. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Only operations that read are offered. */
  readonly isReadOnly: boolean;
  /** Which addresses may be reached. The hosts of `spec` and `baseUrl`, which the operator wrote, always may. */
  readonly rules: AddressRules;
  /** Called with tokens that were got for the API, so that they are masked everywhere. */
  readonly learn?: (value: string) => void;
}

/** What a description says about the sign-in of a person. */
export interface DescribedSignIn {
  /** The origin that is given the tokens. */
  readonly server: string;
  readonly authorizationUrl?: string | undefined;
  readonly tokenUrl?: string | undefined;
  /** The scopes that the operations need, separated by spaces. */
  readonly scope?: string | undefined;
}

/** A tool in the form in which MCP lists it. */
export interface ApiTool {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly inputSchema: object;
  readonly outputSchema?: object;
  readonly annotations: Readonly<Record<string, boolean>>;
  readonly _meta: Readonly<Record<string, unknown>>;
}

/** Milliseconds for one exchange. The limit of the call itself is usually shorter. */
const LONGEST_EXCHANGE = 10 * 60_000;
const MOST_BYTES = 16 * 1024 * 1024;
/** A server that asks to wait longer than this, in milliseconds, is not asked again within the call. */
const LONGEST_WAIT = 10_000;
const MOST_TRIES = 3;

/** An HTTP API whose operations are tools. */
export class Api {
  readonly #settings: ApiSettings;
  readonly #found: ApiOperations;
  readonly #byName: ReadonlyMap<string, Operation>;
  readonly #connections = new KeptConnections();
  /** The origin that is given the credentials. */
  readonly origin: string | undefined;
  readonly version: string;
  readonly files: readonly string[];
  readonly problems: readonly string[];
  readonly folders: readonly string[] = [];

  private constructor(
    settings: ApiSettings,
    found: ApiOperations,
    document: Awaited<ReturnType<typeof readDocument>>,
  ) {
    this.#settings = settings;
    this.#found = found;
    this.version = document.version;
    this.files = document.files;
    this.problems = [...document.problems, ...uselessCredentials(settings.credentials, found.schemes)];
    const offered = found.operations.filter((operation) => !settings.isReadOnly || isReading(operation));
    this.#byName = new Map(offered.map((operation) => [operation.name, operation]));
    this.origin = settings.baseUrl === undefined ? mainOrigin(offered) : new URL(settings.baseUrl).origin;
  }

  /** Reads the description. Throws `SpecError` when it cannot be used. */
  static async open(settings: ApiSettings, signal: AbortSignal): Promise<Api> {
    const document = await readDocument(settings.spec, fetcher(settings, signal));
    return new Api(settings, readOperations(document, settings), document);
  }

  get title(): string {
    return this.#found.title;
  }

  get description(): string {
    return this.#found.description;
  }

  /** The operations that cannot be offered, and why. */
  get skipped(): readonly Skipped[] {
    return this.#found.skipped;
  }

  get tools(): ApiTool[] {
    return [...this.#byName.values()].map((operation) => toTool(operation, this.#found.schemes));
  }

  /** The names of the schemes for which the entry has no credentials, though an operation needs them. */
  get missingCredentials(): string[] {
    const { credentials, headers } = this.#settings;
    // The headers of an entry may hold credentials in any form.
    if (Object.keys(headers).length > 0) return [];
    const lacking = [...this.#byName.values()].flatMap(({ security }) => {
      const ways = security.map((needs) => [...needs.keys()]);
      const isMet = ways.length === 0 || ways.some((names) => names.every((name) => credentials.has(name)));
      return isMet ? [] : (ways[0] ?? []);
    });
    return [...new Set(lacking)].filter((name) => !credentials.has(name)).sort();
  }

  /** Where a person signs in for this API, and with which scopes. Undefined when its entry asks for no such sign-in. */
  get signIn(): DescribedSignIn | undefined {
    const { credentials } = this.#settings;
    const [scheme] = [...credentials].find(([, { kind }]) => kind === "person") ?? [];
    if (scheme === undefined || this.origin === undefined) return undefined;
    const known = this.#found.schemes.get(scheme);
    const needs = [...this.#byName.values()].flatMap(({ security }) => security);
    const scopes = new Set(needs.flatMap((way) => way.get(scheme) ?? []));
    return {
      server: this.origin,
      ...(known?.kind === "oauth2" && known.person),
      scope: scopes.size === 0 ? undefined : [...scopes].sort().join(" "),
    };
  }

  /** Calls an operation. Rejects when the request cannot be written or sent; an error of the API is a result. */
  async call(name: string, args: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ApiResult> {
    const operation = this.#byName.get(name);
    if (operation === undefined) throw new Error(`The API has no operation "${name}".`);
    const request = await toRequest(operation, args);
    for (let tries = 1; ; tries++) {
      const { opened, part, used } = await this.#send(operation, request, signal);
      if (tries === 1 && opened.status === 401 && forgetTokens(used)) continue;
      const pause = tries < MOST_TRIES && isRepeatable(operation) ? pauseWanted(opened) : undefined;
      if (pause === undefined) return toResult(operation, opened, part);
      await wait(pause, undefined, { signal });
    }
  }

  close(): void {
    this.#connections.close();
  }

  async #send(operation: Operation, { method, url, headers, body }: ApiRequest, signal: AbortSignal) {
    const { rules, credentials, learn = () => {} } = this.#settings;
    // Other origins are sent neither credentials nor the headers of the entry.
    const isOwn = url.origin === this.origin;
    const own = { url, headers: { ...headers, ...this.#settings.headers } };
    const { schemes } = this.#found;
    const { used, ...signed } = isOwn
      ? await sign(own, operation.security, schemes, credentials, { rules, signal, learn })
      : { url, headers, used: new Map() };
    const answered = await exchange({
      ...{ method, body, rules, signal },
      ...signed,
      // Following a redirect may send a request twice, so only those that read are.
      followRedirects: isReading(operation),
      // A kept connection may end while a request is sent, so only what may be repeated uses one.
      agents: isRepeatable(operation) ? this.#connections : undefined,
      ownHeaders: Object.keys(signed.headers).filter((name) => signed.headers[name] !== headers[name]),
    });
    return { ...answered, used };
  }
}

interface Exchange extends ApiRequest {
  readonly agents?: KeptConnections | undefined;
  readonly followRedirects: boolean;
  /** Headers that no other origin is sent after a redirect. */
  readonly ownHeaders: readonly string[];
  readonly rules: AddressRules;
  readonly signal: AbortSignal;
}

/** Sends a request and reads its answer. */
export function exchange({ url, headers, body, signal, ...rest }: Exchange) {
  const length = body === undefined ? undefined : { "content-length": String(Buffer.byteLength(body)) };
  return withTimeLimit(url.host, LONGEST_EXCHANGE, signal, async (limited) => {
    const opened = await openUrl({
      ...rest,
      url: url.href,
      headers: { "accept-encoding": acceptedEncodings, ...headers, ...length },
      body,
      signal: limited,
    });
    return { opened, part: await readResponse(opened, MOST_BYTES, limited) };
  });
}

function toTool(operation: Operation, schemes: ReadonlyMap<string, SecurityScheme>): ApiTool {
  const { name, title, description, inputSchema, outputSchema, isDeprecated } = operation;
  const { method, path, server, tags, security } = operation;
  const isRead = isReading(operation);
  // A client's secret goes there, so an operation for which that changes waits for approval.
  const tokenUrls = tokenUrlsOf(security, schemes);
  return {
    name,
    ...(title !== undefined && { title }),
    description: isDeprecated ? `${description}\n\nDeprecated: the API may drop it.` : description,
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    annotations: {
      readOnlyHint: isRead,
      destructiveHint: method === "DELETE",
      idempotentHint: isRead || method === "PUT" || method === "DELETE",
      openWorldHint: true,
    },
    _meta: {
      "toolrack/api": { method, path, server, tags, ...(tokenUrls.length > 0 && { tokenUrls }) },
    },
  };
}

/** Where the tokens of an operation come from, as the description says. */
function tokenUrlsOf(security: Security, schemes: ReadonlyMap<string, SecurityScheme>): string[] {
  const names = new Set(security.flatMap((needs) => [...needs.keys()]));
  const found = [...names].flatMap((name) => {
    const scheme = schemes.get(name);
    return scheme?.kind === "oauth2" ? [scheme.tokenUrl, scheme.person?.tokenUrl] : [];
  });
  return [...new Set(found.filter((url) => url !== undefined))].sort();
}

/** What is wrong with the names of the entry's credentials. */
function uselessCredentials(credentials: Credentials, schemes: ApiOperations["schemes"]): string[] {
  return [...credentials.keys()].flatMap((name) => {
    const scheme = schemes.get(name);
    if (scheme === undefined) {
      const known = [...schemes.keys()].join(", ") || "none";
      return [
        `Its auth names "${name}", which the description does not have. Its security schemes: ${known}.`,
      ];
    }
    if (scheme.kind !== "unknown") return [];
    return [`The credential "${name}" is not sent: its scheme (${scheme.text}) is not supported.`];
  });
}

function isReading({ method }: Operation): boolean {
  return method === "GET" || method === "HEAD";
}

/** Whether sending the request twice does no more than sending it once. */
function isRepeatable({ method }: Operation): boolean {
  return ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"].includes(method);
}

/** A number of seconds as large as this is a moment since 1970, and no time to wait. */
const MOMENT = 1_000_000_000;

/** Milliseconds that a busy API asks to wait. Undefined when it asks for nothing, or for too long. */
function pauseWanted({
  status,
  message,
}: {
  readonly status: number;
  readonly message: { readonly headers: NodeJS.Dict<string | string[]> };
}): number | undefined {
  const { headers } = message;
  const reset = status === 429 ? (headers["ratelimit-reset"] ?? headers["x-ratelimit-reset"]) : undefined;
  const given = headers["retry-after"] ?? reset;
  if ((status !== 429 && status !== 503) || typeof given !== "string") return undefined;
  const seconds = /^\d+$/.test(given) ? Number(given) : Date.parse(given) / 1_000;
  const pause = (seconds < MOMENT ? seconds : seconds - Date.now() / 1_000) * 1_000;
  return Number.isFinite(pause) && pause <= LONGEST_WAIT ? Math.max(pause, 0) : undefined;
}

/** The origin of most operations. */
function mainOrigin(operations: readonly Operation[]): string | undefined {
  const counts = new Map<string, number>();
  for (const { server } of operations) {
    const { origin } = new URL(server);
    counts.set(origin, (counts.get(origin) ?? 0) + 1);
  }
  return [...counts].sort(([, one], [, other]) => other - one)[0]?.[0];
}

/** Returns the function that fetches a description with the headers of its entry. */
export function fetcher({ rules, headers, spec }: ApiSettings, signal: AbortSignal): FetchText {
  return async (url, mostBytes) => {
    const isOwn = spec.kind === "address" && spec.url.origin === url.origin;
    try {
      return await withTimeLimit(url.host, 60_000, signal, async (limited) => {
        const opened = await openUrl({
          url: url.href,
          method: "GET",
          headers: { accept: "application/json, application/yaml;q=0.9, */*;q=0.5", ...(isOwn && headers) },
          ownHeaders: Object.keys(headers),
          followRedirects: true,
          rules,
          signal: limited,
        });
        const { bytes, isTruncated } = await readResponse(opened, mostBytes, limited);
        if (opened.status !== 200) throw new Error(`it answered ${opened.status}`);
        const { origin } = new URL(opened.url);
        const isPart = spec.kind === "address" && spec.url.href !== url.href;
        if (isPart && origin !== url.origin) throw new Error(`it leads to ${origin}`);
        if (isTruncated) throw new Error(`it is longer than ${Math.round(mostBytes / 1024 / 1024)} MiB`);
        return bytes.toString("utf8");
      });
    } catch (thrown) {
      throw new SpecError(`${url.origin}${url.pathname} cannot be read: ${reasonOf(thrown)}`);
    }
  };
}

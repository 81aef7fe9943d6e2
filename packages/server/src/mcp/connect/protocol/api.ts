import { asRecord, reasonOf, watchFile, watchFiles } from "../../../helpers/index.ts";
import { legacyVersions, rpcCodes } from "../../wire/index.ts";
import type { ResolvedApi } from "../config/resolve-entry.ts";
import { ConfigurationError, sentence, UpstreamError } from "../failures.ts";
import type { RecentLines } from "../process/recent-lines.ts";
import type { Message, Transport } from "./messages.ts";

/** An HTTP API whose operations are offered like the tools of a server. */
export interface ApiPeer {
  readonly title: string;
  readonly description: string;
  /** The format of the API's description, such as `OpenAPI 3.1.0`. */
  readonly version: string;
  /** The origin that the API's credentials are sent to. They are sent to no other. */
  readonly origin: string | undefined;
  /** The files that its description was read from. */
  readonly files: readonly string[];
  /** The folders whose files belong to it. */
  readonly folders: readonly string[];
  readonly problems: readonly string[];
  /** The operations as tools, in the form of MCP's `tools/list`. */
  readonly tools: readonly object[];
  /** The operations that cannot be offered, and why. */
  readonly skipped: readonly { readonly name: string; readonly reason: string }[];
  /** The names of the credentials that the description asks for and the entry lacks. */
  readonly missingCredentials: readonly string[];
  /** Where a person signs in. Undefined when its entry asks for no such sign-in. */
  readonly signIn: DescribedSignIn | undefined;
  /** Rejects when the request cannot be written or sent; an error of the API is a result. */
  call(name: string, args: Message, signal: AbortSignal): Promise<object>;
  /** Ends the connections that it keeps. */
  close(): void;
}

/** What the description of an API says about the sign-in of a person. */
export interface DescribedSignIn {
  /** The origin that is given the tokens. */
  readonly server: string;
  readonly authorizationUrl?: string | undefined;
  readonly tokenUrl?: string | undefined;
  /** The scopes that its operations need, separated by spaces. */
  readonly scope?: string | undefined;
}

/** Reads the description of an API. Rejects with an `Error` whose message says what is wrong with it. */
export type OpenApi = (api: ResolvedApi, signal: AbortSignal) => Promise<ApiPeer>;

/** What is said of an API with its tools. */
export type ApiFacts = Pick<ApiPeer, "skipped" | "problems" | "signIn" | "files">;

/** The member of an answer's `_meta` that holds the `ApiFacts`. */
export const factsKey = "toolrack/facts";

/**
 * Speaks for an API as if it were an MCP server, so that everything that holds for upstream servers holds for APIs: states,
 * limits, approvals of changed definitions, records and views. No message leaves the process.
 */
export class ApiTransport implements Transport {
  onmessage: Transport["onmessage"];
  onclose: Transport["onclose"];
  readonly #open: (signal: AbortSignal) => Promise<ApiPeer>;
  readonly #lines: RecentLines;
  readonly #abort = new AbortController();
  readonly #running = new Map<unknown, AbortController>();
  #api: ApiPeer | undefined;
  #watchers: readonly { close(): Promise<void> }[] = [];
  /** The description was just read, so that the first list needs no second reading. */
  #isFresh = true;

  constructor(open: (signal: AbortSignal) => Promise<ApiPeer>, lines: RecentLines) {
    this.#open = open;
    this.#lines = lines;
  }

  async start(): Promise<void> {
    try {
      this.#take(await this.#open(this.#abort.signal));
    } catch (thrown) {
      if (thrown instanceof ConfigurationError) throw thrown;
      // The description may be unreachable only for a moment, or be corrected later. `unavailable` makes the
      // upstream try again.
      throw new UpstreamError("unavailable", sentence(reasonOf(thrown)));
    }
  }

  async send(message: object): Promise<void> {
    const { id, method, params } = message as Message; // Every message is an object with names as keys.
    if (method === "notifications/cancelled") this.#running.get(asRecord(params).requestId)?.abort();
    if (id === undefined) return;
    const answer = await this.#answer(id, String(method), asRecord(params));
    if (!this.#abort.signal.aborted) this.onmessage?.({ jsonrpc: "2.0", id, ...answer });
  }

  async close(): Promise<void> {
    if (this.#abort.signal.aborted) return;
    this.#abort.abort();
    for (const running of this.#running.values()) running.abort();
    this.#api?.close();
    await Promise.all(this.#watchers.map((watcher) => watcher.close()));
    this.onclose?.();
  }

  get #current(): ApiPeer {
    if (this.#api === undefined) throw new Error("The API's description has not been read.");
    return this.#api;
  }

  async #answer(id: unknown, method: string, params: Message): Promise<object> {
    switch (method) {
      case "initialize": {
        const { title, description, version, files } = this.#current;
        return {
          result: {
            protocolVersion: legacyVersions[0],
            // A description at an address tells nobody that it has changed.
            capabilities: { tools: { listChanged: files.length > 0 } },
            serverInfo: { name: title, version },
            instructions: description.split(/\n\s*\n/)[0],
          },
        };
      }
      case "ping":
        return { result: {} };
      case "tools/list": {
        if (!this.#isFresh && this.#current.files.length === 0) await this.#reopen();
        this.#isFresh = false;
        const { tools, skipped, signIn, files } = this.#current;
        const facts: ApiFacts = { skipped, problems: problemsOf(this.#current), signIn, files };
        return { result: { tools, _meta: { [factsKey]: facts } } };
      }
      case "tools/call":
        return this.#call(id, String(params.name), asRecord(params.arguments));
      default:
        return { error: { code: rpcCodes.methodNotFound, message: "Method not found" } };
    }
  }

  async #call(id: unknown, name: string, args: Message): Promise<object> {
    const running = new AbortController();
    this.#running.set(id, running);
    try {
      return { result: await this.#current.call(name, args, running.signal) };
    } catch (thrown) {
      return { result: { content: [{ type: "text", text: reasonOf(thrown) }], isError: true } };
    } finally {
      this.#running.delete(id);
    }
  }

  async #reread(): Promise<void> {
    if (await this.#reopen())
      this.onmessage?.({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  }

  /** Reads the description again. One that cannot be used leaves the last good one. Returns whether it was read. */
  async #reopen(): Promise<boolean> {
    try {
      const api = await this.#open(this.#abort.signal);
      const { origin } = this.#current;
      // Whoever can change a description must not be able to have the credentials sent to another place.
      if (origin !== undefined && api.origin !== origin)
        throw new Error(
          `it now leads to ${api.origin ?? "no address"} instead of ${origin}. If that is right, restart the API`,
        );
      this.#take(api);
      return true;
    } catch (thrown) {
      this.#lines.add(
        "rack",
        `Its description could not be read again, and is used as it was: ${reasonOf(thrown)}`,
      );
      return false;
    }
  }

  #watch({ files, folders }: ApiPeer): void {
    const reread = () => this.#reread();
    // Not awaited, because the caller may be one of these watchers, which can close only after it has returned.
    for (const watcher of this.#watchers) void watcher.close();
    this.#watchers = [
      ...files.map((file) => watchFile(file, reread)),
      ...(folders.length === 0 ? [] : [watchFiles(folders, reread)]),
    ];
  }

  #take(api: ApiPeer): void {
    const watched = JSON.stringify([this.#api?.files, this.#api?.folders]);
    // Calls that the former one has sent end on their own connections.
    this.#api = api;
    if (watched !== JSON.stringify([api.files, api.folders])) this.#watch(api);
    for (const { name, reason } of api.skipped) this.#lines.add("rack", `${name} was left out: ${reason}`);
  }
}

function problemsOf({ problems, missingCredentials }: ApiPeer): string[] {
  if (missingCredentials.length === 0) return [...problems];
  const names = missingCredentials.join(", ");
  return [
    ...problems,
    `Its entry has no credentials for ${names}. Write them there under "auth", kept as secrets.`,
  ];
}

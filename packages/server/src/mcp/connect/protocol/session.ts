import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import {
  type Client,
  type McpSubscription,
  SseError,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { isRecord } from "../../../helpers/index.ts";
import { UpstreamError } from "../failures.ts";
import { pauseAfter } from "../limits.ts";
import { StdioTransport } from "../process/stdio-transport.ts";
import type { Connection } from "./http.ts";
import type { UpstreamRequest, Verdict } from "./messages.ts";
import type { Requester } from "./requests.ts";

const lists = ["tools", "prompts", "resources"] as const;

export type ListName = (typeof lists)[number];

interface SessionListeners {
  onListChanged(list: ListName): void;
  onResourceUpdated(uri: string): void;
  /** Called once, when the connection has ended and we did not close it. */
  onLost(reason: UpstreamError): void;
}

/** Longer lists are cut. */
const MOST_PAGES = 2_000;
const MOST_ITEMS = 10_000;
const RETIRE_POLL = 100;
const SUBSCRIBE_LIMIT = 30_000;
const LISTEN_LIMIT = 10_000;
/** How long a server may take to end our session, in milliseconds. */
const TERMINATE_LIMIT = 1_000;

interface ListOptions {
  /** In milliseconds, for all pages. */
  readonly timeout: number;
  readonly onCut: (reason: string) => void;
  /** The `_meta` of each request. `onMeta` gets the `_meta` of each answer. */
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly onMeta?: (meta: Readonly<Record<string, unknown>>) => void;
}

/** An open connection to an upstream server. */
export class UpstreamSession {
  readonly verdict: Verdict;
  readonly #client: Client;
  readonly #transport: Transport;
  readonly #requester: Requester;
  readonly #serverStream: Connection["serverStream"];
  /** Set while code runs for a request that has its own stream. */
  readonly #inRequest: AsyncLocalStorage<true> | undefined;
  readonly #watched = new Set<string>();
  #subscription: McpSubscription | undefined;
  /** Streams are opened one after the other: of two at once, one would be forgotten and never end. */
  #listening: Promise<void> = Promise.resolve();
  #onMissed: () => void = () => {};
  #terminating: Promise<void> | undefined;
  #isClosed = false;

  constructor(
    client: Client,
    { transport, serverStream }: Connection,
    requester: Requester,
    verdict: Verdict,
  ) {
    this.#client = client;
    this.#transport = transport;
    this.#requester = requester;
    this.#serverStream = serverStream;
    this.#inRequest = transport.hasPerRequestStream === true ? new AsyncLocalStorage() : undefined;
    this.verdict = verdict;
  }

  get protocolVersion(): string | undefined {
    return this.#client.getNegotiatedProtocolVersion();
  }

  get serverInfo(): { readonly name: string; readonly version: string } | undefined {
    return this.#client.getServerVersion();
  }

  get instructions(): string | undefined {
    return this.#client.getInstructions();
  }

  get capabilities(): Readonly<Record<string, unknown>> {
    return this.#client.getServerCapabilities() ?? {};
  }

  /** Undefined when the server is at an address. */
  get process(): StdioTransport | undefined {
    return this.#transport instanceof StdioTransport ? this.#transport : undefined;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  request(request: UpstreamRequest): Promise<unknown> {
    if (this.#inRequest === undefined) return this.#requester.request(request);
    return this.#inRequest.run(true, () => this.#requester.request(request));
  }

  /** Whether the server announces changes of all its lists, and we have a stream to receive them. */
  get tellsOfChanges(): boolean {
    const isModern = this.verdict.era === "modern";
    const subscribed: Partial<Record<string, unknown>> = this.#subscription?.honoredFilter ?? {};
    return lists.every((name) => {
      if (this.capabilities[name] === undefined) return true;
      if (!this.#announces(name)) return false;
      return isModern ? subscribed[`${name}ListChanged`] === true : this.#serverStream?.isOpen !== false;
    });
  }

  /** Reads all pages of a list. If it is too long or too slow, calls `onCut` and returns what was read. */
  async list(
    method: string,
    member: string,
    { timeout, onCut, meta, onMeta }: ListOptions,
  ): Promise<Readonly<Record<string, unknown>>[]> {
    const items: Record<string, unknown>[] = [];
    const cut = (why: string) => {
      const read = items.length === 0 ? "nothing was" : `only the first ${items.length} were`;
      onCut(`Of its answer to ${method}, ${read} read: ${why}`);
      return items;
    };
    const cursors = new Set<string>();
    const endsAt = performance.now() + timeout;
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page++) {
      const params = { ...(cursor === undefined ? {} : { cursor }), ...(meta && { _meta: meta }) };
      const result = await this.request({ method, params, timeout });
      const { [member]: found, nextCursor, _meta } = isRecord(result) ? result : {};
      if (isRecord(_meta)) onMeta?.(_meta);
      for (const item of Array.isArray(found) ? found : []) {
        if (typeof item !== "object" || item === null) continue;
        if (items.length === MOST_ITEMS) return cut("it lists more than that.");
        items.push(item);
      }
      if (typeof nextCursor !== "string" || nextCursor === "") return items;
      if (cursors.has(nextCursor)) return cut("it goes round in circles with its pages.");
      if (performance.now() > endsAt) {
        return cut(
          `the rest did not come within ${timeout} ms. If it is only slow, give its entry a larger toolrack.limits.list.`,
        );
      }
      cursors.add(nextCursor);
      cursor = nextCursor;
    }
    return cut(`it has more than ${MOST_PAGES} pages.`);
  }

  /** Calls the listeners from now on. */
  follow({ onListChanged, onResourceUpdated, onLost }: SessionListeners): void {
    const client = this.#client;
    for (const list of lists)
      client.setNotificationHandler(`notifications/${list}/list_changed`, () => onListChanged(list));
    client.setNotificationHandler("notifications/resources/updated", ({ params }) =>
      onResourceUpdated(params.uri),
    );
    this.#onMissed = () => {
      for (const list of lists) onListChanged(list);
    };
    const lose = () => {
      if (this.#isClosed) return;
      this.#isClosed = true;
      const { ending, problem = "Its connection was closed." } = this.process ?? {};
      const reason = new UpstreamError("unavailable", ending === undefined ? problem : `It ${ending}.`);
      this.#requester.close(reason);
      onLost(reason);
      // Without this, the SDK might open a stream again, and the server would take it for another session.
      void this.#transport.close().catch(() => {});
    };
    client.onclose = lose;
    client.onerror = (error) => {
      // Over SSE all answers come on one stream, and the server does not repeat those that were lost with it.
      const isBroken = error instanceof SseError;
      // The stream for the server's own messages cannot be opened again, so the server is gone. An error on the stream of a
      // request concerns only that request.
      const isGone =
        this.#inRequest?.getStore() === undefined && /^Maximum reconnection attempts/.test(error.message);
      if (isBroken || isGone) lose();
    };
  }

  /**
   * Subscribes to changes of these resources and of the lists. The server may ignore that. Resolves when it has been
   * asked; never rejects.
   */
  async watchResources(uris: Iterable<string>): Promise<void> {
    const added = [...uris].filter((uri) => !this.#watched.has(uri));
    for (const uri of added) this.#watched.add(uri);
    if (this.verdict.era === "modern") await this.#listenModern();
    else await Promise.all(added.map((uri) => this.#ask("resources/subscribe", uri)));
  }

  async unwatchResource(uri: string): Promise<void> {
    this.#watched.delete(uri);
    if (this.verdict.era === "modern") await this.#listenModern();
    else await this.#ask("resources/unsubscribe", uri);
  }

  /** Ends the connection, and the server's process with everything it started. */
  async close(reason: Error = new UpstreamError("unavailable", "Its connection was closed.")): Promise<void> {
    this.#isClosed = true;
    this.#requester.close(reason);
    this.#terminating ??= this.#terminateSession();
    await this.#terminating;
    await this.#client.close().catch(() => {});
    // The client does not close a transport that it has already released.
    await this.#transport.close().catch(() => {});
  }

  /** Ends the connection when all requests over it are answered. */
  async retire(): Promise<void> {
    while (this.#requester.inFlight > 0 && !this.#isClosed) await delay(RETIRE_POLL);
    await this.close();
  }

  /** Ends the session at the server, which would otherwise keep it. */
  async #terminateSession(): Promise<void> {
    if (!(this.#transport instanceof StreamableHTTPClientTransport)) return;
    if (this.#transport.sessionId === undefined) return;
    const terminated = this.#transport.terminateSession().catch(() => {});
    await Promise.race([terminated, delay(TERMINATE_LIMIT, undefined, { ref: false })]);
  }

  async #ask(method: string, uri: string): Promise<void> {
    await this.request({ method, params: { uri }, timeout: SUBSCRIBE_LIMIT }).catch(() => {});
  }

  #announces(name: ListName): boolean {
    const list = this.capabilities[name];
    return isRecord(list) && list.listChanged === true;
  }

  /** Opens one stream for all subscriptions. A change of them needs a new stream. Never rejects. */
  #listenModern(): Promise<void> {
    const listen = () => this.#listen().catch(() => {});
    this.#listening = this.#listening.then(listen);
    return this.#listening;
  }

  async #listen(): Promise<void> {
    const filter = this.#filter();
    const before = this.#subscription;
    this.#subscription = undefined;
    if (filter !== undefined && !this.#isClosed) {
      // Without a stream the server can still be called.
      const subscription = await this.#client
        .listen(filter, { timeout: LISTEN_LIMIT })
        .catch(() => undefined);
      this.#subscription = subscription;
      void subscription?.closed.then((how) => {
        if (how !== "local" && subscription === this.#subscription) void this.#listenAgain();
      });
    }
    await before?.close().catch(() => {});
  }

  /** What to subscribe to; undefined when there is nothing. */
  #filter(): Parameters<Client["listen"]>[0] | undefined {
    const announced = lists.filter((name) => this.#announces(name));
    if (announced.length === 0 && this.#watched.size === 0) return undefined;
    return {
      ...Object.fromEntries(announced.map((name) => [`${name}ListChanged`, true])),
      ...(this.#watched.size > 0 ? { resourceSubscriptions: [...this.#watched] } : {}),
    };
  }

  /** The stream has ended. Opens it again, then reports all lists as changed, since changes in between were missed. */
  async #listenAgain(): Promise<void> {
    this.#subscription = undefined;
    const isMissing = () => this.#subscription === undefined && this.#filter() !== undefined;
    for (let failures = 1; !this.#isClosed && isMissing(); failures++) {
      await delay(pauseAfter(failures), undefined, { ref: false });
      await this.#listenModern();
    }
    if (!this.#isClosed) this.#onMissed();
  }
}

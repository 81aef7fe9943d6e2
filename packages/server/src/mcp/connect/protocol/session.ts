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

/** Which lists of a server have changed. */
export type ListName = (typeof lists)[number];

interface SessionListeners {
  onListChanged(list: ListName): void;
  onResourceUpdated(uri: string): void;
  /** Called once, when the connection has ended without our doing. */
  onLost(reason: UpstreamError): void;
}

/** No list that is meant to be read comes in so many pieces. */
const MOST_PAGES = 2_000;
const MOST_ITEMS = 10_000;
const RETIRE_POLL = 100;
const SUBSCRIBE_LIMIT = 30_000;
const LISTEN_LIMIT = 10_000;
/** How long a server may take to end our session, in milliseconds. */
const FAREWELL = 1_000;

interface ListOptions {
  /** In milliseconds, for all pages. */
  readonly timeout: number;
  readonly onCut: (reason: string) => void;
  /** What is said with the request, and what the server says with each page of its answer. */
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly onMeta?: (meta: Readonly<Record<string, unknown>>) => void;
}

/** A connection to an upstream server that is open. */
export class UpstreamSession {
  readonly verdict: Verdict;
  readonly #client: Client;
  readonly #transport: Transport;
  readonly #requester: Requester;
  readonly #hearing: Connection["hearing"];
  /** Set for what happens on the stream of a request, where each has one. */
  readonly #inRequest: AsyncLocalStorage<true> | undefined;
  readonly #watched = new Set<string>();
  #subscription: McpSubscription | undefined;
  /** Of two streams that are opened at once, one would be forgotten and never end. */
  #listening: Promise<void> = Promise.resolve();
  #onMissed: () => void = () => {};
  #farewell: Promise<void> | undefined;
  #isClosed = false;

  constructor(client: Client, { transport, hearing }: Connection, requester: Requester, verdict: Verdict) {
    this.#client = client;
    this.#transport = transport;
    this.#requester = requester;
    this.#hearing = hearing;
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

  /** The process of the server, where it is one. */
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

  /** Whether it says that it tells of changes of every list that it has, and we can hear it. */
  get tellsOfChanges(): boolean {
    const isModern = this.verdict.era === "modern";
    const heard: Partial<Record<string, unknown>> = this.#subscription?.honoredFilter ?? {};
    return lists.every((name) => {
      if (this.capabilities[name] === undefined) return true;
      if (!this.#announces(name)) return false;
      return isModern ? heard[`${name}ListChanged`] === true : this.#hearing?.isOpen !== false;
    });
  }

  /** All pages of a list. Of one that does not end, what was read until then; `onCut` is told so. */
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

  /** Has changes and the end of the connection told from now on. */
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
      // A stream that would be opened anew is that of another session, which knows nothing of this one.
      void this.#transport.close().catch(() => {});
    };
    client.onclose = lose;
    client.onerror = (error) => {
      // Over SSE every answer comes on one stream, and what was on its way when it broke is never sent again.
      const isBroken = error instanceof SseError;
      // The stream on which the server speaks by itself cannot be had back: the server is not there. That of a request is
      // that request's alone.
      const isGone =
        this.#inRequest?.getStore() === undefined && /^Maximum reconnection attempts/.test(error.message);
      if (isBroken || isGone) lose();
    };
  }

  /**
   * Begins to be told of changes of these resources, and of the lists; whether the server does so is its own affair.
   * Resolves when it has been asked to, and never rejects.
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

  /** Ends the connection and, where there is one, the process with all that it started. */
  async close(reason: Error = new UpstreamError("unavailable", "Its connection was closed.")): Promise<void> {
    this.#isClosed = true;
    this.#requester.close(reason);
    this.#farewell ??= this.#sayFarewell();
    await this.#farewell;
    await this.#client.close().catch(() => {});
    // The client may have let go of the transport before.
    await this.#transport.close().catch(() => {});
  }

  /** Ends the connection once nobody waits for an answer over it any more. */
  async retire(): Promise<void> {
    while (this.#requester.inFlight > 0 && !this.#isClosed) await delay(RETIRE_POLL);
    await this.close();
  }

  /** A server that keeps sessions is told that this one is over; otherwise it would keep it for as long as it likes. */
  async #sayFarewell(): Promise<void> {
    if (!(this.#transport instanceof StreamableHTTPClientTransport)) return;
    if (this.#transport.sessionId === undefined) return;
    const told = this.#transport.terminateSession().catch(() => {});
    await Promise.race([told, delay(FAREWELL, undefined, { ref: false })]);
  }

  async #ask(method: string, uri: string): Promise<void> {
    await this.request({ method, params: { uri }, timeout: SUBSCRIBE_LIMIT }).catch(() => {});
  }

  #announces(name: ListName): boolean {
    const list = this.capabilities[name];
    return isRecord(list) && list.listChanged === true;
  }

  /** One stream for all that we want to be told of; a change of it is a new stream. Never rejects. */
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
      // A server that cannot be listened to can still be called.
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

  /** What we want to be told of; undefined when that is nothing. */
  #filter(): Parameters<Client["listen"]>[0] | undefined {
    const announced = lists.filter((name) => this.#announces(name));
    if (announced.length === 0 && this.#watched.size === 0) return undefined;
    return {
      ...Object.fromEntries(announced.map((name) => [`${name}ListChanged`, true])),
      ...(this.#watched.size > 0 ? { resourceSubscriptions: [...this.#watched] } : {}),
    };
  }

  /** The stream has ended by itself. What changed meanwhile nobody told us. */
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

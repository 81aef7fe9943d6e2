import { setTimeout as delay } from "node:timers/promises";
import { asRecord } from "../../../helpers/index.ts";
import { type ListName, lists } from "../../wire/index.ts";
import type { UpstreamError } from "../failures.ts";
import { pauseAfter } from "../limits.ts";
import type { Message, UpstreamRequest, Verdict } from "./messages.ts";

/** What a session tells its owner. */
export interface SessionListeners {
  onListChanged(list: ListName): void;
  onResourceUpdated(uri: string): void;
  /** Called once, when the connection has ended and we did not close it. */
  onLost(reason: UpstreamError): void;
}

/** What subscriptions need of a session. */
interface Session {
  readonly verdict: Verdict;
  readonly profile: { readonly capabilities: Message };
  readonly isClosed: boolean;
  request(request: UpstreamRequest): Promise<unknown>;
  missed(): void;
}

/** An open stream of announcements in the stateless protocol. */
interface Stream {
  readonly stop: AbortController;
  /** What the server agreed to announce. */
  readonly agreed: Message;
}

const SUBSCRIBE_LIMIT = 30_000;
const LISTEN_LIMIT = 10_000;

/**
 * Has a server announce changes of its lists and of watched resources, in the older and in the stateless
 * protocol. Nothing here ever rejects.
 */
export class Subscriptions {
  readonly #session: Session;
  readonly #watched = new Set<string>();
  #stream: Stream | undefined;
  /** Streams are opened one after the other: of two at once, one would be forgotten and never end. */
  #opening: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Whether the server announces changes of all its lists. `isListening`: whether a stream for the server's own
   * messages is open.
   */
  covers(isListening: boolean): boolean {
    const { verdict, profile } = this.#session;
    const agreed = this.#stream?.agreed ?? {};
    return lists.every((name) => {
      if (profile.capabilities[name] === undefined) return true;
      if (!this.#announces(name)) return false;
      return verdict.era === "modern" ? agreed[`${name}ListChanged`] === true : isListening;
    });
  }

  async watch(uris: Iterable<string>): Promise<void> {
    const added = [...uris].filter((uri) => !this.#watched.has(uri));
    for (const uri of added) this.#watched.add(uri);
    await this.#update("resources/subscribe", added);
  }

  async unwatch(uri: string): Promise<void> {
    this.#watched.delete(uri);
    await this.#update("resources/unsubscribe", [uri]);
  }

  close(): void {
    this.#isClosed = true;
    this.#stream?.stop.abort();
  }

  async #update(method: string, uris: readonly string[]): Promise<void> {
    if (this.#session.verdict.era === "modern") return this.#reopen();
    const ask = (uri: string) => this.#session.request({ method, params: { uri }, timeout: SUBSCRIBE_LIMIT });
    await Promise.allSettled(uris.map(ask));
  }

  #announces(name: ListName): boolean {
    return asRecord(this.#session.profile.capabilities[name]).listChanged === true;
  }

  /** Opens one stream for all announcements. When other announcements are wanted, a new stream replaces it. */
  #reopen(): Promise<void> {
    this.#opening = this.#opening.then(async () => {
      const before = this.#stream;
      const notifications = this.#filter();
      this.#stream =
        notifications === undefined || this.#isClosed ? undefined : await this.#open(notifications);
      before?.stop.abort();
    });
    return this.#opening;
  }

  /** Undefined when the server does not agree to announce anything. Its tools can still be called. */
  async #open(notifications: Message): Promise<Stream | undefined> {
    const stop = new AbortController();
    const { promise: agreed, resolve: onAcknowledged } = Promise.withResolvers<unknown>();
    const { signal } = stop;
    const nothing = () => undefined;
    const request = { method: "subscriptions/listen", params: { notifications }, signal, onAcknowledged };
    const ended = this.#session.request(request).then(nothing, nothing);
    const limit = delay(LISTEN_LIMIT, undefined, { ref: false });
    const answer = await Promise.race([agreed.then(asRecord), ended, limit]);
    if (answer === undefined) {
      stop.abort();
      return undefined;
    }
    const stream = { stop, agreed: answer };
    void ended.then(() => {
      if (stream === this.#stream && !signal.aborted) void this.#openAgain();
    });
    return stream;
  }

  /** What to subscribe to; undefined when there is nothing. */
  #filter(): Message | undefined {
    const announced = lists.filter((name) => this.#announces(name));
    if (announced.length === 0 && this.#watched.size === 0) return undefined;
    return {
      ...Object.fromEntries(announced.map((name) => [`${name}ListChanged`, true])),
      ...(this.#watched.size > 0 ? { resourceSubscriptions: [...this.#watched] } : {}),
    };
  }

  /**
   * To be called when the stream has ended. Opens it again, then reports a change, since announcements in
   * between were missed.
   */
  async #openAgain(): Promise<void> {
    this.#stream = undefined;
    const isMissing = () => this.#stream === undefined && this.#filter() !== undefined;
    for (let failures = 1; !this.#isClosed && isMissing(); failures++) {
      await delay(pauseAfter(failures), undefined, { ref: false });
      await this.#reopen();
    }
    if (!this.#isClosed) this.#session.missed();
  }
}

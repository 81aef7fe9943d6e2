import { AsyncResource } from "node:async_hooks";
import { IdTable } from "@toolrack/core";
import type { EndedCall } from "../../../calls/call-desk.ts";
import { cancellationOf } from "../cancellations-in.ts";
import type { Exchange } from "../exchange.ts";
import type { Era, HotPath } from "../hot/hot-path.ts";
import { type HotCall, type HotList, readHotRequest } from "../hot/hot-request.ts";
import type { Outlet } from "../outlet.ts";
import type { RackServer } from "../rack-server.ts";
import type { Viewer } from "../viewer.ts";
import { StdioSpeech } from "./stdio-speech.ts";

/** The server that the SDK has made for the connection, and the version that it speaks. */
export interface CurrentServer {
  readonly server: RackServer;
  readonly era: Era;
}

type Answer = (id: string | number, line: string) => void;

/** Lets the SDK have a message after all. */
type HandOn = (message: unknown) => void;

/** The short way on a connection with one client. */
export class StdioFront {
  readonly #hot: HotPath;
  readonly #viewer: Viewer;
  readonly #current: () => CurrentServer | undefined;
  readonly #outlet: () => Outlet;
  /** When there is room for the list that was asked for last. */
  #room: Promise<void> | undefined;
  readonly #speech = new StdioSpeech();
  /** Calls that were begun here and are to be answered here, by the ids of their requests. */
  readonly #calls = new IdTable<Exchange<EndedCall>, string | number>();
  /**
   * Calls that the SDK was given and has not come for yet. An id may be used again once it is cancelled, so that there
   * may be several of it; the SDK comes for them in the order in which it was given them.
   */
  readonly #handedOn = new Map<string | number, Exchange<EndedCall>[]>();
  /** Lists that are about to be answered. What stands for each is another object for each request. */
  readonly #lists = new IdTable<object, string | number>();

  constructor(hot: HotPath, viewer: Viewer, current: () => CurrentServer | undefined, outlet: () => Outlet) {
    this.#hot = hot;
    this.#viewer = viewer;
    this.#current = current;
    this.#outlet = outlet;
  }

  /** The call that a request has begun, for the SDK to go on with. */
  running(id: string | number): Exchange<EndedCall> | undefined {
    const waiting = this.#handedOn.get(id);
    const exchange = waiting?.shift();
    if (waiting?.length === 0) this.#handedOn.delete(id);
    return exchange;
  }

  /** Cancels what was begun here. Whether it is still answered is up to who writes. */
  cancelAll(reason: string): void {
    for (const exchange of this.#calls.values()) exchange.cancel(reason);
    for (const exchange of [...this.#handedOn.values()].flat()) exchange.cancel(reason);
  }

  /** Answers a message, now or later, when it is one for the short way or for nobody. Says whether it is. */
  take(message: object, answer: Answer, handOn: HandOn): boolean {
    if (this.#cancel(message)) return true;
    const request = readHotRequest(message);
    const current = this.#current();
    if (request === undefined || current === undefined) return this.refuses(message, answer);
    const era = request.envelope === undefined ? "legacy" : "modern";
    // Before the client and the server have agreed on a version, only the SDK knows what to say.
    if (!this.#speech.isSettled(era) || era !== current.era) return this.refuses(message, answer);
    if (current.server.getNegotiatedProtocolVersion() === undefined) return false;
    if (request.kind === "list") {
      void this.#list(request, era, message, answer, handOn);
      return true;
    }
    return this.#call(request, current, message, answer, handOn);
  }

  /** Refuses a message of another version than the connection's. Says whether it has. */
  refuses(message: object, answer: Answer): boolean {
    const verdict = this.#speech.hear(message);
    if (verdict.kind === "refuse") answer(verdict.id, JSON.stringify(verdict.answer));
    return verdict.kind !== "pass";
  }

  async #list(request: HotList, era: Era, message: unknown, answer: Answer, handOn: HandOn): Promise<void> {
    const { id } = request;
    const asked = {};
    this.#lists.set(id, asked);
    // Where it cannot be made here, the SDK says why.
    const bytes = await this.#hot.list(request, era, this.#viewer).catch(() => undefined);
    // Lists are long, and asked for with a few words: none is written before there is room for it.
    if (bytes !== undefined && (this.#room !== undefined || this.#outlet().isFull)) await this.#roomForList();
    // What was cancelled is not answered, also where another request has its id by now.
    if (this.#lists.get(id) !== asked) return;
    this.#lists.delete(id);
    if (bytes === undefined) handOn(message);
    else answer(id, `{"result":${bytes.toString()},"jsonrpc":"2.0","id":${JSON.stringify(id)}}`);
  }

  /** One after the other, in the order in which they were asked for. */
  #roomForList(): Promise<void> {
    const room = (this.#room ?? Promise.resolve()).then(() => this.#outlet().room());
    this.#room = room;
    void room.then(() => {
      if (this.#room === room) this.#room = undefined;
    });
    return room;
  }

  #call(
    request: HotCall,
    { server, era }: CurrentServer,
    message: unknown,
    answer: Answer,
    handOn: HandOn,
  ): boolean {
    const info = server.getClientVersion();
    const known = {
      abilities: server.getClientCapabilities() ?? {},
      clientName: info === undefined ? "" : `${info.name} ${info.version}`,
    };
    const exchange = this.#hot.begin(request, this.#viewer, {
      subject: request.params.name,
      ...(request.envelope ?? known),
      wants: { progress: false, messages: era === "legacy", level: server.logLevel },
    });
    if (exchange === undefined) return false;
    const { id } = request;
    this.#calls.set(id, exchange);
    const itself = new AsyncResource("toolrack.mcp");
    exchange.whenStirred(() => {
      // A call that was cancelled is not answered.
      if (this.#calls.get(id) !== exchange) return;
      this.#calls.delete(id);
      const outcome = this.#hot.outcome(exchange, id, era, this.#viewer);
      if (outcome.kind === "answered") {
        answer(id, outcome.text);
        return;
      }
      this.#handedOn.set(id, [...(this.#handedOn.get(id) ?? []), exchange]);
      // What stirred is in the middle of the tool's own work, which whatever the SDK does is no part of.
      itself.runInAsyncScope(handOn, undefined, message);
    });
    return true;
  }

  /** Says whether what is cancelled is known here alone. */
  #cancel(message: unknown): boolean {
    if (this.#calls.size + this.#lists.size + this.#handedOn.size === 0) return false;
    const cancelled = cancellationOf(message);
    if (cancelled === undefined) return false;
    const { requestId, reason = "the client cancelled it" } = cancelled;
    if (this.#lists.delete(requestId)) return true;
    const exchange = this.#calls.get(requestId);
    this.#calls.delete(requestId);
    exchange?.cancel(reason);
    if (exchange !== undefined) return true;
    // The SDK has to hear of it too, and finds the cancelled call when it comes for it.
    this.#handedOn.get(requestId)?.at(-1)?.cancel(reason);
    return false;
  }
}

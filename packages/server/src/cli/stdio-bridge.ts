import type { Readable, Writable } from "node:stream";
import { LineSplitter } from "../helpers/lines.ts";
import { isRecord, parsedJson } from "../helpers/values.ts";
import {
  cancellationOf,
  errorText,
  longestMessage,
  longMessageRefusal,
  metaKeys,
  type RpcId,
  type RpcMessage,
  type RpcParams,
  readRpc,
  rpcCodes,
} from "../mcp/wire/index.ts";

/** Who serves the client: the running server, or a program of the bridge's own. */
export interface Rack {
  readonly input: Writable;
  readonly output: Readable;
  /** Whether the session goes on with another rack when this one ends. */
  readonly isJoined: boolean;
  /** Resolves with an exit code when the rack has ended and everything from it was read. Never rejects. */
  readonly ended: Promise<number>;
}

/** A request of the client that is not answered yet, as the client sent it. */
interface OpenRequest {
  readonly method: string;
  readonly value: object;
  readonly isInBatch: boolean;
  /** Set while the answer to a `subscriptions/listen` is held back. */
  held?: NodeJS.Timeout;
}

/**
 * How long the end of a `subscriptions/listen` is held back, in milliseconds. A rack that ends closes the connection
 * right after it, and then the client is not told: the next rack goes on with the subscription.
 */
const HOLD = 1_000;
/** How long the client may take to read what was written last, in milliseconds. */
const LAST_READ = 1_000;
/** How the ids of requests begin that the bridge repeats in the client's name. */
const PRIVATE = "toolrack/again/";
const listKinds = ["tools", "prompts", "resources"] as const;

/**
 * Passes lines between a stdio client and the rack that serves it. When the running server ends, the client's session
 * goes on with another rack, to which the bridge repeats what the client has said about itself. What the client still
 * waits for is asked again, except calls: they are answered with an error, because they may have run.
 */
export class StdioBridge {
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #attach: () => Promise<Rack>;
  readonly #closed = Promise.withResolvers<number>();
  #rack: Rack | undefined;
  /** How many racks have served the client. */
  #racks = 0;
  #isAttaching = false;
  #isEnding = false;
  /** Lines of the client that came while there was no rack. */
  #waiting: (string | Buffer)[] = [];
  readonly #open = new Map<RpcId, OpenRequest>();
  /** The open questions to the client: the ids that the client knows, with those that the rack knows. */
  readonly #questions = new Map<RpcId, RpcId>();
  /** What the client has said about itself, to be repeated to the next rack. */
  #initialize: object | undefined;
  #initialized: object | undefined;
  #logLevel: object | undefined;
  readonly #watched = new Map<unknown, object>();
  /** The ids of subscriptions that were begun again, until the rack confirms them. */
  readonly #resumed = new Set<unknown>();
  #repeated = 0;

  /** `attach` finds or starts the next rack after the end of a server. */
  constructor(
    { input, output }: { readonly input: Readable; readonly output: Writable },
    attach: () => Promise<Rack>,
  ) {
    this.#input = input;
    this.#output = output;
    this.#attach = attach;
  }

  /** Serves the client on this rack first. Resolves with an exit code when either side has ended for good. */
  run(first: Rack): Promise<number> {
    const lines = new LineSplitter(longestMessage, {
      onLine: (line) => this.#fromClient(line),
      onGarbled: (_, bytes) => this.#fromClient(Buffer.from(bytes)),
      onTooLong: (start, end) => this.#tell(longMessageRefusal(start, end)),
    });
    this.#use(first);
    this.#input.on("data", (piece: Buffer) => lines.push(piece));
    this.#input.on("end", () => {
      lines.end();
      this.stop();
    });
    this.#input.on("error", () => this.stop());
    this.#output.on("drain", () => this.#rack?.output.resume());
    for (const event of ["error", "close"]) this.#output.on(event, () => this.#closed.resolve(0));
    return this.#closed.promise.finally(() => this.#flush());
  }

  /** Gives the client a moment to read what was written last, because the process ends now. */
  async #flush(): Promise<void> {
    this.#rack?.input.destroy();
    if (this.#output.destroyed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, LAST_READ);
    this.#output.write("", () => resolve());
    await promise;
    clearTimeout(timer);
  }

  /** Reads no more of the client. What it has asked is still answered, as when its input has ended. */
  stop(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#input.pause();
    if (this.#rack !== undefined) this.#rack.input.end();
    else if (!this.#isAttaching) this.#closed.resolve(0);
  }

  #use(rack: Rack): void {
    this.#rack = rack;
    this.#racks++;
    const lines = new LineSplitter(Number.POSITIVE_INFINITY, {
      onLine: (line) => this.#fromRack(line),
      onTooLong: () => {},
    });
    rack.output.on("data", (piece: Buffer) => {
      lines.push(piece);
      if (this.#output.writableNeedDrain) rack.output.pause();
    });
    rack.input.on("drain", () => {
      if (!this.#isEnding && !this.#isAttaching) this.#input.resume();
    });
    // Errors of the streams are ignored: `rack.ended` reports what happened.
    for (const stream of [rack.input, rack.output]) stream.on("error", () => {});
    void rack.ended.then((code) => this.#lost(rack, code));
  }

  #fromClient(line: string | Buffer) {
    if (this.#rack !== undefined && this.#waiting.length === 0) return this.#pass(line);
    this.#waiting.push(line);
    void this.#attachAgain();
  }

  /**
   * Sends a line of the client to the rack. Remembers the requests and settings in it that a next rack must get again.
   */
  #pass(line: string | Buffer) {
    let text: string | Buffer | undefined = line;
    if (typeof line === "string") {
      const value = parsedJson(line);
      const isBatch = Array.isArray(value);
      for (const one of isBatch ? value : [value]) {
        const message = readRpc(one);
        if (message === undefined) continue;
        if (message.kind === "response") {
          const answer = this.#answerTo(message.id, one);
          if (!isBatch) text = answer;
        } else this.#note(message, one, isBatch);
      }
    }
    if (text !== undefined) this.#send(text);
  }

  #send(line: string | Buffer): void {
    const { input } = this.#rack ?? {};
    if (input === undefined) return;
    if (typeof line !== "string") input.write(line);
    if (!input.write(typeof line === "string" ? `${line}\n` : "\n")) this.#input.pause();
  }

  /** The line for the rack's question that the client answers. Undefined when the rack has asked no such question. */
  #answerTo(id: RpcId | undefined, value: object): string | undefined {
    const asked = id === undefined ? undefined : this.#questions.get(id);
    if (id === undefined || asked === undefined) return undefined;
    this.#questions.delete(id);
    return JSON.stringify({ ...value, id: asked });
  }

  #note(message: Exclude<RpcMessage, { kind: "response" }>, value: object, isInBatch: boolean): void {
    const { method, params } = message;
    if (message.kind === "notification") {
      const cancelled = cancellationOf(message);
      if (cancelled !== undefined) this.#forget(cancelled.id);
      if (method === "notifications/initialized") this.#initialized = value;
      return;
    }
    if (method === "initialize") this.#initialize = value;
    if (method === "logging/setLevel") this.#logLevel = value;
    if (method === "resources/subscribe") this.#watched.set(params.uri, value);
    if (method === "resources/unsubscribe") this.#watched.delete(params.uri);
    this.#open.set(message.id, { method, value, isInBatch });
  }

  #forget(id: RpcId): void {
    clearTimeout(this.#open.get(id)?.held);
    this.#open.delete(id);
  }

  #fromRack(line: string) {
    const value = parsedJson(line);
    if (Array.isArray(value)) {
      // A batch of answers. The cast is safe: `#forget` only looks the id up in a map.
      for (const answer of value) if (isRecord(answer)) this.#forget(answer.id as RpcId);
    }
    const message = readRpc(value);
    if (message === undefined) return this.#tell(line);
    if (message.kind === "response") return this.#answered(message.id, line);
    if (message.kind === "request") {
      // Racks count their questions. A late answer to a question of the rack before must not be taken for one to this.
      const id = this.#racks === 1 ? message.id : `${this.#racks}/${message.id}`;
      this.#questions.set(id, message.id);
      const asked = value as object; // `readRpc` takes nothing else.
      return this.#tell(id === message.id ? line : JSON.stringify({ ...asked, id }));
    }
    const { method, params, meta } = message;
    const subscription = meta[metaKeys.subscription];
    if (method === "notifications/subscriptions/acknowledged" && this.#resumed.delete(subscription)) {
      return this.#tellChanges(params.notifications, { _meta: meta });
    }
    const withdrawn = cancellationOf(message);
    if (withdrawn === undefined) return this.#tell(line);
    const [id = withdrawn.id] = [...this.#questions].find(([, asked]) => asked === withdrawn.id) ?? [];
    this.#questions.delete(id);
    this.#tell(JSON.stringify({ jsonrpc: "2.0", method, params: { ...params, requestId: id } }));
  }

  #answered(id: RpcId | undefined, line: string) {
    const request = id === undefined ? undefined : this.#open.get(id);
    if (id === undefined || request === undefined) {
      const isOwn = typeof id === "string" && id.startsWith(PRIVATE);
      return isOwn ? undefined : this.#tell(line);
    }
    const pass = () => {
      this.#forget(id);
      this.#tell(line);
    };
    if (request.method === "subscriptions/listen" && this.#rack?.isJoined)
      request.held = setTimeout(pass, HOLD);
    else pass();
  }

  #tell(line: string): void {
    this.#output.write(`${line}\n`);
  }

  /** The rack has ended. */
  #lost(rack: Rack, code: number) {
    this.#rack = undefined;
    if (!rack.isJoined || this.#isEnding) return this.#closed.resolve(code);
    const reason = "The server stopped.";
    for (const requestId of this.#questions.keys())
      this.#tell(
        JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } }),
      );
    this.#questions.clear();
    for (const [id, { method, isInBatch, held }] of [...this.#open]) {
      clearTimeout(held);
      if (!isInBatch && mayRepeat(method)) continue;
      this.#open.delete(id);
      this.#tell(errorText(id, stoppedBefore));
    }
    // A client that waits for nothing costs nothing: its next line finds or starts a rack. It is read on, also where the rack
    // that ended could take no more.
    if (this.#open.size > 0 || this.#watched.size > 0) void this.#attachAgain();
    else this.#input.resume();
  }

  async #attachAgain() {
    if (this.#isAttaching) return;
    this.#isAttaching = true;
    this.#input.pause();
    try {
      this.#use(await this.#attach());
    } catch (thrown) {
      return this.#closed.reject(thrown);
    }
    this.#isAttaching = false;
    this.#repeat();
    for (const line of this.#waiting.splice(0)) this.#pass(line);
    if (this.#isEnding) this.#rack?.input.end();
    else this.#input.resume();
  }

  /** Tells a new rack what the client has told the one before, and the client that everything may have changed. */
  #repeat(): void {
    const open = [...this.#open.values()];
    const unanswered = new Set(open.map(({ value }) => value));
    for (const value of [this.#initialize, this.#initialized, this.#logLevel, ...this.#watched.values()]) {
      if (value === undefined || unanswered.has(value)) continue;
      this.#send(JSON.stringify("id" in value ? { ...value, id: `${PRIVATE}${this.#repeated++}` } : value));
    }
    for (const [id, { method, value }] of this.#open) {
      if (method === "subscriptions/listen") this.#resumed.add(id);
      this.#send(JSON.stringify(value));
    }
    if (this.#initialized === undefined) return;
    const all = Object.fromEntries(listKinds.map((kind) => [`${kind}ListChanged`, true]));
    this.#tellChanges({ ...all, resourceSubscriptions: [...this.#watched.keys()] });
  }

  /** Tells the client that all it wants to be told of may have changed while no rack served it. */
  #tellChanges(wanted: unknown, params?: RpcParams): void {
    if (!isRecord(wanted)) return;
    const { resourceSubscriptions: uris } = wanted;
    const tell = (method: string, more?: object) =>
      this.#tell(
        JSON.stringify({
          jsonrpc: "2.0",
          method,
          params: more === undefined ? params : { ...more, ...params },
        }),
      );
    for (const kind of listKinds)
      if (wanted[`${kind}ListChanged`] === true) tell(`notifications/${kind}/list_changed`);
    for (const uri of Array.isArray(uris) ? uris : []) tell("notifications/resources/updated", { uri });
  }
}

/** Whether a request may be made a second time: all may that only ask. */
function mayRepeat(method: string): boolean {
  return method !== "tools/call" && !method.startsWith("tasks/");
}

const stoppedBefore = {
  code: rpcCodes.unavailable,
  message:
    "The server stopped before it answered. It is not known here how far it came, and nothing was run a second time. " +
    "`toolrack logs` shows what became of a call. If it has to run again, call it again.",
};

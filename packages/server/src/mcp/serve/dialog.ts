import { AsyncLocalStorage } from "node:async_hooks";
import type { CallClient, ClientMethod, ProgressUpdate } from "@toolrack/core";
import type { LogEvent } from "../../calls/index.ts";
import {
  type ClientAbilities,
  type ClientInfo,
  logLevels,
  missingAbility,
  type NeededAbility,
  type RpcParams,
} from "../wire/index.ts";
import type { Caller } from "./caller.ts";
import { type Question, Questions } from "./questions.ts";
import type { Wants } from "./session.ts";
import type { WriteFlow } from "./writer.ts";

/** A notification to a client that waits for an answer. */
export type Notice =
  | { readonly kind: "progress"; readonly update: ProgressUpdate }
  | { readonly kind: "message"; readonly method: string; readonly params: object };

/** What happens next in a dialog. `asks` has each new question once; it stays open until it is answered. */
type Step<Result> =
  | { readonly kind: "ended"; readonly result: Result }
  | { readonly kind: "failed"; readonly reason: unknown }
  | { readonly kind: "asks"; readonly questions: readonly Question[] }
  | { readonly kind: "says"; readonly notices: readonly Notice[] };

/** What a dialog needs to know of the client, and of the request that begins it. */
interface FirstRequest {
  readonly peer: {
    readonly abilities: ClientAbilities;
    readonly client?: ClientInfo | undefined;
    readonly caller?: Caller;
  };
  readonly wants: Wants;
  readonly params?: RpcParams;
}

const none: RpcParams = Object.freeze({});

/**
 * The dialog whose work is running, also deep in a chain of calls. Approvals use it to find the client, which
 * the code in between does not know.
 */
export const currentDialog = new AsyncLocalStorage<ClientDialog<unknown>>();

/**
 * One piece of work and the client that waits for its result. The work adds questions and notices; the
 * transport reads them with `next`, step by step. So the same work can be answered in one message, in a
 * stream, or over several requests, between which the dialog is kept.
 */
export class ClientDialog<Result> implements CallClient {
  readonly peer: FirstRequest["peer"];
  /** The name of the tool or prompt, or the URI of the resource, that the client asked for. */
  readonly subject: string;
  /** The arguments of the client's request. */
  readonly input: RpcParams;
  /** Which notices the client wants to receive in its open request. */
  wants: Wants;
  /** The last warning to the client. A call that becomes a task shows it as its status message. */
  lastWarning: string | undefined;
  /** The capability that a question needed and the client did not declare. */
  missed: NeededAbility | undefined;
  /** The result, set when the work has ended and no notices are left to be read. */
  result: Result | undefined;
  /** Cancels the work. */
  onCancel: ((reason: string) => void) | undefined;
  readonly #params: RpcParams;
  #questions: Questions | undefined;
  #notices: NoticeQueue | undefined;
  #end: Step<Result> | undefined;
  #wake: (() => void) | undefined;

  constructor({ peer, wants, params = none }: FirstRequest, subject: string, input = none) {
    this.peer = peer;
    this.subject = subject;
    this.input = input;
    this.wants = wants;
    this.#params = params;
  }

  get name(): string {
    const { client } = this.peer;
    return client === undefined ? "" : `${client.name} ${client.version}`;
  }

  get logLevel(): string | undefined {
    return this.wants.level;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  get questions(): Questions {
    this.#questions ??= new Questions(this.#params.inputResponses, () => this.#advance());
    return this.#questions;
  }

  get open(): readonly Question[] {
    return this.#questions?.open ?? [];
  }

  /** Starts work that is cancelled by a signal. Call either this or `follow`, once. */
  start(work: (signal: AbortSignal) => Promise<Result>): this {
    const controller = new AbortController();
    this.onCancel = (reason) => controller.abort(reason);
    return this.follow(work(controller.signal));
  }

  /** Waits for work that has started. */
  follow(work: Promise<Result>): this {
    work.then(
      (result) => this.#advance({ kind: "ended", result }),
      (reason) => this.#advance({ kind: "failed", reason }),
    );
    return this;
  }

  /** Whether `next` would return a step at once. */
  get hasStep(): boolean {
    return this.isOver || this.#notices?.isEmpty === false || this.#questions?.hasNew === true;
  }

  /** Calls `act` once, as soon as there is something to send to the client: a notice, a question or the result. */
  whenStepReady(act: () => void): void {
    this.#wake = act;
    const isQuiet = this.#end === undefined && this.#notices === undefined && this.#questions === undefined;
    if (!isQuiet && this.hasStep) this.#advance();
  }

  /**
   * Resolves to the next step. Only one reader may wait at a time. Notices are held back while the flow is
   * full; questions and the end are not.
   */
  async next(flow?: WriteFlow): Promise<Step<Result>> {
    for (;;) {
      const full = flow?.isFull === true && this.#end === undefined ? flow : undefined;
      if (this.#notices?.isEmpty === false && full === undefined) {
        return { kind: "says", notices: this.#notices.take() };
      }
      if (this.#end !== undefined) return this.#end;
      if (this.#questions?.hasNew) {
        // Questions of the same turn of the event loop are returned together.
        await new Promise((resolve) => setImmediate(resolve));
        const questions = this.#questions.takeNew();
        if (questions.length > 0) return { kind: "asks", questions };
        continue;
      }
      let stopWaiting: (() => void) | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        stopWaiting = full?.whenFreed(resolve);
      });
      stopWaiting?.();
    }
  }

  cancel(reason: string): void {
    this.onCancel?.(reason);
    this.#questions?.refuseAll(reason);
  }

  progress(update: ProgressUpdate): void {
    if (this.wants.progress) this.#addNotice({ kind: "progress", update });
  }

  /** Forwards a line of the tool's log. */
  log({ level, text, toolName }: LogEvent): void {
    if (this.wants.level === undefined) return;
    const params = { level: level === "warn" ? "warning" : level, logger: toolName, data: text };
    this.notify("notifications/message", params);
  }

  /** Whether the client can answer questions of this kind; with `params`, this very question. */
  can(method: ClientMethod, params?: object): boolean {
    return missingAbility(this.peer.abilities, method, params) === undefined;
  }

  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown> {
    const missing = missingAbility(this.peer.abilities, method, params);
    if (missing !== undefined) {
      this.missed = missing;
      const lacks = Object.entries(missing)
        .map(([name, members]) => [name, ...Object.keys(members)].join("."))
        .join(", ");
      return Promise.reject(
        new Error(`The MCP client that made this call did not declare ${lacks}, which ${method} needs.`),
      );
    }
    if (this.isOver) return Promise.reject(new Error("The call that wants to ask has ended."));
    return this.questions.ask(method, params, signal);
  }

  notify(method: string, params: object): void {
    if (method === "notifications/message") {
      const { messages, level } = this.wants;
      const { level: given = "info" }: { readonly level?: unknown } = params;
      const isLow = level !== undefined && logLevels.indexOf(given) < logLevels.indexOf(level);
      if (!messages || isLow) return;
    }
    this.#addNotice({ kind: "message", method, params });
  }

  /** Warns the client by a message and by progress, as far as it wants them: some clients show only one of them. */
  warn(text: string, about: string): void {
    this.lastWarning = text;
    this.notify("notifications/message", { level: "warning", logger: about, data: text });
    this.progress({ progress: 0, message: text });
  }

  #addNotice(notice: Notice): void {
    if (this.isOver) return;
    this.#notices ??= new NoticeQueue();
    this.#notices.add(notice);
    this.#advance();
  }

  /** Wakes up the code that waits for a step. `end` is given when the work has ended. */
  #advance(end?: Step<Result>): void {
    if (end !== undefined) {
      this.#end = end;
      this.#questions?.close();
      if (end.kind === "ended" && this.#notices?.isEmpty !== false) this.result = end.result;
    }
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

/** How many notices may wait. A client that is slower than the tool misses the rest. */
const MOST_NOTICES = 100;
/** How long the waiting notices may be together, in characters. A single notice may be longer. */
const LONGEST_NOTICES = 256 * 1024;

/** Notices that wait to be sent. Of too many, the latest progress and the first messages are kept. */
class NoticeQueue {
  #notices: Notice[] = [];
  #length = 0;
  #dropped = 0;

  get isEmpty(): boolean {
    return this.#notices.length === 0;
  }

  add(notice: Notice): void {
    const length = lengthOf(notice);
    const count = this.#notices.length;
    const isFull = count >= MOST_NOTICES || (count > 0 && this.#length + length > LONGEST_NOTICES);
    if (isFull && notice.kind === "message") {
      this.#dropped++;
      return;
    }
    // Older progress is out of date, so it is removed to make room.
    if (isFull) this.#keepMessages();
    this.#notices.push(notice);
    this.#length += length;
  }

  /** Removes and returns all notices. */
  take(): readonly Notice[] {
    const notices = this.#notices;
    const dropped = this.#dropped;
    this.#notices = [];
    this.#length = 0;
    this.#dropped = 0;
    if (dropped === 0) return notices;
    const data = `${dropped} messages were left out: they came faster than they could be told.`;
    const params = { level: "warning", logger: "toolrack", data };
    return [...notices, { kind: "message", method: "notifications/message", params }];
  }

  #keepMessages(): void {
    this.#notices = this.#notices.filter(({ kind }) => kind === "message");
    this.#length = this.#notices.reduce((sum, notice) => sum + lengthOf(notice), 0);
  }
}

/** About as many characters as the client will receive. */
function lengthOf(notice: Notice): number {
  if (notice.kind === "progress") return notice.update.message?.length ?? 0;
  const data = "data" in notice.params ? notice.params.data : notice.params;
  if (typeof data === "string") return data.length;
  try {
    return JSON.stringify(data).length;
  } catch {
    // Data that cannot be encoded fails again when it is written, and is reported there.
    return 0;
  }
}

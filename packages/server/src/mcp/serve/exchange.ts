import { AsyncLocalStorage } from "node:async_hooks";
import type { CallClient, ClientMethod, ProgressUpdate } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { LogEvent } from "../../calls/index.ts";
import type { Outlet } from "./carry.ts";
import { type Notice, NoticeQueue } from "./changes.ts";
import { type ClientAbilities, missingAbility, type NeededAbility } from "./clients.ts";
import { isAcceptable } from "./messages.ts";

export interface Question {
  readonly key: string;
  readonly method: ClientMethod;
  readonly params: object;
  /** Aborts when the answer is no longer wanted. */
  readonly signal: AbortSignal;
}

/** What happens next in an exchange. `asks` tells each question once; it stays open until it is answered. */
type Step<Result> =
  | { readonly kind: "ended"; readonly result: Result }
  | { readonly kind: "failed"; readonly reason: unknown }
  | { readonly kind: "asks"; readonly questions: readonly Question[] }
  | { readonly kind: "says"; readonly notices: readonly Notice[] };

/** What the request that is being answered wants to hear while it waits. */
export interface Wants {
  readonly progress: boolean;
  readonly messages: boolean;
  /** From which level on it also wants what a tool says to its own log; undefined for a client that has not said. */
  readonly level?: string | undefined;
}

export interface ExchangeOptions {
  /** What the client asked for: a tool, a prompt or a resource, by its name. */
  readonly subject: string;
  /** The id that the call behind it is to have; made later when not given. */
  readonly callId?: string;
  readonly abilities: ClientAbilities;
  /** With whose rights the client answers whether calls may run. Without it, it may not. */
  readonly approver?: Grant | undefined;
  readonly clientName?: string;
  /** Answers that came before the questions, by the keys that their askers give them. */
  readonly answers?: Readonly<Record<string, unknown>>;
  readonly wants: Wants;
}

interface Open {
  question: Question;
  readonly settle: (answer: unknown) => void;
  readonly refuse: (reason: unknown) => void;
}

const noAnswers: Readonly<Record<string, unknown>> = Object.freeze({});
const none: readonly never[] = Object.freeze([]);
/** Nothing is ever put into it. */
const noneOpen = new Map<string, Open>();

/** Where an asker of a question may say by which key it is to be known. */
const keyName = "toolrack/key";

/**
 * One piece of work and the client that waits for it. The work may ask and tell the client things; whoever carries
 * messages takes them out step by step. So the same work can be answered in one message, in a stream, or over many
 * requests between which it waits here.
 */
export class Exchange<Result> implements CallClient {
  readonly name: string;
  readonly subject: string;
  /** The arguments that came with it. */
  readonly input: Readonly<Record<string, unknown>>;
  readonly callId: string | undefined;
  wants: Wants;
  readonly approver: Grant | undefined;
  /** What was last warned of, for who goes on with the work when nobody wanted to hear it yet. */
  warned: string | undefined;
  readonly #abilities: ClientAbilities;
  readonly #answers: Readonly<Record<string, unknown>>;
  /** Made when it is needed: most exchanges are short, ask nothing and are never cancelled. */
  #controller: AbortController | undefined;
  #cancelWork: ((reason: string) => void) | undefined;
  #open: Map<string, Open> = noneOpen;
  #untold: readonly Question[] = none;
  #notices: NoticeQueue | undefined;
  #end: Step<Result> | undefined;
  #wake: (() => void) | undefined;
  #asked = 0;
  /** None stands for two questions. */
  #keys: Set<string> | undefined;
  #missed: NeededAbility | undefined;

  constructor(
    { subject, callId, abilities, approver, clientName = "", answers = noAnswers, wants }: ExchangeOptions,
    input: Readonly<Record<string, unknown>> = noAnswers,
  ) {
    this.subject = subject;
    this.input = input;
    this.callId = callId;
    this.approver = approver;
    this.#abilities = abilities;
    this.#answers = answers;
    this.name = clientName;
    this.wants = wants;
  }

  get logLevel(): string | undefined {
    return this.wants.level;
  }

  /** Begins the work. To be called once. */
  start(work: (signal: AbortSignal) => Promise<Result>): this {
    this.#controller = new AbortController();
    return this.#follow(work(this.#controller.signal));
  }

  /** Begins work that says, before anything else can happen, how it is cancelled. To be called once. */
  startCancellable(work: (begun: (cancel: (reason: string) => void) => void) => Promise<Result>): this {
    return this.#follow(
      work((cancel) => {
        this.#cancelWork = cancel;
      }),
    );
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** What the client was to be asked although it never said that it can be. */
  get missed(): NeededAbility | undefined {
    return this.#missed;
  }

  /** The questions that wait for an answer. */
  get open(): readonly Question[] {
    return Array.from(this.#open.values(), ({ question }) => question);
  }

  /** What the work ended with, once it has, and when nothing has to be said before. */
  get ended(): Result | undefined {
    return this.#end?.kind === "ended" && !this.#hasNotices ? this.#end.result : undefined;
  }

  /** Whether there is a step to be taken. */
  get hasNews(): boolean {
    return this.#end !== undefined || this.#hasNotices || this.#untold.length > 0;
  }

  /** Resolves when there is a step to be taken. Only one may wait at a time. */
  stirred(): Promise<void> | undefined {
    if (this.hasNews) return undefined;
    return new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  /** The same for who would not wait for a promise: acts once, now or later. */
  whenStirred(act: () => void): void {
    if (this.hasNews) act();
    else this.#wake = act;
  }

  /** Only one may wait at a time. What the work says along the way waits for the outlet; its questions and end do not. */
  async next(outlet?: Outlet): Promise<Step<Result>> {
    for (;;) {
      const full = outlet?.isFull === true && this.#end === undefined ? outlet : undefined;
      if (this.#notices?.isEmpty === false && full === undefined) {
        return { kind: "says", notices: this.#notices.take() };
      }
      if (this.#end !== undefined) return this.#end;
      if (this.#untold.length > 0) {
        // What is asked in one go is told in one go.
        await new Promise((resolve) => setImmediate(resolve));
        const questions = this.#untold.filter(({ key }) => this.#open.has(key));
        this.#untold = none;
        if (questions.length > 0) return { kind: "asks", questions };
        continue;
      }
      await (full === undefined ? this.stirred() : this.#stirredOrFreed(full));
    }
  }

  /** Takes an answer, unless it is not one to this question: then the question stays open. */
  answer(key: string, value: unknown): boolean {
    const open = this.#open.get(key);
    if (open === undefined || !isAcceptable(open.question.method, open.question.params, value)) return false;
    this.#open.delete(key);
    open.settle(value);
    return true;
  }

  /** Asks the same under another key: of one that it has answered, however wrongly, the client need not look again. */
  askAnew(key: string): void {
    const open = this.#open.get(key);
    if (open === undefined) return;
    this.#open.delete(key);
    open.question = { ...open.question, key: this.#newKey(open.question.method) };
    this.#tell(open);
  }

  /** The client cannot answer. */
  refuse(key: string, reason: unknown): void {
    const open = this.#open.get(key);
    this.#open.delete(key);
    open?.refuse(reason);
  }

  cancel(reason: string): void {
    this.#controller?.abort(reason);
    this.#cancelWork?.(reason);
    for (const [key] of this.#open) this.refuse(key, new Error(reason));
  }

  progress(update: ProgressUpdate): void {
    if (this.wants.progress) this.#say({ kind: "progress", update });
  }

  /** A line of the tool's own log. */
  log({ level, text, toolName }: LogEvent): void {
    if (this.wants.level === undefined) return;
    const params = { level: level === "warn" ? "warning" : level, logger: toolName, data: text };
    this.notify("notifications/message", params);
  }

  /** With `params`: whether it can be asked this very question. */
  can(method: ClientMethod, params?: object): boolean {
    return missingAbility(this.#abilities, method, params) === undefined;
  }

  request(method: ClientMethod, params: object, signal: AbortSignal): Promise<unknown> {
    const missing = missingAbility(this.#abilities, method, params);
    if (missing !== undefined) {
      this.#missed = missing;
      const lacks = nameOf(missing);
      return Promise.reject(
        new Error(`The MCP client that made this call did not declare ${lacks}, which ${method} needs.`),
      );
    }
    if (this.#end !== undefined) return Promise.reject(new Error("The call that wants to ask has ended."));
    const { given, key } = this.#keyOf(method, params);
    const asked = withoutKey(params);
    if (given && Object.hasOwn(this.#answers, key) && isAcceptable(method, asked, this.#answers[key])) {
      return Promise.resolve(this.#answers[key]);
    }
    return new Promise((settle, refuse) => {
      const withdrawn = new AbortController();
      const withdraw = () => {
        this.#open.delete(open.question.key);
        withdrawn.abort(signal.reason);
        refuse(signal.reason);
      };
      // A call may ask many questions, and its signal is there until it ends.
      const release = () => signal.removeEventListener("abort", withdraw);
      const open: Open = {
        question: { key, method, params: asked, signal: withdrawn.signal },
        settle(answer) {
          release();
          settle(answer);
        },
        refuse(reason) {
          release();
          refuse(reason);
        },
      };
      if (signal.aborted) return withdraw();
      signal.addEventListener("abort", withdraw, { once: true });
      this.#tell(open);
    });
  }

  notify(method: string, params: object): void {
    if (method === "notifications/message" && !this.wants.messages) return;
    this.#say({ kind: "message", method, params });
  }

  /** What the one who waits should know, by whatever way they asked to hear of it; nothing when they asked for none. */
  warn(text: string, about: string): void {
    this.warned = text;
    if (this.wants.messages) {
      this.notify("notifications/message", { level: "warning", logger: about, data: text });
    } else if (this.wants.progress) this.#say({ kind: "progress", update: { progress: 0, message: text } });
  }

  #tell(open: Open): void {
    if (this.#open === noneOpen) this.#open = new Map();
    this.#open.set(open.question.key, open);
    this.#untold = [...this.#untold, open.question];
    this.#stir();
  }

  #say(notice: Notice): void {
    if (this.#end !== undefined) return;
    this.#notices ??= new NoticeQueue();
    this.#notices.add(notice);
    this.#stir();
  }

  get #hasNotices(): boolean {
    return this.#notices?.isEmpty === false;
  }

  async #stirredOrFreed(outlet: Outlet): Promise<void> {
    let release = () => {};
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      release = outlet.whenFreed(resolve);
    });
    release();
  }

  #keyOf(method: ClientMethod, params: object): { given: boolean; key: string } {
    const wanted = (params as { _meta?: Record<string, unknown> })._meta?.[keyName];
    const isNew = typeof wanted === "string" && wanted !== "" && this.#keys?.has(wanted) !== true;
    if (!isNew) return { given: false, key: this.#newKey(method) };
    this.#keys ??= new Set();
    this.#keys.add(wanted);
    return { given: true, key: wanted };
  }

  #newKey(method: ClientMethod): string {
    this.#keys ??= new Set();
    let key: string;
    do {
      this.#asked++;
      key = `${method.slice(0, method.indexOf("/"))}-${this.#asked}`;
    } while (this.#keys.has(key));
    this.#keys.add(key);
    return key;
  }

  #follow(work: Promise<Result>): this {
    work.then(
      (result) => this.#finish({ kind: "ended", result }),
      (reason) => this.#finish({ kind: "failed", reason }),
    );
    return this;
  }

  #finish(end: Step<Result>): void {
    this.#end = end;
    this.#open = noneOpen;
    this.#stir();
  }

  #stir(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

/** The key is between the asker and the rack. */
function withoutKey(params: object): object {
  const { _meta, ...rest } = params as { _meta?: Record<string, unknown> };
  if (_meta === undefined) return params;
  const { [keyName]: _, ...meta } = _meta;
  return Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
}

function nameOf(ability: NeededAbility): string {
  return Object.entries(ability)
    .map(([name, members]) => [name, ...Object.keys(members)].join("."))
    .join(", ");
}

/**
 * The exchange in whose work a function runs, however deep in a chain of calls. A question to a person is asked far
 * below, by parts that know of no client.
 */
export const currentExchange = new AsyncLocalStorage<Exchange<unknown>>();

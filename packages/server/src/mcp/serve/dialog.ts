import { AsyncLocalStorage } from "node:async_hooks";
import { type CallClient, type ClientMethod, compileSchema, type ProgressUpdate } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import type { LogEvent } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import {
  type ClientAbilities,
  logLevels,
  missingAbility,
  type NeededAbility,
  type WriteFlow,
} from "../wire/index.ts";
import { type Notice, NoticeQueue } from "./notices.ts";

export interface Question {
  readonly key: string;
  readonly method: ClientMethod;
  readonly params: object;
  /** Aborts when the answer is no longer wanted. */
  readonly signal: AbortSignal;
}

/** What happens next in a dialog. `asks` tells each question once; it stays open until it is answered. */
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

export interface DialogOptions {
  /** What the client asked for: a tool, a prompt or a resource, by its name. */
  readonly subject: string;
  readonly abilities: ClientAbilities;
  /** With whose rights the client answers whether calls may run. Without it, it may not. */
  readonly approver?: Grant | undefined;
  readonly clientName?: string;
  /** Answers that came before the questions, by the keys that their askers give them. */
  readonly answers?: Readonly<Record<string, unknown>> | undefined;
  readonly wants: Wants;
}

interface OpenQuestion extends Pick<PromiseWithResolvers<unknown>, "resolve" | "reject"> {
  question: Question;
  /** Of the question's signal. */
  readonly withdrawn: AbortController;
}

const noAnswers: Readonly<Record<string, unknown>> = Object.freeze({});
const none: readonly never[] = Object.freeze([]);
/** Nothing is ever put into it. */
const noneOpen = new Map<string, OpenQuestion>();

/** Where the asker of a question may say by which key it is to be known. */
const keyName = "toolrack/key";

/**
 * One piece of work and the client that waits for it. The work may ask the client and tell it things; whoever answers
 * the client takes them out step by step. So the same work can be answered in one message, in a stream, or over many
 * requests between which it waits here.
 */
export class ClientDialog<Result> implements CallClient {
  readonly name: string;
  readonly subject: string;
  /** The arguments that came with it. */
  readonly input: Readonly<Record<string, unknown>>;
  readonly approver: Grant | undefined;
  wants: Wants;
  /** The last warning, for a task that goes on with the work when nobody wanted to hear it yet. */
  warned: string | undefined;
  /** How the work is cancelled. */
  onCancel: ((reason: string) => void) | undefined;
  readonly #abilities: ClientAbilities;
  readonly #answers: Readonly<Record<string, unknown>>;
  #open: Map<string, OpenQuestion> = noneOpen;
  #untold: readonly Question[] = none;
  #notices: NoticeQueue | undefined;
  #end: Step<Result> | undefined;
  #wake: (() => void) | undefined;
  #asked = 0;
  /** None stands for two questions. */
  #keys: Set<string> | undefined;
  /** What the client was to be asked although it never said that it can be. */
  missed: NeededAbility | undefined;

  constructor(options: DialogOptions, input: Readonly<Record<string, unknown>> = noAnswers) {
    this.subject = options.subject;
    this.input = input;
    this.approver = options.approver;
    this.name = options.clientName ?? "";
    this.wants = options.wants;
    this.#abilities = options.abilities;
    this.#answers = options.answers ?? noAnswers;
  }

  get logLevel(): string | undefined {
    return this.wants.level;
  }

  /** Begins work that is cancelled by a signal. This or `follow` is called once. */
  start(work: (signal: AbortSignal) => Promise<Result>): this {
    const controller = new AbortController();
    this.onCancel = (reason) => controller.abort(reason);
    return this.follow(work(controller.signal));
  }

  /** Waits for work that has begun. */
  follow(work: Promise<Result>): this {
    work.then(
      (result) => this.#finish({ kind: "ended", result }),
      (reason) => this.#finish({ kind: "failed", reason }),
    );
    return this;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** The questions that wait for an answer. */
  get open(): readonly Question[] {
    return Array.from(this.#open.values(), ({ question }) => question);
  }

  /** What the work ended with, once it has, and when nothing has to be said before. */
  get ended(): Result | undefined {
    return this.#end?.kind === "ended" && this.#notices?.isEmpty !== false ? this.#end.result : undefined;
  }

  /** Whether there is a step to be taken. */
  get hasNews(): boolean {
    return this.#end !== undefined || this.#notices?.isEmpty === false || this.#untold.length > 0;
  }

  /** Acts once, now or as soon as there is a step to be taken. Only one may wait at a time. */
  whenNews(act: () => void): void {
    if (this.hasNews) act();
    else this.#wake = act;
  }

  /** Only one may wait at a time. What the work says along the way waits for the client to read; its questions and end do not. */
  async next(flow?: WriteFlow): Promise<Step<Result>> {
    for (;;) {
      const full = flow?.isFull === true && this.#end === undefined ? flow : undefined;
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
      await this.#newsOrRoom(full);
    }
  }

  /** Takes an answer, unless it is not one to this question: then the question stays open. */
  answer(key: string, value: unknown): boolean {
    const open = this.#open.get(key);
    if (open === undefined || !isAcceptable(open.question.method, open.question.params, value)) return false;
    this.#open.delete(key);
    open.resolve(value);
    return true;
  }

  /** Asks the same under another key: at one that it has answered, however wrongly, the client need not look again. */
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
    open?.reject(reason);
  }

  cancel(reason: string): void {
    this.onCancel?.(reason);
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
      this.missed = missing;
      const lacks = nameOf(missing);
      return Promise.reject(
        new Error(`The MCP client that made this call did not declare ${lacks}, which ${method} needs.`),
      );
    }
    if (this.#end !== undefined) return Promise.reject(new Error("The call that wants to ask has ended."));
    const { wanted, asked } = splitKey(params);
    const isNew = wanted !== undefined && this.#keys?.has(wanted) !== true;
    if (isNew && Object.hasOwn(this.#answers, wanted) && isAcceptable(method, asked, this.#answers[wanted])) {
      this.#newKey(method, wanted);
      return Promise.resolve(this.#answers[wanted]);
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const withdrawn = new AbortController();
    const key = this.#newKey(method, isNew ? wanted : undefined);
    const open: OpenQuestion = {
      question: { key, method, params: asked, signal: withdrawn.signal },
      resolve,
      reject,
      withdrawn,
    };
    const onAbort = () => this.refuse(open.question.key, signal.reason);
    // A call may ask many questions, and its signal is there until it ends.
    const close = () => {
      signal.removeEventListener("abort", onAbort);
      withdrawn.abort("the question is no longer asked");
    };
    promise.then(close, close);
    this.#tell(open);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    return promise;
  }

  notify(method: string, params: object): void {
    if (method === "notifications/message" && !this.#wantsMessage(params)) return;
    this.#say({ kind: "message", method, params });
  }

  /** What the client should know, by whatever way it asked to hear of things; nothing when it asked for none. */
  warn(text: string, about: string): void {
    this.warned = text;
    if (this.wants.messages) {
      this.notify("notifications/message", { level: "warning", logger: about, data: text });
    } else if (this.wants.progress) this.#say({ kind: "progress", update: { progress: 0, message: text } });
  }

  #wantsMessage(params: { readonly level?: unknown }): boolean {
    const { messages, level } = this.wants;
    if (!messages || level === undefined) return messages;
    return logLevels.indexOf(params.level ?? "info") >= logLevels.indexOf(level);
  }

  #tell(open: OpenQuestion): void {
    if (this.#open === noneOpen) this.#open = new Map();
    this.#open.set(open.question.key, open);
    this.#untold = [...this.#untold, open.question];
    this.#wakeUp();
  }

  #say(notice: Notice): void {
    if (this.#end !== undefined) return;
    this.#notices ??= new NoticeQueue();
    this.#notices.add(notice);
    this.#wakeUp();
  }

  /** Notices are no news as long as the client does not read; room for them is. */
  async #newsOrRoom(full: WriteFlow | undefined): Promise<void> {
    let stopWaiting: (() => void) | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      stopWaiting = full?.whenFreed(resolve);
    });
    stopWaiting?.();
  }

  #newKey(method: ClientMethod, wanted?: string): string {
    this.#keys ??= new Set();
    let key = wanted;
    while (key === undefined || (key !== wanted && this.#keys.has(key))) {
      this.#asked++;
      key = `${method.slice(0, method.indexOf("/"))}-${this.#asked}`;
    }
    this.#keys.add(key);
    return key;
  }

  #finish(end: Step<Result>): void {
    this.#end = end;
    for (const { withdrawn } of this.#open.values()) withdrawn.abort("the call has ended");
    this.#open = noneOpen;
    this.#wakeUp();
  }

  #wakeUp(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

/** The open questions by their keys, as the protocol writes them. */
export function openRequests({ open }: ClientDialog<unknown>): Readonly<Record<string, object>> {
  return Object.fromEntries(open.map(({ key, method, params }) => [key, { method, params }]));
}

/** The key is between the asker and the rack, and is not told. */
function splitKey(params: object): { readonly wanted: string | undefined; readonly asked: object } {
  if (!("_meta" in params) || !isRecord(params._meta)) return { wanted: undefined, asked: params };
  const { _meta, ...rest } = params;
  const { [keyName]: wanted, ...meta } = params._meta;
  const asked = Object.keys(meta).length === 0 ? rest : { ...rest, _meta: meta };
  return { wanted: typeof wanted === "string" && wanted !== "" ? wanted : undefined, asked };
}

function nameOf(ability: NeededAbility): string {
  return Object.entries(ability)
    .map(([name, members]) => [name, ...Object.keys(members)].join("."))
    .join(", ");
}

/** Whether a value from outside is an answer to a question of this kind. What was entered must fit what was asked for. */
function isAcceptable(
  method: ClientMethod,
  params: { readonly requestedSchema?: unknown },
  value: unknown,
): boolean {
  if (!isRecord(value)) return false;
  switch (method) {
    case "elicitation/create":
      return isElicitation(params.requestedSchema, value);
    case "sampling/createMessage":
      return typeof value.role === "string" && typeof value.content === "object" && value.content !== null;
    case "roots/list":
      return Array.isArray(value.roots);
  }
}

function isElicitation(requestedSchema: unknown, { action, content }: Record<string, unknown>): boolean {
  if (action === "decline" || action === "cancel") return true;
  if (action !== "accept") return false;
  if (!isRecord(requestedSchema) || content === undefined) return true;
  try {
    const outcome = compileSchema(requestedSchema).validate(content);
    // A schema of plain JSON Schema is checked at once; any other could not have been sent.
    return outcome instanceof Promise || outcome.ok;
  } catch {
    return true; // A schema that cannot be used is the asker's fault, not the client's.
  }
}

/**
 * The dialog in whose work a function runs, however deep in a chain of calls. A question to a person is asked far
 * below, by parts that know of no client.
 */
export const currentDialog = new AsyncLocalStorage<ClientDialog<unknown>>();

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

/** What happens next in a dialog. `asks` names each question once; the question stays open until it is answered. */
type Step<Result> =
  | { readonly kind: "ended"; readonly result: Result }
  | { readonly kind: "failed"; readonly reason: unknown }
  | { readonly kind: "asks"; readonly questions: readonly Question[] }
  | { readonly kind: "says"; readonly notices: readonly Notice[] };

/** Which notices the open request wants to receive. */
export interface Wants {
  readonly progress: boolean;
  readonly messages: boolean;
  /** The lowest level of the tool's log lines that the client wants. Undefined: it wants none of them. */
  readonly level?: string | undefined;
}

export interface DialogOptions {
  /** The name of the tool or prompt, or the URI of the resource, that the client asked for. */
  readonly subject: string;
  readonly abilities: ClientAbilities;
  /** The grant with which the client may answer approvals. Without it, the client may not. */
  readonly approver?: Grant | undefined;
  readonly clientName?: string;
  /** Answers that the client sent before it was asked, by the keys that the tool gives its questions. */
  readonly answers?: Readonly<Record<string, unknown>> | undefined;
  readonly wants: Wants;
}

interface OpenQuestion extends Pick<PromiseWithResolvers<unknown>, "resolve" | "reject"> {
  question: Question;
  /** Aborts the question's signal. */
  readonly withdrawn: AbortController;
}

const noAnswers: Readonly<Record<string, unknown>> = Object.freeze({});
const none: readonly never[] = Object.freeze([]);
/** Shared by all dialogs without questions. Never add to it. */
const noneOpen = new Map<string, OpenQuestion>();

/** In `_meta` of a question: the key that the tool chooses for it. */
const keyName = "toolrack/key";

/**
 * One piece of work and the client that waits for it. The work adds questions and notices; the transport reads them with
 * `next`, step by step. So the same work can be answered in one message, in a stream, or over several requests, and
 * waits here between them.
 */
export class ClientDialog<Result> implements CallClient {
  readonly name: string;
  readonly subject: string;
  /** The arguments of the client's request. */
  readonly input: Readonly<Record<string, unknown>>;
  readonly approver: Grant | undefined;
  wants: Wants;
  /** The last warning. A call that becomes a task shows it as its status. */
  lastWarning: string | undefined;
  /** Cancels the work. */
  onCancel: ((reason: string) => void) | undefined;
  readonly #abilities: ClientAbilities;
  readonly #answers: Readonly<Record<string, unknown>>;
  #open: Map<string, OpenQuestion> = noneOpen;
  #newQuestions: readonly Question[] = none;
  #notices: NoticeQueue | undefined;
  #end: Step<Result> | undefined;
  #wake: (() => void) | undefined;
  #asked = 0;
  /** All keys used so far. No key is used for two questions. */
  #keys: Set<string> | undefined;
  /** The capability that a question needed and the client did not declare. */
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

  /** Starts work that is cancelled by a signal. Call either this or `follow`, once. */
  start(work: (signal: AbortSignal) => Promise<Result>): this {
    const controller = new AbortController();
    this.onCancel = (reason) => controller.abort(reason);
    return this.follow(work(controller.signal));
  }

  /** Waits for work that has started. */
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

  get open(): readonly Question[] {
    return Array.from(this.#open.values(), ({ question }) => question);
  }

  /** The result of the work, once it has ended and no notices are left to be read. */
  get ended(): Result | undefined {
    return this.#end?.kind === "ended" && this.#notices?.isEmpty !== false ? this.#end.result : undefined;
  }

  /** Whether `next` would return a step at once. */
  get hasStep(): boolean {
    return this.#end !== undefined || this.#notices?.isEmpty === false || this.#newQuestions.length > 0;
  }

  /** Calls `act` once: now, or as soon as there is a step. Only one may wait at a time. */
  whenStepReady(act: () => void): void {
    if (this.hasStep) act();
    else this.#wake = act;
  }

  /** The next step. Only one may wait at a time. Notices wait until the flow has room; questions and the end do not. */
  async next(flow?: WriteFlow): Promise<Step<Result>> {
    for (;;) {
      const full = flow?.isFull === true && this.#end === undefined ? flow : undefined;
      if (this.#notices?.isEmpty === false && full === undefined) {
        return { kind: "says", notices: this.#notices.take() };
      }
      if (this.#end !== undefined) return this.#end;
      if (this.#newQuestions.length > 0) {
        // Questions of the same turn of the event loop are returned together.
        await new Promise((resolve) => setImmediate(resolve));
        const questions = this.#newQuestions.filter(({ key }) => this.#open.has(key));
        this.#newQuestions = none;
        if (questions.length > 0) return { kind: "asks", questions };
        continue;
      }
      await this.#stepOrRoom(full);
    }
  }

  /** Takes an answer. Returns false when it is invalid for the question, which then stays open. */
  answer(key: string, value: unknown): boolean {
    const open = this.#open.get(key);
    if (open === undefined || !isAcceptable(open.question.method, open.question.params, value)) return false;
    this.#open.delete(key);
    open.resolve(value);
    return true;
  }

  /** Asks the same question under a new key. Clients may ignore a key that they have answered, even wrongly. */
  askAnew(key: string): void {
    const open = this.#open.get(key);
    if (open === undefined) return;
    this.#open.delete(key);
    open.question = { ...open.question, key: this.#newKey(open.question.method) };
    this.#addQuestion(open);
  }

  /** Rejects a question that the client cannot answer. */
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
    if (this.wants.progress) this.#addNotice({ kind: "progress", update });
  }

  /** Forwards a line of the tool's log. */
  log({ level, text, toolName }: LogEvent): void {
    if (this.wants.level === undefined) return;
    const params = { level: level === "warn" ? "warning" : level, logger: toolName, data: text };
    this.notify("notifications/message", params);
  }

  /** With `params`: whether the client can answer this very question. */
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
    // The call's signal lives longer than the question. Without this, listeners would pile up on it.
    const close = () => {
      signal.removeEventListener("abort", onAbort);
      withdrawn.abort("the question is no longer asked");
    };
    promise.then(close, close);
    this.#addQuestion(open);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    return promise;
  }

  notify(method: string, params: object): void {
    if (method === "notifications/message" && !this.#wantsMessage(params)) return;
    this.#addNotice({ kind: "message", method, params });
  }

  /** Warns the client by a message or by progress, whichever it wants. Sends nothing when it wants neither. */
  warn(text: string, about: string): void {
    this.lastWarning = text;
    if (this.wants.messages) {
      this.notify("notifications/message", { level: "warning", logger: about, data: text });
    } else if (this.wants.progress)
      this.#addNotice({ kind: "progress", update: { progress: 0, message: text } });
  }

  #wantsMessage(params: { readonly level?: unknown }): boolean {
    const { messages, level } = this.wants;
    if (!messages || level === undefined) return messages;
    return logLevels.indexOf(params.level ?? "info") >= logLevels.indexOf(level);
  }

  #addQuestion(open: OpenQuestion): void {
    if (this.#open === noneOpen) this.#open = new Map();
    this.#open.set(open.question.key, open);
    this.#newQuestions = [...this.#newQuestions, open.question];
    this.#wakeUp();
  }

  #addNotice(notice: Notice): void {
    if (this.#end !== undefined) return;
    this.#notices ??= new NoticeQueue();
    this.#notices.add(notice);
    this.#wakeUp();
  }

  /** Waits for a step, or for room when the flow is full and notices wait for it. */
  async #stepOrRoom(full: WriteFlow | undefined): Promise<void> {
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

/** The open questions by key, in the form of the protocol. */
export function openRequests({ open }: ClientDialog<unknown>): Readonly<Record<string, object>> {
  return Object.fromEntries(open.map(({ key, method, params }) => [key, { method, params }]));
}

/** Takes the tool's key out of the parameters: the client must not see it there. */
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

/** Whether a value from outside is a valid answer. The content of a form must match its schema. */
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
    // Plain JSON Schema is checked synchronously, and no other schema can be sent to a client.
    return outcome instanceof Promise || outcome.ok;
  } catch {
    return true; // An invalid schema is the tool's fault, not the client's.
  }
}

/**
 * The dialog whose work is running, also deep in a chain of calls. Approvals use it to find the client, which the code
 * between does not know.
 */
export const currentDialog = new AsyncLocalStorage<ClientDialog<unknown>>();

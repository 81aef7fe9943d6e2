import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { setTimeout as wait } from "node:timers/promises";
import type { CallClient, ClientMethod, ProgressUpdate } from "@toolrack/core";
import { type LogEvent, UnfitAnswer } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import {
  type ClientAbilities,
  type ClientInfo,
  logLevels,
  missingAbility,
  type NeededAbility,
  type RpcParams,
} from "../wire/index.ts";
import { missingCapability } from "./answers.ts";
import type { Caller } from "./caller.ts";
import { type Notice, NoticeQueue } from "./notices.ts";
import { type Question, Questions } from "./questions.ts";
import type { ClientRequest, Wants } from "./session.ts";
import type { WaitingDialogs } from "./waiting-dialogs.ts";
import type { WriteFlow } from "./writer.ts";

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

/** The dialog whose prompt or resource is being made. By it, approvals find the client of calls that its code makes. */
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
    void this.follow(work(controller.signal));
    return this;
  }

  /** Waits for work that has started. Never rejects. */
  async follow(work: Promise<Result>): Promise<void> {
    let end: Step<Result>;
    try {
      end = { kind: "ended", result: await work };
    } catch (reason) {
      end = { kind: "failed", reason };
    }
    this.#advance(end);
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

/** Answers a request with the result of its dialog. */
type Finish<Result> = (request: ClientRequest, result: Result) => void;

/**
 * Sends the client the notices and questions of a dialog, until the work ends or the client has to come back
 * with answers in another request.
 */
export function relayDialog<Result>(
  waiting: WaitingDialogs,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
): void {
  // A bound function, because one that is made here keeps the request and its connection alive: of a call over HTTP 6.8 KB
  // outlived a small collection, and 1.6 KB do now.
  request.onCancel = dialog.cancel.bind(dialog);
  // The callback runs in the async context of the tool. The code that sends messages to the client must not.
  const scope = new AsyncResource("toolrack.mcp");
  dialog.whenStepReady(() => {
    if (dialog.result === undefined) {
      const relaying = () => relaySteps(waiting, request, dialog, finish);
      scope.runInAsyncScope(relaying).catch((thrown) => request.fail(thrown));
      return;
    }
    try {
      finish(request, dialog.result);
    } catch (thrown) {
      request.fail(thrown);
    }
  });
}

/**
 * After `BURST` notices nothing is sent for `PAUSE` milliseconds, so that a tool that reports all the time fills neither
 * the connection nor the memory. Meanwhile the dialog gathers notices and drops those that are out of date.
 */
const BURST = 32;
const PAUSE = 100;

async function relaySteps<Result>(
  waiting: WaitingDialogs,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
): Promise<void> {
  let sent = 0;
  for (;;) {
    const step = await dialog.next(request.reply.flow);
    switch (step.kind) {
      case "says":
        for (const notice of step.notices) tell(request, notice);
        sent += step.notices.length;
        if (sent < BURST) break;
        sent = 0;
        await wait(PAUSE);
        break;
      case "asks":
        if (request.peer.session === undefined) return askInAnswer(waiting, request, dialog, finish);
        for (const question of step.questions) void ask(waiting, request, dialog.questions, question);
        break;
      case "ended":
        return finish(request, step.result);
      case "failed":
        throw step.reason;
    }
  }
}

function tell({ meta, reply, isOver }: ClientRequest, notice: Notice): void {
  if (isOver) return;
  if (notice.kind === "message") {
    reply.send({ jsonrpc: "2.0", method: notice.method, params: notice.params });
  } else if (meta.progressToken !== undefined) {
    const params = { ...notice.update, progressToken: meta.progressToken };
    reply.send({ jsonrpc: "2.0", method: "notifications/progress", params });
  }
}

/**
 * How often a question is asked until a client with a session answers it validly. A person may mistype; a
 * program could answer wrongly for ever.
 */
const MOST_ASKED = 3;

/** Asks a client that has a session, by a request of its own. */
async function ask(
  { closing }: WaitingDialogs,
  request: ClientRequest,
  questions: Questions,
  { key, method, params, signal }: Question,
): Promise<void> {
  try {
    const wanted = AbortSignal.any([signal, closing]);
    for (let asked = 0; asked < MOST_ASKED; asked++) {
      const answer = await request.peer.session?.ask(request, method, params, wanted);
      if (questions.answer(key, answer) || !questions.open.some((question) => question.key === key)) return;
    }
    questions.refuse(key, new UnfitAnswer(`the client's answers did not fit what it was asked for`));
  } catch (thrown) {
    questions.refuse(key, thrown);
  }
}

/**
 * Asks a client without a session, by answering its request with the questions. Goes on when the client
 * repeats the request with answers.
 */
function askInAnswer<Result>(
  waiting: WaitingDialogs,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
): void {
  answerWithQuestions(waiting, request, dialog, (next) => {
    if (dialog.open.length === 0 || dialog.hasStep) relayDialog(waiting, next, dialog, finish);
    else askInAnswer(waiting, next, dialog, finish);
  });
}

/**
 * Answers a request with the open questions, including those whose answers were invalid. The client repeats
 * the request with answers; `resumeWith` gets that request after the answers were passed to the work.
 */
export function answerWithQuestions(
  waiting: WaitingDialogs,
  request: ClientRequest,
  dialog: ClientDialog<unknown>,
  resumeWith: (request: ClientRequest) => void,
) {
  for (const question of dialog.open) {
    const missing = missingAbility(request.peer.abilities, question.method, question.params);
    if (missing === undefined) continue;
    // The client declared this capability earlier and no longer does, so it could never answer the question.
    dialog.cancel(`the client no longer declares what ${question.method} needs`);
    return request.fail(missingCapability(missing));
  }
  // Until the client comes back, no request is open that could receive notices.
  dialog.wants = { progress: false, messages: false };
  const requestState = waiting.keep(dialog, request, (next) => {
    const { inputResponses } = next.params;
    dialog.wants = next.wants;
    const answers = isRecord(inputResponses) ? inputResponses : {};
    for (const [key, value] of Object.entries(answers)) dialog.questions.answer(key, value);
    resumeWith(next);
  });
  const inputRequests = dialog.questions.requests;
  request.result({ resultType: "input_required", inputRequests, requestState });
}

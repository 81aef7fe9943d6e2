import { AsyncResource } from "node:async_hooks";
import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { UnfitAnswer } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { missingAbility, type RpcParams } from "../wire/index.ts";
import { invalidParams, missingCapability } from "./answers.ts";
import type { ClientDialog, Notice } from "./dialog.ts";
import type { Question, Questions } from "./questions.ts";
import { answerTimeout, type ClientRequest } from "./session.ts";

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

/** What is used of a dialog while it waits for the client's answers. */
type Waiting = Pick<ClientDialog<unknown>, "subject" | "input" | "cancel">;

/**
 * The request that was answered with questions. Only its caller can continue the dialog, by the same method.
 */
type Asker = Pick<ClientRequest, "method" | "caller">;

interface WaitingDialog {
  readonly dialog: Waiting;
  readonly identity: string;
  readonly method: string;
  readonly resume: (request: ClientRequest) => void;
  readonly timer: NodeJS.Timeout;
}

const STATE_BYTES = 32;

/**
 * Dialogs whose request was answered with questions. They wait until the client repeats the request with
 * answers and with the random `requestState` that it received. The state works once and only in this process,
 * because the dialog ends with the process. It has nothing in it that could be forged: only a name and random bytes.
 */
export class WaitingDialogs {
  readonly #dialogs = new Map<string, WaitingDialog>();
  readonly #prefix: string;
  readonly #closing = new AbortController();
  /** Aborts when the server stops. Questions to clients with a session then stop waiting for an answer. */
  readonly closing: AbortSignal = this.#closing.signal;

  /** `node`: the id of this node, where others share its database. They send a request with its state on to it. */
  constructor(node?: string) {
    this.#prefix = node === undefined ? "" : `${node}.`;
  }

  /**
   * Keeps the dialog and returns its `requestState`. Cancels the dialog when the client does not send a
   * request with that state in time.
   */
  keep(dialog: Waiting, { method, caller }: Asker, resume: WaitingDialog["resume"]): string {
    const state = this.#prefix + randomBytes(STATE_BYTES).toString("base64url");
    const giveUp = () => {
      this.#dialogs.delete(state);
      dialog.cancel("the client did not come back with an answer");
    };
    const timer = setTimeout(giveUp, answerTimeout).unref();
    this.#dialogs.set(state, { dialog, identity: caller.identity, method, resume, timer });
    return state;
  }

  /**
   * Continues the dialog that a request names by its `requestState`. Throws an `RpcError` when the state is
   * unknown, used, too old, or was given to another caller or for another request. A request with other
   * arguments is refused too, because the work runs with the arguments of the first request.
   */
  resume(request: ClientRequest, subject: string, input: RpcParams = {}): void {
    const { method, caller, params } = request;
    const state = String(params.requestState);
    const waiting = this.#dialogs.get(state);
    const isTheirs = waiting?.identity === caller.identity && waiting.method === method;
    const isMeant =
      isTheirs && waiting.dialog.subject === subject && isDeepStrictEqual(waiting.dialog.input, input);
    if (!isMeant) throw invalidParams("Invalid or expired requestState", { reason: "invalid_request_state" });
    clearTimeout(waiting.timer);
    this.#dialogs.delete(state);
    waiting.resume(request);
  }

  close(): void {
    this.#closing.abort("the server is stopping");
    for (const { dialog, timer } of this.#dialogs.values()) {
      clearTimeout(timer);
      dialog.cancel("the server is stopping");
    }
    this.#dialogs.clear();
  }
}

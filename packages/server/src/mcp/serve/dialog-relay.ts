import { AsyncResource } from "node:async_hooks";
import { setTimeout as wait } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { UnfitAnswer } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { metaOf, missingAbility } from "../wire/index.ts";
import { type ClientDialog, type DialogOptions, openRequests, type Question } from "./dialog.ts";
import { missingCapability } from "./errors.ts";
import type { Notice } from "./notices.ts";
import type { McpServing } from "./serving.ts";
import type { ClientRequest } from "./session.ts";

/** Answers a request with the result of its dialog. */
type Finish<Result> = (request: ClientRequest, result: Result) => void;

export function dialogOptions(
  { approverOf }: McpServing,
  request: ClientRequest,
  subject: string,
): DialogOptions {
  const { peer, wants, params } = request;
  const { inputResponses } = params;
  return {
    subject,
    abilities: peer.abilities,
    approver: approverOf(peer.caller),
    clientName: peer.clientName,
    answers: isRecord(inputResponses) ? inputResponses : undefined,
    wants,
  };
}

/**
 * Sends the client what a dialog says and asks, until the work ends or the client has to come back with answers in
 * another request.
 */
export function relayDialog<Result>(
  serving: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
): void {
  request.onCancel = (reason) => dialog.cancel(reason);
  // The callback runs in the async context of the tool. Messages to the client must not run in that context.
  const scope = new AsyncResource("toolrack.mcp");
  dialog.whenStepReady(() => {
    const { ended } = dialog;
    if (ended === undefined) {
      scope.runInAsyncScope(() => {
        relaySteps(serving, request, dialog, finish).catch((thrown) => request.fail(thrown));
      });
      return;
    }
    end(request, ended, finish);
  });
}

function end<Result>(request: ClientRequest, result: Result, finish: Finish<Result>): void {
  if (request.isOver) return;
  try {
    finish(request, result);
  } catch (thrown) {
    request.fail(thrown);
  }
}

/**
 * After `BURST` notices nothing is sent for `PAUSE` milliseconds, so that a tool that reports all the time fills neither
 * the connection nor the memory. Meanwhile the dialog gathers notices and drops those that are out of date.
 */
const BURST = 32;
const PAUSE = 100;

async function relaySteps<Result>(
  serving: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
): Promise<void> {
  const { reply, peer } = request;
  let sent = 0;
  for (;;) {
    const step = await dialog.next(reply.flow);
    switch (step.kind) {
      case "says":
        for (const notice of step.notices) tell(request, notice);
        sent += step.notices.length;
        if (sent < BURST) break;
        sent = 0;
        await wait(PAUSE);
        break;
      case "asks":
        if (peer.session === undefined) {
          return answerWithQuestions(serving, request, dialog, (next) =>
            continueDialog(serving, next, dialog, finish),
          );
        }
        for (const question of step.questions) void ask(serving, request, dialog, question);
        break;
      case "ended":
        return end(request, step.result, finish);
      case "failed":
        throw step.reason;
    }
  }
}

/** Continues the dialog that a request names by its `requestState`, with the answers it brings. Throws when there is none. */
export function resume(
  { waitingDialogs }: McpServing,
  request: ClientRequest,
  subject: string,
  input: Readonly<Record<string, unknown>> = {},
): void {
  const { params, method, caller } = request;
  const binding = { identity: caller.identity, method };
  // The work runs with the first arguments. A request with other arguments would get the wrong answer.
  const isMeant = (dialog: ClientDialog<unknown>) =>
    dialog.subject === subject && isDeepStrictEqual(dialog.input, input);
  const { dialog, resume: resumeWith } = waitingDialogs.take(params.requestState, binding, isMeant);
  dialog.wants = request.wants;
  const answers = isRecord(params.inputResponses) ? params.inputResponses : {};
  for (const [key, value] of Object.entries(answers)) dialog.answer(key, value);
  resumeWith(request);
}

/** Asks again for the answers that are still missing. */
function continueDialog<Result>(
  serving: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
) {
  if (dialog.open.length === 0 || dialog.hasStep) return relayDialog(serving, request, dialog, finish);
  answerWithQuestions(serving, request, dialog, (next) => continueDialog(serving, next, dialog, finish));
}

/** Answers with the open questions, including those whose answers were invalid. The client repeats the request with answers. */
export function answerWithQuestions(
  { waitingDialogs }: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<unknown>,
  resumeWith: (request: ClientRequest) => void,
) {
  const { peer, method } = request;
  for (const question of dialog.open) {
    const missing = missingAbility(peer.abilities, question.method, question.params);
    if (missing === undefined) continue;
    // The client declared this capability earlier and no longer does, so it could never answer the question.
    dialog.cancel(`the client no longer declares what ${question.method} needs`);
    return request.fail(missingCapability(missing));
  }
  // Until the client comes back, no request is open that could receive notices.
  dialog.wants = { progress: false, messages: false };
  const requestState = waitingDialogs.keep(dialog, { identity: peer.caller.identity, method }, resumeWith);
  request.result({ resultType: "input_required", inputRequests: openRequests(dialog), requestState });
}

/** How often a question is asked. A person may mistype; a program could answer wrongly for ever. */
const MOST_ASKED = 3;

async function ask(
  { waitingDialogs }: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<unknown>,
  { key, method, params, signal }: Question,
): Promise<void> {
  try {
    const wanted = AbortSignal.any([signal, waitingDialogs.closing]);
    for (let asked = 0; asked < MOST_ASKED; asked++) {
      const answer = await request.peer.session?.ask(request, method, params, wanted);
      if (dialog.answer(key, answer) || !dialog.open.some((question) => question.key === key)) return;
    }
    dialog.refuse(key, new UnfitAnswer(`the client's answers did not fit what it was asked for`));
  } catch (thrown) {
    dialog.refuse(key, thrown);
  }
}

function tell({ params, reply, isOver }: ClientRequest, notice: Notice): void {
  if (isOver) return;
  if (notice.kind === "message") {
    reply.send({ jsonrpc: "2.0", method: notice.method, params: notice.params });
    return;
  }
  const { progressToken } = metaOf(params);
  if (progressToken === undefined) return;
  const update = { ...notice.update, progressToken };
  reply.send({ jsonrpc: "2.0", method: "notifications/progress", params: update });
}

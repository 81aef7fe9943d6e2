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

/** Answers a request with what the work of its dialog ended with. */
type Finish<Result> = (request: ClientRequest, result: Result) => void;

/** A dialog with the client of this request. */
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
 * Carries a dialog to the client until its work ends, or until the client has to come back with answers: then it goes on
 * with another request.
 */
export function converse<Result>(
  serving: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
): void {
  request.onCancel = (reason) => dialog.cancel(reason);
  // News come in the middle of the tool's own work, to whose context what is done for the client does not belong.
  const scope = new AsyncResource("toolrack.mcp");
  dialog.whenNews(() => {
    const { ended } = dialog;
    if (ended === undefined) {
      scope.runInAsyncScope(() => {
        relay(serving, request, dialog, finish).catch((thrown) => request.fail(thrown));
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
 * After so many notices the client is told nothing for a while, in milliseconds: so a tool that says something all the
 * time fills neither the line nor the memory. The dialog gathers meanwhile, and leaves out what nobody needs.
 */
const BURST = 32;
const PAUSE = 100;

async function relay<Result>(
  serving: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
): Promise<void> {
  const { reply, peer } = request;
  let told = 0;
  for (;;) {
    const step = await dialog.next(reply.flow);
    switch (step.kind) {
      case "says":
        for (const notice of step.notices) tell(request, notice);
        told += step.notices.length;
        if (told < BURST) break;
        told = 0;
        await wait(PAUSE);
        break;
      case "asks":
        if (peer.session === undefined) {
          return sendBack(serving, request, dialog, (next) => goOn(serving, next, dialog, finish));
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

/** Goes on with the dialog that the client of a request came back to, given its answers. Throws when there is none for it. */
export function resume(
  { held }: McpServing,
  request: ClientRequest,
  subject: string,
  input: Readonly<Record<string, unknown>> = {},
): void {
  const { params, method, caller } = request;
  const binding = { identity: caller.identity, method };
  // What runs is what was first asked for: a client with other arguments would get the answer to something else.
  const isMeant = (dialog: ClientDialog<unknown>) =>
    dialog.subject === subject && isDeepStrictEqual(dialog.input, input);
  const { dialog, resume: go } = held.take(params.requestState, binding, isMeant);
  dialog.wants = request.wants;
  const answers = isRecord(params.inputResponses) ? params.inputResponses : {};
  for (const [key, value] of Object.entries(answers)) dialog.answer(key, value);
  go(request);
}

/** A client that comes back without all answers is asked for the rest. */
function goOn<Result>(
  serving: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<Result>,
  finish: Finish<Result>,
) {
  if (dialog.open.length === 0 || dialog.hasNews) return converse(serving, request, dialog, finish);
  sendBack(serving, request, dialog, (next) => goOn(serving, next, dialog, finish));
}

/** Answers with the questions that are open, those that were answered wrongly among them. */
export function sendBack(
  { held }: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<unknown>,
  goOn: (request: ClientRequest) => void,
) {
  const { peer, method } = request;
  for (const question of dialog.open) {
    const missing = missingAbility(peer.abilities, question.method, question.params);
    if (missing === undefined) continue;
    // It said otherwise when it came before. The question cannot reach it, so that nobody would ever come back.
    dialog.cancel(`the client no longer declares what ${question.method} needs`);
    return request.fail(missingCapability(missing));
  }
  // Until it comes back there is nobody to be told anything.
  dialog.wants = { progress: false, messages: false };
  const requestState = held.hold(dialog, { identity: peer.caller.identity, method }, goOn);
  request.result({ resultType: "input_required", inputRequests: openRequests(dialog), requestState });
}

/** A person who mistyped is asked again; a program that answers wrongly would do so for ever. */
const MOST_ASKED = 3;

async function ask(
  { held }: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<unknown>,
  { key, method, params, signal }: Question,
): Promise<void> {
  try {
    const wanted = AbortSignal.any([signal, held.closing]);
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
  const told = { ...notice.update, progressToken };
  reply.send({ jsonrpc: "2.0", method: "notifications/progress", params: told });
}

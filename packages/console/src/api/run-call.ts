import { ApiError } from "./api-error.ts";
import { newId } from "./new-id.ts";
import { readCall } from "./read-call.ts";
import { readEvents } from "./read-events.ts";
import { open } from "./request.ts";
import type { SkillToolDraft } from "./skill-types.ts";
import type { Call, CallAnswer, CallLine } from "./types.ts";

export interface CallProgress {
  readonly progress?: number;
  readonly total?: number;
  readonly message?: string;
}

export interface CallWatcher {
  readonly state?: (state: { readonly status: string; readonly title?: string }) => void;
  readonly progress?: (update: CallProgress) => void;
  readonly log?: (line: CallLine) => void;
  /** The call as its record has it while it is under way, where it is looked for instead of followed. */
  readonly found?: (call: Call) => void;
}

/** A longer answer is not taken from the stream, where it would hold up the page, but read from the record. */
const LONGEST_ANSWER = 1_000_000;

/**
 * Makes a call and tells of it while it is under way. Rejects with an `ApiError` when the call was refused. The call goes on
 * when the page is loaded anew or the network fails: who has its id finds it again, and cancels it by that.
 */
export function runTool(
  name: string,
  body: { readonly arguments: unknown; readonly callId: string; readonly sessionID?: string },
  watcher: CallWatcher = {},
): Promise<CallAnswer> {
  return follow(`/api/tools/${encodeURIComponent(name)}/calls`, { ...body, keep: true }, watcher);
}

/**
 * Makes a recorded call again, with other arguments if given. Resolves with the id of the new call as soon as there is one
 * to be seen: it may wait for a person, and its record says what becomes of it. Rejects when it is refused before.
 */
export function startReplay(callId: string, body: { readonly arguments?: unknown }): Promise<string> {
  const path = `/api/calls/${encodeURIComponent(callId)}/replay`;
  const id = newId();
  return new Promise((resolve, reject) => {
    follow(path, { ...body, callId: id, keep: true }, { state: () => resolve(id) }).then(
      () => resolve(id),
      reject,
    );
  });
}

/** Calls a tool of a skill that has not been saved. */
export function tryTool(
  skillId: string,
  body: { readonly tool: SkillToolDraft; readonly arguments: unknown; readonly callId: string },
  watcher: CallWatcher,
): Promise<CallAnswer> {
  return follow(`/api/skills/${encodeURIComponent(skillId)}/try`, body, watcher);
}

async function follow(
  path: string,
  body: { readonly callId?: string; readonly arguments?: unknown; readonly keep?: boolean },
  watcher: CallWatcher,
): Promise<CallAnswer> {
  const headers = { accept: "text/event-stream" };
  const response = await open(path, { method: "POST", body, headers });
  if (response.body === null) throw new ApiError(0, "unreachable", "");
  // Only a call whose id is known can be found in the records.
  const longest = body.callId === undefined ? Number.POSITIVE_INFINITY : LONGEST_ANSWER;
  const events = readEvents(response.body, { longest });
  for (;;) {
    // A connection that breaks is one that has no more to say.
    const { done, value: streamed } = await events
      .next()
      .catch(() => ({ done: true, value: undefined }) as const);
    if (done) return findAnswer(body.callId, watcher);
    const { event, data, oversized } = streamed;
    if (event === "result" && oversized && body.callId !== undefined)
      return answerOf(await readCall(body.callId));
    if (oversized) continue;
    const value = JSON.parse(data);
    if (event === "state") watcher.state?.(value);
    if (event === "progress") watcher.progress?.(value);
    if (event === "log") watcher.log?.(value);
    if (event === "result") return value;
    if (event === "error") throw ApiError.read(value, 409) ?? new ApiError(409, "unreadable", data);
  }
}

/** Milliseconds between looks, and for how long a server may be away. */
const LOOK_EVERY = 1_000;
const LONGEST_AWAY = 60_000;

/** What became of a call that is not followed, from its record, once it has ended and the server answers. */
export async function findAnswer(callId: string | undefined, watcher: CallWatcher = {}): Promise<CallAnswer> {
  let lastAnswer = Date.now();
  while (callId !== undefined && Date.now() - lastAnswer < LONGEST_AWAY) {
    try {
      const call = await readCall(callId);
      lastAnswer = Date.now();
      if (call.status !== "running" && call.status !== "pending") return answerOf(call);
      watcher.found?.(call);
    } catch (thrown) {
      // One that nobody knows was lost before it was written down.
      if (!(thrown instanceof ApiError) || thrown.code !== "unreachable") throw unreachable(thrown);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY));
  }
  throw unreachable();
}

function unreachable(thrown?: unknown): unknown {
  const isLost = thrown === undefined || (thrown instanceof ApiError && thrown.status === 404);
  return isLost ? new ApiError(0, "unreachable", "") : thrown;
}

function answerOf(call: Call): CallAnswer {
  return {
    callId: call.callId,
    toolName: call.toolName,
    status: call.status === "completed" ? "completed" : "error",
    duration: call.duration ?? 0,
    result: call.result ?? { content: "", type: "text" },
    recorded: true,
    ...(call.resultSize === undefined ? {} : { resultSize: call.resultSize }),
  };
}

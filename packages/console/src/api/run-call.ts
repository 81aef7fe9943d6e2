import { ApiError } from "./api-error.ts";
import { readCall } from "./read-call.ts";
import { readEvents } from "./read-events.ts";
import { open } from "./request.ts";
import type { SkillToolDraft } from "./skill-types.ts";
import type { Call, CallAnswer } from "./types.ts";

export interface CallProgress {
  readonly progress?: number;
  readonly total?: number;
  readonly message?: string;
}

export interface CallWatcher {
  readonly state?: (state: { readonly status: string; readonly title?: string }) => void;
  readonly progress?: (update: CallProgress) => void;
}

/** A longer answer is not taken from the stream, where it would hold up the page, but read from the record. */
const LONGEST_ANSWER = 1_000_000;

/** Makes a call and tells of it while it is under way. Rejects with an `ApiError` when the call was refused. */
export function runTool(
  name: string,
  body: { readonly arguments: unknown; readonly callId: string; readonly sessionID?: string },
  watcher: CallWatcher = {},
): Promise<CallAnswer> {
  return follow(`/api/tools/${encodeURIComponent(name)}/calls`, body, watcher);
}

/** Makes a recorded call again, with other arguments if given. */
export function replayCall(
  callId: string,
  body: { readonly arguments?: unknown },
  watcher: CallWatcher = {},
): Promise<CallAnswer> {
  return follow(`/api/calls/${encodeURIComponent(callId)}/replay`, body, watcher);
}

/** Calls a tool of a skill that has not been saved. To abort is to cancel the call. */
export function tryTool(
  skillId: string,
  body: { readonly tool: SkillToolDraft; readonly arguments: unknown },
  watcher: CallWatcher,
  signal: AbortSignal,
): Promise<CallAnswer> {
  return follow(`/api/skills/${encodeURIComponent(skillId)}/try`, body, watcher, signal);
}

async function follow(
  path: string,
  body: { readonly callId?: string; readonly arguments?: unknown },
  watcher: CallWatcher,
  signal?: AbortSignal,
): Promise<CallAnswer> {
  const headers = { accept: "text/event-stream" };
  const response = await open(path, { method: "POST", body, headers, ...(signal ? { signal } : {}) });
  if (response.body === null) throw new ApiError(0, "unreachable", "");
  // Only a call whose id is known can be found in the records.
  const longest = body.callId === undefined ? Number.POSITIVE_INFINITY : LONGEST_ANSWER;
  for await (const { event, data, oversized } of readEvents(response.body, { longest })) {
    if (event === "result" && oversized && body.callId !== undefined)
      return answerOf(await readCall(body.callId));
    if (oversized) continue;
    const value = JSON.parse(data);
    if (event === "state") watcher.state?.(value);
    if (event === "progress") watcher.progress?.(value);
    if (event === "result") return value;
    if (event === "error") throw ApiError.read(value, 409) ?? new ApiError(409, "unreadable", data);
  }
  throw new ApiError(0, "unreachable", "");
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

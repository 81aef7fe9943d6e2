import { ApiError } from "./api-error.ts";
import { readEvents } from "./events.ts";
import type { Call } from "./generated-types.ts";
import { open, request } from "./request.ts";
import type { CallAnswer, CallLine, CallProgress, CallStatus } from "./types.ts";

export interface CallWatcher {
  readonly state?: (state: { readonly status: string; readonly title?: string }) => void;
  readonly progress?: (update: CallProgress) => void;
  readonly log?: (line: CallLine) => void;
  /** Called with the record of a running call when the console polls it instead of following its stream. */
  readonly found?: (call: Call) => void;
}

/** Calls a tool and reports its progress. The call outlives the page and is found or cancelled by its id. */
export function runTool(
  name: string,
  body: { readonly arguments: unknown; readonly callId: string; readonly sessionID?: string },
  watcher: CallWatcher = {},
): Promise<CallAnswer> {
  return follow("POST /api/tools/{name}/calls", { name }, { ...body, keep: true }, watcher);
}

/** Repeats a recorded call. Resolves with the id of the new call once it exists, even if it waits for an approval. */
export function startReplay(callId: string, body: { readonly arguments?: unknown }): Promise<string> {
  const id = newId();
  return new Promise((resolve, reject) => {
    follow(
      "POST /api/calls/{callId}/replay",
      { callId },
      { ...body, callId: id, keep: true },
      { state: () => resolve(id) },
    ).then(() => resolve(id), reject);
  });
}

/** Runs a tool of a skill as `tool` describes it, which may not be saved yet. */
export function tryTool(
  skillId: string,
  body: { readonly tool: object; readonly arguments: unknown; readonly callId: string },
  watcher: CallWatcher,
): Promise<CallAnswer> {
  return follow("POST /api/skills/{id}/try", { id: skillId }, body, watcher);
}

async function follow(
  route: string,
  path: Readonly<Record<string, string>>,
  body: { readonly callId: string; readonly arguments?: unknown; readonly keep?: boolean },
  watcher: CallWatcher,
): Promise<CallAnswer> {
  const headers = { accept: "text/event-stream" };
  const response = await open(route, { path, body, headers });
  if (response.body === null) throw new ApiError(0, "unreachable", "");
  const events = readEvents(response.body);
  for (;;) {
    // If the connection breaks, the result is read from the call's record.
    const { value: streamed } = await events.next().catch(() => ({ value: undefined }));
    if (!streamed) return findAnswer(body.callId, watcher);
    const { event, data } = streamed;
    const value = JSON.parse(data);
    if (event === "state" || event === "progress" || event === "log") watcher[event]?.(value);
    if (event === "result") return value;
    if (event === "error") throw ApiError.read(value, 409) ?? new ApiError(409, "unreadable", data);
  }
}

export function isUnderWay({ status }: { readonly status: CallStatus }): boolean {
  return status === "running" || status === "pending";
}

/** Milliseconds between two reads of the record of a running call. */
const POLL_INTERVAL = 1_000;
/** For how many milliseconds the server may be away before `findAnswer` gives up. */
const LONGEST_AWAY = 60_000;

/** The outcome of a call, polled from its record until the call has ended and the server answers. */
export async function findAnswer(callId: string, watcher: CallWatcher = {}): Promise<CallAnswer> {
  let lastAnswer = Date.now();
  while (Date.now() - lastAnswer < LONGEST_AWAY) {
    try {
      const call = await readCall(callId);
      lastAnswer = Date.now();
      if (!isUnderWay(call)) return answerOf(call);
      watcher.found?.(call);
    } catch (thrown) {
      // Polls on only while the server is unreachable. A call that it does not know was never recorded.
      if (!(thrown instanceof ApiError) || thrown.code !== "unreachable") throw unreachable(thrown);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
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
    ...(call.trace === undefined ? {} : { trace: call.trace }),
  };
}

/** A running or finished call. */
export function readCall(callId: string, signal?: AbortSignal): Promise<Call> {
  return request("GET /api/calls/{callId}", { path: { callId }, ...(signal && { signal }) });
}

/** An id for a call. `randomUUID` exists only on secure pages, and a console on an intranet may not be one. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

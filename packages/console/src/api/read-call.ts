import { ApiError } from "./api-error.ts";
import type { LargeCall } from "./large-call.worker.ts";
import { readJson } from "./read-json.ts";
import { open } from "./request.ts";
import { currentSession } from "./session.ts";
import type { Call } from "./types.ts";

/** A larger record is read by a worker. */
const LARGE = 2_000_000;

/** One call, under way or ended. Of a very large one the page is given what it can show. */
export async function readCall(callId: string, signal?: AbortSignal): Promise<Call> {
  const path = `/api/calls/${encodeURIComponent(callId)}`;
  const response = await open(path, signal === undefined ? {} : { signal });
  if (Number(response.headers.get("content-length") ?? 0) <= LARGE) return readJson(response, signal);
  await response.body?.cancel();
  return readLarge(path, signal);
}

function readLarge(path: string, signal: AbortSignal | undefined): Promise<Call> {
  const worker = new Worker(new URL("./large-call.worker.ts", import.meta.url), { type: "module" });
  return new Promise<Call>((resolve, reject) => {
    worker.addEventListener("message", ({ data }: MessageEvent<LargeCall>) => {
      if ("call" in data) resolve(data.call);
      else reject(new ApiError(data.status, data.code, data.message));
    });
    worker.addEventListener("error", ({ message }) => reject(new ApiError(0, "unexpected", message)));
    signal?.addEventListener("abort", () => reject(signal.reason));
    worker.postMessage({ path, token: currentSession.token });
  }).finally(() => worker.terminate());
}

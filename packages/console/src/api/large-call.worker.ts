import { ApiError, readJson } from "./api-error.ts";
import type { Call } from "./generated-types.ts";

export type LargeCall = { readonly call: Call } | Pick<ApiError, "status" | "code" | "message">;

/**
 * Parses call records that are so large that parsing would block the page. Leaves out the structured data and
 * blocks of the result, so that the page gets only its text.
 */
addEventListener(
  "message",
  async ({ data }: MessageEvent<{ readonly path: string; readonly token: string }>) => {
    try {
      const response = await fetch(data.path, {
        headers: { authorization: `Bearer ${data.token}` },
        cache: "no-store",
      }).catch(() => {
        throw new ApiError(0, "unreachable", "");
      });
      if (!response.ok) throw await ApiError.from(response);
      send({ call: withoutBulk(await readJson<Call>(response)) });
    } catch (thrown) {
      const { status, code, message } = ApiError.of(thrown);
      send({ status, code, message });
    }
  },
);

function send(answer: LargeCall): void {
  postMessage(answer);
}

function withoutBulk(call: Call): Call {
  if (call.result === undefined) return call;
  const { structured: _, blocks: __, ...result } = call.result;
  return { ...call, result };
}

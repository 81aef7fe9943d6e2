import type { Call } from "./types.ts";

/**
 * Reads a record that is too large for the page: to take apart fifty megabytes of JSON would hold it up. What the page
 * could not show anyhow is left here; the text of the result is read in pages.
 */
addEventListener(
  "message",
  async ({ data }: MessageEvent<{ readonly path: string; readonly token: string }>) => {
    try {
      const response = await fetch(data.path, {
        headers: { authorization: `Bearer ${data.token}` },
        cache: "no-store",
      });
      const call: Call = await response.json();
      postMessage({ call: withoutBulk(call) });
    } catch (thrown) {
      postMessage({ problem: String(thrown) });
    }
  },
);

function withoutBulk(call: Call): Call {
  if (call.result === undefined) return call;
  const { structured: _, blocks: __, ...result } = call.result;
  return { ...call, result };
}

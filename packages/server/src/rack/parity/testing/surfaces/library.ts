import type { ParityRack } from "../parity-rack.ts";
import { answerOfResult, type Surface } from "../surface.ts";

/** Makes calls with `registry.execute`, in the process of the server. */
export function library({ serving, untilRunning }: ParityRack): Surface {
  const { registry } = serving.app;
  return {
    name: "library",
    caller: "library",
    lacks: {},
    async make({ tool, args, isCancelled }, session) {
      const progress: [number, number?, string?][] = [];
      const callId = session.replaceAll(/\W/g, "-");
      const unsubscribe = registry.subscribe((event) => {
        if (event.type !== "progress" || event.callId !== callId) return;
        progress.push([event.update.progress, event.update.total, event.update.message]);
      });
      const cancelling = new AbortController();
      const running = registry.execute(tool, args, {
        callId,
        caller: "library",
        sessionID: session,
        signal: cancelling.signal,
      });
      if (isCancelled) void untilRunning(session).then(() => cancelling.abort("enough"));
      const answer = answerOfResult(await running);
      unsubscribe();
      return { answer: { ...answer, ...(progress.length === 0 ? {} : { progress }) } };
    },
  };
}

import type { Logger, ToolRegistry } from "@toolrack/core";
import { GrantWatch } from "../auth/grant-watch.ts";
import type { CallStore, TokenStore } from "../store/store.ts";
import { CallDesk } from "./call-desk.ts";
import { CallRecorder } from "./call-recorder.ts";
import { CallSpans } from "./call-spans.ts";

/** What all surfaces of one process share: where calls are handed in, recorded and traced. */
export interface CallOffice {
  readonly desk: CallDesk;
  readonly recorder: CallRecorder;
  /** Lets calls end for so many milliseconds, cancels the rest, and resolves when their records are written. */
  close(limit: number): Promise<void>;
}

export interface CallOfficeOptions {
  readonly registry: ToolRegistry;
  readonly calls: CallStore;
  readonly tokens: Pick<TokenStore, "list">;
  readonly logger: Logger;
  /** How many calls of one tool may be under way. Default 256. */
  readonly maxCallsPerTool?: number;
}

export function openCallOffice(options: CallOfficeOptions): CallOffice {
  const { registry, calls, tokens, logger, maxCallsPerTool = 256 } = options;
  const recorder = new CallRecorder(registry, calls, logger);
  const spans = new CallSpans();
  const unsubscribe = registry.subscribe(spans.listen);
  const grants = new GrantWatch(tokens, logger);
  const desk = new CallDesk({ registry, calls, recorder, spans, grants, maxCallsPerTool });
  return {
    desk,
    recorder,
    async close(limit) {
      await desk.drain(limit);
      await recorder.close();
      unsubscribe();
    },
  };
}

import { type ToolState, toOpenAIToolMessage } from "@toolrack/core";
import type { EndedCall } from "../../../calls/call-desk.ts";
import { CallRefused } from "../../../calls/call-refused.ts";
import type { StoredCall } from "../../../store/store.ts";
import type { ToolsService } from "../tools/tools-service.ts";
import type { ToolPart } from "./message-part.ts";
import { noName, unknownTool } from "./notices.ts";
import type { Turn } from "./turn.ts";

type Verdict = NonNullable<NonNullable<EndedCall["record"]["flags"]>["loop"]>;

/**
 * Makes the call that a model asked for, and puts what came of it into its part. Never rejects for anything that the
 * model can read about. Answers with what loop detection said.
 */
export async function runToolCall(
  part: ToolPart,
  turn: Turn,
  tools: ToolsService,
  signal: AbortSignal,
): Promise<Verdict | undefined> {
  const settle = (state: ToolState) => {
    part.state = state;
    turn.emit({ type: "state", callId: part.callId, name: part.name, state });
  };
  if (part.name === "") {
    settle(failed(part, noName));
    return undefined;
  }
  const { id, callId, round } = part;
  const call = turn.offered.restore({ id, name: part.name, arguments: part.arguments });
  try {
    const ended = await tools.runTools(call.name, call.arguments, {
      reach: turn.reach,
      callId,
      sessionID: turn.sessionID,
      messageID: `${turn.id}.${round}`,
      signal,
      ...(turn.headers === undefined ? {} : { headers: turn.headers }),
      watcher: {
        state: (state) => {
          if (state.status === "pending" || state.status === "running") settle(state);
        },
        progress: (update) => turn.emit({ type: "progress", callId, update }),
      },
    });
    settle(stateOf(ended));
    const loop = ended.record.flags?.loop;
    if (loop !== undefined) turn.emit({ type: "loop", callId, verdict: loop });
    return loop;
  } catch (thrown) {
    if (!(thrown instanceof CallRefused)) throw thrown;
    const isUnknown = thrown.code === "tool_not_found";
    const nearest = isUnknown ? tools.nearest(turn.reach, call.name) : [];
    settle(failed(part, unknownTool(thrown.message, nearest)));
    return undefined;
  }
}

/** The state of a call that ended without the rack. */
export function failed({ state }: Pick<ToolPart, "state">, error: string): ToolState {
  const now = Date.now();
  const start = "time" in state ? state.time.start : now;
  return { status: "error", input: state.input, error, time: { start, end: now } };
}

/** What the model reads of the result is what is kept. */
export function stateOf({ record, result }: Pick<EndedCall | StoredCall, "result"> & EndedRecord): ToolState {
  const { attachments, ...bare } = result;
  const text = toOpenAIToolMessage("", bare).content;
  const time = { start: record.timestamp, end: record.timestamp + Math.round(record.duration) };
  const input = record.parameters;
  if (result.type === "error") return { status: "error", input, error: text, time };
  return { status: "completed", input, output: text, ...(attachments ? { attachments } : {}), time };
}

interface EndedRecord {
  readonly record: Pick<EndedCall["record"], "parameters" | "timestamp" | "duration">;
}

import { type ToolState, toOpenAIToolMessage } from "@toolrack/core";
import type { EndedCall } from "../../../calls/call-desk.ts";
import { CallRefused } from "../../../calls/call-refused.ts";
import type { StoredCall } from "../../../store/store.ts";
import type { ToolsService } from "../tools/tools-service.ts";
import type { ToolPart } from "./message-part.ts";
import { noName, unknownTool, writtenThere } from "./notices.ts";
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
    settle(explained(ended, part, turn, tools));
    const loop = ended.record.flags?.loop;
    if (loop !== undefined) turn.emit({ type: "loop", callId, verdict: loop });
    return loop;
  } catch (thrown) {
    if (!(thrown instanceof CallRefused)) throw thrown;
    const isUnknown = thrown.code === "tool_not_found";
    settle(failed(part, isUnknown ? unknown(part, turn, tools) : thrown.message));
    return undefined;
  }
}

/** What a model that wrote the call itself needs to know beside what every caller is told. */
function explained(ended: EndedCall, part: ToolPart, turn: Turn, tools: ToolsService): ToolState {
  const state = stateOf(ended);
  const { error } = ended.result;
  if (state.status !== "error" || error === undefined) return state;
  if (error.code === "tool_not_found" && !/nearest/.test(state.error))
    return { ...state, error: unknown(part, turn, tools) };
  const problem = error.code === "invalid_arguments" ? whereBroken(part.arguments) : undefined;
  return problem === undefined ? state : { ...state, error: `${state.error} ${problem}` };
}

function unknown({ name }: ToolPart, { reach, offered, clientTools }: Turn, tools: ToolsService): string {
  return unknownTool(name, tools.nearest(reach, name), offered.tools.length + clientTools.length);
}

/** What was written where it stops to be JSON: the history has only arguments that are. */
function whereBroken(written: string): string | undefined {
  try {
    JSON.parse(written);
    return undefined;
  } catch (thrown) {
    const position = /position (\d+)/.exec(String(thrown))?.[1];
    // Other problems are told with the text around them.
    if (position === undefined) return undefined;
    const at = Number(position);
    return writtenThere(written.slice(Math.max(0, at - 60), at), written.slice(at, at + 40));
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

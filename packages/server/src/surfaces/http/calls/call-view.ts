import type { ToolState } from "@toolrack/core";
import type { AnnouncedCall } from "../../../calls/call-recorder.ts";
import type { CallLine } from "../../../store/calls/call-line.ts";
import type { StoredCall } from "../../../store/store.ts";
import { jsonText } from "../json-text.ts";

const PREVIEW = 200;

/** A call as a list shows it: everything but the bodies, of which it shows the beginning. */
export function summaryOf(call: StoredCall): Record<string, unknown> {
  const { parameters, result, outcome, status: _, ...rest } = call;
  return {
    ...rest,
    status: outcome,
    parametersPreview: preview(jsonText(parameters)),
    resultType: result.type,
    resultPreview: preview(result.content),
  };
}

/** A call that has ended, whole but for a result that was too long to keep in one piece. */
export function detailOf(call: StoredCall): Record<string, unknown> {
  const { outcome, status: _, ...rest } = call;
  return { ...rest, status: outcome, ...(outcome === "running" ? {} : { stages: stagesOf(call) }) };
}

/**
 * What the time of a call went into, in order; what took none is left out. Consent that a tool asks for while it runs
 * is part of its run.
 */
function stagesOf(call: StoredCall): { name: string; duration: number }[] {
  const { duration, runDuration, afterDuration = 0, flags } = call;
  const waited = flags?.waited ?? 0;
  return [
    { name: "validate", duration: Math.max(0, duration - runDuration - waited) },
    { name: "approve", duration: waited },
    { name: "run", duration: Math.max(0, runDuration - afterDuration) },
    { name: "after", duration: afterDuration },
  ].filter((stage) => stage.duration > 0);
}

/** A call under way. Of one that a tool made, or another surface, only the state is known until it ends. */
export function activeView(
  active: { readonly callId: string; readonly toolName: string; readonly state: ToolState },
  announced: AnnouncedCall | undefined,
  log: readonly CallLine[],
): Record<string, unknown> {
  const { state } = active;
  return {
    ...announced,
    callId: active.callId,
    toolName: active.toolName,
    // Also while it waits for a person: a list says the same.
    status: "running",
    parameters: state.input,
    ...(state.title === undefined ? {} : { title: state.title }),
    ...(state.metadata === undefined ? {} : { metadata: state.metadata }),
    ...("time" in state ? { startedAt: state.time.start } : {}),
    ...(log.length === 0 ? {} : { log }),
  };
}

function preview(text: string): string {
  return text.length > PREVIEW ? `${text.slice(0, PREVIEW)}…` : text;
}

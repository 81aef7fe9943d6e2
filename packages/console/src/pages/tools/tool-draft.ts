import { type EffectScope, effectScope, reactive, shallowRef } from "vue";
import { runTool } from "../../api/index.ts";
import { type Run, useRun } from "../../calls/index.ts";
import { jsonIn, keep, kept } from "../../text/index.ts";
import { Recent } from "../../ui/index.ts";

export interface ToolDraft {
  value: unknown;
  readonly run: Run;
  takenFrom: string | undefined;
}

const drafts = new Recent<{ readonly draft: ToolDraft; readonly scope: EffectScope }>({
  most: 30,
  isInUse: ({ draft }) => draft.run.isRunning,
  onDrop: ({ scope }) => scope.stop(),
});

/**
 * The draft of a tool. It outlives the page, so that somebody who comes back finds typed arguments and a
 * running call.
 */
export function toolDraftOf(tool: string, start: () => unknown): ToolDraft {
  const scope = effectScope(true);
  const made = drafts.get(tool) ?? { scope, draft: scope.run(() => newDraft(tool, start()))! };
  drafts.set(tool, made);
  return made.draft;
}

function newDraft(tool: string, value: unknown): ToolDraft {
  const run = useRun((args, callId, watcher) => runTool(tool, { arguments: args, callId }, watcher));
  return reactive({ value, run, takenFrom: undefined });
}

interface SavedCall {
  readonly name: string;
  readonly args: unknown;
}

/** Named sets of arguments of a tool, kept in this browser. */
export function useSavedCalls(tool: string) {
  const key = `toolrack.saved.${tool}`;
  const saved = shallowRef(read(kept(key)));
  const store = (calls: readonly SavedCall[]) => {
    saved.value = calls;
    keep(key, calls.length === 0 ? undefined : JSON.stringify(calls));
  };
  const without = (name: string) => saved.value.filter((call) => call.name !== name);
  return {
    saved,
    save: (name: string, args: unknown) => store([...without(name), { name, args }]),
    remove: (name: string) => store(without(name)),
  };
}

function read(text: string | undefined): readonly SavedCall[] {
  const value = jsonIn(text ?? "");
  return Array.isArray(value) ? value.filter((part) => typeof part?.name === "string") : [];
}

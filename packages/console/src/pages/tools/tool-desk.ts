import { type EffectScope, effectScope, type Ref, ref, watch } from "vue";
import { currentSession } from "../../api/session.ts";
import { type Run, useRun } from "./use-run.ts";

/** What somebody has on the desk for one tool: the arguments as far as they are filled in, and the run. */
export interface ToolDesk {
  readonly value: Ref<unknown>;
  readonly run: Run;
  /** The call whose arguments were taken last. */
  takenFrom: string | undefined;
}

const MOST = 30;
const desks = new Map<string, { readonly desk: ToolDesk; readonly scope: EffectScope }>();

/**
 * The desk of a tool. It outlives the page: who looks at another tool and comes back finds what was typed, and a run that
 * is still under way. Nothing of it is written anywhere.
 */
export function deskOf(tool: string, start: () => unknown): ToolDesk {
  const known = desks.get(tool);
  if (known !== undefined) {
    desks.delete(tool);
    desks.set(tool, known);
    return known.desk;
  }
  const scope = effectScope(true);
  const desk = scope.run(
    (): ToolDesk => ({ value: ref(start()), run: useRun(() => tool), takenFrom: undefined }),
  )!; // A scope that was just made runs what it is given.
  desks.set(tool, { desk, scope });
  tidy();
  return desk;
}

/** Desks that were not looked at for longest go first; a run under way keeps its desk. */
function tidy(): void {
  for (const [tool, { desk, scope }] of desks) {
    if (desks.size <= MOST) return;
    if (desk.run.isRunning.value) continue;
    scope.stop();
    desks.delete(tool);
  }
}

watch(
  () => currentSession.refusal,
  (refusal) => {
    if (refusal !== "missing") return;
    for (const { scope } of desks.values()) scope.stop();
    desks.clear();
  },
);

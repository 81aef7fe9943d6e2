import {
  computed,
  type EffectScope,
  effectScope,
  onScopeDispose,
  type Ref,
  ref,
  shallowRef,
  watch,
} from "vue";
import {
  ApiError,
  type Approval,
  type Call,
  type CallAnswer,
  type CallLine,
  type CallProgress,
  type CallWatcher,
  currentSession,
  findAnswer,
  newId,
  request,
  runTool,
} from "../../api/index.ts";
import { keep, kept } from "../../text/index.ts";
import { waitingApprovals } from "../../ui/index.ts";

export interface Run {
  readonly isRunning: Ref<boolean>;
  readonly callId: Ref<string>;
  readonly startedAt: Ref<number>;
  readonly progress: Ref<CallProgress | undefined>;
  /** What the tool said on its way, newest last. */
  readonly lines: Ref<readonly CallLine[]>;
  /** The question that the call waits for. */
  readonly question: Readonly<Ref<Approval | undefined>>;
  readonly answer: Ref<CallAnswer | undefined>;
  readonly previous: Ref<CallAnswer | undefined>;
  readonly refusal: Ref<ApiError | undefined>;
  start(args: unknown): Promise<void>;
  /** Shows a call that was made before, and its end when it is still under way. */
  show(callId: string): Promise<void>;
  cancel(reason: string): Promise<void>;
}

/** A way to make the call other than by the name of a tool on the rack. */
export interface RunOptions {
  make(args: unknown, callId: string, watcher: CallWatcher): Promise<CallAnswer>;
}

const MOST_LINES = 200;

/** Running one tool, from the press of the button to the answer. */
export function useRun(tool: () => string, options?: RunOptions): Run {
  const isRunning = ref(false);
  const callId = ref("");
  const startedAt = ref(0);
  const progress = ref<CallProgress>();
  const lines = shallowRef<readonly CallLine[]>([]);
  const answer = shallowRef<CallAnswer>();
  const previous = shallowRef<CallAnswer>();
  const refusal = shallowRef<ApiError>();
  // Who has signed in again is not refused any more.
  watch(
    () => currentSession.token,
    (token) => {
      if (token !== undefined && refusal.value?.status === 401) refusal.value = undefined;
    },
  );
  let isGone = false;
  onScopeDispose(() => {
    isGone = true;
  });

  // A tool that stands for another asks in the name of the call that it makes. Who may not decide is shown no question.
  const isMine = (approval: Approval) =>
    approval.callId === callId.value || approval.parentCallId === callId.value;
  const question = computed(() => (isRunning.value ? waitingApprovals.value.find(isMine) : undefined));

  function start(args: unknown): Promise<void> {
    return perform(newId(), (id, watcher) =>
      options === undefined
        ? runTool(tool(), { arguments: args, callId: id }, watcher)
        : options.make(args, id, watcher),
    );
  }

  async function show(id: string): Promise<void> {
    if (isRunning.value || id === callId.value) return;
    await perform(id, findAnswer);
  }

  async function perform(
    id: string,
    work: (id: string, watcher: CallWatcher) => Promise<CallAnswer>,
  ): Promise<void> {
    isRunning.value = true;
    callId.value = id;
    startedAt.value = Date.now();
    progress.value = undefined;
    lines.value = [];
    refusal.value = undefined;
    try {
      const log = (line: CallLine) => {
        lines.value = [...lines.value, line].slice(-MOST_LINES);
      };
      const watcher = {
        progress(update: CallProgress) {
          progress.value = update;
          if (update.message) log({ at: Date.now(), level: "progress", text: update.message });
        },
        log,
        found(call: Call) {
          startedAt.value = call.timestamp ?? startedAt.value;
          lines.value = (call.log ?? []).slice(-MOST_LINES);
        },
      };
      const ended = await work(id, watcher);
      if (isGone) return;
      previous.value = answer.value;
      answer.value = ended;
    } catch (thrown) {
      refusal.value = ApiError.of(thrown);
    } finally {
      isRunning.value = false;
    }
  }

  async function cancel(reason: string): Promise<void> {
    // The end of the call comes by its own stream; that it had ended already is no failure.
    const path = { callId: callId.value };
    await request("DELETE /api/calls/{callId}", { path, query: { reason } }).catch((thrown: unknown) => {
      if (!(thrown instanceof ApiError) || !["call_ended", "call_not_found"].includes(thrown.code))
        throw thrown;
    });
  }

  return {
    isRunning,
    callId,
    startedAt,
    progress,
    lines,
    question,
    answer,
    previous,
    refusal,
    start,
    show,
    cancel,
  };
}

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

export interface SavedCall {
  readonly name: string;
  readonly args: unknown;
}

/** Sets of arguments that a person gave a name, kept in this browser for each tool. */
export function useSavedCalls(tool: Ref<string>): {
  readonly saved: Ref<readonly SavedCall[]>;
  save(name: string, args: unknown): void;
  remove(name: string): void;
} {
  const saved = ref<readonly SavedCall[]>([]);
  const keyOf = () => `toolrack.saved.${tool.value}`;
  watch(
    tool,
    () => {
      saved.value = read(kept(keyOf()));
    },
    { immediate: true },
  );
  const store = (calls: readonly SavedCall[]) => {
    saved.value = calls;
    keep(keyOf(), calls.length === 0 ? undefined : JSON.stringify(calls));
  };
  return {
    saved,
    save: (name, args) => store([...saved.value.filter((call) => call.name !== name), { name, args }]),
    remove: (name) => store(saved.value.filter((call) => call.name !== name)),
  };
}

function read(text: string | undefined): readonly SavedCall[] {
  try {
    const value: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(value) ? value.filter((part) => typeof part?.name === "string") : [];
  } catch {
    return [];
  }
}

import { computed, onScopeDispose, type Ref, ref, shallowRef, watch } from "vue";
import { ApiError } from "../../api/api-error.ts";
import { useEvents } from "../../api/events.ts";
import { newId } from "../../api/new-id.ts";
import { request } from "../../api/request.ts";
import { type CallProgress, type CallWatcher, findAnswer, runTool } from "../../api/run-call.ts";
import { currentSession } from "../../api/session.ts";
import type { Approval, ApprovalPage, Call, CallAnswer, CallLine } from "../../api/types.ts";
import { useRemote } from "../../ui/use-remote.ts";

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

  useEvents(["approval."], async (event) => {
    if (!isRunning.value) return;
    if (
      event.type !== "reset" &&
      event.data.callId !== callId.value &&
      event.data.parentCallId !== callId.value
    )
      return;
    await approvals.reload();
  });
  // Who may not decide is shown no question.
  const approvals = useRemote(
    async (signal) =>
      (await request<ApprovalPage>("/api/approvals", { query: { limit: 500 }, signal })).items,
  );
  // A tool that stands for another asks in the name of the call that it makes.
  const isMine = (approval: Approval) =>
    approval.callId === callId.value || approval.parentCallId === callId.value;
  const question = computed(() => (isRunning.value ? approvals.value.value?.find(isMine) : undefined));

  function start(args: unknown): Promise<void> {
    return perform(newId(), (id, watcher) =>
      options === undefined
        ? runTool(tool(), { arguments: args, callId: id }, watcher)
        : options.make(args, id, watcher),
    );
  }

  async function show(id: string): Promise<void> {
    if (isRunning.value || id === callId.value) return;
    const ended = perform(id, findAnswer);
    // It may have asked before there was somebody here to hear of it.
    void approvals.reload();
    await ended;
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
    const path = `/api/calls/${callId.value}`;
    await request(path, { method: "DELETE", query: { reason } }).catch((thrown: unknown) => {
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

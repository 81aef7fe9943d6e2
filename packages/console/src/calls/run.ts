import { computed, onScopeDispose, reactive, ref, shallowRef, watch } from "vue";
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
} from "../api/index.ts";
import { inTime } from "../content/index.ts";
import { waitingApprovals } from "../ui/index.ts";

export type Run = ReturnType<typeof useRun>;

const MOST_LINES = 200;

/** Runs one call after another, each made by `make`, and holds the progress, log and answer of the latest. */
export function useRun(make: (args: unknown, callId: string, watcher: CallWatcher) => Promise<CallAnswer>) {
  const isRunning = ref(false);
  const callId = ref("");
  const startedAt = ref(0);
  const progress = ref<CallProgress>();
  /** Log lines and progress, newest last. */
  const lines = shallowRef<readonly CallLine[]>([]);
  const answer = shallowRef<CallAnswer>();
  const previous = shallowRef<CallAnswer>();
  const refusal = shallowRef<ApiError>();
  // A new sign-in clears the refusal of the old token.
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

  /** The open approval of the call or of its inner calls. People who may not decide see none. */
  const question = computed(() => {
    const isMine = (approval: Approval) => [approval.callId, approval.parentCallId].includes(callId.value);
    return isRunning.value ? waitingApprovals.value.find(isMine) : undefined;
  });

  /** Milliseconds for which the call has waited for a person. */
  const waited = ref(0);
  watch(question, (now, before) => {
    if (now !== undefined && before === undefined) waited.value -= Date.now();
    if (now === undefined && before !== undefined) waited.value += Date.now();
  });

  type Work = (id: string, watcher: CallWatcher) => Promise<CallAnswer>;
  async function perform(id: string, work: Work): Promise<void> {
    isRunning.value = true;
    callId.value = id;
    startedAt.value = Date.now();
    progress.value = undefined;
    waited.value = 0;
    lines.value = [];
    refusal.value = undefined;
    const log = (line: CallLine) => {
      lines.value = inTime([...lines.value, line]).slice(-MOST_LINES);
    };
    try {
      const ended = await work(id, {
        progress(update: CallProgress) {
          progress.value = update;
          if (update.message) log({ at: Date.now(), level: "progress", text: update.message });
        },
        log,
        found(call: Call) {
          startedAt.value = call.timestamp ?? startedAt.value;
          lines.value = (call.log ?? []).slice(-MOST_LINES);
        },
      });
      if (isGone) return;
      previous.value = answer.value;
      answer.value = ended;
    } catch (thrown) {
      refusal.value = ApiError.of(thrown);
    } finally {
      isRunning.value = false;
    }
  }

  /** Cancels the call, whose own stream then reports the end. A call that has already ended is no failure. */
  async function cancel(reason: string): Promise<void> {
    const path = { callId: callId.value };
    await request("DELETE /api/calls/{callId}", { path, query: { reason } }).catch((thrown: unknown) => {
      const { code } = ApiError.of(thrown);
      if (code !== "call_ended" && code !== "call_not_found") throw thrown;
    });
  }

  const call = { isRunning, callId, startedAt, progress, lines, question, waited };
  return reactive({
    ...call,
    answer,
    previous,
    refusal,
    start: (args: unknown) => perform(newId(), (id, watcher) => make(args, id, watcher)),
    /** Shows an earlier call, and waits for its end if it still runs. */
    async show(id: string): Promise<void> {
      if (!isRunning.value && id !== callId.value) await perform(id, findAnswer);
    },
    cancel,
  });
}

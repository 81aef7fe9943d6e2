import { onScopeDispose, type Ref, ref, shallowRef } from "vue";
import { ApiError } from "../../api/api-error.ts";
import { useEvents } from "../../api/events.ts";
import { newId } from "../../api/new-id.ts";
import { request } from "../../api/request.ts";
import { type CallProgress, type CallWatcher, runTool } from "../../api/run-call.ts";
import type { Approval, ApprovalPage, CallAnswer } from "../../api/types.ts";

export interface Run {
  readonly isRunning: Ref<boolean>;
  readonly callId: Ref<string>;
  readonly startedAt: Ref<number>;
  readonly progress: Ref<CallProgress | undefined>;
  /** What the tool said on its way, newest last. */
  readonly messages: Ref<readonly string[]>;
  /** The question that the call waits for. */
  readonly question: Ref<Approval | undefined>;
  readonly answer: Ref<CallAnswer | undefined>;
  readonly previous: Ref<CallAnswer | undefined>;
  readonly refusal: Ref<ApiError | undefined>;
  start(args: unknown): Promise<void>;
  cancel(reason: string): Promise<void>;
}

/** A way to make the call other than by the name of a tool on the rack. */
export interface RunOptions {
  /** Its call is ended by the signal, for its id is not known before its answer. */
  make(args: unknown, watcher: CallWatcher, signal: AbortSignal): Promise<CallAnswer>;
  /** Whether a question that came since the call began is the call's. */
  isAsking(approval: Approval): boolean;
}

const MOST_MESSAGES = 200;

/** Running one tool, from the press of the button to the answer. */
export function useRun(tool: () => string, options?: RunOptions): Run {
  const isRunning = ref(false);
  const callId = ref("");
  const startedAt = ref(0);
  const progress = ref<CallProgress>();
  const messages = shallowRef<readonly string[]>([]);
  const question = shallowRef<Approval>();
  const answer = shallowRef<CallAnswer>();
  const previous = shallowRef<CallAnswer>();
  const refusal = shallowRef<ApiError>();
  let isGone = false;
  let stopping = new AbortController();
  onScopeDispose(() => {
    isGone = true;
  });

  useEvents(["approval."], async (event) => {
    if (!isRunning.value) return;
    if (options === undefined && event.type !== "reset" && event.data.callId !== callId.value) return;
    const { items } = await request<ApprovalPage>("/api/approvals", { query: { limit: 500 } }).catch(() => ({
      items: [],
    }));
    question.value = items.find(isMine);
  });
  const isMine = (approval: Approval) =>
    options === undefined
      ? approval.callId === callId.value
      : approval.createdAt >= startedAt.value && options.isAsking(approval);

  async function start(args: unknown): Promise<void> {
    isRunning.value = true;
    callId.value = newId();
    startedAt.value = Date.now();
    progress.value = undefined;
    messages.value = [];
    refusal.value = undefined;
    try {
      const watcher = {
        progress(update: CallProgress) {
          progress.value = update;
          if (update.message) messages.value = [...messages.value, update.message].slice(-MOST_MESSAGES);
        },
      };
      stopping = new AbortController();
      const ended = await (options === undefined
        ? runTool(tool(), { arguments: args, callId: callId.value }, watcher)
        : options.make(args, watcher, stopping.signal));
      if (isGone) return;
      previous.value = answer.value;
      answer.value = ended;
    } catch (thrown) {
      refusal.value = refusalOf(thrown, stopping.signal);
    } finally {
      isRunning.value = false;
      question.value = undefined;
    }
  }

  async function cancel(reason: string): Promise<void> {
    if (options !== undefined) {
      stopping.abort(reason);
      return;
    }
    // The end of the call comes by its own stream; that it had ended already is no failure.
    await request(`/api/calls/${callId.value}`, { method: "DELETE", query: { reason } }).catch(() => {});
  }

  return {
    isRunning,
    callId,
    startedAt,
    progress,
    messages,
    question,
    answer,
    previous,
    refusal,
    start,
    cancel,
  };
}

function refusalOf(thrown: unknown, { aborted, reason }: AbortSignal): ApiError {
  if (aborted) return new ApiError(0, "cancelled", String(reason));
  return thrown instanceof ApiError ? thrown : new ApiError(0, "unexpected", String(thrown));
}

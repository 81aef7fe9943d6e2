import { computed, shallowRef } from "vue";
import { useEvents } from "../api/events.ts";
import { request } from "../api/request.ts";
import type { Approval, ApprovalPage } from "../api/types.ts";
import { type Remote, useRemote } from "../ui/use-remote.ts";

const questions = shallowRef<readonly Approval[]>([]);

/** How many questions wait for a person; shown in the navigation and in the title of the window. */
export const waitingCount = computed(() => questions.value.length);

/** The calls that wait for an answer: those that a question is about, and those that made them. */
export const waitingCalls = computed(
  (): ReadonlySet<string> =>
    new Set(
      questions.value.flatMap(({ callId, parentCallId }) =>
        parentCallId === undefined ? [callId] : [callId, parentCallId],
      ),
    ),
);

/** The questions that wait, kept up to date. */
export function useWaitingApprovals(): Remote<readonly Approval[]> {
  const remote = useRemote(async (signal) => {
    const { items } = await request<ApprovalPage>("/api/approvals", { query: { limit: 500 }, signal });
    questions.value = items;
    return items;
  });
  useEvents(["approval."], () => remote.reloadSoon());
  void remote.reload();
  return remote;
}

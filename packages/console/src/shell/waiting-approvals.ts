import { computed, ref } from "vue";
import { useEvents } from "../api/events.ts";
import { request } from "../api/request.ts";
import type { Approval, ApprovalPage } from "../api/types.ts";
import { type Remote, useRemote } from "../ui/use-remote.ts";

const count = ref(0);

/** How many questions wait for a person; shown in the navigation and in the title of the window. */
export const waitingCount = computed(() => count.value);

/** The questions that wait, kept up to date. */
export function useWaitingApprovals(): Remote<readonly Approval[]> {
  const remote = useRemote(async (signal) => {
    const { items } = await request<ApprovalPage>("/api/approvals", { query: { limit: 500 }, signal });
    count.value = items.length;
    return items;
  });
  useEvents(["approval."], () => remote.reloadSoon());
  void remote.reload();
  return remote;
}

import { computed, shallowRef } from "vue";
import { type Approval, type Reload, request, unlessForbidden, useEvents } from "../api/index.ts";
import { type Remote, useLive } from "./server-value.ts";

/** The open approvals; empty for people who may not decide them. */
export const waitingApprovals = shallowRef<readonly Approval[]>([]);

/** Ids of the calls that wait for approval, and of the calls that made them. */
export const waitingCalls = computed(
  (): ReadonlySet<string> =>
    new Set(
      waitingApprovals.value.flatMap(({ callId, parentCallId }) =>
        parentCallId === undefined ? [callId] : [callId, parentCallId],
      ),
    ),
);

export function useWaitingApprovals(): Remote<readonly Approval[]> {
  return useLive(
    async (signal) => {
      const { items } = await request("GET /api/approvals", { query: { limit: 500 }, signal });
      waitingApprovals.value = items;
      return items;
    },
    ["approval."],
  );
}

const MOST = 200;
const seenReloads = shallowRef<readonly Reload[]>([]);

/** Records reloads while the console is open, on any page. */
export function keepReloads(): void {
  useEvents(["reload.finished"], ({ type, data }) => {
    if (type !== "reload.finished") return;
    const names = (key: string) => (Array.isArray(data[key]) ? data[key].map(String) : []);
    const reload = {
      at: Date.now(),
      added: names("added"),
      changed: names("changed"),
      removed: names("removed"),
      failed: names("failed"),
      duration: typeof data.duration === "number" ? data.duration : 0,
    };
    seenReloads.value = [reload, ...seenReloads.value].slice(0, MOST);
  });
}

/**
 * Reloads of the tool files: for admins those that the server remembers, for others those since the console
 * was opened.
 */
export function useReloads() {
  const remote = useLive(
    (signal) => unlessForbidden(request("GET /api/reloads", { signal }), undefined),
    ["reload.finished"],
  );
  return {
    isLiveOnly: computed(() => remote.value === undefined),
    items: computed(() => remote.value?.items ?? seenReloads.value),
  };
}

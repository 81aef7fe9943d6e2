import type { App } from "vue";
import * as components from "./components.ts";

export const ui = {
  install(app: App): void {
    for (const [name, component] of Object.entries(components)) app.component(name, component);
  },
};

declare module "vue" {
  interface GlobalComponents extends Readonly<typeof components> {}
}

export { callerText, errorText, flagsOf, loopEvidence, nameOf, shownStatus, toolTime } from "./call-texts.ts";
export { dropUnsavedWork, isSamePlace, useDraft, useUnsavedWork } from "./drafts.ts";
export { useFilterDrafts } from "./filter-drafts.ts";
export { keepReloads, useReloads, useWaitingApprovals, waitingApprovals, waitingCalls } from "./live.ts";
export { Recent } from "./recent-values.ts";
export {
  type Remote,
  useAttempt,
  useLive,
  useRemote,
  useReread,
  useServerInfo,
  useToolSearch,
} from "./server-value.ts";
export {
  isDark,
  narrowScreen,
  now,
  setTheme,
  theme,
  themes,
  toCall,
  toTool,
  useCopy,
  useQuery,
  useShortcuts,
  useView,
} from "./theme-and-time.ts";
export { components };

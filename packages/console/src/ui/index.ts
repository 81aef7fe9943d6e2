import type { App } from "vue";
import * as components from "./components.ts";

export { components };

export const ui = {
  install(app: App): void {
    for (const [name, component] of Object.entries(components)) app.component(name, component);
  },
};

declare module "vue" {
  interface GlobalComponents extends Readonly<typeof components> {}
}

export { toCall, toTool, useFilterDrafts, useFlag, useQuery, useView } from "./address.ts";
export { callerText, errorText, flagsOf, loopEvidence, nameOf, shownStatus, toolTime } from "./call-texts.ts";
export { dropUnsavedWork, isSamePlace, Recent, useDraft, useUnsavedWork } from "./drafts.ts";
export {
  isDark,
  narrowScreen,
  now,
  setTheme,
  theme,
  themes,
  useCopy,
  useFollowedEnd,
  useShortcuts,
} from "./screen.ts";
export {
  keepReloads,
  type Remote,
  useAttempt,
  useList,
  useLive,
  useReloads,
  useRemote,
  useReread,
  useServerInfo,
  useToolSearch,
  useWaitingApprovals,
  waitingApprovals,
  waitingCalls,
} from "./server-value.ts";

export { default as ActionButton } from "./ActionButton.vue";
export { default as CallLink } from "./CallLink.vue";
export { default as CodeBlock } from "./CodeBlock.vue";
export { default as ConflictNote } from "./ConflictNote.vue";
export { default as CopyButton } from "./CopyButton.vue";
export { errorText, loopEvidence, nameOf, shownStatus } from "./call-texts.ts";
export { default as DiffView } from "./DiffView.vue";
export { default as DraftForm } from "./DraftForm.vue";
export { dropUnsavedWork, isSamePlace, useDraft, useUnsavedWork } from "./drafts.ts";
export { default as EmptyState } from "./EmptyState.vue";
export { default as ErrorNote } from "./ErrorNote.vue";
export { default as FormField } from "./FormField.vue";
export { default as LeaveQuestion } from "./LeaveQuestion.vue";
export {
  keepReloads,
  useReloads,
  useWaitingApprovals,
  waitingApprovals,
  waitingCalls,
  waitingCount,
} from "./live.ts";
export { default as Menu } from "./Menu.vue";
export { default as Modal } from "./Modal.vue";
export { default as RelativeTime } from "./RelativeTime.vue";
export { default as RemoveButton } from "./RemoveButton.vue";
export {
  type Remote,
  useAttempt,
  useLive,
  usePolling,
  useRemote,
  useReread,
  useServerInfo,
} from "./remote.ts";
export { default as Segmented } from "./Segmented.vue";
export { default as SelectBox } from "./SelectBox.vue";
export { default as SplitPage } from "./SplitPage.vue";
export { default as StatisticsSummary } from "./StatisticsSummary.vue";
export { default as StatusMark } from "./StatusMark.vue";
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
} from "./screen.ts";
export { default as Toggle } from "./Toggle.vue";
export { default as ToolRow } from "./ToolRow.vue";

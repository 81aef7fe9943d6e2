import type { App } from "vue";
import ActionButton from "./ActionButton.vue";
import CallLink from "./CallLink.vue";
import CodeBlock from "./CodeBlock.vue";
import ConflictNote from "./ConflictNote.vue";
import CopyButton from "./CopyButton.vue";
import DiffView from "./DiffView.vue";
import DraftForm from "./DraftForm.vue";
import EmptyState from "./EmptyState.vue";
import ErrorNote from "./ErrorNote.vue";
import FormField from "./FormField.vue";
import LeaveQuestion from "./LeaveQuestion.vue";
import Menu from "./Menu.vue";
import Modal from "./Modal.vue";
import RelativeTime from "./RelativeTime.vue";
import RemoveButton from "./RemoveButton.vue";
import Segmented from "./Segmented.vue";
import SelectBox from "./SelectBox.vue";
import SplitPage from "./SplitPage.vue";
import StatisticsSummary from "./StatisticsSummary.vue";
import StatusMark from "./StatusMark.vue";
import Toggle from "./Toggle.vue";
import ToolRow from "./ToolRow.vue";

/** The components that every template may use without importing them. */
export const components = {
  ActionButton,
  CallLink,
  CodeBlock,
  ConflictNote,
  CopyButton,
  DiffView,
  DraftForm,
  EmptyState,
  ErrorNote,
  FormField,
  LeaveQuestion,
  Menu,
  Modal,
  RelativeTime,
  RemoveButton,
  Segmented,
  SelectBox,
  SplitPage,
  StatisticsSummary,
  StatusMark,
  Toggle,
  ToolRow,
};

export const ui = {
  install(app: App): void {
    for (const [name, component] of Object.entries(components)) app.component(name, component);
  },
};

declare module "vue" {
  interface GlobalComponents extends Readonly<typeof components> {}
}

export { errorText, loopEvidence, nameOf, shownStatus } from "./call-texts.ts";
export { dropUnsavedWork, isSamePlace, useDraft, useUnsavedWork } from "./drafts.ts";
export { useFilterDrafts } from "./filter-drafts.ts";
export {
  keepReloads,
  useReloads,
  useWaitingApprovals,
  waitingApprovals,
  waitingCalls,
  waitingCount,
} from "./live.ts";
export {
  type Remote,
  useAttempt,
  useLive,
  usePolling,
  useRemote,
  useReread,
  useServerInfo,
} from "./remote.ts";
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

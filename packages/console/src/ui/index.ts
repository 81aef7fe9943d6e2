import type { App } from "vue";
import ActionButton from "./ActionButton.vue";
import CopyButton from "./CopyButton.vue";
import DraftForm from "./DraftForm.vue";
import FormField from "./FormField.vue";
import Menu from "./Menu.vue";
import Modal from "./Modal.vue";
import RemoveButton from "./RemoveButton.vue";
import SearchField from "./SearchField.vue";
import Segmented from "./Segmented.vue";
import SelectBox from "./SelectBox.vue";
import SplitPage from "./SplitPage.vue";
import StatisticsSummary from "./StatisticsSummary.vue";
import StatusMark from "./StatusMark.vue";
import {
  CallLink,
  CodeBlock,
  DiffView,
  EmptyState,
  ErrorNote,
  FactList,
  FailedItem,
  ProblemNote,
  RelativeTime,
} from "./small-components.ts";
import Toggle from "./Toggle.vue";
import ToolRow from "./ToolRow.vue";
import UnsavedTextDialog from "./UnsavedTextDialog.vue";

/** The components that every template may use without importing them. */
export const components = {
  ActionButton,
  CallLink,
  CodeBlock,
  CopyButton,
  DiffView,
  DraftForm,
  EmptyState,
  ErrorNote,
  FactList,
  FailedItem,
  FormField,
  Menu,
  Modal,
  ProblemNote,
  RelativeTime,
  RemoveButton,
  SearchField,
  Segmented,
  SelectBox,
  SplitPage,
  StatisticsSummary,
  StatusMark,
  Toggle,
  ToolRow,
  UnsavedTextDialog,
};

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
  type Remote,
  useAttempt,
  useList,
  useLive,
  useRemote,
  useReread,
  useServerInfo,
  useToolSearch,
  useWaitingApprovals,
  waitingApprovals,
  waitingCalls,
} from "./server-value.ts";

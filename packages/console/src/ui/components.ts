/** The components that every template may use without importing them. */
export { default as ActionButton } from "./ActionButton.vue";
export { default as CopyButton } from "./CopyButton.vue";
export { default as DraftForm } from "./DraftForm.vue";
export { default as FormField } from "./FormField.vue";
export { default as Menu } from "./Menu.vue";
export { default as Modal } from "./Modal.vue";
export {
  CallLink,
  CodeBlock,
  DiffView,
  EmptyState,
  ErrorNote,
  FactList,
  FailedItem,
  ProblemNote,
  RelativeTime,
} from "./parts.ts";
export { default as RemoveButton } from "./RemoveButton.vue";
export { default as SearchField } from "./SearchField.vue";
export { default as Segmented } from "./Segmented.vue";
export { default as SelectBox } from "./SelectBox.vue";
export { default as SplitPage } from "./SplitPage.vue";
export { default as StatisticsSummary } from "./StatisticsSummary.vue";
export { default as StatusMark } from "./StatusMark.vue";
export { default as Toggle } from "./Toggle.vue";
export { default as ToolRow } from "./ToolRow.vue";
export { default as UnsavedTextDialog } from "./UnsavedTextDialog.vue";

import { defineAsyncComponent } from "vue";

export { default as CallLog } from "./CallLog.vue";
export { default as ErrorCard } from "./ErrorCard.vue";
export { default as JsonTree } from "./JsonTree.vue";
export { default as LongText } from "./LongText.vue";
export { default as MediaView } from "./MediaView.vue";
export { default as ResultView } from "./ResultView.vue";
export { mediaOf, messageOf, resultSize, shareOf } from "./result.ts";

/** Loaded with its parser when the first Markdown is shown. */
export const MarkdownView = defineAsyncComponent(() => import("./MarkdownView.vue"));

export { default as CallLog } from "./CallLog.vue";
export { default as CodeLines } from "./CodeLines.vue";
export { DescriptionText, FileFailure, MarkdownView } from "./descriptions.ts";
export { default as ErrorCard } from "./ErrorCard.vue";
export { default as JsonTree } from "./JsonTree.vue";
export { default as LongText } from "./LongText.vue";
export { default as MediaView } from "./MediaView.vue";
export { default as ResultView } from "./ResultView.vue";
export { inTime, mediaOf, messageOf, shareOf, sizesOf } from "./result.ts";

export { default as ApprovalCard } from "./ApprovalCard.vue";
export { default as ApprovalRow } from "./ApprovalRow.vue";
export { reasonOf } from "./approval-draft.ts";
export { default as RunResult } from "./RunResult.vue";
export { type Run, useRun } from "./run.ts";

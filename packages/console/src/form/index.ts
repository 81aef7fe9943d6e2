import { defineAsyncComponent } from "vue";

export { withoutSecrets } from "./field-node.ts";
export { issuesOf } from "./form-context.ts";
export { default as SchemaForm } from "./SchemaForm.vue";
export { readArguments } from "./schema-reader.ts";
export { exampleValue, startArguments } from "./start-value.ts";

/** Loaded with its editor when the first long text is edited. */
export const TextEditor = defineAsyncComponent(() => import("./TextEditor.vue"));

export { withoutSecrets } from "./field-node.ts";
export { issuesOf } from "./form-context.ts";
export { default as SchemaForm } from "./SchemaForm.vue";
export { readArguments } from "./schema-reader.ts";
export { exampleValue, startArguments } from "./start-value.ts";

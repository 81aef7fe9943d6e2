export { default as App } from "./App.vue";
export { openRouter } from "./navigation.ts";

import { existsSync, readFileSync } from "node:fs";
import vue from "@vitejs/plugin-vue";

/** Reads types that components import for their props; the repo's own TypeScript has no API that the plugin could use. */
export const vuePlugin = vue({
  script: { fs: { fileExists: existsSync, readFile: (file) => readFileSync(file, "utf8") } },
});

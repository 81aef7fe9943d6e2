import { defineConfig } from "vitest/config";
import { sharedTestSettings } from "../../scripts/shared-test-settings.ts";
import { vuePlugin } from "./vue-plugin.ts";

export default defineConfig({
  root: import.meta.dirname,
  plugins: [vuePlugin],
  resolve: { conditions: ["toolrack-source"] },
  ssr: { resolve: { conditions: ["toolrack-source"] } },
  test: {
    ...sharedTestSettings,
    name: "console",
    // Each test file has a document of its own; the modules may be shared.
    isolate: false,
    // A limit is for what hangs, not for what a busy machine makes slow.
    testTimeout: 60_000,
    include: ["src/**/*.test.ts"],
  },
});

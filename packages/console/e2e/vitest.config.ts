import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { sharedTestSettings } from "../../../scripts/shared-test-settings.ts";

/** The tests of the built console in a real browser, served by the real program. */
export default defineConfig({
  root: join(import.meta.dirname, ".."),
  resolve: { conditions: ["toolrack-source"] },
  ssr: { resolve: { conditions: ["toolrack-source"] } },
  test: {
    ...sharedTestSettings,
    expect: { poll: { timeout: 120_000 } },
    name: "e2e",
    isolate: false,
    include: ["e2e/**/*.test.ts"],
    exclude: ["**/*.slow.test.ts"],
  },
});

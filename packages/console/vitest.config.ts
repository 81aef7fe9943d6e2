import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vitest/config";

export default defineConfig({
  root: import.meta.dirname,
  plugins: [vue()],
  resolve: { conditions: ["toolrack-source"] },
  ssr: { resolve: { conditions: ["toolrack-source"] } },
  test: {
    name: "console",
    include: ["src/**/*.test.ts", "e2e/**/*.test.ts"],
  },
});

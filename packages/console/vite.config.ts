import tailwindcss from "@tailwindcss/vite";
import { defaultClientConditions, defineConfig, type Plugin, type UserConfig } from "vite";
import { vuePlugin } from "./vue-plugin.ts";

// While developing, `TOOLRACK_URL=http://127.0.0.1:7300 npm run dev -w packages/console` speaks to a running server.
const target = process.env.TOOLRACK_URL ?? "http://127.0.0.1:7300";
const serverPaths = ["/api", "/openai", "/v1", "/mcp", "/metrics", "/openapi.json", "/healthz", "/readyz"];

/** What every page needs, and what starts the console. */
const shared =
  /node_modules\/(vue|@vue|vue-router|vue-i18n|@intlify|@lucide|reka-ui|@floating-ui|@internationalized|@vueuse|aria-hidden|eventsource-parser|defu|ohash)\/|console\/src\/((api|text|ui|shell)\/|main)|core\/src\/|rolldown\/runtime/;
/** What shows results, forms and running calls, but not what its lazy parts bring. */
const contentAndForms =
  /node_modules\/@tanstack\/|console\/src\/(calls\/|content\/(?!Markdown|markdown\.ts)|form\/(?!(Json|Text)Editor))/;

/** Reka UI looks for `useId` in the whole of Vue. Asked for by its name, nothing else is brought, and no file more. */
const plainImports: Plugin = {
  name: "plain-imports",
  transform(code, id) {
    if (!id.endsWith("reka-ui/dist/shared/useId.js")) return undefined;
    return code.replace(
      'import * as vue from "vue";',
      'import { useId as own } from "vue";\nconst vue = { useId: own };',
    );
  },
};

// A build is what people get. Without this, one that is made where NODE_ENV is something else, as within the tests, has
// Vue's own checks and texts for development in it, and is a third larger.
export default defineConfig(({ command }) => {
  if (command === "build") process.env.NODE_ENV = "production";
  return config;
});

const config: UserConfig = {
  root: import.meta.dirname,
  plugins: [vuePlugin, tailwindcss(), plainImports],
  resolve: { conditions: ["toolrack-source", ...defaultClientConditions] },
  define: {
    __VUE_OPTIONS_API__: "false",
    __VUE_PROD_DEVTOOLS__: "false",
    __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false",
    __VUE_I18N_LEGACY_API__: "false",
    __VUE_I18N_FULL_INSTALL__: "false",
    __INTLIFY_PROD_DEVTOOLS__: "false",
  },
  build: {
    target: "es2023",
    manifest: true,
    // The styles of a page whose loading failed once are not asked for again when the page is.
    cssCodeSplit: false,
    // The security policy takes no inline styles or scripts, and small files travel well over HTTP.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // A page loads what all pages share in two files rather than in one for each icon. What is large and rare, such as
    // the editor and the reader of Markdown, stays apart and is loaded when it is needed.
    rolldownOptions: {
      // A slow machine is no reason for a report of which plugin took how long.
      checks: { bundlerTimings: false },
      output: {
        codeSplitting: {
          groups: [
            { name: "base", test: shared },
            { name: "content", test: contentAndForms },
          ],
        },
      },
    },
  },
  server: { proxy: Object.fromEntries(serverPaths.map((path) => [path, { target, changeOrigin: true }])) },
};

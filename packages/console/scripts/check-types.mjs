// Type-checks the console, `.vue` files included. The repo's own TypeScript has no API that vue-tsc could use, so
// the console brings one that has.
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const project = join(import.meta.dirname, "..", "tsconfig.json");
process.argv.push("--noEmit", "--project", project);
require("vue-tsc").run(require.resolve("typescript/lib/tsc"));

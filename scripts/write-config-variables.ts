import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { configVariables, formOf } from "../packages/server/src/config/config-variables.ts";

/** `node scripts/run.mjs scripts/write-config-schema.ts`: writes the variables of the config's schema into its pages. */
const rows = configVariables.map(
  (variable) => `| \`${variable.name}\` | \`${variable.key}\` | ${formOf(variable)} |\n`,
);
for (const page of ["docs/reference/config.md", "docs/zh-CN/reference/config.md"]) {
  const path = fileURLToPath(new URL(`../${page}`, import.meta.url));
  const text = readFileSync(path, "utf8");
  const table = /(?:^\| `TOOLRACK_[^\n]*\n)+/m;
  if (!table.test(text)) throw new Error(`${page} has no table of variables.`);
  writeFileSync(
    path,
    text.replace(table, () => rows.join("")),
  );
  console.log(`Wrote ${page}.`);
}

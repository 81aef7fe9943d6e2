// Fails the build when the first load of any page outgrows its budget: what index.html, the entry and the page's own
// chunk bring, gzipped. A build for development is a third larger and slower, so it is no build at all.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const BUDGET = 250_000;
const dist = join(import.meta.dirname, "..", "dist");
const manifest = JSON.parse(readFileSync(join(dist, ".vite", "manifest.json"), "utf8"));

// The file that index.html loads, which has what all pages share as well.
const entry = Object.keys(manifest).find((key) => manifest[key].name === "base");
const pages = manifest[entry].dynamicImports.filter((key) => key.startsWith("src/pages/"));
const always = ["index.html", "theme.js"];

let tooLarge = false;
for (const page of pages) {
  const size = sizeOf([entry, page]);
  const over = size > BUDGET;
  tooLarge ||= over;
  if (over) console.error(`${page} brings ${size} bytes, which is beyond ${BUDGET}.`);
}
if (pages.length === 0) throw new Error("The build has no pages; this check would see nothing.");
const scripts = readdirSync(join(dist, "assets")).filter((file) => file.endsWith(".js"));
if (scripts.some((file) => readFileSync(join(dist, "assets", file), "utf8").includes("[Vue warn]")))
  throw new Error("This is a build for development: NODE_ENV was not production while Vite ran.");
process.exit(tooLarge ? 1 : 0);

function sizeOf(keys) {
  const files = new Set(always);
  const seen = new Set();
  const visit = (key) => {
    if (seen.has(key)) return;
    seen.add(key);
    const chunk = manifest[key];
    files.add(chunk.file);
    for (const style of chunk.css ?? []) files.add(style);
    for (const imported of chunk.imports ?? []) visit(imported);
  };
  for (const key of keys) visit(key);
  return [...files].reduce((sum, file) => sum + statSync(join(dist, `${file}.gz`)).size, 0);
}

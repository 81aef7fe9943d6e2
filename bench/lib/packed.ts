import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const packages = ["core", "words", "server"].map((name) => join(root, "packages", name));
const cache = join(root, "node_modules/.cache/toolrack-packed");

/**
 * The program as its users have it: packed and installed once for each state of the sources, in `node_modules/.cache`.
 * `BENCH_TOOLRACK=…/bin/toolrack.js` measures another installation.
 */
export function packedProgram(): string {
  const { BENCH_TOOLRACK: given } = process.env;
  if (given !== undefined) return given;
  const folder = join(cache, String(newestOf([...packages, join(root, "scripts/bundle.mjs")])));
  const program = join(folder, "node_modules/toolrack/bin/toolrack.js");
  if (existsSync(program)) return program;
  console.error("packing and installing the product …");
  rmSync(cache, { recursive: true, force: true });
  const draft = join(cache, "draft");
  mkdirSync(draft, { recursive: true });
  writeFileSync(join(draft, "package.json"), `{ "private": true, "type": "module" }`);
  for (const directory of packages) npm(directory, "pack", "--silent", "--pack-destination", draft);
  const tarballs = readdirSync(draft).filter((file) => file.endsWith(".tgz"));
  npm(draft, "install", "--ignore-scripts", "--prefer-offline", ...tarballs.map((file) => `./${file}`));
  for (const directory of packages) rmSync(join(directory, "dist"), { recursive: true, force: true });
  renameSync(draft, folder);
  return program;
}

function npm(cwd: string, ...args: readonly string[]): void {
  const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
  execFileSync("npm", [...args, "--no-audit", "--no-fund"], {
    cwd,
    env: { ...process.env, PATH },
    stdio: "ignore",
  });
}

/** When anything of the sources was changed last, in milliseconds since the epoch. */
function newestOf(paths: readonly string[]): number {
  const files = paths.flatMap((path) =>
    statSync(path).isFile()
      ? [path]
      : ["package.json", "src", "bin"].flatMap((part) => filesBelow(join(path, part))),
  );
  return Math.max(...files.map((file) => Math.trunc(statSync(file).mtimeMs)));
}

function filesBelow(path: string): string[] {
  if (!existsSync(path)) return [];
  if (statSync(path).isFile()) return [path];
  return readdirSync(path, { recursive: true, encoding: "utf8" }).map((file) => join(path, file));
}

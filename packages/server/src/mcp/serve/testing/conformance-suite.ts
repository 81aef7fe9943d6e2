import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const manifest = createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json");
const suite = join(dirname(manifest), "dist/index.js");

/** The versions of the protocol whose requirements the official suite knows. */
export const revisions = ["2026-07-28", "2025-11-25"] as const;

/** How long a run may take, in milliseconds. */
export const SUITE_LIMIT = 180_000;

interface SuiteRun {
  /** 0 when everything passes that the revision requires. */
  readonly code: number | null;
  readonly output: string;
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  /** The failed scenarios that do not count: extensions, and what was added to the suite later. */
  readonly unscored: readonly string[];
}

/** Runs all that a revision of the protocol requires of a server, or of a client. */
export async function runSuite(
  side: "server" | "client",
  revision: string,
  args: readonly string[],
): Promise<SuiteRun> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-conformance-"));
  const all = [suite, side, "--requirements", revision, "-o", directory, ...args];
  const child = spawn(process.execPath, all, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  }
  const [code] = await once(child, "close");
  await rm(directory, { recursive: true, force: true });
  // Counts of checks say nothing: they are counted where no server is, too.
  const marked = (mark: string) =>
    [...output.matchAll(new RegExp(`^${mark} ([\\w/-]+): `, "gmu"))].map(([, name = ""]) => name);
  const unscored = [...output.matchAll(/^ {2}✗ ([\w/-]+) \(/gmu)].map(([, name = ""]) => name);
  return { code, output, passed: marked("✓"), failed: marked("✗"), unscored };
}

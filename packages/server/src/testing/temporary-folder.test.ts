import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { expect, it } from "vitest";
import { temporaryFolder } from "./temporary-folder.ts";

const module = JSON.stringify(new URL("./temporary-folder.ts", import.meta.url).href);
const make = `const { writeSync } = await import("node:fs"); const { temporaryFolder } = await import(${module}); writeSync(1, temporaryFolder());`;

it("removes what a killed process left, and nothing of one that lives", { timeout: 30_000 }, () => {
  const own = temporaryFolder();
  const killed = spawnSync(process.execPath, [
    "--input-type=module",
    "-e",
    `${make} process.kill(process.pid, "SIGKILL");`,
  ]);
  const left = killed.stdout.toString();
  expect(killed.signal).toBe("SIGKILL");
  expect(existsSync(left)).toBe(true);
  const next = execFileSync(process.execPath, ["--input-type=module", "-e", make], { encoding: "utf8" });
  expect(existsSync(left)).toBe(false);
  expect(existsSync(own)).toBe(true);
  for (const folder of [own, next]) rmSync(folder, { recursive: true, force: true });
});

import { mkdir, readFile, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { runCli } from "./testing/run-cli.ts";

const tool = (name: string, description = `"Is ${name}."`) => `
  export default { name: "${name}", description: ${description}, parameters: { type: "object" }, execute: async () => "" };`;

/** Each load of it adds a line to a file, so that a test sees whether the tools were loaded. */
const counting = `
  import { appendFileSync } from "node:fs";
  import { description } from "../words/description.ts";
  appendFileSync("loads", "x");
  ${tool("counted", "description")}`;

let workspace: TemporaryWorkspace;
beforeEach(async () => {
  workspace = await TemporaryWorkspace.create({
    "tools/counted.ts": counting.replace('"loads"', 'process.env.LOADS ?? ""'),
    "words/description.ts": `export const description = process.env.WORDS ?? "Counts its loads.";`,
    "toolrack.config.mjs": "export default { builtins: false };",
  });
  await age("tools/counted.ts", "words/description.ts", "toolrack.config.mjs");
});
afterEach(() => workspace[Symbol.asyncDispose]());

const at = (name: string) => join(workspace.directory, name);
/** Lets files be older than the next command: one that was written just now may be written again at the same time. */
const age = async (...names: readonly string[]) => {
  const past = new Date(Date.now() - 10_000);
  for (const name of names) await utimes(at(name), past, past);
};
const loads = async () => (await readFile(at(".toolrack/loads"), "utf8")).length;
const run = (words: readonly string[], env: Record<string, string> = {}) =>
  runCli(words, { cwd: workspace.directory, env: { LOADS: at(".toolrack/loads"), ...env } });
const names = async (env?: Record<string, string>) => {
  const { stdout } = await run(["list", "--json"], env);
  return JSON.parse(stdout).tools.map(({ name, description }: { name: string; description: string }) =>
    name === "counted" ? description : name,
  );
};

/** Lists until the listing is stored: the first one makes `.toolrack`, the second its database. */
async function settle(): Promise<number> {
  await mkdir(at(".toolrack"), { recursive: true });
  for (let before = -1; ; ) {
    await run(["list"]);
    const now = await loads();
    if (now === before) return now;
    if (now > 5) throw new Error("the listing is never stored");
    before = now;
  }
}

describe("a stored listing", { timeout: 60_000 }, () => {
  it("shows the same as loading does, without loading a tool", async () => {
    await mkdir(at(".toolrack"), { recursive: true });
    const first = await run(["list"]);
    const before = await settle();
    expect((await run(["list"])).stdout).toBe(first.stdout);
    expect(first.stdout).toMatch(/^counted +Counts its loads\./m);
    const tokens = await run(["list", "--tokens", "--json"]);
    expect(JSON.parse(tokens.stdout).tokens).toBeGreaterThan(10);
    expect(await loads()).toBe(before);
  });

  const changes: Record<string, () => Promise<unknown>> = {
    "a tool file is added": () => writeFile(at("tools/added.ts"), tool("added")),
    "a file that a tool imports is changed": () =>
      writeFile(at("words/description.ts"), `export const description = "Counts anew.";`),
    "a file is replaced by another one of the same size and time": async () => {
      await writeFile(at("words/other"), `export const description = "Counts its Loads.";`);
      await age("words/other");
      await rename(at("words/other"), at("words/description.ts"));
    },
    "a tool file is removed": () => rm(at("tools/counted.ts")),
    "the config is changed": () =>
      writeFile(at("toolrack.config.mjs"), "export default { tools: ['words'] };"),
    "an environment file is added": () => writeFile(at(".env"), "WORDS=Counts by heart.\n"),
  };
  it.each(Object.entries(changes))("is not used when %s", async (_what, change) => {
    await settle();
    const before = await names();
    await change();
    expect(await names()).not.toEqual(before);
  });

  it("is not used when something was written into the database, which has the skills", async () => {
    const before = await settle();
    await run(["call", "counted"]);
    await run(["list"]);
    expect(await loads()).toBe(before + 2);
  });

  it("is not used when another environment may change what is loaded", async () => {
    const before = await settle();
    await run(["list"], { FLAG: "1" });
    expect(await loads()).toBe(before + 1);
  });

  it.each([
    ["a file that fails to load", () => writeFile(at("tools/wrong.ts"), "export default 1 +;")],
    ["a link to a folder, which may lead anywhere", () => symlink(at("words"), at("tools/linked"))],
    [
      "a server of somebody else",
      () => writeFile(at("mcp.json"), `{"mcpServers":{"a":{"command":"false"}}}`),
    ],
  ])("is not kept with %s", async (_what, add) => {
    await settle();
    await add();
    await run(["list"]);
    const before = await loads();
    await run(["list"]);
    expect(await loads()).toBe(before + 1);
  });

  it("is loaded anew when its file is damaged", async () => {
    await settle();
    await writeFile(at(".toolrack/listing.json"), "{");
    expect(await names()).toContain("Counts its loads.");
  });
});

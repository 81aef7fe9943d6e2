import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { type App, openWorkspace } from "./app.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const indexOf = (word: string) => `
const fs = require("fs");
exports.getTools = () => [{ name: "say", description: "d", parameters: { type: "object", properties: {} } }];
exports.execute = () => {
  fs.appendFileSync("said.txt", "${word} ");
  return fs.readFileSync("said.txt", "utf8").trim();
};`;

describe("a skill's folder in a served workspace", () => {
  const directory = temporaryFolder();
  const index = join(directory, "skills/talk/index.js");
  let app: App | undefined;
  afterEach(async () => {
    await app?.close();
    await rm(directory, { recursive: true, force: true });
  });
  const say = async () => (await app!.registry.execute("talk__say", {})).content;

  it("is followed: an edit serves, a broken one does not, and what was written outlives both and a restart", async () => {
    mkdirSync(join(directory, "skills/talk"), { recursive: true });
    writeFileSync(join(directory, "skills/talk/SKILL.md"), "---\nname: talk\ndescription: Talks.\n---\n");
    writeFileSync(index, indexOf("one"));
    app = await openWorkspace(directory, { logger: silent });
    app.watch(() => {});
    expect(await say()).toBe("one");
    writeFileSync(index, "exports.execute = (");
    await vi.waitFor(() => expect(app!.skills.failedFolders()).toHaveLength(1), { timeout: 20_000 });
    expect(await say()).toBe("one one");
    const before = app.registry.get("talk__say");
    writeFileSync(index, indexOf("two"));
    await vi.waitFor(() => expect(app!.registry.get("talk__say")).not.toBe(before), { timeout: 20_000 });
    expect(await say()).toBe("one one two");
    await app.close();
    app = await openWorkspace(directory, { logger: silent });
    expect(await say()).toBe("one one two two");
  }, 90_000);

  it("is given the folders of the workspace that the config opens for it", async () => {
    mkdirSync(join(directory, "skills/talk"), { recursive: true });
    mkdirSync(join(directory, "reports"), { recursive: true });
    writeFileSync(join(directory, "reports/a.txt"), "a report");
    writeFileSync(
      join(directory, "toolrack.config.mjs"),
      'export default { sandbox: { grants: { talk: { folders: ["reports"] } } } };',
    );
    writeFileSync(join(directory, "skills/talk/SKILL.md"), "---\nname: talk\ndescription: Talks.\n---\n");
    const read =
      'exports.execute = () => require("fs").readFileSync(process.env.DATA_BASE_PATH + "/reports/a.txt", "utf8");';
    writeFileSync(index, `${indexOf("one")}\n${read}`);
    app = await openWorkspace(directory, { logger: silent });
    expect(await say()).toBe("a report");
  }, 60_000);

  it("is checked without a trace in the workspace", async () => {
    mkdirSync(join(directory, "skills/talk"), { recursive: true });
    writeFileSync(join(directory, "skills/talk/SKILL.md"), "---\nname: talk\ndescription: Talks.\n---\n");
    writeFileSync(index, indexOf("one"));
    app = await openWorkspace(directory, { logger: silent, cache: false });
    expect(app.registry.get("talk__say")).toBeDefined();
    expect(existsSync(join(directory, ".toolrack"))).toBe(false);
  }, 60_000);
});

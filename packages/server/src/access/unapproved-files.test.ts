import { mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { Unapproved } from "./unapproved-files.ts";

let directory: string;
let unapproved: Unapproved;
const at = (path: string) => join(directory, path);

beforeEach(() => {
  directory = temporaryFolder();
  unapproved = new Unapproved({ directory, skillFolders: [at("skills")], mcpFile: at("mcp.json") });
});

const isHeld = async (path: string) => (await (await unapproved.skills())(at(path))) !== undefined;

describe("skills that a tool call wrote", () => {
  it("wait one by one, and for every process on the workspace, until each is approved", async () => {
    await unapproved.note(at("skills/a/scripts/run.js"), "agent");
    await unapproved.note(at("skills/B/SKILL.md"), "agent");
    await unapproved.note(at("src/other.ts"), "agent");
    unapproved = new Unapproved({ directory, skillFolders: [at("skills")] });
    expect([await isHeld("skills/a"), await isHeld("skills/b"), await isHeld("skills/c")]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await (await unapproved.skills())(at("skills/a"))).toBe('A tool call of "agent" wrote it.');
    await unapproved.approveSkill(at("skills/a"));
    expect([await isHeld("skills/a"), await isHeld("skills/b")]).toEqual([false, true]);
    await unapproved.note(at("skills/a/SKILL.md"), "agent");
    expect(await isHeld("skills/a")).toBe(true);
  });

  it("wait when the whole folder was put in place, or lies elsewhere behind a link", async () => {
    await mkdir(at("elsewhere/x"), { recursive: true });
    await mkdir(at("skills"));
    await symlink(at("elsewhere/x"), at("skills/linked"));
    await unapproved.note(at("elsewhere/x/tools.json"), "agent");
    expect([await isHeld("skills/linked"), await isHeld("skills/own")]).toEqual([true, false]);
    await unapproved.approveSkill(at("skills/linked"));
    expect(await isHeld("skills/linked")).toBe(false);

    await unapproved.note(at("skills"), "agent");
    expect([await isHeld("skills/one"), await isHeld("skills/two")]).toEqual([true, true]);
    await unapproved.approveSkill(at("skills/one"));
    expect([await isHeld("skills/one"), await isHeld("skills/two")]).toEqual([false, true]);
  });

  it("are all noted when many calls write at once", async () => {
    const names = Array.from({ length: 20 }, (_, number) => `skills/s${number}`);
    await Promise.all(
      names.map((name) =>
        new Unapproved({ directory, skillFolders: [at("skills")] }).note(at(`${name}/SKILL.md`), "agent"),
      ),
    );
    for (const name of names) expect(await isHeld(name)).toBe(true);
  });

  it("are not approved by a damaged note", async () => {
    await mkdir(at(".toolrack"));
    await writeFile(at(".toolrack/unapproved.json"), "{");
    await expect(unapproved.skills()).rejects.toThrow("Look through both, then delete the file.");
  });
});

describe("entries of mcp.json after a tool call wrote to it", () => {
  const write = (servers: object) => writeFile(at("mcp.json"), JSON.stringify({ mcpServers: servers }));
  const isHeldEntry = async (key: string, given: unknown) =>
    (await unapproved.servers())(key, given) !== undefined;

  it("wait when they are new or changed; those that were there before go on", async () => {
    await write({ old: { command: "a" } });
    expect(await isHeldEntry("new", { command: "b" })).toBe(false);
    await unapproved.note(at("mcp.json"), "agent");
    await write({ old: { command: "a" }, new: { command: "b" } });
    await unapproved.note(at("mcp.json"), "agent");
    expect(await isHeldEntry("old", { command: "a" })).toBe(false);
    expect(await isHeldEntry("old", { command: "a", args: ["x"] })).toBe(true);
    expect(await isHeldEntry("new", { command: "b" })).toBe(true);
    expect(await isHeldEntry("renamed", { command: "a" })).toBe(true);
    await unapproved.approveServer("new", { command: "b" });
    // All are approved: people write to the file again as they like.
    expect(await isHeldEntry("other", { command: "c" })).toBe(false);
  });

  it("wait also when the file was a link, or unreadable before", async () => {
    await writeFile(at("mcp.json"), "{ broken");
    await rename(at("mcp.json"), at("real.json"));
    await symlink("real.json", at("mcp.json"));
    await unapproved.note(at("real.json"), "agent");
    expect(await isHeldEntry("new", { command: "b" })).toBe(true);
  });
});

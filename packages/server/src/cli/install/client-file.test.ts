import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../testing/temporary-folder.ts";
import { readClientFile, writeClientFile } from "./client-file.ts";

let folder = "";
beforeEach(() => {
  folder = temporaryFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
});
const at = (name: string) => join(folder, name);
const modeOf = (path: string) => statSync(path).mode & 0o777;

describe("a client's file", () => {
  it("is made where there is none, for its owner alone", async () => {
    const file = await readClientFile(at("new/folder/a.json"));
    expect(file.text).toBeUndefined();
    expect(await writeClientFile(file, "{}")).toBeUndefined();
    expect(readFileSync(file.path, "utf8")).toBe("{}");
    expect(modeOf(file.path)).toBe(0o600);
    expect(readdirSync(at("new/folder"))).toEqual(["a.json"]);
  });

  it("keeps its mode, and a copy of how it was before the first change", async () => {
    writeFileSync(at("a.json"), "first");
    chmodSync(at("a.json"), 0o640);
    const copy = `${at("a.json")}.toolrack-backup`;
    expect(await writeClientFile(await readClientFile(at("a.json")), "second")).toBe(copy);
    expect(await writeClientFile(await readClientFile(at("a.json")), "third")).toBe(copy);
    expect(readFileSync(at("a.json"), "utf8")).toBe("third");
    expect(readFileSync(copy, "utf8")).toBe("first");
    expect([modeOf(at("a.json")), modeOf(copy)]).toEqual([0o640, 0o640]);
    expect(readdirSync(folder).sort()).toEqual(["a.json", "a.json.toolrack-backup"]);
  });

  it("leaves no copy of a token, whichever entry it stands in", async () => {
    writeFileSync(at("a.json"), `first, Bearer trk_${"a-_Z".repeat(10)}123`);
    expect(await writeClientFile(await readClientFile(at("a.json")), "second")).toBeUndefined();
    expect(readdirSync(folder)).toEqual(["a.json"]);
  });

  it("stays a link, and is written where that leads", async () => {
    mkdirSync(at("dotfiles"));
    writeFileSync(at("dotfiles/real.json"), "first");
    symlinkSync("dotfiles/real.json", at("middle.json"));
    symlinkSync(at("middle.json"), at("a.json"));
    const copy = await writeClientFile(await readClientFile(at("a.json")), "second");
    expect(lstatSync(at("a.json")).isSymbolicLink()).toBe(true);
    expect(readFileSync(at("dotfiles/real.json"), "utf8")).toBe("second");
    // The copy stands beside the link: what is behind it may be kept in a repository.
    expect(copy).toBe(`${at("a.json")}.toolrack-backup`);
    expect(readdirSync(at("dotfiles"))).toEqual(["real.json"]);
    symlinkSync("dotfiles/later.json", at("b.json"));
    await writeClientFile(await readClientFile(at("b.json")), "new");
    expect(lstatSync(at("b.json")).isSymbolicLink()).toBe(true);
    expect(readFileSync(at("dotfiles/later.json"), "utf8")).toBe("new");
  });

  it("is found where a link leads that is itself in a linked folder", async () => {
    mkdirSync(at("dotfiles/cursor"), { recursive: true });
    mkdirSync(at("home"));
    symlinkSync(at("dotfiles/cursor"), at("home/.cursor"));
    symlinkSync("../later.json", at("home/.cursor/mcp.json"));
    await writeClientFile(await readClientFile(at("home/.cursor/mcp.json")), "new");
    expect(readFileSync(at("dotfiles/later.json"), "utf8")).toBe("new");
    expect(readdirSync(at("home"))).toEqual([".cursor"]);
  });

  it("is left alone when somebody else changed it meanwhile", async () => {
    writeFileSync(at("a.json"), "first");
    const file = await readClientFile(at("a.json"));
    writeFileSync(at("a.json"), "theirs");
    await expect(writeClientFile(file, "ours")).rejects.toThrow(/a\.json was changed meanwhile/);
    expect(readFileSync(at("a.json"), "utf8")).toBe("theirs");
    const none = await readClientFile(at("b.json"));
    writeFileSync(at("b.json"), "theirs");
    await expect(writeClientFile(none, "ours")).rejects.toThrow(/b\.json was changed meanwhile/);
    expect(readdirSync(folder).sort()).toEqual(["a.json", "b.json"]);
  });

  it("is written by one of several runs at once, and the others say so", async () => {
    for (const before of ["first", undefined]) {
      const path = at(`${before}.json`);
      if (before !== undefined) writeFileSync(path, before);
      const files = await Promise.all(["a", "b", "c", "d"].map(() => readClientFile(path)));
      const runs = await Promise.allSettled(files.map((file, run) => writeClientFile(file, `run ${run}`)));
      const written = runs.flatMap(({ status }, run) => (status === "fulfilled" ? [`run ${run}`] : []));
      expect(written).toEqual([readFileSync(path, "utf8")]);
      for (const run of runs)
        if (run.status === "rejected") expect(run.reason).toMatchObject({ code: "file_changed" });
    }
    expect(readdirSync(folder).filter((name) => name.endsWith(".toolrack-new"))).toEqual([]);
  });

  it("is left alone beside the draft of a run that was ended midway, which is named", async () => {
    writeFileSync(at("a.json"), "first");
    writeFileSync(at("a.json.toolrack-new"), "half");
    const file = await readClientFile(at("a.json"));
    await expect(writeClientFile(file, "ours")).rejects.toMatchObject({
      code: "file_changed",
      message: expect.stringContaining(`delete ${at("a.json.toolrack-new")} first`),
    });
    expect(readFileSync(at("a.json"), "utf8")).toBe("first");
    expect(readFileSync(at("a.json.toolrack-new"), "utf8")).toBe("half");
  });

  it("is left alone when it is read-only", async () => {
    writeFileSync(at("a.json"), "first");
    chmodSync(at("a.json"), 0o444);
    const file = await readClientFile(at("a.json"));
    await expect(writeClientFile(file, "ours")).rejects.toThrow(/a\.json cannot be written: it is read-only/);
    expect(readdirSync(folder)).toEqual(["a.json"]);
  });

  it.skipIf(process.platform === "win32")("is a regular file, or is left alone", async () => {
    execFileSync("mkfifo", [at("pipe.json")]);
    symlinkSync("/dev/null", at("null.json"));
    for (const name of ["pipe.json", "null.json"])
      await expect(readClientFile(at(name))).rejects.toThrow(/cannot be read: it is not a regular file/);
  });

  it("says why it cannot be read or written", async () => {
    writeFileSync(at("a.json"), Buffer.from('{ "a": 1 }', "utf16le"));
    writeFileSync(at("b.json"), Buffer.from([0x7b, 0xff, 0x7d]));
    mkdirSync(at("c.json"));
    await expect(readClientFile(at("b.json"))).rejects.toThrow(/b\.json is not encoded in UTF-8/);
    await expect(readClientFile(at("c.json"))).rejects.toThrow(/c\.json cannot be read/);
    const file = await readClientFile(at("a.json/d.json")).catch((error: Error) => error.message);
    expect(file).toMatch(/d\.json cannot be read/);
    symlinkSync(at("loop.json"), at("loop.json"));
    expect(existsSync(at("loop.json"))).toBe(false);
    await expect(readClientFile(at("loop.json"))).rejects.toThrow(/loop\.json cannot be read/);
  });
});

import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, readlink, rename, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { DataFolders } from "./data-folder.ts";
import { levelsToTest } from "./test-levels.fixture.ts";

/** A tool as such files are: it writes where it stands, in its home, and where it is told to. */
function notes(id = "notes"): string {
  return `const fs = require("fs"); const os = require("os"); const path = require("path");
    module.exports = {
      getMetadata: () => ({ id: "${id}", description: "Keeps notes." }),
      getSchema: () => ({ parameters: { type: "object", properties: { action: { type: "string" }, file: { type: "string" }, text: { type: "string" } }, required: ["action"] } }),
      async execute({ action, file, text }) {
        if (action === "where") return { cwd: process.cwd(), home: os.homedir(), dirname: __dirname };
        if (action === "run") return this.api.execute("sh", ["-c", text]);
        if (action === "link") fs.linkSync(file, text);
        if (action === "write") { fs.mkdirSync(path.dirname(file), { recursive: true }); fs.appendFileSync(file, text); }
        return fs.readFileSync(file, "utf8");
      },
    };`;
}

describe("the data folder of a single-file tool", { timeout: 120_000 }, () => {
  afterEach(() => vi.unstubAllEnvs());

  it("keeps what the tool writes, over workers, reloads and restarts, until it is cleared", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/notes.tool.js": notes() });
    const first = await workspace.open({ builtins: false });
    const write = (app: typeof first, file: string, text: string) =>
      app.registry.execute("notes", { action: "write", file, text });
    expect((await write(first, "log.txt", "one ")).content).toBe("one ");
    await workspace.write("tools/notes.tool.js", `${notes()}\n// changed`);
    await first.files.load();
    expect((await write(first, "log.txt", "two ")).content).toBe("one two ");
    await first.close();
    const second = await workspace.open({ builtins: false });
    expect((await write(second, "log.txt", "three")).content).toBe("one two three");
    await write(second, "deep/er/file.txt", "x");

    const folder = join(workspace.directory, ".toolrack/data");
    expect(await readFile(join(folder, "notes/log.txt"), "utf8")).toBe("one two three");
    const folders = new DataFolders(folder);
    expect(await folders.list()).toEqual([{ name: "notes", files: 2, bytes: 14 }]);
    expect(await folders.clear("notes")).toMatchObject({ files: 2 });
    expect(await folders.list()).toEqual([]);
    // A worker that is still there goes on in the same folder.
    expect((await write(second, "log.txt", "anew")).content).toBe("anew");
    expect(await readFile(join(folder, "notes/log.txt"), "utf8")).toBe("anew");
  });

  it("is the tool's working directory and home, and that of its programs", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/notes.tool.js": notes() });
    const { registry } = await workspace.open({ builtins: false });
    const { structured } = await registry.execute("notes", { action: "where" });
    const place = "/toolrack/data";
    expect(structured).toEqual({ cwd: place, home: place, dirname: place });
    const script = "echo made > by-program; echo $HOME; pwd";
    expect((await registry.execute("notes", { action: "run", text: script })).structured).toMatchObject({
      stdout: `${place}\n${place}\n`,
    });
    expect((await registry.execute("notes", { action: "read", file: "by-program" })).content).toBe("made\n");
    await registry.execute("notes", { action: "write", file: "by-tool", text: "of the tool" });
    expect(
      (await registry.execute("notes", { action: "run", text: "cat by-tool" })).structured,
    ).toMatchObject({
      stdout: "of the tool",
    });
  });

  it("belongs to one tool: no other sees it, and a dry run leaves nothing in it", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/notes.tool.js": notes(),
      "tools/other.tool.js": notes("other"),
    });
    const { registry } = await workspace.open({ builtins: false });
    const written = { action: "write", file: "a.txt", text: "mine" };
    await registry.execute("notes", written);
    expect((await registry.execute("other", { action: "read", file: "a.txt" })).content).toContain("ENOENT");
    await registry.execute("other", written, { extra: { dryRun: true } });
    expect((await registry.execute("other", { action: "read", file: "a.txt" })).content).toContain("ENOENT");
  });

  it("is shown and cleared whatever the tool has put there", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/notes.tool.js": notes() });
    const { registry } = await workspace.open({ builtins: false });
    const deep = `name=$(printf '%0200d' 0); for i in $(seq 19); do mkdir $name && cd $name; done; echo x > file`;
    await registry.execute("notes", {
      action: "run",
      text: `${deep}; cd; mkfifo pipe; ln -s / root`,
    });
    const folders = new DataFolders(join(workspace.directory, ".toolrack/data"));
    // The longest path of this machine is shorter inside the folder than outside.
    expect(await folders.list()).toMatchObject([{ name: "notes", files: expect.any(Number) }]);
    expect(await folders.clear("notes")).toMatchObject({ name: "notes" });
    expect(await readdir(folders.pathOf("notes"))).toEqual(["root"]);
  });

  it("stays with its file: another file that takes the name is refused", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/notes.tool.js": notes() });
    const app = await workspace.open({ builtins: false });
    await app.registry.execute("notes", { action: "write", file: "a.txt", text: "mine" });
    await workspace.remove("tools/notes.tool.js");
    await workspace.write("tools/thief.tool.js", notes());
    const { files } = await app.files.load();
    expect(files[0]?.failure?.reason).toContain("the data folder of the tool");
  });

  it("lasts at level 2 too, where the folders above let others pass", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/notes.tool.js": notes() });
    await chmod(workspace.directory, 0o755);
    // A link that a program made at level 3 would lead out of the folder here.
    await workspace.write(".toolrack/data/notes/in/file", "");
    await symlink(workspace.directory, join(workspace.directory, ".toolrack/data/notes/in/out"));
    // No bubblewrap is found there.
    vi.stubEnv("PATH", dirname(process.execPath));
    for (const content of ["x", "xx"]) {
      const app = await workspace.open({ builtins: false });
      expect((await app.sandbox()).level).toBe(2);
      const said = await app.registry.execute("notes", { action: "write", file: "a.txt", text: "x" });
      expect(said.content).toBe(content);
      const out = await app.registry.execute("notes", { action: "read", file: "in/out/tools/notes.tool.js" });
      expect(out.content).toContain("ENOENT");
      await app.close();
    }
  });
});

describe("folders of the workspace that the config opens for a tool", { timeout: 120_000 }, () => {
  const config = (folders: string) =>
    `export default { sandbox: { grants: { notes: { folders: ${folders} } } } };`;

  it("can be read, or written where the config says so, by relative and by whole paths", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/notes.tool.js": notes(),
      "input/a.txt": "of the workspace",
      "reports/.keep": "",
      "secret.txt": "closed",
      "toolrack.config.mjs": config(`["input", { path: "reports", write: true }]`),
    });
    // The sandbox runs tools as users of their own when the server is root.
    await chmod(join(workspace.directory, "reports"), 0o777);
    const { registry, report } = await workspace.open({ builtins: false });
    expect(report.files[0]).toMatchObject({ warnings: [] });
    const run = async (action: string, file: string) =>
      (await registry.execute("notes", { action, file, text: "written" })).content;
    const whole = (file: string) => join(workspace.directory, file);
    expect(await run("read", "input/a.txt")).toBe("of the workspace");
    expect(await run("read", whole("input/a.txt"))).toBe("of the workspace");
    expect(await run("write", "reports/b.txt")).toBe("written");
    expect(await run("write", whole("reports/c.txt"))).toBe("written");
    expect((await readdir(whole("reports"))).sort()).toEqual([".keep", "b.txt", "c.txt"]);
    for (const file of ["input/new.txt", whole("input/new.txt")]) {
      expect(await run("write", file)).toMatch(/EROFS|restricted|EACCES/);
    }
    const refused = await run("read", whole("secret.txt"));
    expect(refused).toContain("notes may use files in its own data folder");
    expect(refused).toContain("input (read-only), reports");
    expect(refused).toContain('sandbox: { grants: { "notes": { folders:');
    // What lies there is the workspace's, not the tool's.
    const folders = new DataFolders(whole(".toolrack/data"));
    await folders.clear("notes");
    expect(await readFile(whole("input/a.txt"), "utf8")).toBe("of the workspace");
  });

  it("are closed again when the config no longer opens them", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/notes.tool.js": notes(),
      "input/a.txt": "of the workspace",
      "toolrack.config.mjs": config(`["input"]`),
    });
    const read = { action: "read", file: "input/a.txt" };
    const first = await workspace.open({ builtins: false });
    expect((await first.registry.execute("notes", read)).content).toBe("of the workspace");
    const link = join(workspace.directory, ".toolrack/data/notes/input");
    expect(await readlink(link)).toBe(join(workspace.directory, "input"));
    await first.close();
    await workspace.remove("toolrack.config.mjs");
    const second = await workspace.open({ builtins: false });
    expect((await second.registry.execute("notes", read)).type).toBe("error");
    expect(existsSync(link)).toBe(false);
  });

  it("are named by check for a tool that uses files, and refused where they give power", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/notes.tool.js": notes() });
    const warned = await workspace.open({ builtins: false, cache: false });
    expect(warned.report.files[0]?.warnings).toEqual([
      expect.stringMatching(/\.toolrack\/data\/notes, and in no other.*folders: \["FOLDER"/),
    ]);
    await mkdir(join(workspace.directory, "tools/in"));
    await writeFile(join(workspace.directory, "file"), "");
    const cases = [
      [`["missing"]`, "which is not there"],
      [`["file"]`, "which is not there"],
      [`["."]`, "no folder in the workspace"],
      [`[".."]`, "no folder in the workspace"],
      [`[{ path: "tools/in", write: true }]`, "decides what runs"],
      [`[".toolrack"]`, "belongs to the server itself"],
      [`["rack"]`, "belongs to the server itself"],
      [`["out"]`, "no folder in the workspace"],
    ] as const;
    await mkdir(join(workspace.directory, ".toolrack"), { recursive: true });
    await symlink(".toolrack", join(workspace.directory, "rack"));
    await symlink("..", join(workspace.directory, "out"));
    for (const [folders, reason] of cases) {
      await workspace.write("toolrack.config.mjs", config(folders));
      const { report } = await workspace.open({ builtins: false });
      expect(report.files[0]?.failure?.reason, folders).toContain(reason);
    }
  });
});

describe("ways out of the folders of a tool", { timeout: 120_000 }, () => {
  afterEach(() => vi.unstubAllEnvs());

  const workspaceWith = async (folders: string) => {
    const workspace = await TemporaryWorkspace.create({
      "tools/notes.tool.js": notes(),
      "tools/other.tool.js": notes("other"),
      ".env": "OUTSIDE=1",
      "closed/file": "OUTSIDE",
      "input/file": "inside",
      "reports/sub/file": "inside",
      "toolrack.config.mjs": `export default { sandbox: { grants: { notes: { folders: ${folders} } } } };`,
    });
    // Only the sandbox is to stand in the way, not the modes of files.
    for (const folder of ["", "closed", "input", "reports", "reports/sub"])
      await chmod(join(workspace.directory, folder), folder === "" ? 0o755 : 0o777);
    return workspace;
  };

  it.each(levelsToTest)("lead nowhere at level %i", async (level) => {
    if (level === 2) vi.stubEnv("PATH", dirname(process.execPath)); // No bubblewrap is found there.
    await using workspace = await workspaceWith(`["input", { path: "reports", write: true }]`);
    const { registry, sandbox } = await workspace.open({ builtins: false });
    expect((await sandbox()).level).toBe(level);
    const run = async (action: string, file: string, text = "") =>
      (await registry.execute("notes", { action, file, text })).content;
    const whole = (file: string) => join(workspace.directory, file);
    await registry.execute("other", { action: "write", file: "mine", text: "OUTSIDE" });
    const outside = [".env", "closed/file", ".toolrack/token", ".toolrack/data/other/mine"];
    for (const file of outside) {
      const ways = [
        whole(file),
        `../../../${file}`,
        whole(`reports/../${file}`),
        `/proc/self/root${whole(file)}`,
      ];
      for (const way of ways) expect(await run("read", way), way).toMatch(/ENOENT|EACCES/);
      expect(await run("link", whole(file), "linked"), file).toMatch(/ENOENT|EACCES/);
    }
    expect(await run("link", whole("input/file"), "linked")).toMatch(/ENOENT|EACCES/);
    expect(await run("link", whole("input/file"), whole("reports/linked"))).toMatch(/ENOENT|EACCES/);
    expect(await run("read", whole("input/file"))).toBe("inside");
  });

  it("that a link in an opened folder offers are closed at level 3 and refused at level 2", async () => {
    await using workspace = await workspaceWith(`["input"]`);
    const link = join(workspace.directory, "input/out");
    await symlink(join(workspace.directory, "closed"), link);
    for (const level of levelsToTest) {
      if (level === 2) vi.stubEnv("PATH", dirname(process.execPath));
      const app = await workspace.open({ builtins: false });
      const said = await app.registry.execute("notes", { action: "read", file: join(link, "file") });
      expect(said.content).toMatch(level === 3 ? /ENOENT/ : /input\/out .*leads out/);
      await app.close();
    }
  });

  it("are not made by a link that takes the place of an opened folder", async () => {
    await using workspace = await workspaceWith(`["reports/sub"]`);
    const { registry } = await workspace.open({ builtins: false });
    const folder = join(workspace.directory, "reports/sub");
    const read = { action: "run", text: `cat ${folder}/file` };
    expect((await registry.execute("notes", read)).structured).toMatchObject({ stdout: "inside" });
    await rename(folder, `${folder}2`);
    await symlink(join(workspace.directory, "closed"), folder);
    const said = await registry.execute("notes", read);
    expect(said.content).toContain("reports/sub is no longer the folder that was opened");
  });
});

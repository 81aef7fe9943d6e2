import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { TestServer } from "../../http/server.fixture.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";
import { spawnCli } from "../testing/spawn-cli.ts";

const kept = { ".toolrack/data/notes/a.txt": "12345", ".toolrack/data/notes/in/b.txt": "1" };

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({ ...kept, "toolrack.config.js": "export default {};" });
});
afterAll(() => workspace[Symbol.asyncDispose]());

const toolrack = (...words: string[]) => runCli(words, { cwd: workspace.directory });

it("data lists what tools have kept, and clears it by name", { timeout: 60_000 }, async () => {
  const listed = await toolrack("data");
  expect(listed.stdout).toMatch(/NAME +FILES +BYTES\s+notes +2 +6/);
  expect((await toolrack("data", "clear")).code).toBe(2);
  const missing = await toolrack("data", "clear", "../../tools");
  expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining("has kept no files") });
  const cleared = await toolrack("data", "clear", "notes", "--json");
  expect(JSON.parse(cleared.stdout)).toEqual({ data: { name: "notes", files: 2, bytes: 6 } });
  expect(existsSync(join(workspace.directory, ".toolrack/data/notes/a.txt"))).toBe(false);
  expect((await toolrack("data")).stderr).toContain("No tool has kept any files.");
});

it("the API lists and clears the same", { timeout: 60_000 }, async () => {
  await using server = await TestServer.start({ files: kept });
  const listed = await server.ask("/api/data");
  expect(listed.body).toEqual({ items: [{ name: "notes", files: 2, bytes: 6 }] });
  expect((await server.ask("/api/data/notes", { method: "DELETE" })).body).toMatchObject({ files: 2 });
  expect(await server.ask("/api/data/notes", { method: "DELETE" })).toMatchObject({
    status: 404,
    body: { error: { code: "data_not_found" } },
  });
});

it("a tool file works in the workspace, wherever the program was started", { timeout: 60_000 }, async () => {
  await using other = await TemporaryWorkspace.create({
    "note.txt": "of the workspace",
    "tools/where.js": `const fs = require("fs"); const atLoad = process.cwd();
      module.exports = { name: "where", description: "Says where.", inputSchema: { type: "object" }, handler: () => [atLoad, process.cwd(), fs.readFileSync("note.txt", "utf8")].join("|") };`,
  });
  const elsewhere = await mkdtemp(join(tmpdir(), "toolrack-elsewhere-"));
  const words = ["call", "internal_where", "--dir", other.directory];
  const { stdout } = await spawnCli(words, { cwd: elsewhere });
  expect(stdout.trim()).toBe(`${other.directory}|${other.directory}|of the workspace`);
  await rm(elsewhere, { recursive: true });
});

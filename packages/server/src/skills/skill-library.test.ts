import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as wait } from "node:timers/promises";
import { expect, it } from "vitest";
import { openStore } from "../store/store.ts";
import { TestLibrary } from "./testing/library.fixture.ts";

const tool = { name: "t", type: "http" as const, endpoint: "https://x.example" };

it("follows what another process changes in the database", async () => {
  await using fixture = await TestLibrary.open();
  fixture.library.follow();
  const other = await openStore({ directory: join(fixture.directory, ".toolrack") });
  const added = await other.skills.add({
    skill: { name: "Elsewhere" },
    tools: [{ ...tool, id: "far" }],
    files: [],
  });
  const changed = new Promise<void>((resolve) => {
    const stop = fixture.library.subscribe(() => {
      stop();
      resolve();
    });
  });
  await changed;
  expect(fixture.registry.get("far")?.displayName).toBe("Elsewhere/t");
  await other.skills.remove(added.id);
  while (fixture.registry.get("far") !== undefined) await wait(20);
  await other.close();
});

it("shows a row that an operator edits with a client of the database", async () => {
  await using fixture = await TestLibrary.open();
  await fixture.library.add({ skill: { id: "s", name: "S" }, tools: [{ ...tool, id: "a" }], files: [] });
  fixture.library.follow();
  const client = new DatabaseSync(join(fixture.directory, ".toolrack", "toolrack.db"));
  await fixture.library.reload();
  client.exec("update skill_tools set description = 'by hand' where id = 'a'");
  client.exec(
    "insert into skill_tools (id, skill_id, name, type, endpoint) values ('b', 's', 'second', 'http', 'https://x.example')",
  );
  client.close();
  while (fixture.registry.get("b") === undefined) await wait(20);
  expect(fixture.registry.get("a")?.description).toBe("by hand");
});

it("tells of changes, and not of reads that found nothing new", async () => {
  await using fixture = await TestLibrary.open({
    files: { "skills/notes/SKILL.md": "---\nname: notes\ndescription: d\n---\n" },
  });
  const { library } = fixture;
  await library.add({ skill: { id: "s", name: "S" }, tools: [{ ...tool, id: "a" }], files: [] });
  await library.experts.create({ name: "E" });
  library.follow();
  await library.reload();
  const told: string[] = [];
  library.subscribe(() => told.push("skills"));
  library.experts.subscribe(() => told.push("experts"));
  await library.reload();
  expect(told).toEqual([]);
  await library.experts.update("E", { tools: ["a"] });
  await library.reload();
  expect(told).toEqual(["experts"]);
  await library.update("s", { description: "new" });
  await library.reload();
  expect(told).toEqual(["experts", "skills"]);
});

it("changes a skill and its files together, or not at all", async () => {
  await using fixture = await TestLibrary.open();
  const { library, store } = fixture;
  const file = (path: string) => ({ path, content: Buffer.from("x"), executable: false });
  await library.add({ skill: { id: "s", name: "S" }, tools: [], files: [file("a")] });
  for (const path of ["../x", "SKILL.md", "tools.json", "a/b"]) {
    const change = library.update("s", { description: "new" }, { fine: file("fine"), [path]: file(path) });
    await expect(change, path).rejects.toMatchObject({ issues: [{ path: "files" }] });
  }
  expect(await store.skills.get("s")).toMatchObject({ description: "" });
  await library.update("s", { description: "new" }, { a: null, "a/b": file("a/b") });
  expect((await store.skills.listFiles("s")).map(({ path }) => path)).toEqual(["a/b"]);
  const twins = library.add({ skill: { name: "T" }, tools: [], files: [file("a"), file("a/b")] });
  await expect(twins).rejects.toThrow('"a" cannot be a file and the folder of "a/b"');
});

it("shows a folder with too many files, and says so", async () => {
  const files = Array.from({ length: 1_001 }, (_, at) => [`skills/big/data/${at}.txt`, ""]);
  await using fixture = await TestLibrary.open({
    files: { "skills/big/SKILL.md": "---\nname: big\ndescription: d\n---\n", ...Object.fromEntries(files) },
  });
  const skill = fixture.library.require("big");
  expect(skill.warnings).toEqual([expect.stringContaining("more than 1,000 files")]);
  expect((await fixture.library.filesOf(skill)).length).toBeGreaterThan(900);
});

it("takes its own changes for its own: nothing is read again for them", async () => {
  await using fixture = await TestLibrary.open();
  const { library, registry } = fixture;
  const { id } = await library.add({ skill: { name: "A" }, tools: [{ ...tool, id: "a" }], files: [] });
  await library.add({ skill: { name: "B" }, tools: [{ ...tool, id: "b" }], files: [] });
  const before = registry.get("b");
  await library.updateTool(id, "a", { description: "new" });
  await library.reload();
  expect(registry.get("b")).toBe(before);
  expect(registry.get("a")?.description).toBe("new");
});

it("keeps order among changes that are made at once", async () => {
  await using fixture = await TestLibrary.open();
  const { library, registry } = fixture;
  const { id } = await library.add({ skill: { name: "A" }, tools: [{ ...tool, id: "a" }], files: [] });
  await Promise.all([
    library.updateTool(id, "a", { description: "one" }),
    library.addTool(id, { ...tool, id: "c", name: "c" }),
    library.updateTool(id, "a", { description: "two" }),
    library.reload(),
  ]);
  expect(registry.get("a")?.description).toBe("two");
  expect(registry.get("c")).toBeDefined();
});

it("leaves a tool off that an operator switched off, whatever becomes of its row", async () => {
  await using fixture = await TestLibrary.open();
  const { id } = await fixture.library.add({
    skill: { name: "A" },
    tools: [{ ...tool, id: "a" }],
    files: [],
  });
  fixture.registry.disable("a");
  await fixture.library.updateTool(id, "a", { description: "new" });
  expect(fixture.registry.get("a")).toMatchObject({ description: "new", disabled: true });
});

it("holds a folder of scripts to the workspace", async () => {
  await using fixture = await TestLibrary.open({
    files: { "data/ok/index.js": "exports.execute = () => 1" },
  });
  const add = (name: string, sourcePath: string) =>
    fixture.library.add({
      skill: { name, sourcePath },
      tools: [{ name: "t", type: "script", id: name }],
      files: [],
    });
  expect((await add("ok", "data/ok")).warnings).toEqual([]);
  expect((await fixture.registry.execute("ok", {})).structured).toBe(1);
  for (const path of ["..", ".", ".toolrack", "/etc", "data/none"]) {
    const skill = await add(`s${Math.abs(path.length * 7 + path.charCodeAt(0))}`, path);
    expect(skill.warnings).toEqual([expect.stringContaining(path)]);
    expect(fixture.library.failureOf(skill.tools[0]!.id)).toContain("needs a command");
  }
});

it("changes one tool of a skill and leaves its others alone, but for those that stand for it", async () => {
  await using fixture = await TestLibrary.open();
  const { library, registry } = fixture;
  const shape = (name: string) =>
    JSON.stringify({ type: "object", properties: { [name]: { type: "string" } } });
  const others = Array.from({ length: 40 }, (_, n) => ({ ...tool, id: `other${n}`, name: `other${n}` }));
  const target = { ...tool, id: "target", name: "target", usage: shape("before") };
  const builtin = { id: "alias", name: "alias", type: "builtin" as const, command: "target" };
  await library.add({ skill: { id: "s", name: "S" }, tools: [target, ...others], files: [] });
  await library.add({ skill: { id: "b", name: "B" }, tools: [builtin], files: [] });
  const infos = () => others.map(({ id }) => registry.get(id));
  const before = infos();
  const added = await library.addTool("s", { ...tool, id: "added", name: "added" });
  await library.updateTool("s", "target", { usage: shape("after") });
  expect(Object.keys(registry.get("alias")?.parameters.properties ?? {})).toEqual(["after"]);
  expect(library.require("s").tools.map(({ name }) => name)).toEqual([
    "target",
    ...others.map(({ name }) => name),
    "added",
  ]);
  // All rows are read anew.
  await library.reload();
  await library.updateTool("s", "other7", { description: "changed" });
  await library.removeTool("s", added.id);
  expect(library.require("s").tools.map(({ name }) => name)).toEqual([
    "target",
    ...others.map(({ name }) => name),
  ]);
  expect([registry.get("added"), registry.get("other7")?.description]).toEqual([undefined, "changed"]);
  const changed = () => infos().flatMap((info, at) => (info === before[at] ? [] : [others[at]?.id]));
  expect(changed()).toEqual(["other7"]);
  // What was put there one by one is what the tables say.
  await library.reload();
  expect(changed()).toEqual(["other7"]);
});

it("puts a tool that was switched off or renamed back under its new name", async () => {
  await using fixture = await TestLibrary.open({ names: "readable" });
  const { library, registry } = fixture;
  await library.add({ skill: { id: "s", name: "S" }, tools: [{ ...tool, id: "a" }], files: [] });
  await library.addTool("s", { ...tool, id: "bad", name: "bad", usage: "" });
  await library.updateTool("s", "a", { enabled: false });
  expect(registry.get("a")?.disabled).toBe(true);
  await library.updateTool("s", "a", { enabled: true, name: "renamed" });
  expect(registry.get("a")).toMatchObject({ name: "s__renamed", disabled: false });
  expect(registry.get("s__t")).toBeUndefined();
});

it("changes very many tools without holding up others, each in one step, and names may be exchanged", async () => {
  await using fixture = await TestLibrary.open({ names: "readable" });
  const { library, registry } = fixture;
  const many = (turn: number) =>
    Array.from({ length: 1_500 }, (_, n) => ({ ...tool, id: `id_${n}`, name: `n${(n + turn) % 1_500}` }));
  const skill = { id: "s", name: "S", mark: "m" };
  await library.add({ skill, tools: many(0), files: [] });
  expect(registry.get("m__n0")?.aliases).toContain("id_0");
  let turns = 0;
  let isMissing = false;
  let turn = setImmediate(function look() {
    turns++;
    isMissing ||= registry.get("id_7") === undefined || registry.get("id_1400") === undefined;
    turn = setImmediate(look);
  });
  await library.add({ skill, tools: many(1), files: [] }, { replace: true });
  clearImmediate(turn);
  expect([turns > 6, isMissing]).toEqual([true, false]);
  for (const n of [0, 700, 1_498]) expect(registry.get(`id_${n}`)?.name).toBe(`m__n${n + 1}`);
  expect(registry.get("id_1499")?.name).toBe("m__n0");
  expect(library.failureOf("id_0")).toBeUndefined();
  await library.remove("s");
  expect(registry.getAll()).toEqual([]);
}, 60_000);

it("does not read the rows of skills again when something else was changed", async () => {
  await using fixture = await TestLibrary.open();
  const { library, store } = fixture;
  await library.add({ skill: { id: "s", name: "S" }, tools: [{ ...tool, id: "a" }], files: [] });
  library.follow();
  await library.reload();
  await library.updateTool("s", "a", { description: "new" });
  let looks = 0;
  const { fingerprint } = store.skills;
  Object.assign(store.skills, { fingerprint: () => fingerprint().finally(() => looks++) });
  while (looks < 3) await wait(20);
  let reads = 0;
  const { toolPages } = store.skills;
  store.skills.toolPages = () => {
    reads++;
    return toolPages.call(store.skills);
  };
  await store.experts.add({ name: "Late", skills: ["s"] });
  while (library.experts.find("Late") === undefined) await wait(20);
  expect([reads, fixture.registry.get("a")?.description]).toEqual([0, "new"]);
  expect(library.requireTool(library.require("s"), "a").description).toBe("new");
}, 60_000);

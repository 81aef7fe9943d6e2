import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readZip, writeZip } from "../../skills/import/archive.ts";
import { TestServer } from "../server.fixture.ts";

const skillText = '---\nname: travel-rules\ndescription: "Rules: of travel"\n---\n# Go\n';
const tools = JSON.stringify({
  tools: [{ name: "plan", type: "http", endpoint: "https://example.com/plan" }],
});
const logo = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0x00]);
/** An archive with a path that no proper program would write. */
const escaping = await writeZip([
  { path: "aa/bb/escape/SKILL.md", content: Buffer.from(skillText), executable: false },
]).then((bytes) =>
  Buffer.from(bytes.toString("latin1").replaceAll("aa/bb/", "../../"), "latin1").toString("base64"),
);
const folder = {
  "travel-rules/SKILL.md": skillText,
  "travel-rules/tools.json": tools,
  "travel-rules/references/list.md": "# List",
  "travel-rules/logo.png": { base64: logo.toString("base64") },
};

describe("skills on their way", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start({
      maxBody: 200_000,
      files: {
        "skills/notes/SKILL.md": "---\nname: notes\ndescription: How to take notes.\n---\nWrite short.\n",
      },
    });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const bring = (body: unknown, token?: string) =>
    server.ask("/api/skills/import", { method: "POST", body, ...(token === undefined ? {} : { token }) });

  it("are looked at first without anything being changed", async () => {
    const { body } = await bring({ files: folder, dryRun: true });
    expect(body).toEqual({
      dryRun: true,
      skills: [
        {
          id: "travel-rules",
          name: "travel-rules",
          description: "Rules: of travel",
          replaces: false,
          tools: [{ name: "plan", type: "http" }],
          files: ["logo.png", "references/list.md"],
        },
      ],
      experts: [],
      failed: [],
      warnings: [],
    });
    expect((await server.ask("/api/skills/travel-rules")).status).toBe(404);
  });

  it("come with tools and files, without trust, and leave nothing behind", async () => {
    const { body } = await bring({ files: folder });
    expect(body).toMatchObject({
      dryRun: false,
      skills: [{ id: "travel-rules", tools: [{ name: "plan" }] }],
      failed: [],
    });
    const { body: skill } = await server.ask("/api/skills/travel-rules");
    expect(skill).toMatchObject({ owner: "database", trusted: false, enabled: true, toolCount: 1 });
    expect(skill.files.map(({ path }: { path: string }) => path)).toEqual(["logo.png", "references/list.md"]);
    const left = await readdir(join(server.workspace.directory, ".toolrack", "skills")).catch(() => []);
    expect(left.filter((name) => name.startsWith("."))).toEqual([]);
  });

  it("tell of what is there already, and replace it when that is said", async () => {
    for (const dryRun of [true, false]) {
      const { body } = await bring({ files: folder, dryRun });
      expect(body).toMatchObject({
        skills: [],
        failed: [{ name: "travel-rules", reason: expect.stringContaining("already"), replaceable: true }],
      });
    }
    const changed = { ...folder, "travel-rules/SKILL.md": skillText.replace("# Go", "# Stay") };
    expect((await bring({ files: changed, replace: true, dryRun: true })).body.skills).toMatchObject([
      { id: "travel-rules", replaces: true },
    ]);
    await bring({ files: changed, replace: true });
    expect((await server.ask("/api/skills/travel-rules")).body.instructions).toBe("# Stay\n");
  });

  it.each([true, false])(
    "are refused beside a folder, a name or a tool of the same id (dry run: %s)",
    async (dryRun) => {
      const twins = {
        "all/notes/SKILL.md": "---\nname: notes\ndescription: x\n---\n",
        "all/named/SKILL.md":
          "---\nname: named\ndescription: x\nmetadata:\n  toolrack-id: other\n  toolrack-title: travel-rules\n---\n",
        "all/thief/SKILL.md": "---\nname: thief\ndescription: x\n---\n",
        "all/thief/tools.json": JSON.stringify([
          { id: await toolId(), name: "mine", type: "http", endpoint: "https://x.example" },
        ]),
        "all/broken/SKILL.md": "---\nname: [\n---\n",
      };
      const { body } = await bring({ files: twins, dryRun });
      expect(body.skills).toEqual([]);
      expect(body.failed.map(({ name }: { name: string }) => name).sort()).toEqual([
        "broken",
        "notes",
        "thief",
        "travel-rules",
      ]);
      expect(JSON.stringify(body)).not.toContain(server.workspace.directory);
      expect(JSON.stringify(body)).not.toContain("replaceable");
    },
  );

  it("make the round trip: an exported archive gives the same skill", async () => {
    const answer = await server.fetch("/api/skills/travel-rules/export");
    expect(answer.headers.get("content-type")).toBe("application/zip");
    expect(answer.headers.get("content-disposition")).toBe('attachment; filename="travel-rules.zip"');
    const bytes = Buffer.from(await answer.arrayBuffer());
    const files = await readZip(bytes, { files: 100, bytes: 1_000_000 });
    expect(files.find(({ path }) => path === "travel-rules/logo.png")?.content).toEqual(logo);
    const { body: before } = await server.ask("/api/skills/travel-rules");
    await server.ask("/api/skills/travel-rules", { method: "DELETE" });
    const { body } = await bring({ archive: bytes.toString("base64"), trust: true });
    expect(body.failed).toEqual([]);
    const { body: after } = await server.ask("/api/skills/travel-rules");
    const facts = ({ id, name, description, instructions, files: own, tools: list }: typeof before) => ({
      ...{ id, name, description, instructions, own },
      tools: list.map(({ id: tool, name: called, endpoint }: typeof before) => ({ tool, called, endpoint })),
    });
    expect(facts(after)).toEqual(facts(before));
    expect(after.trusted).toBe(true);
  });

  it("exports one of a folder too", async () => {
    const answer = await server.fetch("/api/skills/notes/export");
    const files = await readZip(Buffer.from(await answer.arrayBuffer()), { files: 9, bytes: 9_999 });
    expect(files.map(({ path }) => path)).toEqual(["notes/SKILL.md"]);
    expect((await server.ask("/api/skills/nobody/export")).body.error.code).toBe("skill_not_found");
  });

  it("takes a SKILL.md without its folder, dumps and CSV files", async () => {
    const alone = await bring({
      files: { "SKILL.md": "---\nname: alone\ndescription: x\n---\nHi\n" },
      dryRun: true,
    });
    expect(alone.body).toMatchObject({ skills: [{ id: "alone" }], warnings: [] });
    const unnamed = await bring({ files: { "SKILL.md": "# Hi\n" }, dryRun: true });
    expect(unnamed.body).toMatchObject({
      skills: [],
      failed: [{ name: "SKILL.md", reason: expect.stringContaining("It has no name") }],
    });
    const dump = "INSERT INTO `skills` (id,name,description) VALUES ('w1','Weather','Tells it');";
    const expert = "INSERT INTO `experts` (id,name) VALUES ('e1','forecaster');";
    const fromDump = await bring({ files: { "dump.sql": dump + expert } });
    expect(fromDump.body).toMatchObject({
      skills: [{ id: "w1" }],
      experts: [{ id: "e1", name: "forecaster" }],
    });
    const again = await bring({ files: { "dump.sql": dump + expert }, dryRun: true });
    expect(again.body.failed).toMatchObject([
      { replaceable: true },
      { name: "expert forecaster", replaceable: true },
    ]);
    const csv = await bring({ files: { "export/skills.csv": "id,name\nc1,From CSV\n" }, dryRun: true });
    expect(csv.body.skills).toMatchObject([{ id: "c1", name: "From CSV" }]);
  });

  it.each([
    ["a path that leaves the folder", { files: { "../../escape/SKILL.md": skillText } }, "is no path"],
    ["an absolute path", { files: { "/etc/SKILL.md": skillText } }, "is no path"],
    ["a path of Windows", { files: { "a\\..\\SKILL.md": skillText } }, "is no path"],
    ["nothing", {}, "either files or an archive"],
    ["no files", { files: {} }, "There is none"],
    ["both", { files: folder, archive: "" }, "either files or an archive"],
    ["what is no archive", { archive: Buffer.from("text").toString("base64") }, "no zip archive"],
    ["an archive that leaves the folder", { archive: escaping }, "is no path"],
    ["files that are no skill", { files: { "readme.txt": "hello" } }, "has neither a SKILL.md"],
    ["a dump that cannot be read", { files: { "dump.sql": "INSERT INTO skills (id) VALUES (" } }, "line 1"],
  ])("refuses %s", async (_, body, reason) => {
    const { status, body: answer } = await bring(body);
    expect(status).toBe(400);
    expect(answer.error.code).toBe("invalid_request");
    expect(answer.error.message).toContain(reason);
    expect(answer.error.message).not.toContain(server.workspace.directory);
  });

  it("refuses more than the server takes, and whoever is no admin", async () => {
    const large = await bring({ files: { "SKILL.md": skillText, "large.txt": "x".repeat(300_000) } });
    expect(large).toMatchObject({ status: 413, body: { error: { code: "payload_too_large" } } });
    const token = await server.issue({ tools: ["*"] });
    expect((await bring({ files: folder }, token)).status).toBe(403);
  });

  async function toolId(): Promise<string> {
    return (await server.ask("/api/skills/travel-rules")).body.tools[0].id;
  }
});

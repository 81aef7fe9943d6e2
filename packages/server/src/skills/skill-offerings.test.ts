import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { OfferingChange, OfferingReader } from "../calls/offering-source.ts";
import { SkillOfferings } from "./skill-offerings.ts";
import { TestLibrary } from "./testing/library.fixture.ts";

const pdfText =
  "---\nname: pdf\ndescription: Reads PDF files. # kept as it is\nmetadata:\n  a: '1'\n---\n# PDF\n";

describe("skills as MCP offers them", () => {
  let fixture: TestLibrary;
  let offerings: SkillOfferings;

  const reader = (more: Partial<OfferingReader> = {}): OfferingReader => ({
    caller: "ann",
    mayUse: () => true,
    signal: new AbortController().signal,
    ...more,
  });

  beforeAll(async () => {
    fixture = await TestLibrary.open({
      files: {
        "skills/pdf/SKILL.md": pdfText,
        "skills/pdf/tools.json":
          '[{"id":"pdfread","name":"read","type":"http","endpoint":"https://secret.example/{{secret:K}}"}]',
        "skills/pdf/references/format notes.md": "# Notes",
        "skills/pdf/references/deep/x.bin": "\0\u0001",
        "skills/hidden/SKILL.md": "---\nname: hidden\ndescription: d\nuser-invocable: false\n---\n",
      },
    });
    await fixture.library.add({
      skill: {
        id: "w1",
        name: "Weather 天气",
        description: "Says the weather.",
        instructions: "Ask for a city.\n",
      },
      tools: [],
      files: [{ path: "note.txt", content: Buffer.from("hi"), executable: false }],
    });
    await fixture.library.experts.create({ name: "Meteo", skills: ["w1"] });
    offerings = new SkillOfferings(fixture.library);
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  it("lists each with its front matter and the digest of every file that a reader may have", async () => {
    const skills = await offerings.skills(reader());
    const pdf = skills.find(({ uri }) => uri === "skill://pdf/SKILL.md");
    expect(pdf?.frontmatter).toEqual({ name: "pdf", description: "Reads PDF files.", metadata: { a: "1" } });
    expect(pdf?.resources).toEqual([
      { uri: "skill://pdf/SKILL.md", digest: digestOf(pdfText), size: Buffer.byteLength(pdfText) },
      { uri: "skill://pdf/references/deep/x.bin", digest: digestOf("\0\u0001"), size: 2 },
      { uri: "skill://pdf/references/format%20notes.md", digest: digestOf("# Notes"), size: 7 },
    ]);
    expect(JSON.stringify(skills)).not.toContain("tools.json");
  });

  it("reads files as text or bytes, and SKILL.md word for word", async () => {
    const main = await offerings.readResource("skill://pdf/SKILL.md", reader());
    expect(main?.contents).toEqual([
      { uri: "skill://pdf/SKILL.md", mimeType: "text/markdown", text: pdfText },
    ]);
    const bytes = await offerings.readResource("skill://pdf/references/deep/x.bin", reader());
    expect(bytes?.contents).toMatchObject([{ blob: Buffer.from("\0\u0001").toString("base64") }]);
    for (const uri of [
      "skill://pdf/tools.json",
      "skill://pdf/../hidden/SKILL.md",
      "skill://nobody/SKILL.md",
    ]) {
      expect(await offerings.readResource(uri, reader())).toBeUndefined();
    }
  });

  it("writes a SKILL.md for one of the database, whose digest is that of what is read", async () => {
    const skills = await offerings.skills(reader());
    const weather = skills.find(({ uri }) => uri === "skill://weather/SKILL.md")!;
    const answer = await offerings.readResource(weather.uri, reader());
    const { text } = answer!.contents[0] as { text: string };
    expect(text).toContain("description: Says the weather.\n");
    expect(weather.resources).toContainEqual(
      expect.objectContaining({ uri: weather.uri, digest: digestOf(text) }),
    );
    expect(weather.frontmatter).toMatchObject({
      name: "weather",
      metadata: { "toolrack-title": "Weather 天气" },
    });
  });

  it("reads folders level by level", async () => {
    const top = await offerings.readDirectory("skill://pdf", reader());
    expect(top?.resources.map(({ uri, mimeType }) => [uri, mimeType])).toEqual([
      ["skill://pdf/SKILL.md", "text/markdown"],
      ["skill://pdf/references", "inode/directory"],
    ]);
    const below = await offerings.readDirectory("skill://pdf/references/", reader());
    expect(below?.resources.map(({ name }) => name)).toEqual(["deep", "pdf/references/format notes.md"]);
    expect(await offerings.readDirectory("skill://pdfx", reader())).toBeUndefined();
  });

  it("gives prompts to people, with the skill's instructions and the task", async () => {
    const names = (await offerings.prompts(reader())).map(({ name }) => name);
    expect(names).toEqual(["pdf", "weather"]);
    const prompt = await offerings.getPrompt("weather", { task: "Berlin" }, reader());
    expect(prompt?.messages).toEqual([
      { role: "user", content: { type: "text", text: "Ask for a city.\n\nTask: Berlin" } },
    ]);
    const pdf = await offerings.getPrompt("pdf", {}, reader());
    expect(JSON.stringify(pdf)).toContain("call `pdfread`");
    expect(await offerings.getPrompt("hidden", {}, reader())).toBeUndefined();
  });

  it("shows a reader only what it may use, and an expert's reader only the expert's", async () => {
    const urisFor = async (more: Partial<OfferingReader>) =>
      (await offerings.skills(reader(more))).map(({ uri }) => uri);
    expect(await urisFor({ mayUse: ({ name }) => name === "pdfread" })).toEqual(["skill://pdf/SKILL.md"]);
    expect(await urisFor({ expert: "Meteo" })).toEqual(["skill://weather/SKILL.md"]);
    expect(await urisFor({ expert: "Nobody" })).toEqual([]);
    expect(await offerings.readResource("skill://pdf/SKILL.md", reader({ expert: "Meteo" }))).toBeUndefined();
  });

  it("gives each an address of its own, whatever names come to", async () => {
    const twins = ["Same Slug", "same-slug"].map((name, at) => ({
      id: `twin${at}`,
      name,
      description: name,
    }));
    for (const skill of twins) await fixture.library.add({ skill, tools: [], files: [] });
    const uris = (await offerings.skills(reader())).map(({ uri }) => uri).filter((uri) => /same/.test(uri));
    expect(new Set(uris).size).toBe(2);
    for (const [at, uri] of uris.entries()) {
      expect(uri).toMatch(/^skill:\/\/same-slug-\w+\/SKILL\.md$/);
      const { text } = (await offerings.readResource(uri, reader()))!.contents[0] as { text: string };
      expect(text).toContain(`description: ${twins[at]!.name}\n`);
    }
    for (const { id } of twins) await fixture.library.remove(id);
  });

  it("tells of changes, and shows them", async () => {
    const changes: OfferingChange[] = [];
    const stop = offerings.subscribe((change) => changes.push(change));
    await fixture.library.update("w1", { description: "Says the weather of tomorrow." });
    stop();
    expect(changes.map(({ kind }) => kind)).toEqual(["skills", "prompts", "resources"]);
    const prompts = await offerings.prompts(reader());
    expect(prompts.find(({ name }) => name === "weather")?.description).toBe("Says the weather of tomorrow.");
    await fixture.library.update("w1", { enabled: false });
    expect(await offerings.prompts(reader())).toHaveLength(1);
  });
});

function digestOf(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

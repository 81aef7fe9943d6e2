import { expect, it } from "vitest";
import { packFiles } from "./pack-files.ts";

const png = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0xff]);

function chosen(path: string, content: BlobPart): File {
  const file = new File([content], path.split("/").at(-1)!);
  Object.defineProperty(file, "webkitRelativePath", { value: path.includes("/") ? path : "" });
  return file;
}

it("packs a folder: texts as they are, the rest as Base64, and nothing that nobody wants", async () => {
  const packed = await packFiles([
    chosen("rules/SKILL.md", "\uFEFF# 规则"),
    chosen("rules/logo.png", png),
    chosen("rules/.git/config", "x"),
    chosen("rules/node_modules/a/index.js", "x"),
    chosen("rules/.DS_Store", "x"),
  ]);
  expect(packed).toEqual({
    files: {
      "rules/SKILL.md": "\uFEFF# 规则",
      "rules/logo.png": { base64: Buffer.from(png).toString("base64") },
    },
  });
});

it("sends an archive as it is, however large", async () => {
  const bytes = new Uint8Array(200_000).map((_, at) => at % 251);
  expect(await packFiles([chosen("skill.ZIP", bytes)])).toEqual({
    archive: Buffer.from(bytes).toString("base64"),
  });
});

it("takes single files by their names", async () => {
  expect(await packFiles([chosen("skills.csv", "id"), chosen("experts.csv", "id")])).toEqual({
    files: { "skills.csv": "id", "experts.csv": "id" },
  });
});

import { chown } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { findWorkspace } from "./workspace.ts";

it("is the named folder, or the nearest upwards with a config or tools, or the current one", async () => {
  await using project = await TemporaryWorkspace.create({
    "toolrack.config.mjs": "export default {}",
    "inner/tools/.keep": "",
    "inner/src/deep/.keep": "",
    "other/.keep": "",
  });
  await using bare = await TemporaryWorkspace.create({ "here/.keep": "" });
  const at = (path: string) => join(project.directory, path);
  expect(findWorkspace({ directory: undefined, cwd: at("inner/src/deep") })).toBe(at("inner"));
  expect(findWorkspace({ directory: undefined, cwd: at("other") })).toBe(project.directory);
  expect(findWorkspace({ directory: "..", cwd: at("inner/src") })).toBe(at("inner"));
  expect(findWorkspace({ directory: undefined, cwd: join(bare.directory, "here") })).toBe(
    join(bare.directory, "here"),
  );
  expect(() => findWorkspace({ directory: "missing", cwd: at("inner") })).toThrow("There is no folder");
  expect(() => findWorkspace({ directory: "toolrack.config.mjs", cwd: at("") })).toThrow(
    "This is not a folder",
  );
});

it.runIf(process.getuid?.() === 0)(
  "a workspace of another user is not opened unless it is named",
  async () => {
    await using planted = await TemporaryWorkspace.create({ "tools/.keep": "", "mine/.keep": "" });
    await chown(join(planted.directory, "tools"), 12345, 12345);
    const inside = join(planted.directory, "mine");
    expect(() => findWorkspace({ directory: undefined, cwd: inside })).toThrow("belongs to another user");
    expect(findWorkspace({ directory: "..", cwd: inside })).toBe(planted.directory);
    expect(findWorkspace({ directory: undefined, cwd: planted.directory })).toBe(planted.directory);
  },
);

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

afterEach(() => {
  delete process.env.TOOLRACK_TEST_SET;
});

it("gives the config and the tools what .env says, and environment variables win", async () => {
  process.env.TOOLRACK_TEST_SET = "from outside";
  await using workspace = await TemporaryWorkspace.create({
    ".env": `# keys\nTOOLRACK_TEST_SET=from the file\nTOOLRACK_TEST_WORDS="two words" # why\n`,
    "toolrack.config.mjs":
      "export default { databases: { main: 'sqlite:' + process.env.TOOLRACK_TEST_WORDS } }",
    "tools/peek.ts": `export const schema = { name: "peek", description: "", type: "object", properties: {} };
      const { TOOLRACK_TEST_SET, TOOLRACK_TEST_WORDS } = process.env;
      export default async () => [TOOLRACK_TEST_SET, TOOLRACK_TEST_WORDS].join("|");`,
  });
  const { config, registry } = await workspace.open();
  expect(config.databases).toEqual({ main: "sqlite:two words" });
  expect((await registry.execute("peek", {})).content).toBe("from outside|two words");
});

it("takes back what it set when the workspace is closed, so that the next one has its own", async () => {
  const valueIn = async (text: string) => {
    await using workspace = await TemporaryWorkspace.create({ ".env": `TOOLRACK_TEST_WORDS=${text}` });
    await workspace.open();
    return process.env.TOOLRACK_TEST_WORDS;
  };
  expect([await valueIn("one"), await valueIn("two")]).toEqual(["one", "two"]);
  expect(process.env.TOOLRACK_TEST_WORDS).toBeUndefined();
});

it("warns of a file that cannot be read, and opens the workspace all the same", async () => {
  await using workspace = await TemporaryWorkspace.create();
  await mkdir(join(workspace.directory, ".env"));
  await workspace.open();
  expect(workspace.messages).toContainEqual(expect.stringContaining(".env is not loaded: EISDIR"));
});

import { afterEach, beforeEach, expect, test } from "vitest";
import { openTestWorkspace } from "../testing/tool-rig.ts";
import env from "./env.ts";

beforeEach(() => {
  process.env.RACK_TEST_TOKEN = "hush";
  process.env.RACK_TEST_EMPTY = "";
});
afterEach(() => {
  delete process.env.RACK_TEST_TOKEN;
  delete process.env.RACK_TEST_EMPTY;
});

test("names every variable and shows the values of safe ones only", async () => {
  await using workspace = await openTestWorkspace();
  const result = await workspace.call(env, {});
  expect(result.content).toContain(`PATH=${process.env.PATH}`);
  expect(result.content).toContain("RACK_TEST_TOKEN=[set, hidden]");
  expect(JSON.stringify(result)).not.toContain("hush");
});

test("looks up one name, several by prefix, and says when there is none", async () => {
  await using workspace = await openTestWorkspace();
  expect(await workspace.text(env, { name: "RACK_TEST_TOKEN" })).toBe("RACK_TEST_TOKEN=[set, hidden]");
  expect(await workspace.text(env, { name: "RACK_TEST" })).toBe("RACK_TEST is not set.");
  expect(await workspace.text(env, { prefix: "RACK_TEST_" })).toBe(
    "RACK_TEST_EMPTY=[set, hidden]\nRACK_TEST_TOKEN=[set, hidden]",
  );
  expect(await workspace.text(env, { prefix: "NO_SUCH_" })).toBe("No variable begins with NO_SUCH_.");
  expect(await workspace.structured(env, { name: "HOME" })).toEqual({
    variables: [{ name: "HOME", value: process.env.HOME }],
  });
});

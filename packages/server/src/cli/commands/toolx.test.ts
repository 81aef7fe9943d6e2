import { expect, it } from "vitest";
import { parseToolReference } from "../../calls/call-service.ts";
import { isToolxDocument, parseToolx } from "./toolx.ts";

it.each([
  ["tool://reader", "reader"],
  ["@tool://reader", "reader"],
  ['"@tool://reader"', "reader"],
  ["reader", undefined],
  ["tool://", undefined],
])("the reference %s names %s", (text, name) => {
  expect(parseToolReference(text)).toBe(name);
});

it("reads the tool, the mode, the parameters and the timeout under all their names", async () => {
  expect(
    await parseToolx(
      "tool: tool://a\nmode: execute\nparameters:\n  text: |\n    two\n    lines\ntimeout: 500",
    ),
  ).toEqual({
    tool: "a",
    mode: "execute",
    parameters: { text: "two\nlines\n" },
    timeout: 500,
  });
  expect(await parseToolx("toolUrl: @tool://a\noperation: dryrun")).toEqual({
    tool: "a",
    mode: "dryrun",
    parameters: {},
  });
  expect(await parseToolx('url: "tool://a"\nmode: manual')).toMatchObject({ tool: "a", mode: "manual" });
  expect(await parseToolx("tool://a")).toEqual({ tool: "a", mode: "execute", parameters: {} });
});

it.each([
  ["mode: execute", "names no tool"],
  ["- a\n- b", "not a YAML object"],
  ["tool: tool://a\nparameters: [1]", "not an object"],
  ["tool: tool://a\ntimeout: soon", "milliseconds"],
  ["tool: tool://a\nmode: configure", "toolrack settings set"],
  ["tool: tool://a\nmode: dance", "execute, dryrun and manual"],
  ["tool: 'a", "not YAML"],
])("%j is refused with what is wrong", async (text, problem) => {
  await expect(parseToolx(text)).rejects.toThrow(problem);
});

it("tells a document from a name", () => {
  expect(isToolxDocument("tool: tool://a")).toBe(true);
  expect(isToolxDocument("mode: dryrun\ntool: a")).toBe(true);
  expect(isToolxDocument("tool://a")).toBe(false);
  expect(isToolxDocument("my-tool")).toBe(false);
});

import { expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type ContractName, nameProblem, type Scaffold, scaffold } from "./scaffolds.ts";

it.each<[ContractName, string, string]>([
  ["internal", "text/greet", "internal_text_greet"],
  ["toolbox", "greet_box", "greet_box"],
  ["define", "greet-defined", "greet-defined"],
  ["plugin", "greet_plugin", "greet_plugin"],
  ["single-file", "greet-file", "greet-file"],
])("the scaffold of %s loads without a warning and runs", async (contract, name, tool) => {
  const made = scaffold(contract, name);
  await using workspace = await TemporaryWorkspace.create(filesOf(made));
  const { registry, report } = await workspace.open();
  expect(report.files).toMatchObject([{ status: "loaded", contract, tools: [tool] }]);
  expect(made.tool).toBe(tool);
  expect(await registry.execute(tool, { name: "Ada" })).toMatchObject({
    content: "Hello, Ada!",
    type: "text",
  });
  expect((await registry.execute(tool, {})).error?.code).toBe("invalid_arguments");
});

it("the scaffold of a skill has a tool that runs", async () => {
  const made = scaffold("skill", "kind-words");
  await using workspace = await TemporaryWorkspace.create(filesOf(made));
  const { registry, skills } = await workspace.open();
  expect(skills.failedFolders()).toEqual([]);
  expect(made.tool).toBe("kind_words__greet");
  expect((await registry.execute(made.tool, { name: "Ada" })).content).toContain("Hello, Ada!");
  expect((await registry.execute(made.tool, {})).error?.code).toBe("invalid_arguments");
});

function filesOf({ place, files }: Scaffold): Record<string, string> {
  return Object.fromEntries(files.map(([path, text]) => [`${place}/${path}`, text]));
}

it("says what is wrong with a name", () => {
  expect(nameProblem("internal", "greet")).toContain("GROUP/ACTION");
  expect(nameProblem("internal", "../etc/x")).toContain("GROUP/ACTION");
  expect(nameProblem("define", "../x")).toContain("begins with a letter");
  expect(nameProblem("define", "x y")).toContain("begins with a letter");
  expect(nameProblem("single-file", "my-tool")).toBeUndefined();
  expect(nameProblem("skill", "my_tool")).toContain("single hyphens");
  expect(nameProblem("skill", "my-tool")).toBeUndefined();
});

import { expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type ContractName, nameProblem, scaffold } from "./scaffolds.ts";

it.each<[ContractName, string, string]>([
  ["internal", "text/greet", "internal_text_greet"],
  ["toolbox", "greet_box", "greet_box"],
  ["define", "greet-defined", "greet-defined"],
  ["plugin", "greet_plugin", "greet_plugin"],
  ["single-file", "greet-file", "greet-file"],
])("the scaffold of %s loads without a warning and runs", async (contract, name, tool) => {
  const made = scaffold(contract, name);
  await using workspace = await TemporaryWorkspace.create({ [`tools/${made.file}`]: made.text });
  const { registry, report } = await workspace.open();
  expect(report.files).toMatchObject([{ status: "loaded", contract, tools: [tool] }]);
  expect(made.tool).toBe(tool);
  expect(await registry.execute(tool, { name: "Ada" })).toMatchObject({
    content: "Hello, Ada!",
    type: "text",
  });
  expect((await registry.execute(tool, {})).error?.code).toBe("invalid_arguments");
});

it("says what is wrong with a name", () => {
  expect(nameProblem("internal", "greet")).toContain("GROUP/ACTION");
  expect(nameProblem("internal", "../etc/x")).toContain("GROUP/ACTION");
  expect(nameProblem("define", "../x")).toContain("begins with a letter");
  expect(nameProblem("define", "x y")).toContain("begins with a letter");
  expect(nameProblem("single-file", "my-tool")).toBeUndefined();
});

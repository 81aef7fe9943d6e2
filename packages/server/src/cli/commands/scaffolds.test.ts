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
  const made = scaffold(contract, name, { hasZod: false });
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

it("the plugin scaffold uses tool.schema where Zod is installed", async () => {
  const made = scaffold("plugin", "greet", { hasZod: true });
  // A package that does what the scaffold needs of Zod, through the interface that all schema libraries share.
  const zod = `const string = () => { const schema = { describe: () => schema, "~standard": { version: 1, vendor: "test",
    validate: (value) => typeof value === "string" ? { value } : { issues: [{ message: "no text" }] } } }; return schema; };
    module.exports = { z: { string } };`;
  await using workspace = await TemporaryWorkspace.create({
    [`tools/${made.file}`]: made.text,
    "node_modules/zod/index.js": zod,
  });
  const { registry } = await workspace.open();
  expect((await registry.execute("greet", { name: "Ada" })).content).toBe("Hello, Ada!");
});

it("says what is wrong with a name", () => {
  expect(nameProblem("internal", "greet")).toContain("GROUP/ACTION");
  expect(nameProblem("internal", "../etc/x")).toContain("GROUP/ACTION");
  expect(nameProblem("define", "../x")).toContain("begins with a letter");
  expect(nameProblem("define", "x y")).toContain("begins with a letter");
  expect(nameProblem("single-file", "my-tool")).toBeUndefined();
});

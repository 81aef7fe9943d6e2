import { expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

it("a promise of a tool that never settles does not hold up the other files", {
  timeout: 60_000,
}, async () => {
  await using workspace = await TemporaryWorkspace.create({
    "tools/a.ts": "export default new Promise(() => {});",
    "tools/b.ts": `import { Tool } from "@toolrack/core";
      export default Promise.resolve(Tool.define({ name: "b", parameters: {}, execute: async () => "b" }));`,
  });
  const { report } = await workspace.open({ builtins: false });
  expect(report.files).toMatchObject([
    { status: "failed", failure: { reason: expect.stringContaining("did not settle within 10000 ms") } },
    { status: "loaded", tools: ["b"] },
  ]);
});

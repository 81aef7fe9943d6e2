import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Tool } from "@toolrack/core";

const nothing = { type: "object", properties: {} } as const;

/** Writes a file of the workspace anew and has it loaded, as a person who edits it would. */
function changing(name: string, file: string, source: (stamp: string) => string) {
  return Tool.define({
    name,
    description: "Changes what the workspace offers.",
    parameters: nothing,
    execute: async ({ call, directory }) => {
      await writeFile(join(directory, "tools", file), source(String(Date.now())));
      await call("buildReload_tool");
      return "Changed.";
    },
  });
}

export const tools = [
  changing(
    "test_trigger_tool_change",
    "changed-tool.ts",
    (stamp) => `import { Tool } from "@toolrack/core";
export const tool = Tool.define({
  name: "changed_tool",
  description: "Written at ${stamp}.",
  parameters: { type: "object", properties: {} },
  execute: async () => "${stamp}",
});
`,
  ),
  changing(
    "test_trigger_prompt_change",
    "changed-prompt.ts",
    (stamp) => `import { Prompt } from "@toolrack/core";
export const prompt = Prompt.define({
  name: "changed_prompt",
  description: "Written at ${stamp}.",
  messages: () => "${stamp}",
});
`,
  ),
];

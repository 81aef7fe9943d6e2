import { setTimeout as wait } from "node:timers/promises";
import { Tool } from "@toolrack/core";

const nothing = { type: "object", properties: {} } as const;

export const greet = Tool.define({
  name: "greet",
  description: "Greets at once.",
  parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  execute: async ({ input }) => `Hello, ${(input as { name: string }).name}!`,
});

export const slow = Tool.define({
  name: "slow_compute",
  description: "Takes its time.",
  parameters: {
    type: "object",
    properties: { seconds: { type: "number", minimum: 0, default: 1 }, label: { type: "string" } },
  },
  metadata: { task: "optional" },
  execute: async ({ input, signal }) => {
    const { seconds } = input as { seconds: number };
    await wait(seconds * 1000, undefined, { signal });
    return `Computed for ${seconds} s.`;
  },
});

export const failing = Tool.define({
  name: "failing_job",
  description: "Fails after a while.",
  parameters: nothing,
  metadata: { task: "required" },
  execute: async () => {
    await wait(1_000);
    throw new Error("The job failed, as it always does.");
  },
});

export const protocolError = Tool.define({
  name: "protocol_error_job",
  description: "Needs what no client of the suite has.",
  parameters: nothing,
  metadata: { task: "optional" },
  execute: async ({ client, signal }) => client?.request("roots/list", {}, signal),
});

export const confirmDelete = Tool.define({
  name: "confirm_delete",
  description: "Asks before it deletes.",
  parameters: { type: "object", properties: { filename: { type: "string" } } },
  metadata: { task: "optional" },
  execute: async ({ input, elicit }) => {
    const { filename } = input as { filename?: string };
    const { action, content } = await elicit({
      message: `Delete ${filename}?`,
      schema: { type: "object", properties: { confirm: { type: "boolean" } }, required: ["confirm"] },
    });
    return action === "accept" && content?.confirm === true ? `Deleted ${filename}.` : `Kept ${filename}.`;
  },
});

export const multiInput = Tool.define({
  name: "multi_input",
  description: "Asks two things at once.",
  parameters: nothing,
  metadata: { task: "optional" },
  execute: async ({ elicit }) => {
    const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const answers = await Promise.all([
      elicit({ message: "What is the first name?", schema }),
      elicit({ message: "What is the second name?", schema }),
    ]);
    return answers.map(({ content }) => content?.name).join(" and ");
  },
});

export const askingFirst = Tool.define({
  name: "test_tool_with_task",
  description: "Asks, and then takes its time.",
  parameters: nothing,
  metadata: { task: { support: "required", asksFirst: true } },
  execute: async ({ client, signal }) => {
    const answer = (await client?.request(
      "elicitation/create",
      {
        mode: "form",
        message: "What is your name?",
        requestedSchema: {
          type: "object",
          properties: { name: { type: "string" } },
          required: ["name"],
        },
        _meta: { "toolrack/key": "user_name" },
      },
      signal,
    )) as { content?: { name?: string } };
    await wait(100);
    return `Hello, ${answer.content?.name}!`;
  },
});

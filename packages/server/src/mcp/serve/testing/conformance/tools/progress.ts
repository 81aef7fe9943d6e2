import { setTimeout as wait } from "node:timers/promises";
import { Tool } from "@toolrack/core";

const nothing = { type: "object", properties: {} } as const;
const PAUSE = 50;

export const progress = Tool.define({
  name: "test_tool_with_progress",
  description: "Reports how far it is.",
  parameters: nothing,
  execute: async ({ progress: report }) => {
    for (const done of [0, 50, 100]) {
      report(done, 100);
      await wait(PAUSE);
    }
    return "Done.";
  },
});

const logging = (name: string) =>
  Tool.define({
    name,
    description: "Writes into the client's log.",
    parameters: nothing,
    execute: async ({ client }) => {
      for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        client?.notify("notifications/message", { level: "info", data });
        await wait(PAUSE);
      }
      return "Logged.";
    },
  });

export const loggingTools = [logging("test_tool_with_logging"), logging("test_logging_tool")];

import { fromJsonSchema, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { abilitiesOf } from "../carry.ts";
import type { McpParts } from "../mcp-parts.ts";
import type { RackServer } from "../rack-server.ts";
import type { ServerPlace } from "../server-place.ts";
import type { Viewer } from "../viewer.ts";
import { knowsTasks, missingTasks } from "./task-support.ts";

const taskParams = fromJsonSchema<{ taskId: string }>({
  type: "object",
  properties: { taskId: { type: "string" } },
  required: ["taskId"],
});
const updateParams = fromJsonSchema<{ taskId: string; inputResponses?: Record<string, unknown> }>({
  type: "object",
  properties: { taskId: { type: "string" }, inputResponses: { type: "object" } },
  required: ["taskId"],
});

/** The extension by which a client comes back for calls that take long. */
export function serveTasks(
  server: RackServer,
  { tasks }: McpParts,
  viewer: Viewer,
  place: ServerPlace,
): void {
  if (place.era === "legacy") return;
  server.setRequestHandler("tasks/get", { params: taskParams }, async ({ taskId }, context) => {
    if (!knowsTasks(abilitiesOf({ server, context, ...place }))) throw missingTasks();
    const task = await tasks.get(taskId, viewer);
    if (task === undefined) throw unknownTask(taskId);
    return task;
  });
  server.setRequestHandler("tasks/update", { params: updateParams }, async ({ taskId }, context) => {
    if (!knowsTasks(abilitiesOf({ server, context, ...place }))) throw missingTasks();
    // The SDK takes answers out of the parameters, whatever the method.
    const answers = context.mcpReq.inputResponses ?? {};
    if (!(await tasks.update(taskId, answers, viewer))) throw unknownTask(taskId);
    return {};
  });
  server.setRequestHandler("tasks/cancel", { params: taskParams }, async ({ taskId }, context) => {
    if (!knowsTasks(abilitiesOf({ server, context, ...place }))) throw missingTasks();
    if (!(await tasks.cancel(taskId, viewer))) throw unknownTask(taskId);
    return {};
  });
}

function unknownTask(taskId: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no task "${taskId}" for this token.`);
}

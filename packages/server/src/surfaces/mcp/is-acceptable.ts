import { type ClientMethod, compileSchema } from "@toolrack/core";
import { isRecord } from "../../json/is-record.ts";

/** Whether a value from outside is an answer to a question of this kind. What was entered must fit what was asked for. */
export function isAcceptable(method: ClientMethod, params: object, value: unknown): boolean {
  if (!isRecord(value)) return false;
  switch (method) {
    case "elicitation/create":
      return isElicitation(params, value);
    case "sampling/createMessage":
      return typeof value.role === "string" && typeof value.content === "object" && value.content !== null;
    case "roots/list":
      return Array.isArray(value.roots);
  }
}

function isElicitation(params: object, { action, content }: Record<string, unknown>): boolean {
  if (action === "decline" || action === "cancel") return true;
  if (action !== "accept") return false;
  const { requestedSchema } = params as { requestedSchema?: unknown };
  if (!isRecord(requestedSchema) || content === undefined) return true;
  try {
    const outcome = compileSchema(requestedSchema).validate(content);
    // A schema of plain JSON Schema is checked at once; any other could not have been sent.
    return outcome instanceof Promise || outcome.ok;
  } catch {
    return true; // A schema that cannot be used is the asker's fault, not the client's.
  }
}

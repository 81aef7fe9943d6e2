import { isRecord } from "../../json/is-record.ts";
import { isId } from "./id-of.ts";

/** The id of a message that wants an answer; undefined for any other. */
export function requestIdOf(message: unknown): string | number | undefined {
  if (!isRecord(message) || typeof message.method !== "string") return undefined;
  const { id } = message;
  return isId(id) ? id : undefined;
}

import { InvalidCursorError } from "../../store/database/cursor.ts";
import { HttpError } from "./http-error.ts";

/** For a list that the store refused: a cursor that is none is the mistake of whoever asked. */
export function blameCursor(thrown: unknown): never {
  if (!(thrown instanceof InvalidCursorError)) throw thrown;
  const issues = [{ path: "cursor", message: thrown.message }];
  throw new HttpError("invalid_request", thrown.message, { details: { in: "query", issues } });
}

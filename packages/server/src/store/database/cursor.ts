import { toKey } from "./storable-text.ts";

/** Where a page ended: lists go from the newest to the oldest, and by id within one millisecond. */
export interface Cursor {
  readonly time: number;
  readonly id: string;
}

const USUAL_LIMIT = 50;
const LARGEST_LIMIT = 500;

export function pageLimit(limit: number | undefined): number {
  return Math.min(Math.max(1, Math.trunc(limit ?? USUAL_LIMIT) || 1), LARGEST_LIMIT);
}

export class InvalidCursorError extends Error {
  override readonly name = "InvalidCursorError";

  constructor() {
    super(
      "The cursor is not one that a page of this list gave. Pass `next` of the page before as it is, or leave the cursor out to begin with the newest.",
    );
  }
}

export function formatCursor({ time, id }: Cursor): string {
  return Buffer.from(JSON.stringify([time, id])).toString("base64url");
}

export function parseCursor(cursor: string): Cursor {
  const value = parse(cursor);
  if (!Array.isArray(value) || value.length !== 2) throw new InvalidCursorError();
  const [time, id] = value;
  if (!Number.isSafeInteger(time) || typeof id !== "string") throw new InvalidCursorError();
  // A cursor with other characters in between would be read all the same.
  if (formatCursor({ time, id }) !== cursor) throw new InvalidCursorError();
  return { time, id: toKey(id) };
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    throw new InvalidCursorError();
  }
}

/** A part of a record, such as a long result, is not where it was kept: somebody deleted it, or its storage was lost. */
export class BlobMissingError extends Error {
  override readonly name = "BlobMissingError";

  constructor(
    name: string,
    why = "Somebody deleted it, or its storage was lost: bring it back from a backup.",
  ) {
    super(`A part of this record, the blob ${name}, is missing. ${why}`);
  }
}

/** Another row has the same value already. `field` names the member that has this value. */
class ConflictError extends Error {
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

export class ExpertConflictError extends ConflictError {
  override readonly name = "ExpertConflictError";
}

export class SkillConflictError extends ConflictError {
  override readonly name = "SkillConflictError";
}

/** Why an action on an upstream MCP server failed. */
type McpServerErrorCode =
  | "mcp_server_not_found"
  | "mcp_server_exists"
  | "mcp_server_read_only"
  | "mcp_server_invalid"
  | "mcp_tool_not_found"
  | "mcp_tool_changed"
  | "mcp_sign_in_failed";

export class McpServerError extends Error {
  override readonly name = "McpServerError";
  readonly code: McpServerErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: McpServerErrorCode, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** The skill, tool or expert was changed after the caller had read it. */
export class SkillChangedError extends Error {
  override readonly name = "SkillChangedError";
  /** The skill, tool or expert as it is now. */
  readonly now: { readonly name: string; readonly updatedAt: number };

  constructor(now: SkillChangedError["now"]) {
    super("It was changed by somebody else in the meantime.");
    this.now = now;
  }
}

export class InvalidCursorError extends Error {
  override readonly name = "InvalidCursorError";

  constructor() {
    super(
      "The cursor is not one that a page of this list gave. Pass `next` of the page before as it is, or leave the cursor out to begin with the newest.",
    );
  }
}

/** Statistics were asked for with a pattern that means too many tools. */
export class PatternTooWideError extends Error {
  override readonly name = "PatternTooWideError";

  constructor(pattern: string, most: number) {
    super(
      `The pattern "${pattern}" means more than ${most} tools, and statistics add up ${most} at the most. Take one that means fewer, or leave it out for all tools.`,
    );
  }
}

/** The database cannot be repaired now, or not by this version. The message says why. */
export class RepairRefused extends Error {}

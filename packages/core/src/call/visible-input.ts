import type { ToolError } from "../error/tool-error.ts";
import type { CallFrame } from "./frame.ts";
import { redact } from "./redact.ts";
import type { SecretMask } from "./secret-mask.ts";

/** Arguments as others may see them. Made once for all who are told of a call. */
export interface ShownInput {
  readonly source: unknown;
  readonly known: SecretMask;
  readonly input: Record<string, unknown>;
  /** The secrets that were masked in it. */
  readonly found: ReadonlySet<string>;
}

/**
 * The arguments with secrets masked; what came, in a field of its own, when it never became arguments. `found` is
 * given the secrets.
 */
export function visibleInput(frame: CallFrame, found?: Set<string>): Record<string, unknown> {
  const shown = shownInput(frame, sourceOf(frame));
  if (found !== undefined) for (const secret of shown.found) found.add(secret);
  return shown.input;
}

const none: ReadonlySet<string> = new Set();
/** Taken by the next arguments that hold a secret, which most do not. */
let spare = new Set<string>();

export function shownInput(frame: CallFrame, source: unknown): ShownInput {
  const known = frame.host.settings.secrets();
  const before = frame.shown;
  if (before !== undefined && before.source === source && before.known === known) return before;
  const found = spare;
  const input = toRecord(redact(source, { known, found }));
  if (found.size > 0) spare = new Set();
  const shown = { source, known, input, found: found.size > 0 ? found : none };
  frame.shown = shown;
  return shown;
}

/** What the call was given: the arguments once they fit the schema, and until then what came. */
export function sourceOf({ status, startedAt, input, raw }: CallFrame): unknown {
  return status !== "pending" && startedAt > 0 ? input : raw;
}

/** The secrets of the call's own arguments, which its result or error may repeat. */
export function ownSecrets(error: ToolError | undefined, found: Set<string>): Iterable<string> {
  // Of large arguments only a masked extract is remembered; the error still has them.
  if (error !== undefined) redact(error.input, { found });
  return found;
}

/** Asking for it costs more than adding. */
const { timeOrigin } = performance;

/** From the `performance` clock to milliseconds since the epoch. */
export function toEpoch(time: number): number {
  return Math.round(timeOrigin + time);
}

function toRecord(plain: unknown): Record<string, unknown> {
  if (typeof plain === "object" && plain !== null && !Array.isArray(plain))
    return plain as Record<string, unknown>;
  return plain === undefined || plain === null ? {} : { raw: plain };
}

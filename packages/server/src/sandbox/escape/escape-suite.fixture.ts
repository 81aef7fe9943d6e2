import { SandboxError, type SandboxErrorCode } from "../sandbox-types.ts";
import type { Attempt } from "./attempt.fixture.ts";
import { fileAttempts, procAttempts } from "./file-attempts.fixture.ts";
import { messageAttempts } from "./message-attempts.fixture.ts";
import { networkAttempts } from "./network-attempts.fixture.ts";
import { processAttempts } from "./process-attempts.fixture.ts";
import type { Trap } from "./trap.fixture.ts";

export const attempts: readonly Attempt[] = [
  ...fileAttempts,
  ...procAttempts,
  ...networkAttempts,
  ...processAttempts,
  ...messageAttempts,
];

/** One module with a method for each attempt. */
export const attemptsCode = `module.exports = { methods: {
${attempts.map(({ name, body }) => `${JSON.stringify(name)}: async (trap, call) => { ${body} },`).join("\n")}
} };`;

/** Everything about an attempt that shows it got out: what it said, and what happened meanwhile. */
export async function signsOfEscape(
  trap: Trap,
  attempt: (said: (value: unknown) => void) => Promise<unknown>,
): Promise<string[]> {
  const said: unknown[] = [];
  let hasRun = true;
  try {
    said.push(await attempt((value) => said.push(value)));
  } catch (error) {
    said.push(describe(error));
    hasRun = !(error instanceof SandboxError && neverRan.includes(error.code));
  }
  const text = JSON.stringify(said) ?? "";
  const words = [trap.secret, "root:x:0", "ESCAPED"].filter((word) => text.includes(word));
  return [
    ...(hasRun ? [] : ["never ran, which proves nothing"]),
    ...words.map((word) => `answered ${word}`),
    ...trap.trespasses(),
    ...pollutionOf(said),
  ];
}

const neverRan: readonly SandboxErrorCode[] = ["sandbox_refused", "sandbox_start_failed"];

function describe(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  return { ...error, message: error.message, stack: error.stack };
}

/** Merged into an object the careless way, as code of others may do with an answer. */
function pollutionOf(said: readonly unknown[]): string[] {
  for (const value of said) mergeCarelessly({}, value);
  const isPolluted = "polluted" in {};
  // Whatever happened must not spoil the tests that follow.
  delete (Object.prototype as { polluted?: unknown }).polluted;
  return isPolluted ? ["polluted the prototype of all objects"] : [];
}

export function mergeCarelessly(target: Record<string, unknown>, source: unknown): void {
  if (typeof source !== "object" || source === null) return;
  for (const [key, value] of Object.entries(source)) {
    const isMergeable = typeof target[key] === "object" || typeof target[key] === "function";
    if (typeof value !== "object" || value === null || !isMergeable) target[key] = value;
    // A cast, because that is what careless code does.
    else mergeCarelessly(target[key] as Record<string, unknown>, value);
  }
}

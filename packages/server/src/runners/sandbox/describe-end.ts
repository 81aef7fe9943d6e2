import { SandboxError } from "./sandbox-error.ts";

const memoryWords = /heap out of memory|out of memory|bad_alloc|allocation failed|Cannot allocate memory/i;

/** Why a process ended that nobody told to: an error for the calls it had. */
export function describeEnd(
  label: string,
  exitCode: number | null,
  signal: string | null,
  stderr: string,
): SandboxError {
  const tail = stderr.trim().slice(-2_000);
  const data = { exitCode, signal, stderr: tail };
  if (memoryWords.test(stderr))
    return new SandboxError("sandbox_limit", `${label} was ended: it ran out of the memory it may use.`, {
      ...data,
      limit: "memory",
    });
  const how = signal === null ? `code ${exitCode}` : signal;
  const output = tail === "" ? "It wrote nothing to stderr." : `The end of its stderr:\n${tail}`;
  return new SandboxError(
    "sandbox_crashed",
    `${label} ended in the middle of its work (${how}). ${output}`,
    data,
  );
}

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

/** For the calls that a worker still had when it was ended for the sake of one that would not stop. */
export function stoppedForAnother(label: string): SandboxError {
  return new SandboxError(
    "sandbox_ended",
    `${label} was ended in the middle of this call, because another call in the same worker could not be stopped otherwise.`,
  );
}

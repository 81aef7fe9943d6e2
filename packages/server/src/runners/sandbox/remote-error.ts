import type { ThrownData } from "./messages.ts";

/** What code in the sandbox threw: its own name, message, stack, code and data, all of them plain data. */
export class RemoteError extends Error {
  override readonly name: string;
  readonly code: string | number | undefined;
  readonly data: unknown;

  constructor(thrown: ThrownData) {
    super(thrown.message);
    this.name = thrown.name;
    this.code = thrown.code;
    this.data = thrown.data;
    // The stack of the sandboxed code; where the host noticed is of no use to anybody.
    this.stack = thrown.stack ?? `${thrown.name}: ${thrown.message}`;
  }
}

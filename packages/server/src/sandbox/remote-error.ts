/** Anything thrown, as the plain data that travels between a worker and its host. */
export interface ThrownData {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly data?: unknown;
  readonly stack?: string;
  readonly cause?: ThrownData;
}

/**
 * Turns anything thrown into data. Never throws, whatever the value's getters do. Data that is not JSON is left out.
 * The text of this function is also sent into the sandbox, so it uses nothing but its arguments and itself. `causes`: how
 * many causes are described.
 */
export function describeThrown(thrown: unknown, causes = 4): ThrownData {
  const longest = 20_000;
  const isJson = (value: unknown): boolean => {
    try {
      return JSON.stringify(value) !== undefined;
    } catch {
      return false;
    }
  };
  try {
    if (typeof thrown !== "object" || thrown === null) return { name: "Error", message: String(thrown) };
    const { name, message, code, data, stack, cause } = thrown as Record<string, unknown>; // A thrown object may have any of these members.
    const printed = () => JSON.stringify(thrown)?.slice(0, 500) ?? String(thrown);
    return {
      name: typeof name === "string" && name !== "" ? name : "Error",
      message: typeof message === "string" ? message.slice(0, longest) : printed(),
      ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
      ...(isJson(data) ? { data } : {}),
      ...(typeof stack === "string" ? { stack: stack.slice(0, longest) } : {}),
      ...(causes > 0 && (cause ?? undefined) !== undefined
        ? { cause: describeThrown(cause, causes - 1) }
        : {}),
    };
  } catch {
    return { name: "Error", message: "Something was thrown that cannot be printed." };
  }
}

/**
 * Reads the description of a thrown error from a worker's message. Unreviewed code may have written the
 * message, so the value may be anything.
 */
export function readThrown(value: unknown): ThrownData {
  const thrown: Record<string, unknown> = typeof value === "object" && value !== null ? { ...value } : {};
  const { message } = thrown;
  const said = typeof message === "string" ? message : "An error without a message.";
  return describeThrown({ ...thrown, message: said });
}

/** An error that code in the sandbox threw, rebuilt from plain data. */
export class RemoteError extends Error {
  override readonly name: string;
  readonly code: string | number | undefined;
  readonly data: unknown;

  constructor({ name, message, code, data, stack, cause }: ThrownData) {
    super(message, cause === undefined ? undefined : { cause: new RemoteError(cause) });
    this.name = name;
    this.code = code;
    this.data = data;
    // The stack of the sandboxed code; the host's own stack helps nobody.
    this.stack = stack ?? `${name}: ${message}`;
  }
}

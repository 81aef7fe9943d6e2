import type { ThrownData, WorkerMessage } from "./messages.ts";

/** Deeper data would overflow the stack of whoever walks it later. */
const deepest = 200;

/**
 * Reads a line that unreviewed code may have written. Throws when it is not a message. What comes out is plain data
 * that no merge can turn into a changed prototype: `__proto__` and `constructor.prototype` are left out.
 */
export function readWorkerMessage(line: string): WorkerMessage {
  if (line.length > 2 * deepest && isTooDeep(line))
    throw new Error(`the data is nested more than ${deepest} levels deep`);
  // Keys can be spelled with escapes, so any escape of a character calls for the careful way.
  const isSuspicious = line.includes("__proto__") || line.includes('"constructor"') || line.includes("\\u");
  const value: unknown = isSuspicious ? JSON.parse(line, withoutPrototypes) : JSON.parse(line);
  if (!isObject(value)) throw new Error("the line is not an object");
  switch (value.type) {
    case "ready":
      return { type: "ready" };
    case "loaded":
      return { type: "loaded", ...readError(value.error) };
    case "result":
      return { type: "result", id: readId(value.id), result: value.result, ...readError(value.error) };
    case "aborted":
      return { type: "aborted", id: readId(value.id) };
    case "request": {
      const { id, call, method, params } = value;
      return { type: "request", id: readId(id), call: readId(call), method: readText(method), params };
    }
    case "notify":
      return {
        type: "notify",
        call: readId(value.call),
        method: readText(value.method),
        params: value.params,
      };
    default:
      throw new Error("the line has no known type");
  }
}

function withoutPrototypes(this: unknown, key: string, value: unknown): unknown {
  if (key === "__proto__") return undefined;
  if (key === "constructor" && isObject(value) && Object.hasOwn(value, "prototype")) return undefined;
  return value;
}

function readError(value: unknown): { error?: ThrownData } {
  if (value === undefined) return {};
  const thrown = isObject(value) ? value : {};
  const { code, stack } = thrown;
  return {
    error: {
      name: typeof thrown.name === "string" ? thrown.name : "Error",
      message: typeof thrown.message === "string" ? thrown.message : "An error without a message.",
      ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
      ...(thrown.data === undefined ? {} : { data: thrown.data }),
      ...(typeof stack === "string" ? { stack } : {}),
    },
  };
}

function readId(value: unknown): number {
  if (Number.isSafeInteger(value)) return Number(value);
  throw new Error("an id is not a whole number");
}

function readText(value: unknown): string {
  if (typeof value === "string") return value;
  throw new Error("a method is not a text");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function isTooDeep(line: string): boolean {
  let depth = 0;
  let isInText = false;
  for (let index = 0; index < line.length; index++) {
    const character = line.charCodeAt(index);
    if (isInText) {
      if (character === 92) index++;
      else if (character === 34) isInText = false;
    } else if (character === 34) isInText = true;
    else if (character === 91 || character === 123) {
      if (++depth > deepest) return true;
    } else if (character === 93 || character === 125) depth--;
  }
  return false;
}

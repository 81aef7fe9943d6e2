import type { ThrownData } from "../messages.ts";
import { explainRefusal } from "./explain-refusal.ts";

const LONGEST_TEXT = 20_000;

/** Anything thrown as plain data. Never throws, whatever the getters of the value do. */
export function describeThrown(thrown: unknown): ThrownData {
  try {
    if (typeof thrown !== "object" || thrown === null) return { name: "Error", message: String(thrown) };
    const members = thrown as Record<string, unknown>;
    const { name, message, code, stack } = members;
    return {
      name: textOf(name) ?? "Error",
      message: textOf(explainRefusal(members)) ?? textOf(message) ?? printed(thrown),
      ...(typeof code === "string" || typeof code === "number" ? { code: String(code) } : {}),
      ...(typeof stack === "string" ? { stack: stack.slice(0, LONGEST_TEXT) } : {}),
    };
  } catch {
    return { name: "Error", message: "Something was thrown that cannot be printed." };
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, LONGEST_TEXT) : undefined;
}

function printed(thrown: object): string {
  return JSON.stringify(thrown)?.slice(0, 500) ?? String(thrown);
}

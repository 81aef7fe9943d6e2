import type { CallRow } from "../database/schema.ts";
import { callColumns } from "./call-table.ts";

export interface JournalLine {
  /** From 1. */
  readonly line: number;
  /** Undefined when the line is damaged. */
  readonly row: CallRow | undefined;
}

/** The lines of a journal. Half a line at its end is left out: nobody was told that it is safe. */
export function readJournal(text: string): JournalLine[] {
  const lines = text.split("\n").map((json, at) => ({ line: at + 1, row: parseRow(json) }));
  // Behind the last line break is nothing, or what a process that was killed did not write to its end.
  if (lines.at(-1)?.row === undefined) lines.pop();
  return lines;
}

function parseRow(json: string): CallRow | undefined {
  const value = parseObject(json);
  if (value === undefined || !isRow(value)) return undefined;
  // Only what the table has, in case that another version wrote the line. Every column of a row is then in it, of a
  // type that the database takes, which `fromEntries` cannot say.
  return Object.fromEntries(
    callColumns.map((column) => [column, value[column] ?? null]),
  ) as unknown as CallRow;
}

function parseObject(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    // An object may have any property.
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function isRow(value: Record<string, unknown>): boolean {
  const { call_id, instance, state } = value;
  if (typeof call_id !== "string" || typeof instance !== "string") return false;
  if (state !== "completed" && state !== "error") return false;
  return callColumns.every((column) => {
    const field = value[column] ?? null;
    return field === null || typeof field === "string" || typeof field === "number";
  });
}

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

export interface ReadRequest {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

export type ReadAnswer =
  | { readonly rows: unknown[] }
  | { readonly error: string; readonly errcode: number | undefined };

/** How many compiled statements are kept for reuse. */
const MOST_STATEMENTS = 100;

if (parentPort !== null) {
  const port = parentPort;
  const database = new DatabaseSync(String(workerData), { readOnly: true, timeout: 5_000 });
  const statements = new Map<string, StatementSync>();
  const prepare = (sql: string) => {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    if (statements.size === MOST_STATEMENTS) statements.clear();
    const made = database.prepare(sql);
    statements.set(sql, made);
    return made;
  };
  port.on("message", ({ sql, parameters }: ReadRequest) => {
    port.postMessage(answer(() => prepare(sql), parameters));
  });
}

function answer(prepare: () => StatementSync, parameters: readonly unknown[]): ReadAnswer {
  try {
    // The repositories bind texts, numbers and nulls only.
    return { rows: prepare().all(...(parameters as SQLInputValue[])) };
  } catch (error) {
    const { errcode } = error as { errcode?: number }; // `errcode` is set when SQLite itself failed.
    return { error: error instanceof Error ? error.message : String(error), errcode };
  }
}

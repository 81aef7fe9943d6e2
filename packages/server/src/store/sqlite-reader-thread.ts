import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

export interface ReadRequest {
  readonly id: number;
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

export type ReadAnswer =
  | { readonly id: number; readonly rows: unknown[] }
  | { readonly id: number; readonly error: string; readonly errcode?: number };

if (parentPort !== null) {
  const port = parentPort;
  const database = new DatabaseSync(String(workerData), { readOnly: true, timeout: 5_000 });
  port.on("message", ({ id, sql, parameters }: ReadRequest) => {
    port.postMessage(answer(database, id, sql, parameters));
  });
}

function answer(database: DatabaseSync, id: number, sql: string, parameters: readonly unknown[]): ReadAnswer {
  try {
    // The repositories bind texts, numbers and nulls only.
    return { id, rows: database.prepare(sql).all(...(parameters as SQLInputValue[])) };
  } catch (error) {
    const { errcode } = error as { errcode?: number }; // Set when SQLite itself failed.
    const message = error instanceof Error ? error.message : String(error);
    return { id, error: message, ...(errcode === undefined ? {} : { errcode }) };
  }
}

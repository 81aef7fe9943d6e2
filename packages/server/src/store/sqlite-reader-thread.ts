import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";

export interface ReadRequest {
  readonly sql: string;
  readonly parameters: readonly unknown[];
  /** The thread sends its `ReadAnswer` to this port. */
  readonly port: MessagePort;
}

export type ReadAnswer =
  | { readonly rows: unknown[] }
  | { readonly error: string; readonly errcode: number | undefined };

if (parentPort !== null) {
  const database = new DatabaseSync(String(workerData), { readOnly: true, timeout: 5_000 });
  parentPort.on("message", ({ sql, parameters, port }: ReadRequest) => {
    port.postMessage(answer(database, sql, parameters));
  });
}

function answer(database: DatabaseSync, sql: string, parameters: readonly unknown[]): ReadAnswer {
  try {
    // The repositories bind texts, numbers and nulls only.
    return { rows: database.prepare(sql).all(...(parameters as SQLInputValue[])) };
  } catch (error) {
    const { errcode } = error as { errcode?: number }; // `errcode` is set when SQLite itself failed.
    return { error: error instanceof Error ? error.message : String(error), errcode };
  }
}

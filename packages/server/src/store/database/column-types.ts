import { type CreateTableBuilder, type RawBuilder, sql } from "kysely";
import type { Engine } from "./engine.ts";

export interface ColumnTypes {
  /** A text that somebody else chose and that is compared exactly, up to 255 characters. */
  readonly key: RawBuilder<unknown>;
  /** An id, hash or word of our own, up to 80 ASCII characters. */
  readonly code: RawBuilder<unknown>;
  /** Text of any length. */
  readonly text: RawBuilder<unknown>;
  /** Milliseconds since the epoch, or a size. */
  readonly whole: RawBuilder<unknown>;
  readonly real: RawBuilder<unknown>;
}

/** One meaning for the three engines: exact comparison, every character of Unicode, no small limits. */
export function columnTypes(engine: Engine): ColumnTypes {
  const numbers = { whole: sql`bigint`, real: sql`double precision` };
  switch (engine) {
    case "sqlite":
      return { ...numbers, key: sql`varchar(255)`, code: sql`varchar(80)`, text: sql`text` };
    case "postgres":
      // Without the collation, order and speed would depend on the locale the database was made with.
      return {
        ...numbers,
        key: sql`varchar(255) collate "C"`,
        code: sql`varchar(80) collate "C"`,
        text: sql`text`,
      };
    case "mysql":
      // `text` would end at 64 KiB there.
      return {
        ...numbers,
        key: sql`varchar(255)`,
        code: sql`varchar(80) character set ascii collate ascii_bin`,
        text: sql`longtext`,
      };
  }
}

/** MySQL's own defaults may be latin1, and compare without regard to case. */
export function withTableOptions<Table extends string, Column extends string>(
  table: CreateTableBuilder<Table, Column>,
  engine: Engine,
): CreateTableBuilder<Table, Column> {
  if (engine !== "mysql") return table;
  return table.modifyEnd(sql`engine=InnoDB default character set utf8mb4 collate utf8mb4_bin`);
}

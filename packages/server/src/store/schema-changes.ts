import { type CreateTableBuilder, type Kysely, type RawBuilder, sql } from "kysely";
import type { Engine } from "./schema.ts";

/**
 * `key`: a text from outside that is compared exactly, up to 255 characters. `code`: an id, hash or word of our own, up
 * to 80 ASCII characters. `text`: of any length. `whole`: milliseconds since the epoch, or a size.
 */
const columnTypes = ["key", "code", "text", "whole", "real", "integer"] as const;
type ColumnType = (typeof columnTypes)[number];

function columnType(name: string): ColumnType {
  const type = columnTypes.find((known) => known === name);
  if (type === undefined) throw new Error(`There is no type of columns "${name}".`);
  return type;
}

/** The same meaning in all three engines: exact comparison, all of Unicode, no small limits. */
function typesOf(engine: Engine): Readonly<Record<ColumnType, RawBuilder<unknown>>> {
  const types = {
    key: sql`varchar(255)`,
    code: sql`varchar(80)`,
    text: sql`text`,
    whole: sql`bigint`,
    real: sql`double precision`,
    integer: sql`integer`,
  };
  switch (engine) {
    case "sqlite":
      return types;
    case "postgres":
      // Without the collation, order and speed would depend on the locale of the database.
      return { ...types, key: sql`varchar(255) collate "C"`, code: sql`varchar(80) collate "C"` };
    case "mysql":
      // MySQL's `text` ends at 64 KiB.
      return { ...types, code: sql`varchar(80) character set ascii collate ascii_bin`, text: sql`longtext` };
  }
}

/** The changes that a migration step may make. The members are bound, so that a step can destructure them. */
export class SchemaChanges {
  readonly engine: Engine;
  readonly #db: Kysely<unknown>;
  readonly #types: ReturnType<typeof typesOf>;

  constructor(db: Kysely<unknown>, engine: Engine) {
    this.#db = db;
    this.engine = engine;
    this.#types = typesOf(engine);
  }

  readonly run = async (statement: RawBuilder<unknown>): Promise<void> => {
    await statement.execute(this.#db);
  };

  /** The template lists columns and constraints as in SQL, with the types above, and comments after `--`. */
  readonly createTable = (name: string) => async (form: TemplateStringsArray) => {
    let table: CreateTableBuilder<string, string> = this.#db.schema.createTable(name).ifNotExists();
    for (const line of form
      .join("")
      .split("\n")
      .map((written) => written.trim())) {
      if (line.startsWith("--")) continue;
      if (line.startsWith("constraint ")) table = withConstraint(table, line);
      else for (const column of line.split(",")) table = this.#withColumn(table, column.trim());
    }
    if (this.engine === "mysql") {
      // MySQL's defaults may be latin1 and ignore case.
      table = table.modifyEnd(sql`engine=InnoDB default character set utf8mb4 collate utf8mb4_bin`);
    }
    await table.execute();
  };

  /** The column may exist already, when the step failed half-way and could not be undone. */
  readonly addColumn = async (table: string, column: string, type: ColumnType): Promise<void> => {
    const added = this.#db.schema.alterTable(table).addColumn(column, this.#types[type]);
    await added.execute().catch(ignoreError("ER_DUP_FIELDNAME"));
  };

  /**
   * Makes an index unless it exists; MySQL has no syntax for that, only an error. `sparse` leaves out rows without a
   * value where the engine can, so that they cost nothing to write.
   */
  readonly createIndex = async (
    name: string,
    table: string,
    columns: string[],
    { sparse }: { readonly sparse?: string } = {},
  ): Promise<void> => {
    const index = this.#db.schema.createIndex(name).on(table).columns(columns);
    if (this.engine === "mysql") {
      await index.execute().catch(ignoreError("ER_DUP_KEYNAME"));
      return;
    }
    const named = index.ifNotExists();
    await (sparse === undefined ? named : named.where(sql.ref(sparse), "is not", null)).execute();
  };

  /** Gives some columns a default, and makes others optional. */
  readonly relaxColumns = async (
    table: string,
    defaults: Readonly<Record<string, number>>,
    optional: readonly string[],
  ): Promise<void> => {
    if (this.engine === "sqlite") return this.#rebuild(table, defaults, optional);
    const altered = sql`alter table ${sql.table(table)}`;
    for (const [column, value] of Object.entries(defaults)) {
      await this.run(sql`${altered} alter column ${sql.ref(column)} set default ${sql.lit(value)}`);
    }
    for (const column of optional) {
      const type = { name_key: this.#types.key, type: this.#types.code }[column] ?? this.#types.text;
      await this.run(
        this.engine === "postgres"
          ? sql`${altered} alter column ${sql.ref(column)} drop not null`
          : sql`${altered} modify ${sql.ref(column)} ${type} null`,
      );
    }
  };

  /** SQLite cannot change a column: makes a new table from the old table's own statement, and moves the rows. */
  async #rebuild(
    table: string,
    defaults: Readonly<Record<string, number>>,
    optional: readonly string[],
  ): Promise<void> {
    const { rows } = await sql<{ type: string; sql: string }>`
      select type, sql from sqlite_master where tbl_name = ${table} and sql is not null order by type desc
    `.execute(this.#db);
    const [created, ...indexes] = rows.map((row) => row.sql);
    if (created === undefined) throw new Error(`The database has no table ${table}.`);
    let statement = created.replace(`"${table}"`, `"${table}_next"`);
    for (const [column, value] of Object.entries(defaults)) {
      statement = statement.replace(
        new RegExp(`("${column}" \\w+) not null`),
        `$1 default ${value} not null`,
      );
    }
    for (const column of optional) {
      statement = statement.replace(new RegExp(`("${column}" [\\w()]+) not null`), "$1");
    }
    const next = sql.table(`${table}_next`);
    await this.run(sql.raw(statement));
    await this.run(sql`insert into ${next} select * from ${sql.table(table)}`);
    await this.run(sql`drop table ${sql.table(table)}`);
    await this.run(sql`alter table ${next} rename to ${sql.table(table)}`);
    for (const index of indexes) await this.run(sql.raw(index));
  }

  #withColumn(table: CreateTableBuilder<string, string>, column: string): CreateTableBuilder<string, string> {
    if (column === "") return table;
    const [, name = "", type = "", rest = ""] = /^(\w+) (\w+)(.*)$/.exec(column) ?? [];
    return table.addColumn(name, this.#types[columnType(type)], (created) => {
      if (rest === " primary key") return created.primaryKey();
      const filled = rest.startsWith(" not null") ? created.notNull() : created;
      return rest.endsWith(" unique") ? filled.unique() : filled;
    });
  }
}

function withConstraint(
  table: CreateTableBuilder<string, string>,
  line: string,
): CreateTableBuilder<string, string> {
  const [, name = "", kind, body = ""] =
    /^constraint (\w+) (check|unique|primary key) \((.*)\),?$/.exec(line) ?? [];
  if (kind === "check") return table.addCheckConstraint(name, sql.raw(body));
  const columns = body.split(", ");
  if (kind === "unique") return table.addUniqueConstraint(name, columns);
  return table.addPrimaryKeyConstraint(name, columns);
}

function ignoreError(code: string): (error: { code?: unknown }) => void {
  return (error) => {
    if (error.code !== code) throw error;
  };
}

import { type Expression, type SqlBool, sql } from "kysely";
import type { Engine } from "./engine.ts";

/** Whether the column holds the text anywhere, whatever the case of Latin letters. */
export function contains(engine: Engine, column: string, text: string): Expression<SqlBool> {
  const pattern = `%${escapeLike(text)}%`;
  const reference = sql.ref(column);
  switch (engine) {
    case "sqlite":
      return sql`${reference} like ${pattern} escape '!'`;
    case "postgres":
      return sql`${reference} ilike ${pattern} escape '!'`;
    case "mysql":
      // A collation that ignores case would also take every emoji for the same.
      return sql`lower(${reference}) like lower(${pattern}) escape '!'`;
  }
}

/** Whether the column fits a glob of `*` and `?`, case and all. */
export function matchesGlob(engine: Engine, column: string, glob: string): Expression<SqlBool> {
  const reference = sql.ref(column);
  if (!/[*?]/.test(glob)) return sql`${reference} = ${glob}`;
  // SQLite's `like` ignores case; its own `glob` does not, and needs only its brackets taken literally. The plus keeps it
  // from an index that gives the rows in another order: it would sort all that match, where a page needs a few.
  if (engine === "sqlite") return sql`+${reference} glob ${glob.replaceAll("[", "[[]")}`;
  const pattern = escapeLike(glob).replaceAll("*", "%").replaceAll("?", "_");
  return sql`${reference} like ${pattern} escape '!'`;
}

/** The usual backslash means different things to the engines. */
function escapeLike(text: string): string {
  return text.replace(/[!%_]/g, "!$&");
}

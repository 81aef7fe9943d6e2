import type { InternalToolContext } from "../../../calls/index.ts";
import type { Workspace } from "../../../config/index.ts";
import * as s from "../../../helpers/schema.ts";
import { confinePath } from "../../paths.ts";
import { createMysqlEngine, createPostgresEngine } from "./postgres-mysql.ts";
import { createSqliteEngine } from "./sqlite.ts";
import { checkStatement, type DatabaseEngine, type StatementParameters } from "./statement.ts";

const LONGEST_TIMEOUT = 10 * 60_000;

/** The time limit of a whole call: the longest timeout of a statement, and time to stop the statement. */
export const CALL_TIMEOUT = LONGEST_TIMEOUT + 15_000;

export const statementInput = {
  "database?": s.text(
    "Name of a database that the workspace declares. May be left out when there is only one.",
  ),
  sql: s.text("One SQL statement, in the database's own dialect.", { minLength: 1, maxLength: 1_000_000 }),
  "params?": s.anything<StatementParameters>({
    anyOf: [{ type: "array" }, { type: "object" }],
    description:
      "Values for placeholders; never write values into the sql. An array for ? (SQLite, MySQL) or $1 (PostgreSQL), an object for :name (all).",
  }),
  limit: s.integer("Most rows to give back.", { minimum: 1, maximum: 10_000, default: 100 }),
  timeout: s.integer("Milliseconds after which the statement is stopped.", {
    minimum: 1,
    maximum: LONGEST_TIMEOUT,
    default: 30_000,
  }),
};

/** Runs a tool's statement. Error messages name the database and hide its password. */
export async function runStatement(
  { database, sql, params = [], limit, timeout }: s.Values<typeof statementInput>,
  { workspace, signal }: InternalToolContext,
  isWrite: boolean,
) {
  checkStatement(sql, isWrite);
  const { name, url } = declared(workspace, database);
  const engine = await engineFor(workspace, name, url, isWrite);
  const expired = AbortSignal.timeout(timeout);
  const startedAt = performance.now();
  try {
    const statement = { sql, params, limit, timeout, isWrite };
    const result = await engine.run(statement, AbortSignal.any([signal, expired]));
    return { ...result, database: name, elapsed: Math.round(performance.now() - startedAt) };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (!expired.aborted) throw new Error(`${engine.name} ("${name}"): ${explain(error, secretsOf(url))}`);
    const undone = isWrite ? " and its changes undone" : "";
    throw new Error(
      `The statement on "${name}" took longer than ${timeout} ms and was stopped${undone}. Narrow it, or raise timeout.`,
    );
  }
}

/** A database by its name in the workspace's config, or the only one. Messages show names, never addresses. */
function declared({ databases, isAdmin }: Workspace, given: string | undefined) {
  const names = Object.keys(databases);
  const listed =
    names.length > 0
      ? `Declared: ${names.join(", ")}.`
      : "This workspace declares no databases. The operator can add them under databases in the workspace's config.";
  const name = given ?? names[0];
  if (name === undefined) throw new Error(listed);
  if (given === undefined && names.length > 1) throw new Error(`Say which database is meant. ${listed}`);
  const url = Object.hasOwn(databases, name) ? databases[name] : undefined;
  if (url === undefined) throw new Error(`There is no database "${name}". ${listed}`);
  if (isAdmin === true || !isStore(url)) return { name, url };
  throw new Error(
    `"${name}" holds the store of the server itself, which is for admins. Use another database.`,
  );
}

/**
 * Whether the URL leads to the server's own store. A store in SQLite lies in `.toolrack`, which no tool can
 * reach.
 */
function isStore(url: string): boolean {
  const [one, own] = [url, process.env.DATABASE_URL ?? ""].map((text) => URL.parse(text));
  if (!one || !own) return false;
  const place = ({ protocol, hostname, port, pathname }: URL) => {
    const isPostgres = protocol.startsWith("postgres");
    return [isPostgres, hostname.toLowerCase(), port || (isPostgres ? "5432" : "3306"), pathname].join(" ");
  };
  return place(one) === place(own);
}

async function engineFor(
  workspace: Workspace,
  name: string,
  url: string,
  isWrite: boolean,
): Promise<DatabaseEngine> {
  const wrong = (problem: string) => new Error(`${problem} The operator must correct the config.`);
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase();
  if (scheme === "sqlite") {
    // `sqlite:data/app.db` is relative to the workspace; `sqlite:/…` and `sqlite:///…` are absolute.
    const path = url
      .slice("sqlite:".length)
      .replace(/^\/\/(?=\/)/, "")
      .replace(/^\/\//, "");
    if (path === "" || path === ":memory:") throw wrong(`"${name}" names no file, so nothing would be kept.`);
    // The first change may create the file; for reading, the file must exist.
    return createSqliteEngine(await confinePath(workspace, path, { mustExist: !isWrite }));
  }
  if (!URL.canParse(url)) throw wrong(`The address of "${name}" is malformed.`);
  if (scheme === "postgres" || scheme === "postgresql") return createPostgresEngine(url);
  if (scheme === "mysql" || scheme === "mariadb") return createMysqlEngine(url);
  throw wrong(`"${name}" is not a sqlite:, postgres: or mysql: database.`);
}

/** Texts of an address that no message may contain. */
function secretsOf(url: string): readonly string[] {
  const password = /^[a-z+]+:\/\/[^/?#]*?:([^/?#]*)@/i.exec(url)?.[1] ?? "";
  const query = [...url.matchAll(/[?&](?:password|passwd|pwd)=([^&#]*)/gi)].map((match) => match[1]!);
  const written = [url, password, ...query];
  return [...written, ...written.map(decode)].filter((text) => text !== "");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The database's own message without secrets, and what to do. The original error is not kept as a cause,
 * because it may hold secrets.
 */
function explain(error: unknown, secrets: readonly string[]): string {
  // When all addresses of a host refuse the connection, the messages are in the parts of the error.
  if (error instanceof AggregateError && error.errors.length > 0) return explain(error.errors[0], secrets);
  const { message = String(error), detail, hint, code } = Object(error);
  const said = [message, detail, hint].filter(Boolean).join(" ") || code || "unknown error";
  const safe = secrets.reduce((text, secret) => text.replaceAll(secret, "[hidden]"), String(said));
  if (/readonly database|read-only transaction|READ ONLY transaction/i.test(safe))
    return `${safe}. This tool only reads; use internal_database_update to change data.`;
  if (/^not authorized$|not authorized to use|^authorization denied/i.test(safe))
    return `${safe}. A statement may not attach other files, control transactions, load extensions or change settings.`;
  return safe;
}

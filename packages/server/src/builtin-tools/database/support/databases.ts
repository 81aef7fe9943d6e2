import type { Workspace } from "../../../config/index.ts";
import { confinePath } from "../../paths.ts";
import { createMysqlEngine, createPostgresEngine } from "./servers.ts";
import { createSqliteEngine } from "./sqlite.ts";
import type { DatabaseEngine } from "./statement.ts";

export interface DeclaredDatabase {
  readonly name: string;
  readonly engine: DatabaseEngine;
  /** Texts that no message may contain. */
  readonly secrets: readonly string[];
}

/** Opens a database by its name in the workspace's config. Messages show names, never addresses. */
export async function openDeclared(
  workspace: Workspace,
  given: string | undefined,
  isWrite: boolean,
): Promise<DeclaredDatabase> {
  const name = given ?? onlyName(workspace);
  const url = Object.hasOwn(workspace.databases, name) ? workspace.databases[name] : undefined;
  if (url === undefined) throw new Error(`There is no database "${name}". ${listNames(workspace)}`);
  if (workspace.isAdmin !== true && isStore(url)) {
    throw new Error(
      `"${name}" holds the store of the server itself, which is for admins. Use another database.`,
    );
  }
  return { name, engine: await engineFor(workspace, name, url, isWrite), secrets: secretsOf(url) };
}

/** Whether it is the server's own store. SQLite's file lies in `.toolrack`, which no tool can reach. */
function isStore(url: string): boolean {
  const [one, own] = [url, process.env.DATABASE_URL ?? ""].map((text) => URL.parse(text));
  if (!one || !own) return false;
  const place = ({ protocol, hostname, port, pathname }: URL) => {
    const isPostgres = protocol.startsWith("postgres");
    return [isPostgres, hostname.toLowerCase(), port || (isPostgres ? "5432" : "3306"), pathname].join(" ");
  };
  return place(one) === place(own);
}

function onlyName(workspace: Workspace): string {
  const names = Object.keys(workspace.databases);
  if (names.length === 1) return names[0]!;
  throw new Error(
    names.length === 0 ? listNames(workspace) : `Say which database is meant. ${listNames(workspace)}`,
  );
}

function listNames({ databases }: Workspace): string {
  const names = Object.keys(databases);
  if (names.length > 0) return `Declared: ${names.join(", ")}.`;
  return "This workspace declares no databases. The operator can add them under databases in the workspace's config.";
}

async function engineFor(
  workspace: Workspace,
  name: string,
  url: string,
  isWrite: boolean,
): Promise<DatabaseEngine> {
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase();
  if (scheme === "sqlite") return createSqliteEngine(await sqliteFile(workspace, name, url, isWrite));
  if (!URL.canParse(url))
    throw new Error(`The address of "${name}" is malformed. The operator must correct the config.`);
  if (scheme === "postgres" || scheme === "postgresql") return createPostgresEngine(url);
  if (scheme === "mysql" || scheme === "mariadb") return createMysqlEngine(url);
  throw new Error(
    `"${name}" is not a sqlite:, postgres: or mysql: database. The operator must correct the config.`,
  );
}

/** `sqlite:data/app.db` is relative to the workspace; `sqlite:/…` and `sqlite:///…` are absolute. */
async function sqliteFile(
  workspace: Workspace,
  name: string,
  url: string,
  isWrite: boolean,
): Promise<string> {
  const path = url
    .slice("sqlite:".length)
    .replace(/^\/\/(?=\/)/, "")
    .replace(/^\/\//, "");
  if (path === "" || path === ":memory:") {
    throw new Error(
      `"${name}" names no file, so nothing would be kept. The operator must correct the config.`,
    );
  }
  // A first change may create the file; a missing one cannot be read.
  return confinePath(workspace, path, { mustExist: !isWrite });
}

function secretsOf(url: string): readonly string[] {
  const password = /^[a-z+]+:\/\/[^/?#]*?:([^/?#]*)@/i.exec(url)?.[1] ?? "";
  const query = [...url.matchAll(/[?&](?:password|passwd|pwd)=([^&#]*)/gi)].map((match) => match[1]!);
  return [url, password, decode(password), ...query, ...query.map(decode)].filter((text) => text !== "");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

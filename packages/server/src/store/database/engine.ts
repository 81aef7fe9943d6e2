export type Engine = "sqlite" | "postgres" | "mysql";

/** Which engine a `DATABASE_URL` means; SQLite when there is none. */
export function engineOf(url: string | undefined): Engine {
  if (url === undefined || url === "") return "sqlite";
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1]?.toLowerCase();
  if (scheme === "postgres" || scheme === "postgresql") return "postgres";
  if (scheme === "mysql" || scheme === "mariadb") return "mysql";
  // The URL itself is not repeated: it may hold a password.
  const found = scheme === undefined ? "is no URL" : `begins with ${scheme}://`;
  throw new Error(
    `The database URL ${found}. It must begin with postgres://, mysql:// or mariadb://; leave it out to keep records in SQLite.`,
  );
}

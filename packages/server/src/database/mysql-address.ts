import type { ConnectionOptions } from "mysql2";

/**
 * Where and as whom to connect, read from the URL by hand, so that its query string cannot switch on what is off
 * here.
 */
export function mysqlAddress(url: string): ConnectionOptions {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const socketPath = searchParams.get("socketPath") ?? searchParams.get("socket");
  const ssl = searchParams.get("ssl") ?? searchParams.get("sslmode") ?? searchParams.get("ssl-mode");
  const isEncrypted = ssl !== null && !/^(false|0|disabled?|prefer(red)?)$/i.test(ssl);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? 3306 : Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
    ...(socketPath === null ? {} : { socketPath }),
    ...(isEncrypted ? { ssl: {} } : {}),
    multipleStatements: false,
    // A server must not be able to ask for files of this machine.
    flags: ["-LOCAL_FILES"],
  };
}

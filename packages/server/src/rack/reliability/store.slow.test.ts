import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { findPostgres, startPostgres } from "../../builtin-tools/testing/database-servers.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type Answer, linesOf, notingTools, repeatedIn, ServerProcess } from "./testing/server-process.ts";

const files = { "toolrack.config.js": "export default { builtins: false };", "tools/all.ts": notingTools };

/** Calls that clients make without a pause, and what they were answered. */
class Load {
  static #next = 0;
  readonly acknowledged: number[] = [];
  /** Answers that say the call was made and is not recorded yet. */
  readonly unrecorded: number[] = [];
  readonly refused: Answer[] = [];
  readonly broken: unknown[] = [];
  #isOver = false;
  readonly #clients: Promise<void>[];

  constructor(server: ServerProcess, clients: number) {
    this.#clients = Array.from({ length: clients }, () => this.#call(server));
  }

  async #call(server: ServerProcess): Promise<void> {
    while (!this.#isOver && server.isAlive) {
      const n = Load.#next++;
      try {
        const answer = await server.call("count", { n, ms: 20 }, { callId: `load-${n}` });
        if (answer.status !== 200) this.refused.push(answer);
        else (answer.body.recorded ? this.acknowledged : this.unrecorded).push(n);
      } catch (error) {
        if (server.isAlive) this.broken.push(error);
      }
    }
  }

  /** Whether so many calls more have been answered, well or not. */
  async more(count: number): Promise<void> {
    const answered = () => this.acknowledged.length + this.unrecorded.length + this.refused.length;
    const before = answered();
    await expect.poll(answered, { timeout: 60_000 }).toBeGreaterThan(before + count);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }
}

/** Of the numbers, those whose call the server does not know as completed. */
async function missingAt(server: ServerProcess, numbers: readonly number[]): Promise<number[]> {
  const found = await Promise.all(numbers.map((n) => server.ask(`/api/calls/load-${n}`)));
  return numbers.filter((_, at) => found[at]!.body.status !== "completed");
}

describe("a start after a kill -9", () => {
  /** What is done to the files of the store, and whether what they held may be gone. */
  const damages: readonly [title: string, damage: (store: string) => void, keepsAll: boolean][] = [
    [
      "journal with garbage behind its lines",
      (store) => eachJournal(store, (file) => appendFileSync(file, `\n{"half`)),
      true,
    ],
    [
      "journal with binary lines among its own",
      (store) =>
        eachJournal(store, (file) =>
          writeFileSync(
            file,
            Buffer.concat([randomBytes(4_096), Buffer.from("\n"), readFileSync(file), randomBytes(512)]),
          ),
        ),
      true,
    ],
    [
      "journals and locks of nobody",
      (store) => {
        for (const name of ["x.jsonl", "no-such.y.jsonl", "z.lock"])
          writeFileSync(join(store, "instances", name), randomBytes(2_000));
      },
      true,
    ],
    [
      "WAL with garbage behind it",
      (store) => appendFileSync(join(store, "toolrack.db-wal"), randomBytes(100_000)),
      true,
    ],
    [
      "WAL cut in the middle of a frame",
      (store) => truncateSync(wal(store), Math.max(0, statSync(wal(store)).size - 1_000)),
      false,
    ],
    ["WAL of garbage alone", (store) => writeFileSync(wal(store), randomBytes(200_000)), false],
    [
      "index of the WAL of garbage",
      (store) => writeFileSync(join(store, "toolrack.db-shm"), randomBytes(32_768)),
      true,
    ],
    ["server.json of garbage", (store) => writeFileSync(join(store, "server.json"), randomBytes(100)), true],
  ];

  test("with garbage in the files of the store", async ({ task }) => {
    await using workspace = await TemporaryWorkspace.create(files);
    const store = join(workspace.directory, ".toolrack");
    let lost = 0;
    let kept = 0;
    for (const [title, damage, keepsAll] of damages) {
      const before = await ServerProcess.start(workspace.directory);
      const load = new Load(before, 4);
      await load.more(40);
      await before.end("SIGKILL");
      await load.end();
      damage(store);
      await using server = await ServerProcess.start(workspace.directory);
      expect((await server.ask("/readyz")).status, title).toBe(200);
      const missing = await missingAt(server, load.acknowledged);
      if (keepsAll) expect(missing, title).toEqual([]);
      lost += missing.length;
      kept += load.acknowledged.length - missing.length;
      expect((await server.call("count", { n: -1 })).body.recorded, title).toBe(true);
      expect(await server.end("SIGTERM"), title).toEqual([0, null]);
      expect(integrityOf(store), title).toBe("ok");
    }
    expect(repeatedIn(linesOf(workspace.directory, "begun.txt").filter((n) => n !== "-1"))).toEqual([]);
    task.meta.figures = {
      damages: damages.length,
      starts: damages.length,
      "records kept": kept,
      "lost with a destroyed WAL": lost,
    };
  });

  test("with garbage as the database says which file, and touches nothing", async ({ task }) => {
    await using workspace = await TemporaryWorkspace.create(files);
    const file = join(workspace.directory, ".toolrack/toolrack.db");
    mkdirSync(join(workspace.directory, ".toolrack"));
    const garbage = randomBytes(100_000);
    writeFileSync(file, garbage);
    await expect(ServerProcess.start(workspace.directory)).rejects.toThrow(
      /ended with 1: [\s\S]*toolrack\.db/,
    );
    expect(readFileSync(file).equals(garbage)).toBe(true);
    task.meta.figures = { "exit code": 1 };
  });

  const wal = (store: string) => join(store, "toolrack.db-wal");
  function eachJournal(store: string, damage: (file: string) => void): void {
    const folder = join(store, "instances");
    for (const name of readdirSync(folder)) if (name.endsWith(".jsonl")) damage(join(folder, name));
  }
  function integrityOf(store: string): unknown {
    const database = new DatabaseSync(join(store, "toolrack.db"));
    try {
      return database.prepare("PRAGMA integrity_check").get()?.integrity_check;
    } finally {
      database.close();
    }
  }
});

const canMount = process.platform === "linux" && process.getuid?.() === 0;
if (!canMount) console.warn("SKIPPED: the full disk. It needs Linux and root, to mount a small one.");

test.skipIf(!canMount)("the disk is full, and has room again", async ({ task }) => {
  await using workspace = await TemporaryWorkspace.create(files);
  const disk = join(workspace.directory, ".toolrack");
  mkdirSync(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", disk]);
  try {
    await using server = await ServerProcess.start(workspace.directory);
    const load = new Load(server, 4);
    await load.more(100);
    fill(join(disk, "ballast"));
    await expect
      .poll(async () => JSON.stringify((await server.ask("/readyz")).body), { timeout: 60_000 })
      .toMatch(/degraded/);
    const before = load.acknowledged.length + load.unrecorded.length;
    await load.more(200);
    const meanwhile = load.acknowledged.length + load.unrecorded.length - before;
    rmSync(join(disk, "ballast"));
    await expect
      .poll(async () => (await server.ask("/readyz")).body, { timeout: 60_000 })
      .toEqual({ status: "ready" });
    await load.more(100);
    await load.end();
    const all = [...load.acknowledged, ...load.unrecorded];
    // What was held in memory is written when there is room.
    await expect.poll(() => missingAt(server, all), { timeout: 60_000, interval: 2_000 }).toEqual([]);
    expect(await server.end("SIGTERM")).toEqual([0, null]);
    await using next = await ServerProcess.start(workspace.directory);
    const lost = await missingAt(next, all);
    const twice = repeatedIn(linesOf(workspace.directory, "begun.txt"));
    task.meta.figures = {
      calls: all.length,
      "answered while it was full": meanwhile,
      refused: load.refused.length,
      lost: lost.length,
      "run twice": twice.length,
    };
    expect(load.broken).toEqual([]);
    expect(meanwhile).toBeGreaterThan(0);
    expect([lost, twice]).toEqual([[], []]);
  } finally {
    execFileSync("umount", [disk]);
  }
});

/** Writes until the disk takes not one byte more. */
function fill(file: string): void {
  for (let size = 1024 * 1024; size >= 1; size = Math.floor(size / 2)) {
    try {
      for (;;) appendFileSync(file, Buffer.alloc(size));
    } catch {
      // Full for pieces of this size.
    }
  }
}

/** Stands before a database that can be taken away: connections break, and new ones are refused or never answered. */
class Relay {
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  port = 0;

  constructor(target: number) {
    this.#target = target;
  }

  async open(isMute = false): Promise<void> {
    this.#server = createServer((socket) => {
      this.#keep(socket);
      if (isMute) return;
      const database = connect(this.#target, "127.0.0.1");
      this.#keep(database);
      socket.pipe(database).pipe(socket);
      socket.on("close", () => database.destroy());
      database.on("close", () => socket.destroy());
    }).listen(this.port, "127.0.0.1");
    await once(this.#server, "listening");
    // It listens on a port, not on a path.
    this.port = (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const closed = once(this.#server!, "close");
    this.#server!.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
  }
}

const postgres = findPostgres();
if (postgres === undefined) console.warn("SKIPPED: PostgreSQL away and back. Install PostgreSQL to run it.");

describe.skipIf(postgres === undefined)("PostgreSQL goes away and comes back", () => {
  test.for(["refuses connections", "does not answer"])("while it %s", async (how, { task }) => {
    await using database = await startPostgres(postgres!);
    const url = new URL(database.url);
    const relay = new Relay(Number(url.port));
    await relay.open();
    url.port = String(relay.port);
    await using workspace = await TemporaryWorkspace.create(files);
    await using server = await ServerProcess.start(workspace.directory, { env: { DATABASE_URL: url.href } });
    const load = new Load(server, 4);
    await load.more(100);
    await relay.close();
    if (how === "does not answer") await relay.open(true);
    await expect.poll(async () => (await server.ask("/readyz")).status, { timeout: 60_000 }).toBe(503);
    expect((await server.ask("/healthz")).status).toBe(200);
    const asked = performance.now();
    const listed = await server.ask("/api/calls");
    const took = performance.now() - asked;
    await sleep(5_000);
    if (how === "does not answer") await relay.close();
    await relay.open();
    await expect.poll(async () => (await server.ask("/readyz")).status, { timeout: 60_000 }).toBe(200);
    await load.more(50);
    await load.end();
    const all = [...load.acknowledged, ...load.unrecorded];
    await expect.poll(() => missingAt(server, all), { timeout: 60_000, interval: 2_000 }).toEqual([]);
    const twice = repeatedIn(linesOf(workspace.directory, "begun.txt"));
    const kinds = [...new Set(load.refused.map(({ status, body }) => `${status} ${body.error?.code}`))];
    task.meta.figures = {
      calls: all.length,
      "refused meanwhile": `${load.refused.length} (${kinds.join(", ")})`,
      "a list was refused after": `${(took / 1_000).toFixed(1)} s`,
      lost: 0,
      "run twice": twice.length,
    };
    expect(listed.status, JSON.stringify(listed.body)).toBe(503);
    expect(kinds.filter((kind) => !kind.startsWith("503"))).toEqual([]);
    expect(load.broken).toEqual([]);
    expect(twice).toEqual([]);
    expect(await server.end("SIGTERM")).toEqual([0, null]);
    await relay.close();
  });
});

test("two servers on one workspace", async ({ task }) => {
  await using workspace = await TemporaryWorkspace.create(files);
  await using first = await ServerProcess.start(workspace.directory);
  const created = await first.call("schedule_tool", {
    action: "create",
    toolName: "tick",
    interval: "every@1s",
  });
  expect(created.status).toBe(200);
  const second = await ServerProcess.start(workspace.directory);
  const loads = [new Load(first, 4), new Load(second, 4)];
  const cutOff = second.call("endless", {}, { callId: "cut-off" }).catch(() => "cut off");
  // Both are asked for the same id at the same moment; one of them runs it.
  const twins = Array.from({ length: 50 }, (_, at) =>
    [first, second].map((server) => server.call("count", { n: -at - 1 }, { callId: `twin-${at}` })),
  );
  const statuses = (await Promise.all(twins.flat())).map(({ status }) => status);
  await Promise.all(loads.map((load) => load.more(100)));
  await expect.poll(() => linesOf(workspace.directory, "ticks.txt").length).toBeGreaterThan(3);
  await second.end("SIGKILL");
  expect(await cutOff).toBe("cut off");
  await loads[0]!.more(100);
  await using third = await ServerProcess.start(workspace.directory);
  const statusOf = async () => (await first.ask("/api/calls/cut-off")).body.status;
  await expect.poll(statusOf).toBe("interrupted");
  await Promise.all(loads.map((load) => load.end()));
  const all = loads.flatMap(({ acknowledged }) => acknowledged);
  const lost = [...(await missingAt(first, all)), ...(await missingAt(third, all))];
  const twice = repeatedIn(linesOf(workspace.directory, "begun.txt"));
  const ticks = linesOf(workspace.directory, "ticks.txt");
  task.meta.figures = {
    acknowledged: all.length,
    lost: lost.length,
    "run twice": twice.length,
    "one id asked for at both, run once": statuses.filter((status) => status === 200).length,
    "runs of a schedule": ticks.length,
    "of them twice": repeatedIn(ticks).length,
  };
  expect(loads.flatMap(({ broken, refused, unrecorded }) => [...broken, ...refused, ...unrecorded])).toEqual(
    [],
  );
  expect([lost, twice, repeatedIn(ticks)]).toEqual([[], [], []]);
  expect(statuses.toSorted()).toEqual([...Array(50).fill(200), ...Array(50).fill(409)]);
  expect(await first.end("SIGTERM")).toEqual([0, null]);
  expect(await third.end("SIGTERM")).toEqual([0, null]);
});

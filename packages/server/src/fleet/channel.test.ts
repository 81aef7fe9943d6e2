import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  findPostgres,
  startPostgres,
  type TestDatabaseServer,
} from "../builtin-tools/testing/database-servers.ts";
import { openStore, type Store } from "../store/index.ts";
import { type Channel, NodeSilent, openChannel } from "./index.ts";

const postgres = findPostgres();
if (postgres === undefined) console.warn("SKIPPED: the channel between nodes. Install PostgreSQL to run it.");

let server: TestDatabaseServer;
const opened: (() => Promise<unknown>)[] = [];

async function openNode(url = server.url): Promise<{ store: Store; channel: Channel }> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-fleet-"));
  const logger = { warn() {}, error() {} };
  const store = await openStore({ directory, url, logger });
  const channel = await openChannel(store);
  opened.push(async () => {
    await channel.close();
    await store.close();
    await rm(directory, { recursive: true, force: true });
  });
  return { store, channel };
}

beforeAll(async () => {
  if (postgres !== undefined) server = await startPostgres(postgres);
}, 90_000);
afterAll(async () => {
  for (const close of opened.reverse()) await close();
  await server?.[Symbol.asyncDispose]();
}, 30_000);

describe.skipIf(postgres === undefined)("the channel between nodes", () => {
  it("brings a message of any length to one node, and nothing to others", async () => {
    const [a, b, c] = [await openNode(), await openNode(), await openNode()];
    c.channel.listen("word", () => expect.unreachable("The message was for another node."));
    const got = new Promise((resolve) => b.channel.listen("word", (body, from) => resolve([body, from])));
    const word = { text: "四 \ud83d\ude00 ".repeat(50_000) };
    await a.channel.send(b.channel.node, "word", word);
    expect(await got).toEqual([word, a.channel.node]);
  });

  it("answers a question with what the listener returns, or with its error", async () => {
    const [a, b] = [await openNode(), await openNode()];
    b.channel.listen("double", (body) => 2 * Number(body));
    b.channel.listen("fail", () => {
      throw new Error("not today");
    });
    expect(await a.channel.request(b.channel.node, "double", 21)).toBe(42);
    await expect(a.channel.request(b.channel.node, "fail", {})).rejects.toThrow("not today");
    await expect(a.channel.request(b.channel.node, "unheard", {})).rejects.toThrow("unheard");
    await expect(a.channel.request("nobody", "double", 1, 50)).rejects.toThrow(NodeSilent);
  });

  it("brings what is published to all others in order, long texts whole, and not back to the publisher", async () => {
    const [a, b, c] = [await openNode(), await openNode(), await openNode()];
    a.channel.listen("news", () => expect.unreachable("The publisher knows its own news."));
    const long = '"\u0001四\ud83d\ude00'.repeat(10_000);
    const heard = [b, c].map(({ channel }) => {
      const bodies: unknown[] = [];
      return new Promise((resolve) =>
        channel.listen("news", (body) => {
          bodies.push(body);
          if (bodies.length === 1_002) resolve(bodies);
        }),
      );
    });
    const news = [...Array.from({ length: 1_000 }, (_, at) => ({ at })), long, "last"];
    for (const body of news) a.channel.publish("news", body);
    for (const bodies of heard) expect(await bodies).toEqual(news);
  });

  it("brings a message to a node that was not connected when it was sent, and tells it of the gap", async () => {
    const [a, b] = [await openNode(), await openNode()];
    const gap = new Promise<void>((resolve) => b.channel.onGap(resolve));
    const got = new Promise((resolve) => b.channel.listen("later", resolve));
    await a.store.instance.connection?.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'toolrack node' and pid <> pg_backend_pid()",
      [],
    );
    await a.channel.send(b.channel.node, "later", "still there");
    expect(await got).toBe("still there");
    await gap;
  });
});

describe("the channel of a rack that keeps its data in SQLite", () => {
  it("has nobody to talk to, and says so", async () => {
    const { channel } = await openNode("");
    channel.publish("news", 1);
    await expect(channel.request("other", "question", 1)).rejects.toThrow(NodeSilent);
    expect(channel.isShared).toBe(false);
  });
});

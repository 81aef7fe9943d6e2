import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { findRedis, startRedis } from "../builtin-tools/testing/database-servers.ts";
import { NodeSilent } from "./channel.ts";
import { RedisChannel } from "./redis-channel.ts";

const redis = findRedis();
if (redis === undefined)
  console.warn("SKIPPED: the channel of servers and workers. Install redis-server to run it.");

describe.skipIf(redis === undefined)("the channel of servers and workers", () => {
  let server: Awaited<ReturnType<typeof startRedis>>;
  const kept = new Map<string, string>();
  const opened: (() => Promise<unknown>)[] = [];
  let watcher: Redis;

  beforeAll(async () => {
    if (redis === undefined) return;
    server = await startRedis(redis);
    watcher = new Redis(server.url);
  }, 60_000);
  afterEach(async () => {
    for (const close of opened.splice(0)) await close();
  });
  afterAll(async () => {
    watcher?.disconnect();
    await server?.[Symbol.asyncDispose]();
  });

  /** Resolves when the node listens. */
  async function open(node: string, readKept = async (name: string) => kept.get(name)!) {
    const client = new Redis(server.url);
    const channel = new RedisChannel({
      ...{ node, client, prefix: "test", readKept },
      seal: (text) => Buffer.from(text).toString("base64"),
      unseal: (text) => Buffer.from(text, "base64").toString(),
      keep: async (text) => {
        const name = `kept-${kept.size}`;
        kept.set(name, text);
        return name;
      },
    });
    opened.push(async () => {
      await channel.close();
      client.disconnect();
    });
    const name = `test:node:${node}`;
    while (((await watcher.call("PUBSUB", "NUMSUB", name)) as [string, number])[1] === 0) await wait(5); // As Redis answers.
    return channel;
  }

  it("brings a question to one node, and its answer or its failure back", async () => {
    const [asking, other] = [await open("a"), await open("b")];
    other.listen("add", async (body) => Number(body) + 1);
    other.listen("fail", async () => {
      throw new Error("It is closed.");
    });
    expect(await asking.request("b", "add", 41)).toBe(42);
    await expect(asking.request("b", "fail", {})).rejects.toThrow("It is closed.");
  });

  it("keeps the order of messages, also when a long one is fetched from the store", async () => {
    const asking = await open("a");
    const other = await open("b", async (name) => {
      await wait(30);
      return kept.get(name)!;
    });
    const heard: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    other.listen("line", async (body) => {
      heard.push(String(body).slice(0, 5));
      if (heard.length === 3) resolve();
    });
    await asking.send("b", "line", `long ${"x".repeat(100_000)}`);
    await asking.send("b", "line", "two");
    await asking.send("b", "line", "three");
    await promise;
    expect(heard).toEqual(["long ", "two", "three"]);
    expect(kept.size).toBeGreaterThan(0);
  });

  it("asks again when an answer is lost, and the question is acted on once", async () => {
    const asking = await open("a");
    const other = await open("b");
    let acted = 0;
    other.listen("pay", async () => {
      acted += 1;
      // The asking node hears nothing while the answer is sent.
      if (acted === 1) await watcher.call("CLIENT", "KILL", "TYPE", "pubsub");
      return acted;
    });
    expect(await asking.request("b", "pay", {}, 20_000)).toBe(1);
    expect(acted).toBe(1);
  }, 30_000);

  it("says that a node is silent when nobody listens under its name", async () => {
    const asking = await open("a");
    await expect(asking.send("nobody", "line", "hello")).rejects.toThrow(NodeSilent);
    await expect(asking.request("nobody", "line", "hello", 200)).rejects.toThrow(NodeSilent);
  });
});

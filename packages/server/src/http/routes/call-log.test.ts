import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { Hold, StreamReader, TestServer } from "../server.fixture.ts";

let server: TestServer;
const hold = new Hold();

beforeAll(async () => {
  const talk = Tool.define({
    name: "talk",
    description: "Says what it does.",
    parameters: z.object({ id: z.string().default("x"), password: z.string().default("") }),
    execute: async ({ input, logger, progress, signal }) => {
      logger.info("signing in with", input.password);
      progress(1, 2, "half way");
      await hold.wait(input.id, signal);
      logger.warn("slow");
      return "done";
    },
  });
  const quiet = Tool.define({
    name: "quiet",
    description: "Says nothing.",
    parameters: z.object({}),
    execute: async () => "x",
  });
  server = await TestServer.start({ tools: [talk, quiet] });
});
afterAll(() => server[Symbol.asyncDispose]());

const said = (log: { level: string; text: string }[]) => log.map(({ level, text }) => [level, text]);

describe("the log of a call", () => {
  it("can be read while the call runs and after it, without the secrets of its arguments", async () => {
    const call = server.call("talk", { id: "one", password: "hunter22" }, { callId: "one" });
    await hold.started("one");
    const running = (await server.ask("/api/calls/one")).body;
    expect(running.status).toBe("running");
    expect(said(running.log)).toEqual([
      ["info", "signing in with [redacted]"],
      ["progress", "half way (1/2)"],
    ]);
    hold.release("one");
    await call;
    const { log, timestamp } = (await server.ask("/api/calls/one")).body;
    expect(said(log)).toEqual([
      ["info", "signing in with [redacted]"],
      ["progress", "half way (1/2)"],
      ["warn", "slow"],
    ]);
    expect(log[0].at).toBeGreaterThanOrEqual(timestamp - 1);
    expect((await server.ask("/api/calls/one/record")).body.log).toEqual(log);
    expect((await server.ask("/api/calls")).body.items[0]).not.toHaveProperty("log");
  });

  it("is absent of a call that said nothing", async () => {
    const { body } = await server.call("quiet");
    expect((await server.ask(`/api/calls/${body.callId}`)).body).not.toHaveProperty("log");
  });

  it("is told live to those who may see the call", async () => {
    const open = async (token?: string) =>
      new StreamReader(await server.fetch("/api/events", token === undefined ? {} : { token }));
    const [admin, other] = [await open(), await open(await server.issue({ tools: ["quiet"] }))];
    await Promise.all([admin.until("ready"), other.until("ready")]);
    hold.release("live");
    await server.call("talk", { id: "live" }, { callId: "live" });
    const { data } = await admin.until("call.log");
    expect(data).toMatchObject({ callId: "live", toolName: "talk" });
    expect(said(data.lines)[0]).toEqual(["info", "signing in with "]);
    await admin.until("call.completed");
    await server.ask("/api/tools/quiet", { method: "PATCH", body: { enabled: false } });
    for (let event = await other.next(); ; event = await other.next()) {
      expect(event?.event).not.toBe("call.log");
      if (event === undefined || event.event === "tools.changed") break;
    }
    await Promise.all([admin.cancel(), other.cancel()]);
  });

  it("comes in the stream of the call itself", async () => {
    hold.release("streamed");
    const response = await server.fetch("/api/tools/talk/calls", {
      method: "POST",
      headers: { accept: "text/event-stream", "content-type": "application/json" },
      body: JSON.stringify({ arguments: { id: "streamed" } }),
    });
    const events = new StreamReader(response);
    expect((await events.until("log")).data).toMatchObject({ level: "info", text: "signing in with " });
    expect((await events.until("log")).data).toMatchObject({ level: "warn", text: "slow" });
    await events.until("result");
  });
});

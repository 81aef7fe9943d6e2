import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { asRecord } from "../../../helpers/values.ts";
import { RecentLines } from "./recent-lines.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** Does not read before it gets a signal; then it says which messages it has read, by their methods. */
const lateReader = `
  setInterval(() => {}, 1000);
  process.on("SIGUSR1", () => {
    require("node:readline").createInterface(process.stdin).on("line", (line) => {
      const { method, id } = JSON.parse(line);
      console.log(JSON.stringify({ jsonrpc: "2.0", id: 0, result: { method, id } }));
    });
  });
  console.log(JSON.stringify({ jsonrpc: "2.0", method: "here" }));
`;

/** A transport to it, and what it has read. */
async function openLateReader(): Promise<{ transport: StdioTransport; read: unknown[]; begin(): void }> {
  const lines = new RecentLines((text) => text);
  const args = ["-e", lateReader];
  const spec = { server: "late", command: process.execPath, args, env: {}, cwd: "/" };
  const transport = new StdioTransport(spec, lines);
  const here = Promise.withResolvers<void>();
  const read: unknown[] = [];
  transport.onmessage = (message) => {
    const { id, method } = asRecord(message.result);
    if (message.result === undefined) here.resolve();
    else read.push(id ?? method);
  };
  await transport.start();
  await here.promise;
  return { transport, read, begin: () => void process.kill(transport.pid ?? 0, "SIGUSR1") };
}

const text = "x".repeat(1024 * 1024);
const request = (id: number) => ({ jsonrpc: "2.0", id, method: "a", params: { text } }) as const;
const notification = (method: string, params = {}) => ({ jsonrpc: "2.0", method, params }) as const;

it.concurrent("what a server does not read yet waits, and comes in order", async ({ expect }) => {
  const { transport, read, begin } = await openLateReader();
  const sent = Array.from({ length: 20 }, (_, id) => transport.send(request(id)));
  sent.push(transport.send(notification("last")));
  begin();
  await Promise.all(sent);
  await until(() => read.length === 21);
  expect(read).toEqual([...Array(20).keys(), "last"]);
  await transport.close();
});

it.concurrent("a request that was cancelled before it left is never sent", async ({ expect }) => {
  const { transport, read, begin } = await openLateReader();
  const sent = [1, 2, 3].map((id) => transport.send(request(id)));
  // What has left can only be called back; what has not is forgotten.
  for (const requestId of [1, 3]) {
    sent.push(transport.send(notification("notifications/cancelled", { requestId })));
  }
  begin();
  await Promise.all([...sent, transport.send(notification("last"))]);
  await until(() => read.includes("last"));
  expect(read).toEqual([1, 2, "notifications/cancelled", "last"]);
  await transport.close();
});

it.concurrent("a server that reads nothing is sent no more requests", { timeout: 60_000 }, async ({
  expect,
}) => {
  const { transport, read, begin } = await openLateReader();
  const sent = await Promise.allSettled([1, 2, 3].map((id) => transport.send(request(id))));
  const refusal = {
    kind: "busy",
    message: expect.stringMatching(
      /^The MCP server "late" has read nothing .* for 5 s.*toolrack mcp-servers restart late$/,
    ),
  };
  expect(sent).toMatchObject([
    { status: "fulfilled" },
    { status: "rejected", reason: refusal },
    { status: "rejected", reason: refusal },
  ]);
  begin();
  await transport.send(request(4));
  await until(() => read.length === 2);
  expect(read).toEqual([1, 4]);
  await transport.close();
});

it.concurrent("of what nobody waits for, a server that does not read is sent only so much", async ({
  expect,
}) => {
  const { transport } = await openLateReader();
  const refused = Promise.withResolvers<Error>();
  for (let count = 0; count < 30; count++) transport.send(notification("a", { text })).catch(refused.resolve);
  expect(await refused.promise).toMatchObject({
    kind: "busy",
    message: expect.stringMatching(
      /^The MCP server "late" has not read 16 MB.*toolrack mcp-servers restart late$/,
    ),
  });
  await transport.close();
});

it.concurrent("what waits when a server ends fails", async ({ expect }) => {
  const { transport } = await openLateReader();
  const [, second] = [transport.send(request(1)), transport.send(request(2))];
  process.kill(transport.pid ?? 0, "SIGKILL");
  await expect(second).rejects.toThrow(/process has ended|no longer reads/);
  await transport.close();
});

const lasting = { server: "lasting", command: process.execPath, args: ["-e", "setInterval(() => {}, 1000)"] };

it("a server that is closed in the moment of its start is ended", async () => {
  const transport = new StdioTransport({ ...lasting, env: {}, cwd: "/" }, new RecentLines((text) => text));
  const started = transport.start();
  const pid = transport.pid ?? 0;
  await transport.close();
  await started;
  expect(pid).toBeGreaterThan(0);
  expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
});

it("a server that was closed before its start is never started", async () => {
  const transport = new StdioTransport({ ...lasting, env: {}, cwd: "/" }, new RecentLines((text) => text));
  await transport.close();
  await expect(transport.start()).rejects.toThrow(/was closed/);
  expect(transport.pid).toBeNull();
});

it.skipIf(process.platform !== "linux")(
  "what a server started is ended with it, also when it left the group and has no environment",
  { timeout: 30_000 },
  async () => {
    const lines = new RecentLines((text) => text);
    const odd = fileURLToPath(new URL("../testing/odd-server.fixture.mjs", import.meta.url));
    const seconds = `${100_000 + Math.floor(Math.random() * 1e6)}.25`;
    const env = { PATH: process.env.PATH ?? "", ODD_SLEEP: seconds };
    const transport = new StdioTransport(
      { server: "odd", command: process.execPath, args: [odd, "orphan"], env, cwd: "/" },
      lines,
    );
    await transport.start();
    while (sleepers(seconds).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    await transport.close();
    expect(sleepers(seconds)).toEqual([]);
  },
);

function sleepers(seconds: string): string[] {
  const all = execFileSync("ps", ["-eo", "pid,args"], { encoding: "utf8" }).split("\n");
  return all.filter((line) => line.trim().endsWith(`sleep ${seconds}`));
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}

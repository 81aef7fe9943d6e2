import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { RecentLines } from "./recent-lines.ts";
import { StdioTransport } from "./stdio-transport.ts";

it("a server that does not read is sent only so much", async () => {
  const lines = new RecentLines((text) => text);
  const args = ["-e", "setInterval(() => {}, 1000)"];
  const transport = new StdioTransport({ command: process.execPath, args, env: {}, cwd: "/" }, lines);
  await transport.start();
  const message = { jsonrpc: "2.0", method: "a", params: { text: "x".repeat(1024 * 1024) } } as const;
  const refused = Promise.withResolvers<Error>();
  for (let count = 0; count < 20; count++) transport.send(message).catch(refused.resolve);
  expect(await refused.promise).toMatchObject({
    kind: "busy",
    message: expect.stringMatching(/has not read 8 MB/),
  });
  await transport.close();
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
      { command: process.execPath, args: [odd, "orphan"], env, cwd: "/" },
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

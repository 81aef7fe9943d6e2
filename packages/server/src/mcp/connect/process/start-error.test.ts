import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { RecentLines } from "./recent-lines.ts";
import { StdioTransport } from "./stdio-transport.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-start-"));
  await writeFile(join(directory, "orphan"), "#!/no/such/interpreter\n", { mode: 0o755 });
});
afterAll(() => rm(directory, { recursive: true, force: true }));

it.each([
  ["no-such-program", ".", /"no-such-program" cannot be started: there is no such program\. Install it/],
  ["node /x/s.mjs ok", ".", /Leave "node" there, and put what follows into "args"/],
  ["~/bin/x", ".", /Only a shell knows "~": write "\$\{userHome\}\/bin\/x"/],
  ["./orphan", ".", /the file is there, but not the program that its first line/],
  [process.execPath, "gone", /there is no folder .*gone to start it in/],
])("what keeps %s in %s from being started is said", async (command, folder, reason) => {
  const spec = { server: "s", command, args: [], env: {}, cwd: join(directory, folder) };
  const transport = new StdioTransport(spec, new RecentLines((text) => text));
  const problem = await transport.start().then(
    () => "started",
    (error: Error) => error.message,
  );
  expect(problem).toMatch(reason);
  // Of a folder that is there, nobody is told that it is not.
  if (folder === ".") expect(problem).not.toContain("folder");
});

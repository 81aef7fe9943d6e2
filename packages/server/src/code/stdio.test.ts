import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { program } from "../cli/testing/spawn-cli.ts";
import { ServedWorkspace } from "../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { files, paying } from "./noted-runs.fixture.ts";

let workspace: TemporaryWorkspace;
beforeEach(async () => {
  workspace = await TemporaryWorkspace.create(files);
});
afterEach(() => workspace[Symbol.asyncDispose]());

type Era = "modern" | "legacy";
type Asked = (message: string) => object | Promise<object>;

/** A client of the SDK that starts `toolrack mcp`. With `asked`, its person can be asked. */
async function connect(era: Era, asked?: Asked): Promise<Client> {
  const [command, ...words] = program;
  const client = new Client(
    { name: "tester", version: "1" },
    {
      capabilities: asked === undefined ? {} : { elicitation: {} },
      versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" },
    },
  );
  if (asked !== undefined)
    client.setRequestHandler(
      "elicitation/create",
      // The answers of these tests have the form that the schema asks for.
      async ({ params }) => (await asked(params.message)) as { action: "accept" },
    );
  const args = [...words, "mcp", "--dir", workspace.directory];
  await client.connect(new StdioClientTransport({ command: command!, args, stderr: "ignore" }));
  return client;
}

const run = (client: Client) => client.callTool({ name: "toolrack_run", arguments: { code: paying } });
const ran = async () =>
  (await readFile(join(workspace.directory, "ran.txt"), "utf8")).trim().split("\n").toSorted();
const each = ["note 1", "note 1", "note 2", "note 3", "note 5", "pay 4"];

const question = async (served: ServedWorkspace) => {
  const items = async () => (await served.ask("GET", "/api/approvals?state=pending")).body.items;
  await expect.poll(async () => (await items()).length, { timeout: 30_000 }).toBe(1);
  return (await items())[0];
};
/** Agrees, and expects that the run ends and each of its calls was made once. */
async function expectToEnd(
  served: ServedWorkspace,
  { id, run: { callId } }: Awaited<ReturnType<typeof question>>,
) {
  await served.ask("POST", `/api/approvals/${id}`, { decision: "allow" });
  const call = async () => (await served.ask("GET", `/api/calls/${callId}`)).body;
  await expect.poll(async () => (await call()).status, { timeout: 30_000 }).toBe("completed");
  expect((await call()).result.structured).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
  expect(await ran()).toEqual(each);
}

describe.each<Era>(["modern", "legacy"])("code of a %s client over stdio", { timeout: 120_000 }, (era) => {
  it("shows the person at the client the code with the line that waits, and goes on with a yes", async () => {
    const heard: string[] = [];
    const client = await connect(era, (message) => {
      heard.push(message);
      return { action: "accept", content: { approve: true } };
    });
    const answer = await run(client);
    await client.close();
    expect(answer.structuredContent ?? JSON.parse(Object(answer).content[0].text)).toMatchObject({
      paid: { n: 4 },
    });
    expect(heard).toHaveLength(1);
    expect(heard[0]).toContain("The code that makes the call waits at line 4:");
    expect(heard[0]).toContain(`> 4 | ${paying.split("\n")[3]}`);
    expect(heard[0]).toContain("line 2: note (completed)");
    expect(await ran()).toEqual(each);
  });

  it("goes on at a server that runs when the client leaves while somebody is asked", async () => {
    await using served = await ServedWorkspace.start(workspace.directory);
    const client = await connect(era);
    const lost = run(client).catch(() => "lost");
    const asked = await question(served);
    await client.close();
    expect(await lost).toBe("lost");
    await expectToEnd(served, asked);
  });

  it("goes on at the next start when the client leaves whose process ran it alone", async () => {
    const seen = Promise.withResolvers<void>();
    const left = Promise.withResolvers<object>();
    const client = await connect(era, () => {
      seen.resolve();
      return left.promise;
    });
    const lost = run(client).catch(() => "lost");
    await seen.promise;
    await client.close();
    left.resolve({ action: "cancel" });
    expect(await lost).toBe("lost");
    expect(await ran()).not.toContain("pay 4");
    await using served = await ServedWorkspace.start(workspace.directory);
    await expectToEnd(served, await question(served));
  });
});

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../../store/store.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

const secret = "hunter2-very-secret";
let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "tools/all.ts": `
import { Tool } from "@toolrack/core";
const parameters = { type: "object", properties: { text: { type: "string" } } };
export const echo = Tool.define({ name: "echo", description: "Echoes.", parameters, execute: async ({ input }) => input.text });
export const outer = Tool.define({ name: "outer", description: "Calls.", parameters, execute: async ({ input, call }) => (await call("echo", input)).content });
`,
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

const cli = (args: string[], more: { input?: string; env?: Record<string, string> } = {}) =>
  runCli(args, {
    cwd: workspace.directory,
    ...more,
    // Tests leave nothing in the keyring of whoever runs them.
    env: { TOOLRACK_KEYRING: "off", ...more.env },
  });

async function storedCalls() {
  const store = await openStore({ directory: join(workspace.directory, ".toolrack") });
  const { items } = await store.calls.list({});
  await store.close();
  return items;
}

describe("toolrack call", { timeout: 180_000 }, () => {
  it("keeps its calls in the store, which it makes when there is none", async () => {
    const { code, stderr } = await cli(["call", "outer", "text=hello", "--session", "one"]);
    expect(code, stderr).toBe(0);
    if (process.platform !== "win32") {
      expect((await stat(join(workspace.directory, ".toolrack"))).mode & 0o777).toBe(0o711);
    }
    const calls = await storedCalls();
    const root = calls.find(({ toolName }) => toolName === "outer");
    expect(root).toMatchObject({ caller: "cli", sessionID: "one", outcome: "completed" });
    expect(calls.find(({ toolName }) => toolName === "echo")).toMatchObject({
      parentCallId: root?.callId,
      outcome: "completed",
    });
  });

  it("does not run what a rule of the workspace denies, whatever --yes says", async () => {
    const store = await openStore({ directory: join(workspace.directory, ".toolrack") });
    const rule = { id: "r1", tool: "echo", decision: "deny", createdBy: "tester", createdAt: 1 } as const;
    await store.approvals.addRule(rule);
    const { code, stderr } = await cli(["call", "echo", "text=a", "--yes"]);
    expect(code, stderr).toBe(5);
    expect(stderr).toContain("the approval rule r1 denies echo");
    await store.approvals.removeRule("r1");
    await store.close();
  });

  it("masks the secrets of the store in its output, its record and the log", async () => {
    expect((await cli(["secrets", "set", "K"], { input: secret })).code).toBe(0);
    const { stdout } = await cli(["call", "echo", `text=it is ${secret}`]);
    expect(stdout).toBe("it is [redacted]\n");
    expect(JSON.stringify(await storedCalls())).not.toContain(secret);
    expect(await readFile(join(workspace.directory, "log/ToolBox.log"), "utf8")).not.toContain(secret);
  });

  it("goes on without a store, and says so", async () => {
    const { code, stdout, stderr } = await cli(["call", "echo", "text=hello"], {
      // Nothing listens there.
      env: { DATABASE_URL: "postgres://ann:pass-of-ann@127.0.0.1:1/db" },
    });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "hello\n" });
    expect(stderr).toMatch(/warning: the call is kept in .*ToolBox\.log only\. Cannot open the database/);
    expect(stderr).not.toContain("pass-of-ann");
  });
});

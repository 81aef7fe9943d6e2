import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../../store/store.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  const tool = (name: string) =>
    `import { Tool } from "@toolrack/core";
export const it = Tool.define({ name: "${name}", parameters: { type: "object" }, execute: () => "" });`;
  workspace = await TemporaryWorkspace.create({
    "tools/refund_order.ts": tool("refund_order"),
    "tools/send_letter.ts": tool("send_letter"),
  });
  const store = await openStore({ directory: join(workspace.directory, ".toolrack") });
  for (const query of ["money back", "send it home", "wibble the gromp"])
    await store.searches.add({ query, toolName: "refund_order", owner: "" });
  await store.close();
});
afterAll(() => workspace[Symbol.asyncDispose]());

const searches = (...words: string[]) => runCli(["searches", ...words], { cwd: workspace.directory });

describe("toolrack searches", { timeout: 180_000 }, () => {
  it("help searches without a server, until learning is switched off", async () => {
    const find = async () => {
      const { stdout } = await runCli(["search", "gromp wibble", "--json"], { cwd: workspace.directory });
      return JSON.parse(stdout).tools[0]?.name;
    };
    expect(await find()).toBe("refund_order");
    await searches("off");
    expect(await find()).not.toBe("refund_order");
    await searches("on");
  });

  it("lists what was learned, forgets it, and switches learning", async () => {
    const listed = await searches();
    expect(listed.stdout).toMatch(/money back +refund_order +1 /);
    expect(listed.stderr).toContain("3 searches learned.");
    expect((await searches("forget")).code).toBe(2);
    const [, id = ""] = /^(\w+) +money back/m.exec(listed.stdout) ?? [];
    expect((await searches("forget", id)).stderr).toContain("Forgot 1 search.");
    expect((await searches("forget", id)).stderr).toContain("No search has the id");
    expect((await searches("off")).stderr).toContain("Nothing is learned");
    expect(JSON.parse((await searches("--json")).stdout)).toMatchObject({
      learning: false,
      searches: expect.arrayContaining([
        expect.objectContaining({ query: "wibble the gromp" }),
        expect.objectContaining({ query: "send it home" }),
      ]),
    });
    expect((await searches("on")).stderr).toContain("learns from use");
    expect(JSON.parse((await searches("clear", "--json")).stdout)).toEqual({ forgotten: 2 });
    expect((await searches()).stderr).toContain("No search has been learned.");
  });
});

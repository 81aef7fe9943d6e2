import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";
import { toolFiles } from "./tool-files.ts";

describeConsole("tests in the console", ({ server, open }) => {
  it("are made of a call with a click, and run on the tool's page", async () => {
    const { callId } = await server().call("hello_world", { name: "Ada" });
    const page = await open({ path: `/calls/${callId}` });
    await page.getByRole("button", { name: "Make a test of it" }).click();
    await page.getByRole("link", { name: /Written to tests\/hello_world\.calls\.yaml/ }).click();
    await page.getByText("not run yet").waitFor();
    await page.getByRole("button", { name: "Run all tests of this tool" }).click();
    await page.getByText("passed", { exact: true }).waitFor();
    await page.getByText("1 test passed").waitFor();
    const file = await readFile(join(server().workspace, "tests/hello_world.calls.yaml"), "utf8");
    expect(file).toContain("count_letters");

    const source = toolFiles["tools/hello-world.ts"] ?? "";
    await server().write("tools/hello-world.ts", source.replace('"Hello, "', '"Good day, "'));
    const greet = () =>
      server().ask<{ result: { content: string } }>("/api/tools/hello_world/calls", {
        arguments: { name: "Ada" },
      });
    await expect.poll(async () => (await greet()).result.content, { timeout: 60_000 }).toContain("Good day");
    await page.getByRole("listitem").getByRole("button", { name: "Run" }).click();
    await page.getByText("failed", { exact: true }).waitFor();
    await page.getByText("1 test failed").waitFor();
    await page.getByRole("region", { name: "The difference at /" }).getByText("Good day, Ada").waitFor();
  });
});

import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";
import { slowToolFile } from "./tool-files.ts";

const tools = `import { Tool } from "@toolrack/core";
export const manyFields = Tool.define({
  name: "many_fields",
  description: "Has a long form.",
  parameters: {
    type: "object",
    properties: Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => ["field" + index, { type: "string", minLength: 2, maxLength: 9 }]),
    ),
  },
  execute: async () => "taken",
});
export const numbered = Tool.define({
  name: "numbered",
  description: "Has a number.",
  parameters: { type: "object", properties: { n: { type: "integer", minimum: 3 } }, required: ["n"] },
  execute: async ({ input }) => "number " + input.n,
});
`;

describeConsole(
  "a run in the console",
  ({ server, open }) => {
    const statusOf = async (callId: string) =>
      (await server().ask<{ status: string }>(`/api/calls/${callId}`)).status;

    it("goes on when the page is loaded anew, and can be cancelled there", async () => {
      const page = await open({ path: "/tools/slow" });
      const result = page.getByRole("region", { name: "Result" });
      await page.getByRole("button", { name: "Run" }).click();
      await result.getByText("Step 2").first().waitFor();
      await page.waitForURL(/call=/);
      const callId = new URL(page.url()).searchParams.get("call") ?? "";
      await page.reload();
      await result.getByText("Step 9").first().waitFor();
      expect(await statusOf(callId)).toBe("running");
      await result.getByRole("button", { name: "Cancel" }).click();
      await result.getByText("cancelled in the console").waitFor();
      expect(await statusOf(callId)).toBe("cancelled");
    });

    it("goes on when the network is gone for a moment", async () => {
      const page = await open({ path: "/tools/slow" });
      const result = page.getByRole("region", { name: "Result" });
      await page.getByRole("button", { name: "Run" }).click();
      await result.getByText("Step 2").first().waitFor();
      server().disconnect();
      server().reconnect();
      await result.getByText("Step 20").first().waitFor();
      await result.getByRole("button", { name: "Cancel" }).click();
      await result.getByText("cancelled in the console").waitFor();
    });

    it("keeps its question when the page is loaded anew", async () => {
      const page = await open({ path: "/tools/delete_draft" });
      const result = page.getByRole("region", { name: "Result" });
      await page.getByRole("textbox", { name: "path (required)" }).fill("a.md");
      await page.getByRole("button", { name: "Run" }).click();
      await result.getByRole("button", { name: "Approve" }).waitFor();
      await page.reload();
      await result.getByRole("button", { name: "Approve" }).click();
      await result.getByText("deleted a.md").waitFor();
    });

    it("shows its result beside the form from 1000 pixels on, and leads to it below that", async () => {
      const wide = await open({ path: "/tools/many_fields", width: 1024 });
      const place = async (page: typeof wide, name: string) =>
        (await page.getByRole("region", { name }).boundingBox())!;
      await wide.getByRole("region", { name: "Result" }).waitFor();
      const form = await place(wide, "Arguments");
      expect((await place(wide, "Result")).x).toBeGreaterThanOrEqual(form.x + form.width);

      const narrow = await open({ path: "/tools/many_fields", width: 900 });
      await narrow.getByRole("button", { name: "Run" }).click();
      await narrow.getByText("taken").waitFor();
      const bottom = async () => {
        const { y, height } = await place(narrow, "Result");
        return y + height;
      };
      await expect.poll(bottom).toBeLessThanOrEqual(850);
    });

    it("leads to a refused field that nothing covers", async () => {
      const page = await open({ path: "/tools/many_fields" });
      const field = page.getByRole("textbox", { name: "field20" });
      await field.fill("x");
      await page.getByRole("textbox", { name: "field0" }).focus();
      await page.keyboard.press("Control+Enter");
      await expect.poll(() => field.getAttribute("aria-invalid")).toBe("true");
      const isOnTop = () =>
        field.evaluate((input) => {
          const { x, y, width, height } = input.parentElement!.parentElement!.getBoundingClientRect();
          const found = document.elementFromPoint(x + width / 2, y + height - 2);
          return input.parentElement!.parentElement!.contains(found);
        });
      await expect.poll(isOnTop).toBe(true);
    });

    it("takes an example in the place of a number that is none, and is begun from any button of the form", async () => {
      const page = await open({ path: "/tools/numbered" });
      const field = page.getByRole("textbox", { name: "n (required)" });
      await field.fill("abc");
      await page.getByText("This is not a whole number.").waitFor();
      await page.getByRole("button", { name: "Fill in an example" }).click();
      await expect.poll(() => field.inputValue()).toBe("3");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByText("number 3").waitFor();
      await field.fill("4");
      await page.getByRole("button", { name: "Recent" }).focus();
      await page.keyboard.press("Control+Enter");
      await page.getByText("number 4").waitFor();
      expect(await page.getByRole("menu").count()).toBe(0);
    });

    it("does not go on about a token that is in order again", async () => {
      const page = await open({ path: "/tools/numbered" });
      await page.route("**/calls", (route) =>
        route.continue({ headers: { ...route.request().headers(), authorization: "Bearer trk_unknown" } }),
      );
      await page.getByRole("textbox", { name: "n (required)" }).fill("5");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      const refused = page.getByText("unauthorized", { exact: true });
      await refused.waitFor();
      await page.unroute("**/calls");
      const dialog = page.getByRole("dialog", { name: "Sign in again" });
      await dialog.getByRole("textbox", { name: "Token" }).fill(server().token);
      await dialog.getByRole("button", { name: "Sign in" }).click();
      await refused.waitFor({ state: "detached" });
    });

    it("is edited and made again from its first field", async () => {
      const { callId } = await server().call("numbered", { n: 7 });
      const page = await open({ path: `/calls/${callId}` });
      await page.getByRole("button", { name: "Edit and run again" }).click();
      const field = page.getByRole("dialog").getByRole("textbox", { name: "n (required)" });
      await expect.poll(() => field.evaluate((input) => input === document.activeElement)).toBe(true);
    });

    it("lists tools for the keyboard: down to the first, Enter to the best", async () => {
      const page = await open({ path: "/tools" });
      const search = page.getByRole("searchbox", { name: "Search tools" });
      await search.press("ArrowDown");
      const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-level"));
      await expect.poll(focused).not.toBe("1");
      await search.fill("many_fields");
      await page.getByText(/^1 of \d+ tools$/).waitFor();
      await search.press("Enter");
      await page.getByRole("heading", { name: "many_fields" }).waitFor();
    });

    it("is found again in the list of calls, where it was left", async () => {
      for (let index = 0; index < 150; index++) await server().call("count_letters", { text: `t${index}` });
      const page = await open({ path: "/calls?tool=count_letters" });
      const list = page.getByRole("region", { name: "Calls" });
      await list.getByRole("row").nth(5).waitFor();
      await list.evaluate((part) => part.scrollTo({ top: 2_000 }));
      await list.getByRole("row").filter({ hasText: "t100" }).first().waitFor();
      const top = () => list.evaluate((part) => part.scrollTop);
      await list.evaluate((part) => part.scrollTo({ top: 2_640 }));
      await list.getByRole("row").filter({ hasText: '"t85"' }).getByRole("link").click();
      await page.getByRole("heading", { name: "count_letters" }).waitFor();
      await page.goBack();
      await expect.poll(top).toBe(2_640);
      const opened = page.getByText('"t85"').first();
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "count_letters" }).waitFor();
      await page.getByRole("radio", { name: "Input" }).click();
      await opened.waitFor();
      await page.getByRole("main").getByRole("link", { name: "Calls", exact: true }).click();
      await expect.poll(top).toBe(2_640);
      await page.getByRole("link", { name: "Home" }).click();
      await page.goto(`${server().url}/calls`);
      await list.getByRole("row").nth(5).waitFor();
      expect(await top()).toBe(0);
    });
  },
  () => ({ canBeCut: true, files: { "tools/running.ts": tools, "tools/slow.ts": slowToolFile } }),
);

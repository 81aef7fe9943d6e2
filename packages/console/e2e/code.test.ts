import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";

const files = {
  "toolrack.config.mjs": 'export default { code: { mode: "on" } };\n',
  "tools/money.ts": `import { Tool } from "@toolrack/core";

const parameters = { type: "object", properties: { to: { type: "string" }, amount: { type: "number" } } };
export const balance = Tool.define({
  name: "balance",
  description: "Tells a balance.",
  parameters,
  execute: async () => ({ amount: 12 }),
});
export const transfer = Tool.define({
  name: "transfer",
  description: "Sends money.",
  parameters,
  metadata: { dangerous: true },
  execute: async ({ input }) => "sent " + input.amount + " to " + input.to,
});
`,
};

const code = `const { amount } = await tools.rack.balance({ to: "Ada" });
if (amount > 100) return "nothing to do";
return await tools.rack.transfer({ to: "Ada", amount });`;

describeConsole(
  "code over tools",
  ({ server, open }) => {
    it("is shown to whoever approves, beside its calls, and can be kept as a tool", async () => {
      const { url, token, workspace } = server();
      const answer = fetch(`${url}/api/code`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ code, callId: "run-of-code" }),
      });
      const page = await open({ path: "/approvals" });
      const card = page.getByRole("article", { name: "transfer" });
      const marked = card.locator("[aria-current=true] code");
      await expect.poll(() => marked.allTextContents()).toEqual([code.split("\n")[2]]);
      expect(await card.getByRole("link", { name: "balance" }).count()).toBe(1);
      await card.getByRole("button", { name: "Approve", exact: true }).click();
      expect((await (await answer).json()).result.content).toBe("sent 12 to Ada");

      await page.goto(`${url}/calls/run-of-code`);
      const listing = page.getByRole("list", { name: "Code" });
      await expect.poll(() => listing.getByRole("listitem").count()).toBe(3);
      await listing.getByRole("link", { name: "transfer" }).click();
      await expect.poll(() => page.url()).not.toContain("run-of-code");
      await expect
        .poll(() => listing.locator("[aria-current=true] code").textContent())
        .toBe(code.split("\n")[2]);

      await page.goto(`${url}/calls/run-of-code`);
      await page.getByRole("button", { name: "Keep as a tool" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Name").fill("pay-out");
      await dialog.getByLabel("What it does, for models").fill("Pays what is there.");
      await dialog.getByRole("button", { name: "Keep as a tool" }).click();
      await expect
        .poll(() => dialog.getByRole("status").first().textContent())
        .toContain("tools/pay-out.tool.js");
      expect(await readFile(join(workspace, "tools/pay-out.tool.js"), "utf8")).toContain('"default": "Ada"');
    });
  },
  () => ({ files }),
);

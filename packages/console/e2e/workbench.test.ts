import { expect, it } from "vitest";
import { settled } from "./browser.ts";
import { describeConsole } from "./describe-console.ts";
import { slowToolFile } from "./tool-files.ts";

const shapes = `import { Tool } from "@toolrack/core";
export const shapes = Tool.define({
  name: "shapes",
  description: "Takes what forms find hard.",
  parameters: {
    type: "object",
    properties: {
      text: { type: "string", minLength: 2 },
      id: { type: "integer" },
      either: { anyOf: [{ type: "string" }, { type: "number" }] },
      map: { type: "object", additionalProperties: { type: "integer" } },
      pair: { type: "array", prefixItems: [{ type: "number" }, { type: "string" }] },
      rows: { type: "array", items: { type: "object", additionalProperties: { type: "string" } } },
      password: { type: "string" },
    },
  },
  execute: async ({ input }) => JSON.stringify(input),
});
`;

describeConsole(
  "the place where tools are tried",
  ({ server, open }) => {
    it("asks to sign in over the page when the token ends, and loses nothing that was typed", async () => {
      const { token, id } = await server().ask<{ token: string; id: string }>("/api/tokens", {
        name: "short",
        scopes: { tools: ["*"] },
      });
      const page = await open();
      await page.evaluate((text) => localStorage.setItem("toolrack.token", text), token);
      await page.goto(`${server().url}/tools/hello_world`);
      await page.getByRole("textbox", { name: "name (required)" }).fill("Typed before");
      await fetch(`${server().url}/api/tokens/${id}`, {
        method: "DELETE",
        headers: { authorization: `Bearer ${server().token}` },
      });
      const dialog = page.getByRole("dialog", { name: "Sign in again" });
      await dialog.waitFor();
      await page.keyboard.press("Escape");
      await dialog.getByRole("textbox", { name: "Token" }).fill(server().token);
      await dialog.getByRole("button", { name: "Sign in" }).click();
      await dialog.waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Run" }).click();
      await page.getByText("Hello, Typed before!").waitFor();
      await page.getByText("Live", { exact: true }).waitFor();
    });

    it("signs out in all tabs", async () => {
      const page = await open();
      const other = await page.context().newPage();
      await other.goto(`${server().url}/settings`);
      await other.getByRole("heading", { name: "Settings", level: 1 }).waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await other.getByRole("heading", { name: "Sign in to Toolrack" }).waitFor();
    });

    it("says what in a tool's definition misleads models", async () => {
      const page = await open({ path: "/tools/shapes?tab=about" });
      await page.getByRole("heading", { name: "What lint finds" }).waitFor();
      await page.getByText("Parameters without description").waitFor();
      await page
        .getByText("7 parameters have no description: text, id, either, map, pair and 2 more.")
        .waitFor();
    });

    it("keeps the form and the run for who looks elsewhere and comes back", async () => {
      const page = await open({ path: "/tools/shapes" });
      await page.getByRole("textbox", { name: "text" }).fill("kept");
      await page.getByRole("radio", { name: "About" }).click();
      await page.getByText("Schema of the arguments").waitFor();
      await page.getByRole("radio", { name: "Run" }).click();
      await expect.poll(() => page.getByRole("textbox", { name: "text" }).inputValue()).toBe("kept");

      await page.goto(`${server().url}/tools/slow`);
      await page.getByRole("button", { name: "Run" }).click();
      const result = page.getByRole("region", { name: "Result" });
      await result
        .getByText(/Step \d/)
        .first()
        .waitFor();
      await page.waitForURL(/call=/);
      await page.getByRole("treeitem", { name: "inventory" }).click();
      await page.getByRole("heading", { name: "inventory" }).waitFor();
      await page.getByRole("link", { name: "Home" }).click();
      await page.getByRole("link", { name: "Tools", exact: true }).click();
      await page.getByRole("treeitem", { name: "slow" }).click();
      await result
        .getByText(/Step \d/)
        .first()
        .waitFor();
      await result.getByRole("button", { name: "Cancel" }).click();
      await result
        .getByText(/Cancelled|cancelled/)
        .first()
        .waitFor();
    });

    it("shows the result of the call that the address names", async () => {
      const { callId } = await server().call("hello_world", { name: "Address" });
      const page = await open({ path: `/tools/hello_world?call=${callId}` });
      await page.getByRole("region", { name: "Result" }).getByText("Hello, Address!").waitFor();
      await expect
        .poll(() => page.getByRole("textbox", { name: "name (required)" }).inputValue())
        .toBe("Address");
    });

    it("does not let typed JSON be lost, nor a number become another one", async () => {
      const page = await open({ path: "/tools/shapes?as=json" });
      const editor = page.getByRole("textbox", { name: "Arguments" });
      await editor.click();
      await page.keyboard.press("Control+a");
      await page.keyboard.type('{ "id": 1234567890');
      expect(await page.getByRole("radio", { name: "Form" }).isDisabled()).toBe(true);
      expect(await page.getByRole("button", { name: "Run" }).isDisabled()).toBe(true);
      await page.keyboard.type("1234567 }");
      await page.getByText("12345678901234567 has more digits than a number keeps").waitFor();
      await page.keyboard.press("Control+a");
      await page.keyboard.type('{ "id": 12 }');
      await page.getByRole("radio", { name: "Form" }).click();
      await expect.poll(() => page.getByRole("textbox", { name: "id", exact: true }).inputValue()).toBe("12");
      expect(page.url()).not.toContain("as=json");
    });

    it("leads to the field that was refused", async () => {
      const page = await open({ path: "/tools/shapes" });
      const text = page.getByRole("textbox", { name: "text" });
      await text.fill("x");
      await page.getByRole("button", { name: "Run" }).click();
      await expect.poll(() => text.getAttribute("aria-invalid")).toBe("true");
      await expect.poll(() => text.evaluate((field) => field === document.activeElement)).toBe(true);
    });

    it("makes a token for a client, which may call tools and answer no questions, and shows it this once", async () => {
      const page = await open({ path: "/?connect=cursor" });
      const card = page.getByRole("region", { name: "Connect a client" });
      await card.getByRole("button", { name: "Make a token for Cursor" }).click();
      await card.getByRole("link", { name: "Add to Cursor" }).waitFor();
      const token = /trk_[\w-]{43}/.exec(await card.innerText())?.[0];
      const ask = async (path: string) =>
        (await fetch(server().url + path, { headers: { authorization: `Bearer ${token}` } })).status;
      expect([await ask("/api/tools"), await ask("/api/approvals")]).toEqual([200, 403]);
      await card.getByRole("tab", { name: "Codex" }).click();
      await card.getByText("[mcp_servers.toolrack]").waitFor();
      await page.waitForURL(/connect=codex/);
      await card.getByRole("tab", { name: "Cursor" }).click();
      expect(await card.innerText()).toContain(token);
      await page.reload();
      await card.getByRole("button", { name: "Make a token for Cursor" }).waitFor();
      expect(await page.content()).not.toContain(token);
    });

    it("makes tokens for experts, and tells when tokens end", async () => {
      const page = await open({ path: "/settings" });
      const tokens = page.getByRole("region", { name: "Tokens" });
      await tokens.getByRole("textbox", { name: "Name" }).fill("for an expert");
      await tokens.getByLabel("May use").selectOption("experts");
      await tokens.getByRole("textbox", { name: /^Experts/ }).fill("helper");
      await tokens.getByRole("button", { name: "Create a token" }).click();
      await tokens.getByText("Experts: helper").waitFor();
      await tokens
        .getByText(/expires\s+in 30 days/)
        .first()
        .waitFor();
      await page.getByText("30 days", { exact: true }).waitFor();
    });

    it("says that it copied, and what", async () => {
      const page = await open({ path: "/tools/shapes" });
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await page.getByRole("button", { name: "Copy as" }).click();
      await page.getByRole("menuitem", { name: "Command line" }).click();
      await page.getByText("Copied as Command line").waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      expect(copied).toContain(`--dir ${server().workspace}`);
      expect(copied).toContain(process.execPath);
    });

    it("keeps secrets out of saved arguments", async () => {
      const page = await open({ path: "/tools/shapes" });
      await page.getByRole("textbox", { name: "text" }).fill("to keep");
      await page.getByLabel("password", { exact: true }).fill("hunter2");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("dialog").getByRole("textbox", { name: "Name" }).fill("mine");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Saved and recent" }).waitFor();
      const stored = await page.evaluate(() => JSON.stringify(localStorage));
      expect(stored).toContain("to keep");
      expect(stored).not.toContain("hunter2");
    });

    it.each(["en", "zh-CN"] as const)("fits narrow screens: %s", async (language) => {
      const long = "x".repeat(4_000);
      await server().call("flaky", { fail: true });
      await server()
        .call("hello_world", { name: long, language: "none" })
        .catch(() => {});
      const page = await open({ width: 390, language });
      for (const path of ["/", "/tools", "/tools/shapes", "/tools/hello_world?tab=about", "/settings"]) {
        await page.goto(server().url + path);
        await page.locator("h1").first().waitFor({ state: "attached" });
        for (const width of [390, 1024]) {
          await page.setViewportSize({ width, height: 850 });
          await settled(page);
          const wide = await page.evaluate(() =>
            [document.documentElement, ...document.querySelectorAll("main, nav")]
              .filter((part) => part.scrollWidth > part.clientWidth)
              .map((part) => `${part.tagName} ${part.scrollWidth}`),
          );
          expect([width, path, wide]).toEqual([width, path, []]);
        }
      }
    });

    it("has every page within reach on a phone", async () => {
      const page = await open({ width: 390 });
      await page.getByRole("button", { name: "More" }).click();
      await page.getByRole("menuitem", { name: "Settings" }).click();
      await page.getByRole("heading", { name: "Settings", level: 1 }).waitFor();
      const heights = await page
        .getByRole("navigation")
        .locator("a:visible, button:visible")
        .evaluateAll((items) => items.map((item) => item.getBoundingClientRect().height));
      expect(new Set(heights).size).toBe(1);
    });
  },
  () => ({ files: { "tools/shapes.ts": shapes, "tools/slow.ts": slowToolFile } }),
);

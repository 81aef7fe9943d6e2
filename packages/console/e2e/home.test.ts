import { expect, it } from "vitest";
import { settled } from "./browser.ts";
import { describeConsole } from "./describe-console.ts";
import { weather } from "./tool-files.ts";

const long = "a_tool_whose_name_is_longer_than_a_telephone_is_wide_by_far";
const files = {
  "tools/weather.tool.cjs": weather,
  "tools/long.ts": `import { Tool } from "@toolrack/core";

export const long = Tool.define({
  name: "${long}",
  description: "Fails.",
  parameters: { type: "object", properties: {} },
  execute: async () => {
    throw new Error("It went wrong, and says so at some length, to fill what is left of the line.");
  },
});
`,
};

describeConsole(
  "the first page",
  ({ server, open }) => {
    it("lets nobody copy what cannot work, and says of the token that there is already", async () => {
      const page = await open({ path: "/?connect=cursor" });
      const card = page.getByRole("region", { name: "Connect a client" });
      const steps = card.getByRole("tabpanel", { name: "Cursor" });
      const copy = steps.getByRole("button", { name: "Copy" });
      const make = steps.getByRole("button", { name: "Make a token for Cursor" });
      await make.waitFor();
      expect(await copy.getAttribute("aria-disabled")).toBe("true");
      await steps.getByText("make the token first").waitFor();
      await make.click();
      await steps.getByRole("link", { name: "Add to Cursor" }).waitFor();
      expect(await copy.getAttribute("aria-disabled")).toBeNull();
      await page.reload();
      await steps.getByText("There is a token for Cursor already").waitFor();
      await make.click();
      await steps.getByRole("link", { name: "Add to Cursor" }).waitFor();
      const { items } = await server().ask<{ items: { name: string; scopes: object; expiresAt?: number }[] }>(
        "/api/tokens",
      );
      expect(items.map(({ name }) => name).sort()).toEqual(["Cursor", "Cursor 2"]);
      for (const { scopes, expiresAt = 0 } of items) {
        expect(scopes).toEqual({ tools: ["*"], chat: false });
        expect(expiresAt).toBeGreaterThan(Date.now());
      }
    });

    it("takes fewer than 15 requests, and says what to do next until it is done", async () => {
      const page = await open({ path: "/settings" });
      const asked: string[] = [];
      page.on("request", (request) => asked.push(request.url()));
      await page.goto(`${server().url}/`);
      const steps = page.getByRole("region", { name: "What to do next" });
      await steps.getByText("Connect a client").waitFor();
      await page.waitForLoadState("load");
      await page.getByText("The last hour").waitFor();
      await page.getByText("Median time").waitFor();
      expect(asked.length, asked.join("\n")).toBeLessThan(15);
      expect(await steps.getByRole("img", { name: "done" }).count()).toBeGreaterThan(0);
      await steps.getByRole("link", { name: "What to copy" }).click();
      await page.getByRole("button", { name: "Make a token for Claude Code" }).waitFor();
    });

    const places = [
      "/tools",
      "/tools/report",
      "/tools/hello_world?tab=about",
      "/tools/weather-report?tab=about",
      "/calls",
      "/approvals",
      "/chat",
    ];
    const more = ["/schedules", "/skills", "/experts", "/prompts", "/mcp-servers", "/reloads", "/settings"];
    it("takes few requests to show a page first", async () => {
      const page = await open({ path: "/no-such-page" });
      let asked: string[] = [];
      page.on("request", (request) => asked.push(request.url()));
      for (const path of [...places, ...more]) {
        asked = [];
        await page.goto(`${server().url}${path}`);
        await page.locator("h1").first().waitFor({ state: "attached" });
        await page.getByTestId("connection").getByText("Live").waitFor({ state: "attached" });
        await settled(page);
        expect(asked.length, [path, ...asked].join("\n")).toBeLessThan(15);
      }
    });

    it("notices a client that connects, and leaves a new token on the screen", async () => {
      const page = await open();
      const card = page.getByRole("region", { name: "Connect a client" });
      await card.getByRole("button", { name: "Make a token for Claude Code" }).click();
      const command = card.getByText(/claude mcp add .*trk_[\w-]{43}/);
      await command.waitFor();
      await fetch(`${server().url}/mcp`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${server().token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: 1,
          method: "initialize",
          params: {
            protocolVersion: "2025-06-18",
            capabilities: {},
            clientInfo: { name: "claude-code", version: "9" },
          },
        }),
      });
      await card.getByText("claude-code", { exact: true }).waitFor();
      expect(await command.isVisible()).toBe(true);
    });

    it("shows when a call failed also where the name of its tool is long", async () => {
      await server().call(long, {});
      const page = await open({ width: 390 });
      const row = page.getByRole("region", { name: "Latest failures" }).getByRole("listitem").first();
      const time = await row.locator("time").boundingBox();
      const around = await row.boundingBox();
      expect((time?.x ?? 0) + (time?.width ?? 0)).toBeLessThanOrEqual(
        (around?.x ?? 0) + (around?.width ?? 0) + 1,
      );
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    });
  },
  () => ({ files }),
);

import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";
import { shoot } from "./shoot.ts";

describeConsole(
  "the console, whoever uses it and whatever comes",
  ({ server, open }) => {
    it("shows the beginning of a long result, and all of it when asked", async () => {
      const page = await open({ path: "/tools/long_text" });
      await page.getByRole("textbox", { name: "lines" }).fill("200000");
      await page.getByRole("button", { name: "Run" }).click();
      const result = page.getByRole("region", { name: "Result" });
      await result.getByText(/^Showing/).waitFor();
      await result.getByRole("button", { name: "Load all" }).click();
      // Asked of the page itself: a locator would read all of it again for every element around it.
      await expect
        .poll(() =>
          page.evaluate(() =>
            document.querySelector("main")?.textContent?.includes("line 199999 of the long text"),
          ),
        )
        .toBe(true);
      await page.getByRole("button", { name: "Run again" }).click({ trial: true });
    });

    it("keeps tens of megabytes of data out of the page", async () => {
      const page = await open({ path: "/tools/big_data" });
      await page.getByRole("button", { name: "Run" }).click();
      const result = page.getByRole("region", { name: "Result" });
      await result.getByText(/^Showing .* of/).waitFor({ timeout: 60_000 });
      // The data itself stays out of the page; what is shown is the beginning of its text.
      expect(
        await page.evaluate(() => document.querySelector("main")?.textContent?.length ?? 0),
      ).toBeLessThan(200_000);
      await result.getByRole("link", { name: "Open trace" }).click();
      await page.getByText(/^Showing .* of/).waitFor();
    });

    it("can be used with the keyboard alone", async () => {
      const page = await open();
      await page.keyboard.press("Control+k");
      await page.keyboard.type("hello_world");
      await page.getByRole("option", { name: /Hello World/ }).waitFor();
      await page.keyboard.press("Enter");
      await page.waitForURL(/tools\/hello_world/);
      const name = page.getByRole("textbox", { name: "name (required)" });
      await name.waitFor();
      for (
        let step = 0;
        step < 80 && !(await name.evaluate((field) => field === document.activeElement));
        step++
      )
        await page.keyboard.press("Tab");
      await page.keyboard.type("Keys");
      await page.keyboard.press("Control+Enter");
      await page.getByText("Hello, Keys! Letters: 4").waitFor();
      await page.getByRole("heading", { level: 1 }).click();
      await page.keyboard.press("g");
      await page.keyboard.press("c");
      await page.waitForURL(/\/calls$/);
      await page.getByRole("row").nth(1).waitFor();
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/calls\/.+/);
    });

    it("speaks Chinese and goes dark, and remembers both", async () => {
      const page = await open();
      await page.getByRole("button", { name: "Language" }).click();
      await page.getByRole("menuitem", { name: "简体中文" }).click();
      await page.getByRole("heading", { name: "工具架概览" }).waitFor();
      await page.getByRole("button", { name: "主题" }).click();
      await page.getByRole("menuitem", { name: "深色" }).click();
      await page.reload();
      await page.getByRole("heading", { name: "工具架概览" }).waitFor();
      expect(await page.locator("html").getAttribute("data-theme")).toBe("dark");
      expect(await page.locator("html").getAttribute("lang")).toBe("zh-CN");
      await page.goto(`${server().url}/tools/report`);
      await page.getByRole("button", { name: "运行" }).click();
      await page.getByRole("region", { name: "结果" }).getByText("sections are done").waitFor();
      await shoot(page, "tool-dark-zh");
    });

    it("fits a narrow screen", async () => {
      const page = await open({ path: "/tools", width: 400 });
      await page.getByRole("treeitem", { name: "inventory" }).click();
      await page.getByRole("button", { name: "Run" }).click();
      await page.getByText("A-1").first().waitFor();
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(400);
      // The way back to the list, not the one in the navigation below it.
      await page.getByRole("main").getByRole("link", { name: "Tools", exact: true }).click();
      await page.getByRole("tree").waitFor();
    });

    it("says what is wrong when the token does not hold, and lets one in who has another", async () => {
      const page = await open();
      await page.evaluate(() => localStorage.setItem("toolrack.token", "expired"));
      await page.reload();
      await page.getByText("The token is not valid any more.").waitFor();
      await page.getByRole("textbox", { name: "Token" }).fill("wrong");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("The server does not know this token.").waitFor();
      await page.getByRole("textbox", { name: "Token" }).fill(server().token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { name: "What is on the rack" }).waitFor();
      await shoot(page, "home");
    });

    it("keeps few rows in the page, however many tools there are", async () => {
      const count = 10_000;
      const exports = Array.from(
        { length: count },
        (_, index) => `export const tool${index} = make(${index});`,
      );
      const text = [
        'import { Tool } from "@toolrack/core";',
        'const make = (index) => Tool.define({ name: "many_" + index, description: "One of many.", parameters: { type: "object" }, execute: async () => index });',
        ...exports,
      ].join("\n");
      await server().write("tools/many/all.ts", text);
      const page = await open({ path: "/tools" });
      await page.getByText(/^10,\d{3} tools|^10\d{3} tools/).waitFor({ timeout: 60_000 });
      const rows = page.getByRole("treeitem");
      expect(await rows.count()).toBeLessThan(100);
      await page.getByRole("searchbox", { name: "Search tools" }).fill("many_9999");
      await page.getByRole("treeitem", { name: "many_9999", exact: true }).waitFor();
      await page.getByRole("searchbox", { name: "Search tools" }).fill("");
      // Of so many tools, those of a group are read when it is opened.
      await page.getByRole("treeitem", { name: "toolbox" }).waitFor();
      await rows.first().focus();
      await page.keyboard.press("End");
      await page.keyboard.press("Enter");
      await page.getByRole("treeitem", { name: "schedule_tool" }).waitFor();
      expect(await rows.count()).toBeLessThan(100);
    });

    it("shows what happened while a connection broke before it said where it was", async () => {
      const page = await open({ path: "/calls" });
      const called = Promise.withResolvers<void>();
      let attempts = 0;
      await page.route("**/api/events", async (route) => {
        attempts++;
        if (attempts === 1) return route.fulfill({ contentType: "text/event-stream", body: "" });
        await called.promise;
        await route.continue();
      });
      const listed = page.waitForResponse(/\/api\/calls(\?|$)/);
      await page.reload();
      await (await listed).finished();
      await expect.poll(() => attempts).toBe(2);
      const { callId } = await server().callDirectly("hello_world", { name: "Meanwhile" });
      called.resolve();
      await page.locator(`a[href="/calls/${callId}"]`).waitFor();
    });

    it("notices a broken connection, and shows what happened meanwhile once it is back", async () => {
      // What the page is made of and what it shows may still be on their way.
      const page = await open({ path: "/calls" });
      server().disconnect();
      await page.getByText(/Not connected|Connecting/).waitFor();
      const { callId } = await server().callDirectly("hello_world", { name: "Meanwhile" });
      server().reconnect();
      await page.getByText("Live", { exact: true }).waitFor();
      await page.locator(`a[href="/calls/${callId}"]`).waitFor();
    });
  },
  () => ({ canBeCut: true }),
);

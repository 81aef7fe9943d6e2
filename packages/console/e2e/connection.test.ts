import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";

const AWAY = "The server does not answer.";

describeConsole(
  "pages that could not be read",
  ({ server, open }) => {
    /** Takes the connection away, and waits until the console knows. */
    async function disconnect(page: Page): Promise<void> {
      server().disconnect();
      await page.getByText(/Not connected|Connecting/).waitFor();
    }

    it("are shown by themselves once the connection is back: the calls, a call, the tools, a tool", async () => {
      const { callId } = await server().callDirectly("hello_world", { name: "Ada" });
      const page = await open({ path: "/calls" });
      const alert = page.getByRole("main").getByRole("alert").getByText(AWAY);
      const goTo = (name: string) => page.getByRole("link", { name, exact: true }).click();
      const row = page.locator(`a[href="/calls/${callId}"]`);
      const tool = page.getByRole("treeitem", { name: "inventory" });
      // What the pages are made of is there already.
      await row.click();
      await page.getByText("Hello, Ada! Letters: 3").first().waitFor();
      await goTo("Tools");
      await tool.click();
      await page.getByRole("button", { name: "Run" }).waitFor();
      await goTo("Home");
      await page.getByRole("heading", { name: "What is on the rack" }).waitFor();

      await disconnect(page);
      await goTo("Calls");
      await alert.waitFor();
      server().reconnect();
      await row.waitFor();
      expect(await alert.count()).toBe(0);

      await disconnect(page);
      await row.click();
      await alert.waitFor();
      server().reconnect();
      await page.getByText("Hello, Ada! Letters: 3").first().waitFor();

      await disconnect(page);
      await goTo("Tools");
      await alert.waitFor();
      server().reconnect();
      await tool.waitFor();

      await disconnect(page);
      await tool.click();
      await alert.waitFor();
      server().reconnect();
      await page.getByRole("button", { name: "Run" }).waitFor();
      expect(await alert.count()).toBe(0);
    });

    it("are opened once the connection is back, when they had never been fetched", async () => {
      const { callId } = await server().callDirectly("hello_world", { name: "Grace" });
      const page = await open();
      await page.getByRole("heading", { name: "What is on the rack" }).waitFor();
      await disconnect(page);
      await page.getByRole("link", { name: "Calls", exact: true }).click();
      await page.getByRole("alert").getByText(AWAY).first().waitFor();
      server().reconnect();
      await page.locator(`a[href="/calls/${callId}"]`).waitFor();
      // With the styles of that page.
      const row = page.getByRole("row").first();
      expect(await row.evaluate((element) => getComputedStyle(element).display)).toBe("grid");
    });

    it("are opened when the connection breaks while they are on their way", async () => {
      const { callId } = await server().callDirectly("hello_world", { name: "Joan" });
      const page = await open();
      const asked = Promise.withResolvers<void>();
      const cut = Promise.withResolvers<void>();
      await page.route(/\/assets\/CallsPage-.*\.js$/, async (route) => {
        asked.resolve();
        await cut.promise;
        await route.continue();
      });
      await page.getByRole("link", { name: "Calls", exact: true }).click();
      await asked.promise;
      await disconnect(page);
      cut.resolve();
      await page.getByRole("alert").getByText(AWAY).first().waitFor();
      server().reconnect();
      await page.locator(`a[href="/calls/${callId}"]`).waitFor();
    });

    it("are read again when an answer was lost although the connection held", async () => {
      const { callId } = await server().callDirectly("hello_world", { name: "Mary" });
      const page = await open();
      await page.route(/\/api\/calls\?/, (route) => route.abort());
      await page.getByRole("link", { name: "Calls", exact: true }).click();
      await page.getByRole("alert").getByText(AWAY).first().waitFor();
      await page.unroute(/\/api\/calls\?/);
      await page.locator(`a[href="/calls/${callId}"]`).waitFor();
    });

    it("say why in the language of the console, and what something else than the server said as it is", async () => {
      const page = await open({ language: "zh-CN" });
      const alert = page.getByRole("main").getByRole("alert");
      await page.route(/\/api\/calls\?/, (route) => route.fulfill({ status: 502, body: "Bad Gateway" }));
      await page.getByRole("link", { name: "调用", exact: true }).click();
      await alert.getByText("（状态码 502）不是 Toolrack 服务器的响应").waitFor();
      await alert.getByText("Bad Gateway").waitFor();
      await page.route(/\/api\/calls\?/, (route) => route.fulfill({ body: "<html>" }));
      // A gateway that has lost its server may find it again.
      await alert.getByText("（状态码 200）不是 Toolrack 服务器的响应").waitFor();
    });
  },
  () => ({ canBeCut: true }),
);

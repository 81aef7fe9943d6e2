import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, openBrowser, visit } from "./browser.ts";
import { ConsoleServer } from "./console-server.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

describe.skipIf(chromiumPath === undefined)(
  "every page in both themes and both languages",
  { timeout: 180_000 },
  () => {
    let server: ConsoleServer;
    let browser: Browser;
    let paths: string[];

    beforeAll(async () => {
      [server, browser] = await Promise.all([ConsoleServer.start(), openBrowser()]);
      const { callId } = await server.call("hello_world", { name: "Ada" });
      const failed = await server.call("flaky", {});
      await server.write("tools/broken.ts", "export const broken = {;\n");
      void server.call("delete_draft", { path: "drafts/old.md" }).catch(() => {}); // Waits until the server stops.
      paths = [
        "/",
        "/tools",
        "/tools?file=tools/broken.ts",
        "/tools/report",
        "/tools/hello_world?tab=about",
        "/calls",
        `/calls/${callId}`,
        `/calls/${failed.callId}?tab=timings`,
        `/calls/${failed.callId}`,
        "/approvals",
        "/approvals?view=history",
        "/approvals?view=rules",
        "/reloads",
        "/settings",
        "/no-such-page",
      ];
    }, 120_000);
    afterAll(async () => {
      await browser?.close();
      await server?.close();
    });

    it("finds what is wrong, so that finding nothing means something", async () => {
      const { page } = await visit(browser, server);
      await page.evaluate(() => document.querySelector("main")?.append(document.createElement("button")));
      expect((await check(page)).map(({ id }) => id)).toEqual(["button-name"]);
      await page.context().close();
    });

    it("has no violation in what opens on a page, nor on a narrow screen", async () => {
      const { page } = await visit(browser, server, { path: "/tools/report", width: 400 });
      await page.getByRole("radio", { name: "JSON" }).click();
      await page.getByRole("textbox", { name: "Arguments" }).waitFor();
      expect(await check(page)).toEqual([]);
      await page.keyboard.press("Escape");
      await page.keyboard.press("Control+k");
      await page.getByRole("option").first().waitFor();
      expect(await check(page)).toEqual([]);
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("dialog").waitFor();
      expect(await check(page)).toEqual([]);
      await page.context().close();
    });

    for (const language of ["en", "zh-CN"] as const) {
      for (const theme of ["light", "dark"] as const) {
        it(`has no violation that axe knows: ${language}, ${theme}`, async () => {
          const { page, trouble } = await visit(browser, server, { language, theme });
          const violations: unknown[] = [];
          for (const path of paths) {
            await page.goto(server.url + path);
            await page.getByRole("heading", { level: 1 }).first().waitFor({ state: "attached" });
            await page.waitForTimeout(500); // What the page reads after it is shown has no sign of its own.
            const found = await check(page);
            violations.push(...found.map((violation) => ({ path, ...violation })));
          }
          await page.context().close();
          expect(violations).toEqual([]);
          expect(trouble).toEqual([]);
        });
      }
    }
  },
);

interface Violation {
  readonly id: string;
  readonly nodes: readonly string[];
}

async function check(page: Page): Promise<Violation[]> {
  // Scripts of the page are bound to its policy; the debugger's are not.
  await page.evaluate(axe);
  return page.evaluate(async () => {
    // The script that ran just before put it there.
    const { axe: checker } = window as unknown as { axe: { run(): Promise<AxeResults> } };
    const { violations } = await checker.run();
    return violations.map(({ id, nodes }) => ({
      id,
      nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 200)} — ${failureSummary}`),
    }));
  });
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
  }[];
}

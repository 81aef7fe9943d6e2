import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, openBrowser, type Visit, type VisitOptions, visit } from "./browser.ts";
import { ConsoleServer } from "./console-server.ts";

const images = join(import.meta.dirname, "..", "..", "..", "docs", "images");

describe.skipIf(chromiumPath === undefined)("the console in a browser", { timeout: 120_000 }, () => {
  let server: ConsoleServer;
  let browser: Browser;
  let visits: Visit[] = [];

  beforeAll(async () => {
    [server, browser] = await Promise.all([ConsoleServer.start(), openBrowser()]);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await server?.close();
  });
  afterEach(async () => {
    const ended = visits;
    visits = [];
    for (const { page } of ended) await page.context().close();
    expect(ended.flatMap(({ trouble }) => trouble)).toEqual([]);
  });
  async function open(options: VisitOptions = {}): Promise<Page> {
    const made = await visit(browser, server, options);
    visits.push(made);
    return made.page;
  }

  it("takes a newcomer from the printed address to a result and its trace", async () => {
    const page = await open();
    expect(page.url()).toBe(`${server.url}/`);
    await page.getByRole("link", { name: "Tools", exact: true }).click();
    await page.keyboard.press("/");
    await page.keyboard.type("hello_world");
    await page.getByRole("treeitem", { name: "Hello World/问候" }).click();
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByText("`name` is missing").first().waitFor();
    await page.getByRole("textbox", { name: "name (required)" }).fill("Ada 李");
    await page.getByRole("combobox", { name: "language" }).selectOption({ label: "zh" });
    await page.getByRole("button", { name: "Run" }).click();
    const result = page.getByRole("region", { name: "Result" });
    await result.getByText("你好，Ada 李! Letters: 5").waitFor();
    expect(await page.getByRole("textbox", { name: "name (required)" }).inputValue()).toBe("Ada 李");
    await shoot(page, "tool");

    const other = await open({ path: "/calls" });
    await other
      .getByRole("row")
      .filter({ hasText: "Hello World/问候" })
      .filter({ hasText: "Ada 李" })
      .first()
      .waitFor();
    await result.getByRole("link", { name: "Open trace" }).click();
    const chain = page.getByRole("table", { name: "Call chain" });
    await chain.getByRole("link", { name: "count_letters" }).click();
    await page.getByText("5", { exact: true }).first().waitFor();
    await chain.getByRole("link", { name: "Hello World/问候" }).waitFor();
    await shoot(page, "trace");
  });

  it("shows a call in the feed while it happens, pauses, folds repeats and keeps its filters in the address", async () => {
    const page = await open({ path: "/calls" });
    for (let round = 0; round < 3; round++) await server.call("inventory", {});
    const row = page.getByRole("row").filter({ hasText: "inventory" });
    await row.getByRole("button", { name: "Show all 3 repeats" }).waitFor();
    await shoot(page, "calls");
    await row.getByRole("button", { name: "Show all 3 repeats" }).click();
    await expect.poll(() => row.count()).toBe(3);
    await page.getByRole("button", { name: "Pause" }).click();
    await server.call("flaky", {});
    await page.getByRole("button", { name: /since the pause/ }).click();
    await page.getByRole("row").filter({ hasText: "flaky" }).first().waitFor();
    await page.getByLabel("Status", { exact: true }).selectOption("error");
    await page.waitForURL(/status=error/);
    await expect.poll(() => row.count()).toBe(0);
    await page.reload();
    await page.getByRole("row").filter({ hasText: "flaky" }).first().waitFor();
    expect(await row.count()).toBe(0);
  });

  it("shows progress, cancels, and renders Markdown and data", async () => {
    const page = await open({ path: "/tools/report" });
    await page.getByRole("textbox", { name: "steps" }).fill("50");
    await page.getByRole("button", { name: "Run" }).click();
    await page
      .getByText(/^Section \d+$/)
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    const result = page.getByRole("region", { name: "Result" });
    await result.getByText("cancelled", { exact: true }).waitFor();
    await page.getByRole("textbox", { name: "steps" }).fill("2");
    await page.getByRole("button", { name: "Run again" }).click();
    await result.getByText("sections are done").waitFor();
    expect(await result.locator("strong").innerText()).toBe("2");
    await page.goto(`${server.url}/tools/inventory`);
    await page.getByRole("button", { name: "Run" }).click();
    await result.getByText('"A-1"').waitFor();
  });

  it("approves a call with edited arguments, and the call runs with them", async () => {
    const page = await open({ path: "/approvals" });
    await page.getByText("All done. Nothing waits for you.").waitFor();
    const answer = server.call("delete_draft", { path: "drafts/old.md" });
    await expect.poll(() => page.title()).toContain("(1)");
    const card = page.getByRole("article", { name: "Drafts/删除草稿" });
    await card.getByRole("textbox", { name: "path (required)" }).fill("drafts/copy.md");
    await card.getByText("Your changes").waitFor();
    await shoot(page, "approval");
    await card.getByRole("button", { name: "Approve with changes" }).click();
    expect(await answer).toMatchObject({
      result: { content: expect.stringContaining("deleted drafts/copy.md") },
    });
    await page.getByText("All done. Nothing waits for you.").waitFor();
    await expect.poll(() => page.title()).not.toContain("(1)");

    const refused = server.call("delete_draft", { path: "drafts/keep.md" });
    await card.getByRole("button", { name: "Deny…" }).click();
    await card.getByLabel("Reason").fill("still in use");
    await card.getByRole("button", { name: "Deny", exact: true }).click();
    expect(await refused).toMatchObject({
      error: { code: "approval_denied", message: expect.stringContaining("still in use") },
    });
    await page.getByRole("radio", { name: "History" }).click();
    await page.getByText("still in use").waitFor();
  });

  it("asks about a dangerous tool beside its own form", async () => {
    const page = await open({ path: "/tools/delete_draft" });
    await page.getByRole("textbox", { name: "path (required)" }).fill("drafts/mine.md");
    await page.getByRole("button", { name: "Run" }).click();
    const result = page.getByRole("region", { name: "Result" });
    await result.getByText("Delete this draft for good?").waitFor();
    await result.getByRole("button", { name: "Approve" }).click();
    await result.getByText("deleted drafts/mine.md").waitFor();
  });

  it("shows a broken file in the list of tools, and the tool once the file is repaired", async () => {
    const page = await open({ path: "/tools" });
    const text =
      'import { Tool } from "@toolrack/core";\nexport const late = Tool.define({ name: "late_tool", description: "Comes late.", parameters: { type: "object" }, execute: async () => "here" });\n';
    await server.write("tools/late.ts", text.replace("});", "]);"));
    const broken = page.getByRole("treeitem").filter({ hasText: /tools\/late\.ts:2/ });
    await broken.click();
    await page.getByRole("heading", { name: /tools\/late\.ts/ }).waitFor();
    await page.getByText("Why it does not load").waitFor();
    await server.write("tools/late.ts", text);
    await page.getByRole("treeitem", { name: "late_tool" }).click();
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("region", { name: "Result" }).getByText("here").waitFor();
    await page.getByRole("link", { name: "Reloads and alerts" }).click();
    await page.getByText("Added late_tool").waitFor();
    await shoot(page, "reloads");
  });

  it("disables a tool and enables it again", async () => {
    const page = await open({ path: "/tools/count_letters" });
    await page.getByRole("button", { name: "Disable" }).click();
    await page.getByText("Enable the tool to run it.").waitFor();
    expect(await page.getByRole("button", { name: "Run" }).isDisabled()).toBe(true);
    await page.getByRole("button", { name: "Enable" }).click();
    await expect.poll(() => page.getByRole("button", { name: "Run" }).isDisabled()).toBe(false);
  });

  it("replays a recorded call with other arguments", async () => {
    const { callId } = await server.call("hello_world", { name: "Grace" });
    const page = await open({ path: `/calls/${callId}` });
    await page.getByRole("button", { name: "Edit and run again" }).click();
    await page.getByRole("textbox", { name: "name (required)" }).fill("Alan");
    await page.getByRole("dialog").getByRole("button", { name: "Run again" }).click();
    await page.getByText("Hello, Alan! Letters: 4").waitFor();
    await page.getByRole("link", { name: callId }).waitFor();
  });

  it("edits the same value as a form and as JSON", async () => {
    const page = await open({ path: "/tools/hello_world" });
    await page.getByRole("textbox", { name: "name (required)" }).fill("Form");
    await page.getByRole("radio", { name: "JSON" }).click();
    const editor = page.getByRole("textbox", { name: "Arguments" });
    await editor.getByText('"Form"').waitFor();
    await editor.fill('{ "name": "Json" }');
    await page.getByRole("radio", { name: "Form" }).click();
    expect(await page.getByRole("textbox", { name: "name (required)" }).inputValue()).toBe("Json");
  });

  it("shows the beginning of a long result, and all of it when asked", async () => {
    const page = await open({ path: "/tools/long_text" });
    await page.getByRole("textbox", { name: "lines" }).fill("200000");
    await page.getByRole("button", { name: "Run" }).click();
    const result = page.getByRole("region", { name: "Result" });
    await result.getByText(/^Showing/).waitFor();
    await result.getByRole("button", { name: "Load all" }).click();
    // Asked of the page itself: a locator would read all of it again for every element around it.
    await expect.poll(() => page.evaluate(() => document.querySelector("main")?.textContent?.includes("line 199999 of the long text")), { timeout: 20_000 }).toBe(true);
    await page.getByRole("button", { name: "Run again" }).click({ trial: true });
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
    await page.goto(`${server.url}/tools/report`);
    await page.getByRole("button", { name: "运行" }).click();
    await page.getByRole("region", { name: "结果" }).getByText("sections are done").waitFor();
    await shoot(page, "tool-dark-zh");
  });

  it("fits a narrow screen", async () => {
    const page = await open({ path: "/tools", width: 400 });
    await page.getByRole("treeitem", { name: "inventory" }).click();
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByText('"A-1"').waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(400);
    await page.getByRole("button", { name: "Tools", exact: true }).click();
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
    await page.getByRole("textbox", { name: "Token" }).fill(server.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "What is on the rack" }).waitFor();
    await shoot(page, "home");
  });

  it("keeps few rows in the page, however many tools there are", async () => {
    const count = 10_000;
    const exports = Array.from({ length: count }, (_, index) => `export const tool${index} = make(${index});`);
    const text = [
      'import { Tool } from "@toolrack/core";',
      'const make = (index) => Tool.define({ name: "many_" + index, description: "One of many.", parameters: { type: "object" }, execute: async () => index });',
      ...exports,
    ].join("\n");
    await server.write("tools/many/all.ts", text);
    const page = await open({ path: "/tools" });
    await page.getByText(/^10,\d{3} tools|^10\d{3} tools/).waitFor({ timeout: 60_000 });
    const rows = page.getByRole("treeitem");
    expect(await rows.count()).toBeLessThan(100);
    await page.getByRole("searchbox", { name: "Search tools" }).fill("many_9999");
    await page.getByRole("treeitem", { name: "many_9999", exact: true }).waitFor();
    await page.getByRole("searchbox", { name: "Search tools" }).fill("");
    await rows.first().focus();
    await page.keyboard.press("End");
    await page.getByRole("treeitem", { name: "schedule_tool" }).waitFor();
    expect(await rows.count()).toBeLessThan(100);
  });

  it("notices a broken connection, and shows what happened meanwhile once it is back", async () => {
    const page = await open({ path: "/calls" });
    await server.disconnect();
    await page.getByText(/Not connected|Connecting/).waitFor();
    const { callId } = await server.callDirectly("hello_world", { name: "Meanwhile" });
    await server.reconnect();
    await page.getByText("Live", { exact: true }).waitFor();
    await page.locator(`a[href="/calls/${callId}"]`).waitFor();
  });
});

/** Pictures for the documentation, made when they are asked for. */
async function shoot(page: Page, name: string): Promise<void> {
  if (!process.env.TOOLRACK_SCREENSHOTS) return;
  mkdirSync(images, { recursive: true });
  await page.screenshot({ path: join(images, `console-${name}.png`), animations: "disabled" });
}

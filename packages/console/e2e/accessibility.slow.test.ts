import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath, openBrowser, settled, visit } from "./browser.ts";
import { ConsoleServer } from "./console-server.ts";
import { changeOddTools, oddServerFiles } from "./odd-server-files.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { offers, weather } from "./tool-files.ts";

const shapes = `import { Tool } from "@toolrack/core";
export const shapes = Tool.define({
  name: "shapes",
  description: "Takes what forms find hard.",
  parameters: {
    type: "object",
    properties: {
      either: { anyOf: [{ type: "string" }, { type: "number" }] },
      map: { type: "object", additionalProperties: { type: "integer" } },
      pair: { type: "array", prefixItems: [{ type: "number" }, { type: "string" }] },
      rows: { type: "array", items: { type: "object", additionalProperties: { type: "string" } } },
      choices: { type: "array", uniqueItems: true, items: { enum: ["x", "y"] } },
      when: { type: "string", format: "date" },
      file: { type: "string", format: "binary" },
    },
  },
  execute: async () => "taken",
});
`;
/** One of a folder, which can only be looked at, with all that Markdown has. */
const listedSkill = {
  "skills/listed/SKILL.md":
    "---\nname: listed\ndescription: Has lists.\n---\n1. a\n   - [x] b\n   - [ ] ~~c~~\n\n> - ***d***\n\n| e | f |\n|---|---|\n| `g` | https://example.com |\n",
  "skills/listed/tools.json": JSON.stringify([{ name: "greet", type: "builtin", command: "hello_world" }]),
};
/** An API, whose tools and problems are shown beside those of MCP servers. */
const crm = {
  "apis.json": JSON.stringify({ apis: { crm: { spec: "./crm.json", baseUrl: "http://127.0.0.1:9" } } }),
  "crm.json": JSON.stringify({
    openapi: "3.1.0",
    info: { title: "CRM", version: "1" },
    paths: {
      "/customers": {
        get: {
          operationId: "listCustomers",
          summary: "Lists customers.",
          responses: { 200: { description: "" } },
        },
        post: { operationId: "addCustomer", summary: "Adds one.", responses: { 201: { description: "" } } },
      },
    },
  }),
};
interface Look {
  readonly theme: "light" | "dark";
  readonly width: number;
}
/** How each page is looked at. A page follows its screen and its system while it is open, so it is loaded once for each language. */
const looks: readonly Look[] = [1440, 1024, 390].flatMap((width) => [
  { theme: "light", width },
  { theme: "dark", width },
]);
/** Where a picture of each page and look is put for people, when this names a folder. */
const pictures = process.env.TOOLRACK_PAGE_PICTURES;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

describe.skipIf(chromiumPath === undefined)(
  "every page in both themes and both languages",
  { timeout: 1_200_000 },
  () => {
    let server: ConsoleServer;
    let browser: Browser;
    let model: ScriptedModel;
    let paths: string[];

    beforeAll(async () => {
      model = await ScriptedModel.start();
      const files = {
        "tools/shapes.ts": shapes,
        "tools/offers.ts": offers,
        "tools/weather.tool.cjs": weather,
        ...listedSkill,
        ...crm,
      };
      const options = { files: { ...model.files(), ...oddServerFiles(), ...files } };
      [server, browser] = await Promise.all([ConsoleServer.start(options), openBrowser()]);
      const { skill, expert, conversation } = await fill(server);
      const { callId } = await server.call("hello_world", { name: "Ada" });
      const failed = await server.call("flaky", {});
      for (let round = 0; round < 8; round++) {
        await server.call("count_letters", { text: "again" }, { sessionID: "circles" });
      }
      await server.ask("/api/schedules", {
        toolName: "count_letters",
        toolArgs: { text: "a" },
        cron: "0 9 * * *",
      });
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
        "/chat",
        `/chat/${conversation}`,
        "/schedules",
        "/schedules?new&tool=shapes",
        "/prompts",
        "/prompts?prompt=greet",
        "/prompts?resource=note://rows",
        "/tools/weather-report?tab=about",
        "/skills",
        `/skills/${skill}`,
        `/skills/${skill}?view=tools`,
        `/skills/${skill}?view=tools&tool=new`,
        `/skills/${skill}?view=files&file=notes.md`,
        "/skills?new",
        "/skills?import",
        "/experts",
        `/experts/${expert}`,
        "/mcp-servers",
        "/mcp-servers?add",
        "/mcp-servers/odd",
        "/mcp-servers/odd?view=log",
        "/mcp-servers/odd?view=entry",
        "/mcp-servers/missing",
        "/mcp-servers/crm",
        "/reloads",
        "/nodes",
        "/settings",
        "/no-such-page",
      ];
    }, 240_000);
    afterAll(async () => {
      await browser?.close();
      await server?.close();
      await model?.close();
    });

    it("finds what is wrong, so that finding nothing means something", async () => {
      const { page } = await visit(browser, server);
      await page.getByRole("heading", { level: 1 }).waitFor();
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

    it.each(["light", "dark"] as const)("has no violation where work is not saved: %s", async (theme) => {
      const { id } = await server.ask<{ id: string }>("/api/skills", { name: `Unsaved ${theme}` });
      const { page } = await visit(browser, server, { path: `/skills/${id}`, theme, width: 400 });
      await page.getByRole("textbox", { name: "SKILL.md" }).fill("Mine");
      await fetch(`${server.url}/api/skills/${id}`, {
        method: "PATCH",
        headers: { authorization: `Bearer ${server.token}`, "content-type": "application/json" },
        body: JSON.stringify({ instructions: "Theirs" }),
      });
      await page.getByRole("alert", { name: "Changed by somebody else" }).waitFor();
      expect(await check(page)).toEqual([]);
      await page.getByRole("navigation").getByRole("link", { name: "Calls" }).click();
      await page.getByRole("dialog", { name: "Leave without saving?" }).waitFor();
      expect(await check(page)).toEqual([]);
      await page.getByRole("button", { name: "Leave and lose it" }).click();
      await page.goto(`${server.url}/skills/listed`);
      await page.getByRole("img", { name: "done" }).waitFor();
      expect(await check(page)).toEqual([]);
      await page.goto(`${server.url}/skills/listed?view=tools`);
      await page.getByRole("switch").first().waitFor();
      expect(await check(page)).toEqual([]);
      await page.context().close();
    });

    it.each(["light", "dark"] as const)("has no violation around questions and calls: %s", async (theme) => {
      const { page } = await visit(browser, server, { path: "/approvals", theme, width: 400 });
      const asked = server.call("delete_draft", { path: "drafts/*" }, { callId: `asked-${theme}` });
      const card = page.getByRole("article").nth(1);
      await card.getByRole("radio", { name: "Always, for a pattern" }).check();
      await card.getByLabel("Only calls without any other arguments").uncheck();
      await card.getByLabel("Calls of delete_draft with these arguments").fill("{}");
      await card.getByLabel("Yes, every call of delete_draft").waitFor();
      expect(await check(page)).toEqual([]);
      await page.goto(`${server.url}/calls/asked-${theme}`);
      await page.getByRole("button", { name: "Approve" }).waitFor();
      expect(await check(page)).toEqual([]);
      await page.goto(`${server.url}/approvals`);
      await card.waitFor();
      const { items } = await server.ask<{ items: { id: string; callId: string }[] }>("/api/approvals");
      const { id } = items.find(({ callId }) => callId === `asked-${theme}`) ?? {};
      await server.ask(`/api/approvals/${id}`, { decision: "deny", reason: "not today" });
      await asked;
      await card.getByText("Denied by Workspace token: not today").waitFor();
      expect(await check(page)).toEqual([]);
      await page.getByRole("radio", { name: "History" }).click();
      await page.getByText("What was asked").first().click();
      expect(await check(page)).toEqual([]);
      await page.goto(`${server.url}/calls`);
      await page.getByRole("button", { name: "Filters" }).click();
      await page.getByRole("row").nth(1).waitFor();
      expect(await check(page)).toEqual([]);
      await page.context().close();
    });

    it.each([
      { language: "en", theme: "light", edit: "Edit and ask again" },
      { language: "zh-CN", theme: "dark", edit: "修改后重新提问" },
    ] as const)("has no violation where a question is asked anew: $language $theme", async (chosen) => {
      const { language, theme, edit } = chosen;
      const path = paths.find((known) => known.startsWith("/chat/"))!;
      const { page } = await visit(browser, server, { path, language, theme });
      await page.getByRole("button", { name: edit }).click();
      await page.getByRole("textbox", { name: edit }).waitFor();
      for (const width of [1440, 1024, 390]) {
        await look(page, { theme, width });
        await drawn(page);
        expect(await check(page)).toEqual([]);
        if (pictures) await page.screenshot({ path: join(pictures, `edit ${language} ${width}.png`) });
      }
      await page.context().close();
    });

    it.each(["light", "dark"] as const)("has no violation in what keys bring: %s", async (theme) => {
      const { page } = await visit(browser, server, { path: "/tools", theme });
      await page.getByRole("treeitem", { name: "inventory" }).focus();
      await page.keyboard.press("x");
      await page.getByText("1 selected").waitFor();
      expect(await check(page)).toEqual([]);
      await page.getByRole("button", { name: "Disable" }).click();
      await page.getByRole("button", { name: "Undo" }).waitFor();
      expect(await check(page)).toEqual([]);
      await page.getByRole("button", { name: "Undo" }).click();
      await page.goto(`${server.url}/approvals`);
      await page.getByRole("article").first().waitFor();
      await page.keyboard.press("j");
      await page.keyboard.press("d");
      await page.getByLabel("Reason").waitFor();
      expect(await check(page)).toEqual([]);
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
      expect(await check(page)).toEqual([]);
      const { callId } = await server.call("hello_world", { name: "Ada" });
      await page.goto(`${server.url}/calls/${callId}`);
      await page.getByRole("button", { name: "Zoom into count_letters" }).focus();
      await page.keyboard.press("+");
      await page.getByRole("button", { name: "Whole" }).waitFor();
      expect(await check(page)).toEqual([]);
      await page.context().close();
    });

    it.each(["en", "zh-CN"] as const)(
      "has no violation in a filled form, nor with a menu open: %s",
      async (language) => {
        const { page } = await visit(browser, server, { path: "/tools/shapes", language });
        const values = {
          either: "5",
          map: { a: 1 },
          pair: [1, "x"],
          rows: [{ a: "b" }],
          choices: ["x"],
          when: "2026-11-15",
        };
        const { callId } = await server.call("shapes", values);
        await page.goto(`${server.url}/tools/shapes?from=${callId}`);
        await page.locator("input[value='2026-11-15'], input[type=date]").first().waitFor();
        await settled(page); // The arguments are read after the form is shown.
        expect(await check(page)).toEqual([]);
        for (const button of await page.locator("button[aria-haspopup=menu]:visible").all()) {
          await button.click();
          await page.getByRole("menu").waitFor();
          expect(await check(page)).toEqual([]);
          await page.keyboard.press("Escape");
          await page.getByRole("menu").waitFor({ state: "detached" });
        }
        await page.context().close();
      },
    );

    it("has no violation in the dialog of an expired token", async () => {
      const { page } = await visit(browser, server, { path: "/tools/shapes" });
      const button = page.getByRole("button", { name: "Disable" });
      await button.waitFor();
      await page.route("**/api/**", (route) =>
        route.fulfill({ status: 401, json: { error: { code: "unauthorized", message: "No." } } }),
      );
      await button.dispatchEvent("click");
      await page.getByRole("dialog").waitFor();
      expect(await check(page)).toEqual([]);
      await page.context().close();
    });

    // Side by side: most of the time a page is waited for.
    it.concurrent.each(["en", "zh-CN"] as const)(
      "has no violation that axe knows, and nothing beyond the edge, on any page, from desk to phone: %s",
      async (language) => {
        const { page, trouble } = await visit(browser, server, { language });
        const violations = await violationsOf(page, paths, server, language);
        await page.context().close();
        expect(violations).toEqual([]);
        expect(trouble).toEqual([]);
      },
    );
  },
);

/** A skill, an expert, a conversation and a server's tool that changed, so that the pages have something to show. */
async function fill(server: ConsoleServer) {
  const skill = await server.ask<{ id: string }>("/api/skills", {
    name: "Weather",
    description: "Tells the weather.",
    instructions: "# Weather\n\nAsk for **one** city.",
    files: { "notes.md": "# Notes" },
  });
  await server.ask(`/api/skills/${skill.id}/tools`, {
    name: "now",
    displayName: "现在",
    type: "http",
    endpoint: "https://example.com/{city}",
    usage: [{ name: "city", type: "string", required: true, description: "Which." }],
  });
  const expert = await server.ask<{ id: string }>("/api/experts", { name: "helper", skills: [skill.id] });
  const conversation = await server.ask<{ id: string }>("/api/chat/sessions", {});
  await server.ask(`/api/chat/sessions/${conversation.id}/messages`, { content: "Greet Ada, then fail." });
  await changeOddTools(server);
  return { skill: skill.id, expert: expert.id, conversation: conversation.id };
}

async function violationsOf(
  page: Page,
  paths: readonly string[],
  server: ConsoleServer,
  language: "en" | "zh-CN",
): Promise<unknown[]> {
  const violations: unknown[] = [];
  for (const [place, path] of paths.entries()) {
    await look(page, looks[0]!);
    await page.goto(server.url + path);
    // Not by its role: what is behind a dialog has none.
    const heading = page.locator("h1").first();
    await heading.waitFor({ state: "attached" }).catch(async () => {
      throw new Error(`${path} has no heading, but: ${await page.locator("body").innerText()}`);
    });
    await settled(page);
    for (const { theme, width } of looks) {
      await look(page, { theme, width });
      await page.locator(`html[data-theme=${theme}]`).waitFor();
      await drawn(page);
      const found = await check(page);
      const reach = await page.evaluate(() => document.documentElement.scrollWidth);
      if (reach > width) found.push({ id: "too-wide", nodes: [`${reach} pixels`] });
      violations.push(...found.map((violation) => ({ path, theme, width, ...violation })));
      const name = `${place} ${path.replaceAll(/[^\w-]+/g, "_")} ${language} ${width} ${theme}.png`;
      if (pictures) await page.screenshot({ path: join(pictures, name), animations: "disabled" });
    }
  }
  return violations;
}

async function look(page: Page, { theme, width }: Look): Promise<void> {
  await page.setViewportSize({ width, height: 850 });
  await page.emulateMedia({ colorScheme: theme });
}

/** What changed a moment ago is on the screen, and no colour is on its way to another any more. */
async function drawn(page: Page): Promise<void> {
  await page.evaluate(async () => {
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    const underWay = document.getAnimations().filter((animation) => animation instanceof CSSTransition);
    await Promise.allSettled(underWay.map(({ finished }) => finished));
  });
}

interface Violation {
  readonly id: string;
  readonly nodes: readonly string[];
}

async function check(page: Page): Promise<Violation[]> {
  // Scripts of the page are bound to its policy; the debugger's are not.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  return page.evaluate(async () => {
    // The script that ran just before put it there.
    const { axe: checker } = window as unknown as { axe: { run(options: object): Promise<AxeResults> } };
    // The same rules run; what passes them is not described at length.
    const { violations } = await checker.run({ resultTypes: ["violations"] });
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

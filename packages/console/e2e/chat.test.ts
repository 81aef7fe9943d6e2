import type { Page } from "playwright-core";
import { afterAll, expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";
import { ScriptedModel } from "./scripted-model.ts";

let model: ScriptedModel | undefined;
afterAll(() => model?.close());

describeConsole(
  "conversations",
  ({ server, open }) => {
    it("shows the earlier messages of a long conversation, and leaves the reader where they are", async () => {
      const { id } = await server().ask<{ id: string }>("/api/chat/sessions", {});
      for (let turn = 1; turn <= 103; turn++) {
        await server().ask(`/api/chat/sessions/${id}/messages`, { content: `Question ${turn}.` });
      }
      const page = await open({ path: `/chat/${id}` });
      await said(page, "Question 103.").waitFor();
      expect(await said(page, "Question 3.").count()).toBe(0);
      const first = said(page, "Question 4.");
      const button = page.getByRole("button", { name: "Show earlier messages" });
      await button.scrollIntoViewIfNeeded();
      const before = await first.boundingBox();
      await button.click();
      await said(page, "Question 1.").waitFor({ state: "attached" });
      await button.waitFor({ state: "detached" });
      // The button that stood above it is gone.
      const moved = ((await first.boundingBox())?.y ?? 0) - (before?.y ?? 0);
      expect(Math.abs(moved)).toBeLessThan(2);
      expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Messages");
    });

    it("takes fewer than 15 requests to show a conversation first", async () => {
      const { id } = await server().ask<{ id: string }>("/api/chat/sessions", {});
      await server().ask(`/api/chat/sessions/${id}/messages`, { content: "Hello." });
      const page = await open({ path: "/no-such-page" });
      const asked: string[] = [];
      page.on("request", (request) => asked.push(request.url()));
      await page.goto(`${server().url}/chat/${id}`);
      await said(page, "Hello.").waitFor();
      await page.getByText(/\d+ tools, ~/).waitFor();
      await page.getByRole("list", { name: "Conversations" }).getByRole("listitem").first().waitFor();
      expect(asked.length, asked.join("\n")).toBeLessThan(15);
    });

    it("shows how many tokens a model took, by day and by model", async () => {
      const { id } = await server().ask<{ id: string }>("/api/chat/sessions", {});
      await server().ask(`/api/chat/sessions/${id}/messages`, { content: "Hello." });
      const page = await open({ path: "/settings" });
      const usage = page.getByRole("region", { name: "Usage of models" });
      await usage.getByRole("radio", { name: "Model" }).click();
      await usage.getByRole("cell", { name: "scripted/model-a" }).waitFor();
    });

    it("lets an admin read the conversation of another token, and says why nothing can be said there", async () => {
      const { token } = await server().ask<{ token: string }>("/api/tokens", {
        name: "other",
        scopes: { tools: ["*"] },
      });
      const asOther = async (path: string, body: unknown): Promise<{ id: string }> => {
        const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
        const answer = await fetch(server().url + path, {
          method: "POST",
          headers,
          body: JSON.stringify(body),
        });
        return answer.json();
      };
      const { id } = await asOther("/api/chat/sessions", {});
      await asOther(`/api/chat/sessions/${id}/messages`, { content: "Mine alone." });
      const page = await open({ path: `/chat/${id}` });
      await said(page, "Mine alone.").waitFor();
      await composer(page).fill("May I?");
      await page.keyboard.press("Enter");
      await page.getByText("This conversation belongs to another token").waitFor();
      expect(await composer(page).isDisabled()).toBe(true);
      expect(await composer(page).inputValue()).toBe("May I?");
      await page.getByRole("link", { name: "New" }).first().click();
      await expect.poll(() => composer(page).isEnabled()).toBe(true);
      await page.goBack();
      await expect.poll(() => composer(page).isDisabled()).toBe(true);
      await page.getByRole("button", { name: "Remove Mine alone." }).click();
      await page.getByRole("button", { name: "Remove", exact: true }).click();
      await page.waitForURL(/\/chat$/);
    });

    it("says nothing anywhere else while a conversation is not there yet", async () => {
      const { id } = await server().ask<{ id: string }>("/api/chat/sessions", {});
      const page = await open({ path: "/chat" });
      let release = () => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      await page.route(`**/api/chat/sessions/${id}`, async (route) => {
        await held;
        await route.continue();
      });
      await expect.poll(() => composer(page).isEnabled()).toBe(true);
      await page
        .getByRole("link", { name: /^New conversation/ })
        .first()
        .click();
      await page.waitForURL(`**/chat/${id}`);
      expect(await composer(page).isDisabled()).toBe(true);
      release();
      await expect.poll(() => composer(page).isEnabled()).toBe(true);
    });

    it("keeps what is typed while other pages are looked at, and over a reload", async () => {
      const page = await open({ path: "/chat" });
      await composer(page).fill("half a thought");
      await page.getByRole("navigation").getByRole("link", { name: "Calls" }).click();
      await page.getByRole("heading", { level: 1, name: "Calls" }).waitFor();
      await page.getByRole("navigation").getByRole("link", { name: "Chat" }).click();
      await expect.poll(() => composer(page).inputValue()).toBe("half a thought");
      await page.reload();
      await expect.poll(() => composer(page).inputValue()).toBe("half a thought");
      await expect.poll(() => composer(page).isEnabled()).toBe(true);
      await composer(page).press("Enter");
      await page.waitForURL(/\/chat\/[\w-]+/);
      await page.getByRole("link", { name: "New" }).first().click();
      await page.waitForURL(/\/chat$/);
      expect(await composer(page).inputValue()).toBe("");
    });

    it("copies what was said, and says which model answered, its tokens and what they cost", async () => {
      const page = await open({ path: "/chat?model=scripted%2Fmodel-b" });
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      const copied = () => page.evaluate(() => navigator.clipboard.readText());
      await say(page, "How **are** you?");
      const answer = page.getByRole("article", { name: "Answer" });
      await answer.getByText("scripted/model-b · 120 tokens in, 30 out · costs 0.18").waitFor();
      await answer.getByRole("button", { name: "Copy" }).click();
      await expect.poll(copied).toMatch(/^I see: \*\*How \*\*are\*\* you\?\*\* Answer \d+\.$/);
      const messages = page.getByRole("region", { name: "Messages" });
      await messages.getByRole("button", { name: "Copy" }).first().click();
      await expect.poll(copied).toBe("How **are** you?");
      await page.reload();
      await answer.getByText("scripted/model-b · 120 tokens in, 30 out · costs 0.18").waitFor();
    });

    it("answers again in place of the last answer, by the model that is chosen now", async () => {
      const page = await open({ path: "/chat" });
      await say(page, "Once more.");
      const answers = page.getByRole("article", { name: "Answer" });
      const [first] = await answers.allInnerTexts();
      expect(first).toContain("scripted/model-a");
      await page.getByLabel("Model").selectOption("model-b");
      await answers.getByRole("button", { name: "Answer again" }).click();
      await answers.getByText("scripted/model-b").waitFor();
      expect(await answers.count()).toBe(1);
      expect(numberIn((await answers.allInnerTexts())[0])).toBeGreaterThan(numberIn(first));
      expect(await said(page, "Once more.").count()).toBe(1);
      await page.reload();
      await answers.getByText("scripted/model-b").waitFor();
      expect(await answers.count()).toBe(1);
    });

    it("edits an earlier question and asks it again, in place of it and of all that followed", async () => {
      const page = await open({ path: "/chat" });
      for (const text of ["First.", "Second.", "Third."]) await say(page, text);
      const edit = page.getByRole("button", { name: "Edit and ask again" });
      await edit.nth(1).click();
      const field = page.getByRole("textbox", { name: "Edit and ask again" });
      expect(await field.inputValue()).toBe("Second.");
      await field.fill("Changed my mind.");
      await page.keyboard.press("Escape");
      await said(page, "Second.").waitFor();
      await edit.nth(1).click();
      await field.fill("Another one.");
      await page.getByRole("button", { name: "Ask again", exact: true }).click();
      await page.getByText("I see: Another one.").waitFor();
      for (const text of ["Second.", "Third."]) expect(await said(page, text).count()).toBe(0);
      await page.reload();
      await page.getByText("I see: Another one.").waitFor();
      expect(await page.getByRole("article", { name: "Answer" }).count()).toBe(2);
      await said(page, "First.").waitFor();
    });

    it("keeps an edited question that the server does not take", async () => {
      const page = await open({ path: "/chat" });
      await say(page, "Asked before.");
      await page.getByRole("button", { name: "Edit and ask again" }).click();
      await page.getByRole("textbox", { name: "Edit and ask again" }).fill("Asked at a bad time.");
      await page.route("**/messages", (route) =>
        route.fulfill({ status: 500, json: { error: { code: "internal", message: "Not now." } } }),
      );
      await page.getByRole("button", { name: "Ask again", exact: true }).click();
      await page.getByText("Not now.").waitFor();
      await expect.poll(() => composer(page).inputValue()).toBe("Asked at a bad time.");
      await said(page, "Asked before.").waitFor();
    });
  },
  async () => {
    let count = 0;
    model = await ScriptedModel.start(({ messages }) => {
      const question = messages.findLast(({ role }) => role === "user")?.content;
      const usage = { prompt_tokens: 120, completion_tokens: 30 };
      return { content: `I see: **${question}** Answer ${++count}.`, usage };
    });
    return { files: model.files() };
  },
);

/** Says something, and waits for the whole answer. */
async function say(page: Page, text: string): Promise<void> {
  await expect.poll(() => composer(page).isEnabled()).toBe(true);
  const answers = page.getByRole("article", { name: "Answer" });
  const before = await answers.count();
  await composer(page).fill(text);
  await composer(page).press("Enter");
  await answers.nth(before).getByText("tokens in").waitFor();
}

/** Which of the model's answers this is. */
function numberIn(answer = ""): number {
  return Number(/Answer (\d+)\./.exec(answer)?.[1]);
}

function composer(page: Page) {
  return page.getByRole("textbox", { name: "Message" });
}

/** What a person said in the conversation that is shown. */
function said(page: Page, text: string) {
  const escaped = text.replaceAll(".", "\\.");
  return page.getByRole("region", { name: "Messages" }).getByText(new RegExp(`You:\\s*${escaped}$`));
}

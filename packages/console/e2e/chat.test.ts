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
  },
  async () => {
    model = await ScriptedModel.start(() => ({ content: "I see." }));
    return { files: model.files() };
  },
);

function composer(page: Page) {
  return page.getByRole("textbox", { name: "Message" });
}

/** What a person said in the conversation that is shown. */
function said(page: Page, text: string) {
  const escaped = text.replaceAll(".", "\\.");
  return page.getByRole("region", { name: "Messages" }).getByText(new RegExp(`You:\\s*${escaped}$`));
}

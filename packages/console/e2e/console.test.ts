import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";
import { shoot } from "./shoot.ts";

describeConsole("what people do in the console", ({ server, open }) => {
  it("takes a newcomer from the printed address to a result and its trace", async () => {
    const page = await open();
    expect(page.url()).toBe(`${server().url}/`);
    await page.getByRole("link", { name: "Tools", exact: true }).click();
    await page.keyboard.press("/");
    await page.keyboard.type("hello_world");
    await page.getByRole("treeitem", { name: "Hello World/问候" }).click();
    // The name that models use is shown to whoever points at the readable one.
    await page.locator('h1[title="hello_world"]', { hasText: "问候" }).waitFor();
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

  it("zooms into a call of a chain and out again, by mouse and by keys, and keeps it in the address", async () => {
    const { callId } = await server().call("hello_world", { name: "Ada" });
    const page = await open({ path: `/calls/${callId}` });
    const zoom = (name: string) => page.getByRole("button", { name: `Zoom into ${name}` });
    const isZoomed = (name: string) => zoom(name).getAttribute("aria-pressed");
    await zoom("count_letters").click();
    await page.waitForURL(/span=/);
    expect(await isZoomed("count_letters")).toBe("true");
    await page.reload();
    await page.getByRole("button", { name: "Whole" }).waitFor();
    await page.getByRole("radio", { name: "Input" }).click();
    await page.waitForURL(/tab=input/);
    expect(await isZoomed("count_letters")).toBe("true");
    await page.keyboard.press("Escape");
    await expect.poll(() => page.url()).not.toContain("span=");
    expect(page.url()).toContain("tab=input");
    await zoom("count_letters").focus();
    await page.keyboard.press("+");
    await expect.poll(() => isZoomed("count_letters")).toBe("true");
    await page.keyboard.press("-");
    await expect.poll(() => isZoomed("count_letters")).toBe("false");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Whole" }).click();
    await expect.poll(() => page.url()).not.toContain("span=");
  });

  it("shows a call in the feed while it happens, pauses, folds repeats and keeps its filters in the address", async () => {
    const page = await open({ path: "/calls" });
    for (let round = 0; round < 3; round++) await server().call("inventory", {});
    const row = page.getByRole("row").filter({ hasText: "inventory" });
    await row.getByRole("button", { name: "Show all 3 repeats" }).waitFor();
    await shoot(page, "calls");
    await row.getByRole("button", { name: "Show all 3 repeats" }).click();
    await expect.poll(() => row.count()).toBe(3);
    await page.getByRole("button", { name: "Pause" }).click();
    await server().call("flaky", {});
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
    await page.goto(`${server().url}/tools/inventory`);
    await page.getByRole("button", { name: "Run" }).click();
    await result.getByRole("cell", { name: "A-1" }).waitFor();
    await result.getByRole("radio", { name: "Tree" }).click();
    await result.getByText('"A-1"').waitFor();
  });

  it("approves a call with edited arguments, and the call runs with them", async () => {
    const page = await open({ path: "/approvals" });
    await page.getByText("All done. Nothing waits for you.").waitFor();
    const answer = server().call("delete_draft", { path: "drafts/old.md" });
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

    const refused = server().call("delete_draft", { path: "drafts/keep.md" });
    await card.getByRole("button", { name: "Deny…" }).click();
    await card.getByLabel("Reason").fill("still in use");
    await card.getByRole("button", { name: "Deny", exact: true }).click();
    expect(await refused).toMatchObject({
      error: { code: "approval_denied", message: expect.stringContaining("still in use") },
    });
    await page.getByRole("radio", { name: "History" }).click();
    await page.getByText("still in use").first().waitFor();
  });

  it("lets somebody go through the questions with keys, and decides nothing before a question is turned to", async () => {
    const page = await open({ path: "/approvals" });
    const calls = ["one", "two", "three"].map((name) =>
      server().call("delete_draft", { path: `drafts/${name}.md` }),
    );
    const cards = page.getByRole("article");
    await expect.poll(() => cards.count()).toBe(3);
    await page.getByRole("heading", { level: 1 }).click();
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("Approve once").waitFor();
    await page.keyboard.press("a");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("heading", { level: 1 }).click();
    const current = page.locator("article[aria-current=true]");
    expect(await current.count()).toBe(0);
    await page.keyboard.press("a");
    await current.waitFor();
    expect(await cards.count()).toBe(3);
    const pathOf = () => current.getByRole("textbox", { name: "path (required)" }).inputValue();
    const first = await pathOf();
    await page.keyboard.press("j");
    await expect.poll(pathOf).not.toBe(first);
    await page.keyboard.press("k");
    await expect.poll(pathOf).toBe(first);
    const isSteady = () =>
      expect
        .poll(() => current.getByRole("button", { name: /^Approve/ }).getAttribute("aria-disabled"))
        .toBeNull();
    await isSteady();
    // The key is pressed once more when the next question is turned to, before anybody can have read it.
    await page.evaluate(() => {
      const press = () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "a" }));
      document.addEventListener("focusin", press, { once: true });
    });
    await page.keyboard.press("a");
    await expect.poll(() => cards.count()).toBe(2);

    await expect.poll(() => current.count()).toBe(1);
    await isSteady();
    expect(await cards.count()).toBe(2);
    const edited = await pathOf();
    await page.keyboard.press("e");
    await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe("INPUT");
    await page.keyboard.press("End");
    await page.keyboard.type(".bak");
    await current.getByText("Your changes").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe("ARTICLE");
    await page.keyboard.press("a");
    await expect.poll(() => cards.count()).toBe(1);

    await expect.poll(() => current.count()).toBe(1);
    await page.keyboard.press("d");
    await page.keyboard.type("not that one");
    await page.keyboard.press("Enter");
    await page.getByText("All done. Nothing waits for you.").waitFor();
    const answers = JSON.stringify(await Promise.all(calls));
    expect(answers).toContain(`deleted ${first}"`);
    expect(answers).toContain(`deleted ${edited}.bak`);
    expect(answers).toContain("not that one");
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
    await server().write("tools/late.ts", text.replace("});", "]);"));
    const broken = page.getByRole("treeitem").filter({ hasText: /tools\/late\.ts:2/ });
    await broken.click();
    await page.getByRole("heading", { name: /tools\/late\.ts/ }).waitFor();
    await page.getByText("Why it does not load").waitFor();
    await server().write("tools/late.ts", text);
    await page.getByRole("treeitem", { name: "late_tool" }).click();
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("region", { name: "Result" }).getByText("here").waitFor();
    await page.getByRole("link", { name: "Reloads and alerts" }).click();
    await page.getByText("Added late_tool").waitFor();
    await page.getByRole("table", { name: "By tool" }).waitFor();
    await shoot(page, "reloads");
  });

  it("shows a session that goes in circles among the alerts", async () => {
    for (let round = 0; round < 8; round++) {
      await server().call("count_letters", { text: "again" }, { sessionID: "circles" });
    }
    const page = await open({ path: "/reloads" });
    const loops = page.getByRole("region", { name: "Loops caught" });
    await loops.getByRole("link", { name: "count_letters" }).first().waitFor();
    await loops.getByText(/No call of the session runs until a person writes to it/).waitFor();
    await loops.getByText('repeatable: "poll"').waitFor();
    expect(await loops.getByRole("link", { name: "The tool" }).getAttribute("href")).toContain(
      "/tools/count_letters",
    );
    // The row says which calls count, and a person lets the session go on.
    await loops.getByText("Calls that count:").first().waitFor();
    await loops.getByRole("button", { name: "Let it go on" }).first().click();
    await loops
      .getByText(/let the session go on/)
      .first()
      .waitFor();
    await loops.getByRole("link", { name: "Calls of the session" }).first().click();
    await page.waitForURL(/session=circles/);
    await page.getByRole("row").filter({ hasText: "count_letters" }).first().waitFor();
  });

  it("disables a tool and enables it again", async () => {
    const page = await open({ path: "/tools/count_letters" });
    await page.getByRole("button", { name: "Disable" }).click();
    await page.getByText("Enable the tool to run it.").waitFor();
    expect(await page.getByRole("button", { name: "Run" }).isDisabled()).toBe(true);
    await page.getByRole("button", { name: "Enable" }).click();
    await expect.poll(() => page.getByRole("button", { name: "Run" }).isDisabled()).toBe(false);
  });

  it("disables several tools that were selected with keys, and undoes it", async () => {
    const statuses = async () => {
      const tools = ["flaky", "inventory", "long_text"].map((name) =>
        server().ask<{ status: string }>(`/api/tools/${name}`),
      );
      return (await Promise.all(tools)).map(({ status }) => status);
    };
    const page = await open({ path: "/tools" });
    await page.getByRole("treeitem", { name: "flaky" }).focus();
    await page.keyboard.press("x");
    await page.getByText("1 selected").waitFor();
    await page.keyboard.press("Shift+ArrowDown");
    await page.getByText("2 selected").waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Shift+X");
    await page.getByText("3 selected").waitFor();
    expect(await page.getByRole("treeitem", { name: "long_text" }).getAttribute("aria-checked")).toBe("true");
    await page.getByRole("button", { name: "Disable" }).click();
    await page.getByText("3 tools disabled").waitFor();
    expect(await statuses()).toEqual(["disabled", "disabled", "disabled"]);
    await page.getByRole("treeitem", { name: /long_text Disabled/ }).waitFor();
    expect(
      await page.getByRole("button", { name: "Undo" }).evaluate((one) => one === document.activeElement),
    ).toBe(true);
    await page.keyboard.press("Enter");
    await expect.poll(statuses).toEqual(["ok", "ok", "ok"]);
    await expect.poll(() => page.getByRole("button", { name: "Undo" }).count()).toBe(0);
    await page.getByRole("treeitem", { name: /^reports/ }).focus();
    await page.keyboard.press("x");
    await page.getByText("5 selected").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByText("5 selected").count()).toBe(0);
  });

  it("replays a recorded call with other arguments", async () => {
    const { callId } = await server().call("hello_world", { name: "Grace" });
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

  it("makes JSON of what is pasted with fences, comments and commas too many", async () => {
    const page = await open({ path: "/tools/hello_world" });
    await page.getByRole("radio", { name: "JSON" }).click();
    const editor = page.getByRole("textbox", { name: "Arguments" });
    await editor.fill("");
    await editor.evaluate((field, text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", text);
      field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }, "```json\n{ 'name': 'Pasted', // me\n }\n```");
    await page.getByText("What you pasted was made into JSON.").waitFor();
    await page.getByRole("radio", { name: "Form" }).click();
    expect(await page.getByRole("textbox", { name: "name (required)" }).inputValue()).toBe("Pasted");
  });

  it("says how to configure a model where there is none", async () => {
    const page = await open({ path: "/chat" });
    await page.getByText("No model is configured.").waitFor();
    await page.getByText("OPENAI_API_KEY").first().waitFor();
    expect(await page.getByRole("textbox", { name: "Message" }).isDisabled()).toBe(true);
  });
});

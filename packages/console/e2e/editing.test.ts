import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import type { ConsoleServer } from "./console-server.ts";
import { describeConsole } from "./describe-console.ts";
import { oddServerFiles, oddTools } from "./odd-server-files.ts";

/** A tool that the rack cannot take: arguments are always an object. */
const unusable = {
  name: "unusable",
  description: "Takes a list.",
  inputSchema: { type: "array" },
};
/** One that it takes, although a part of its schema cannot be checked. */
const endless = {
  name: "endless",
  description: "Has a schema without an end.",
  inputSchema: {
    type: "object",
    properties: { a: { $ref: "#/$defs/a" } },
    $defs: { a: { $ref: "#/$defs/a" } },
  },
};

describeConsole(
  "what people edit",
  ({ server, open }) => {
    it("keeps what is typed between the views of a skill, and asks before it would be lost", async () => {
      const { id } = await makeSkill(server(), "typed");
      const page = await open({ path: `/skills/${id}` });
      const text = page.getByRole("textbox", { name: "SKILL.md" });
      await text.fill("Half a sentence");
      await view(page, /^Files/);
      await page.getByRole("button", { name: "notes.md", exact: true }).click();
      await page.getByRole("textbox", { name: "notes.md" }).fill("A note that is not saved");
      await page.getByRole("listitem").filter({ hasText: "notes.md" }).getByText("Not saved yet").waitFor();
      await view(page, /^Tools/);
      await page.getByRole("button", { name: "Add a tool" }).click();
      await page.getByLabel("Name for models").fill("half_a_tool");
      await view(page, /^SKILL/);
      expect(await text.innerText()).toBe("Half a sentence");
      await view(page, /^Files/);
      expect(await page.getByRole("textbox", { name: "notes.md" }).innerText()).toBe(
        "A note that is not saved",
      );
      await view(page, /^Tools/);
      expect(await page.getByLabel("Name for models").inputValue()).toBe("half_a_tool");

      const question = page.getByRole("dialog", { name: "Leave without saving?" });
      await page.getByRole("button", { name: "All tools" }).click();
      await question.getByRole("button", { name: "Stay here" }).click();
      expect(await page.getByLabel("Name for models").inputValue()).toBe("half_a_tool");
      await page.getByRole("navigation").getByRole("link", { name: "Calls" }).click();
      await question.getByRole("button", { name: "Stay here" }).click();
      expect(new URL(page.url()).pathname).toBe(`/skills/${id}`);
      expect(await asksBeforeItCloses(page)).toBe(true);
      await page.getByRole("navigation").getByRole("link", { name: "Calls" }).click();
      await question.getByRole("button", { name: "Leave and lose it" }).click();
      await page.waitForURL(/\/calls/);
      expect(await asksBeforeItCloses(page)).toBe(false);
    });

    it("asks nothing where nothing was typed, nor after it was saved", async () => {
      const { id } = await makeSkill(server(), "saved");
      const page = await open({ path: `/skills/${id}?view=tools` });
      await page.getByRole("button", { name: "Edit greet" }).click();
      await page.getByLabel("What models are told").fill("Greets.");
      await page.getByRole("button", { name: "Save the tool" }).click();
      await expect.poll(() => asksBeforeItCloses(page)).toBe(false);
      await page.getByRole("button", { name: "All tools" }).click();
      await page.getByRole("button", { name: "Edit greet" }).click();
      await page.getByRole("textbox", { name: "What models are told" }).waitFor();
      await page.getByRole("navigation").getByRole("link", { name: "Home" }).click();
      await page.getByRole("heading", { name: "What is on the rack" }).waitFor();
    });

    it("asks about an expert, and forgets what was typed with what is deleted", async () => {
      const { id } = await server().ask<{ id: string }>("/api/experts", { name: "typist" });
      const page = await open({ path: `/experts/${id}` });
      await page.getByLabel("Description").fill("Types");
      await page.getByRole("radio", { name: /^Skills/ }).click();
      const question = page.getByRole("dialog", { name: "Leave without saving?" });
      await page.keyboard.press("Escape");
      await expect.poll(() => question.count()).toBe(0);
      expect(await page.getByLabel("Description").inputValue()).toBe("Types");
      await page.getByRole("button", { name: "Remove typist" }).click();
      await page.getByRole("button", { name: "Remove", exact: true }).click();
      await page.waitForURL(/\/experts$/);
    });

    it("saves a file although something else of the skill was changed, and not over another text of it", async () => {
      const { id } = await makeSkill(server(), "filed");
      const page = await open({ path: `/skills/${id}?view=files&file=notes.md` });
      const text = page.getByRole("textbox", { name: "notes.md" });
      const save = page.getByRole("button", { name: "Save" });
      const stored = async () =>
        (await server().ask<{ files: { text: string }[] }>(`/api/skills/${id}`)).files[0]?.text;
      await text.fill("Mine");
      await change(server(), `/api/skills/${id}`, { instructions: "Other" });
      await save.click();
      await expect.poll(stored).toBe("Mine");
      await expect.poll(() => page.getByText("Not saved yet").count()).toBe(0);
      await text.fill("Mine again");
      await change(server(), `/api/skills/${id}`, { files: { "notes.md": "Theirs" } });
      const conflict = page.getByRole("alert", { name: "Changed by somebody else" });
      await conflict.getByRole("button", { name: "Keep mine" }).click();
      await save.click();
      await expect.poll(stored).toBe("Mine again");
    });

    it("does not save over what somebody else saved, and shows both", async () => {
      const { id } = await makeSkill(server(), "shared");
      const page = await open({ path: `/skills/${id}` });
      const text = page.getByRole("textbox", { name: "SKILL.md" });
      await text.fill("Mine");
      await change(server(), `/api/skills/${id}`, { enabled: false });
      await page.getByRole("button", { name: "Save" }).click();
      await expect.poll(() => page.getByText("Not saved yet").count()).toBe(0);
      expect(await instructionsOf(server(), id)).toBe("Mine");

      await text.fill("Mine again");
      await change(server(), `/api/skills/${id}`, { instructions: "Theirs" });
      const conflict = page.getByRole("alert", { name: "Changed by somebody else" });
      await conflict.getByText(/removed:\s*Theirs$/).waitFor();
      expect(await page.getByRole("button", { name: "Save" }).isDisabled()).toBe(true);
      await conflict.getByRole("button", { name: "Keep mine" }).click();
      await page.getByRole("button", { name: "Save" }).click();
      await expect.poll(() => instructionsOf(server(), id)).toBe("Mine again");

      // The page hears nothing of it before it saves: the server refuses.
      let saves = false;
      await page.route("**/api/skills/*", (route) => {
        saves ||= route.request().method() === "PATCH";
        return saves ? route.continue() : route.abort();
      });
      await text.fill("Mine once more");
      await change(server(), `/api/skills/${id}`, { instructions: "Theirs once more" });
      await page.getByRole("button", { name: "Save" }).click();
      await conflict.getByText(/removed:\s*Theirs once more$/).waitFor();
      expect(await instructionsOf(server(), id)).toBe("Theirs once more");
      await conflict.getByRole("button", { name: "Take theirs" }).click();
      expect(await text.innerText()).toBe("Theirs once more");
    });

    it("says what other programs will not take while somebody types", async () => {
      const { id } = await makeSkill(server(), "rules");
      const page = await open({ path: `/skills/${id}` });
      const breaches = page.getByRole("list", { name: "What other programs may not take" });
      await page.getByLabel("Name", { exact: true }).fill("Bad Name!");
      await breaches.getByText("only lower-case letters").waitFor();
      await page.getByLabel("Description").fill("");
      await breaches.getByText("It has no description").waitFor();
    });

    it("shows the question of its own try, and nobody else's", async () => {
      const { id } = await makeSkill(server(), "tries");
      const page = await open({ path: `/skills/${id}?view=tools&tool=new` });
      const result = page.getByRole("region", { name: "Result" });
      const name = page.getByLabel("Name for models");
      await page.getByRole("radio", { name: "Built-in" }).click();
      await name.fill("slow");
      await page.getByLabel("Tool that it stands for").fill("report");
      await page.getByRole("region", { name: "Try" }).getByRole("radio", { name: "JSON" }).click();
      const args = page.getByRole("region", { name: "Try" }).getByRole("textbox", { name: "Arguments" });
      await args.fill('{"steps": 50}');
      await page.getByRole("button", { name: "Try" }).click();
      await result.getByRole("status").getByText("Running").waitFor();
      const draft = { name: "x", type: "builtin", command: "delete_draft" };
      const theirs = server().ask(`/api/skills/${id}/try`, { tool: draft, arguments: { path: "a.md" } });
      await expect.poll(() => waiting(server())).toHaveLength(1);
      // The page has heard of it.
      await expect.poll(() => page.title()).toContain("(1)");
      expect(await result.getByRole("button", { name: "Approve" }).count()).toBe(0);
      await result.getByRole("button", { name: "Cancel" }).click();
      await answer(server(), "deny");
      await theirs;

      await page.getByLabel("Tool that it stands for").fill("delete_draft");
      await args.fill('{"path": "b.md"}');
      await page.getByRole("button", { name: "Try" }).click();
      await result.getByRole("button", { name: "Approve" }).click();
      await result.getByText("deleted b.md").waitFor();
    });

    it("says of a tool of an MCP server that it was refused, and offers nothing to do with it", async () => {
      const page = await open({ path: "/mcp-servers/odd" });
      const row = page
        .getByRole("list", { name: "Tools" })
        .getByRole("listitem")
        .filter({ hasText: "unusable" });
      await row.getByText("Refused").waitFor();
      await row.getByText("arguments are always an object").waitFor();
      expect(await row.getByRole("switch").count()).toBe(0);
      expect(await row.getByRole("link").count()).toBe(0);
      await page.getByRole("list", { name: "MCP servers" }).getByText("1 left out").waitFor();
    });

    it("says what of the schema of a tool is not checked", async () => {
      const page = await open({ path: "/mcp-servers/odd" });
      const row = page
        .getByRole("list", { name: "Tools" })
        .getByRole("listitem")
        .filter({ hasText: "endless" });
      await row
        .getByText("Offered, but its inputSchema.$defs.a is not checked here: It leads back")
        .waitFor();
      expect(await row.getByRole("switch").count()).toBe(1);
    });

    it("opens a log at its end, and stays where somebody reads", async () => {
      const lines = Array.from({ length: 200 }, (_, index) => ({
        at: index,
        from: "stderr",
        text: `line ${index}`,
      }));
      const page = await open({ path: "/mcp-servers/odd" });
      await page.route("**/api/mcp-servers/odd/log", (route) => route.fulfill({ json: { items: lines } }));
      await page.getByRole("radio", { name: "Log" }).click();
      await page.getByText("line 199", { exact: true }).waitFor();
      const log = page.getByRole("list", { name: "Log" });
      const below = () => log.evaluate((list) => list.scrollHeight - list.scrollTop - list.clientHeight);
      await expect.poll(below).toBeLessThan(2);
      lines.push({ at: 200, from: "stderr", text: "line 200" });
      await page.getByText("line 200", { exact: true }).waitFor();
      await expect.poll(below).toBeLessThan(2);
      await log.evaluate((list) => list.scrollTo({ top: 0 }));
      lines.push({ at: 201, from: "stderr", text: "line 201" });
      await page.getByText("line 201", { exact: true }).waitFor();
      expect(await log.evaluate((list) => list.scrollTop)).toBe(0);
    });

    it("adds those servers that can be added, once, and says what became of the others", async () => {
      const { mcpServers } = JSON.parse(oddServerFiles()["mcp.json"] ?? "{}");
      const page = await open({ path: "/mcp-servers?add" });
      const all = { third: mcpServers.odd, broken: { start: "x" }, text: "no" };
      await page
        .getByLabel("JSON with mcpServers, servers, apis, or one entry")
        .fill(JSON.stringify({ mcpServers: all }));
      await page.getByText("These are no servers and are left out: text").waitFor();
      const posted: string[] = [];
      page.on("request", (request) => {
        if (request.method() === "POST") posted.push(JSON.parse(request.postData() ?? "{}").key);
      });
      await page.getByRole("button", { name: "Add 2 servers" }).click();
      await page
        .getByRole("alert")
        .getByText(/^broken: /)
        .waitFor();
      await page.getByRole("button", { name: "Add 1 server" }).click();
      await expect.poll(() => posted).toEqual(["third", "broken", "broken"]);
    });

    it("asks before another name for a tool is thrown away", async () => {
      const page = await open({ path: "/mcp-servers/odd" });
      await page.getByRole("button", { name: "Edit pay" }).click();
      const dialog = page.getByRole("dialog", { name: "Name and description of pay" });
      await dialog.getByLabel("Name").fill("pay_bill");
      await page.keyboard.press("Escape");
      await dialog.getByText("Not saved yet").waitFor();
      expect(await dialog.getByLabel("Name").inputValue()).toBe("pay_bill");
      await dialog.getByRole("button", { name: "Discard it" }).click();
      await expect.poll(() => dialog.count()).toBe(0);
    });

    it("tells on the first page of MCP servers and of loops", async () => {
      const page = await open();
      await page.getByRole("link", { name: /MCP servers ready/ }).waitFor();
      await page.getByRole("link", { name: /Loops in 24 hours/ }).waitFor();
      await page
        .getByRole("main")
        .getByRole("link", { name: /MCP servers ready/ })
        .click();
      await page.waitForURL(/mcp-servers/);
    });
  },
  () => ({
    files: { ...oddServerFiles(), "odd-tools.json": JSON.stringify([...oddTools, unusable, endless]) },
  }),
);

function view(page: Page, name: RegExp): Promise<void> {
  return page.getByRole("radiogroup", { name: "View" }).getByRole("radio", { name }).click();
}

async function makeSkill(server: ConsoleServer, name: string): Promise<{ id: string }> {
  const body = { name, description: "For a test.", instructions: "Begin.", files: { "notes.md": "A note" } };
  const skill = await server.ask<{ id: string }>("/api/skills", body);
  const greet = { name: "greet", type: "builtin", command: "hello_world", usage: [{ name: "name" }] };
  await server.ask(`/api/skills/${skill.id}/tools`, greet);
  return skill;
}

async function change(server: ConsoleServer, path: string, body: unknown): Promise<void> {
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const answered = await fetch(server.url + path, { method: "PATCH", headers, body: JSON.stringify(body) });
  expect(answered.status).toBe(200);
}

async function instructionsOf(server: ConsoleServer, id: string): Promise<string> {
  return (await server.ask<{ instructions: string }>(`/api/skills/${id}`)).instructions;
}

async function waiting(server: ConsoleServer): Promise<readonly { id: string }[]> {
  return (await server.ask<{ items: { id: string }[] }>("/api/approvals")).items;
}

async function answer(server: ConsoleServer, decision: string): Promise<void> {
  for (const { id } of await waiting(server)) await server.ask(`/api/approvals/${id}`, { decision });
}

/** Whether the browser would ask somebody who closes the window. */
function asksBeforeItCloses(page: Page): Promise<boolean> {
  return page.evaluate(() => !window.dispatchEvent(new Event("beforeunload", { cancelable: true })));
}

import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import type { ConsoleServer } from "./console-server.ts";
import { describeConsole } from "./describe-console.ts";

const files = {
  "tools/work.ts": `import { Tool } from "@toolrack/core";

export const transfer = Tool.define({
  name: "transfer",
  description: "Sends money.",
  parameters: {
    type: "object",
    properties: { to: { type: "string" }, amount: { type: "number" }, note: { type: "string" } },
    required: ["to"],
  },
  metadata: { dangerous: true },
  execute: async ({ input }) => "sent " + input.amount + " to " + input.to,
});

export const slow = Tool.define({
  name: "slow",
  description: "Ends when it is told to.",
  parameters: { type: "object", properties: { name: { type: "string" } } },
  execute: ({ signal }) =>
    new Promise((resolve, reject) => {
      globalThis.endSlow = () => resolve("done");
      signal.addEventListener("abort", () => reject(signal.reason));
    }),
});

export const endSlow = Tool.define({
  name: "end_slow",
  description: "Tells it.",
  parameters: { type: "object", properties: {} },
  execute: async () => {
    globalThis.endSlow?.();
    return "told";
  },
});

export const many = Tool.define({
  name: "many",
  description: "Makes many calls.",
  parameters: { type: "object", properties: { count: { type: "integer", default: 150 } } },
  execute: async (context) => {
    for (let index = 0; index < context.input.count; index++) await context.call("one_of_many", { index });
    return "made " + context.input.count;
  },
});

export const oneOfMany = Tool.define({
  name: "one_of_many",
  description: "Is one of them.",
  parameters: { type: "object", properties: { index: { type: "integer" } } },
  execute: async ({ input }) => String(input.index),
});
`,
};

async function waiting(server: ConsoleServer): Promise<readonly { id: string; callId: string }[]> {
  return (await server.ask<{ items: { id: string; callId: string }[] }>("/api/approvals")).items;
}

async function waitFor(server: ConsoleServer, count: number): Promise<void> {
  await expect.poll(async () => (await waiting(server)).length).toBe(count);
}

async function denyAll(server: ConsoleServer): Promise<void> {
  for (const { id } of await waiting(server)) await server.ask(`/api/approvals/${id}`, { decision: "deny" });
}

describeConsole(
  "questions and calls, while more of them come",
  ({ server, open }) => {
    it("puts a new question below those that are being read, and takes no aim at what just moved", async () => {
      const page = await open({ path: "/approvals" });
      const first = server().call("transfer", { to: "Ann", amount: 1 });
      const cards = page.getByRole("article");
      await expect.poll(() => cards.count()).toBe(1);
      const approve = cards.first().getByRole("button", { name: "Approve" });
      await expect.poll(() => approve.getAttribute("aria-disabled")).toBeNull();
      const before = await approve.boundingBox();
      const second = server().call("transfer", { to: "EVIL", amount: 2 });
      await expect.poll(() => cards.count()).toBe(2);
      expect(await approve.boundingBox()).toEqual(before);
      // The second press of a double click meets the next question in the place of the first, and is not for it.
      await approve.dblclick();
      expect(JSON.stringify(await first)).toContain("sent 1 to Ann");
      await expect.poll(() => cards.count()).toBe(1);
      expect(await waiting(server())).toHaveLength(1);
      // The one that is left has the focus.
      await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).toBe("ARTICLE");
      await denyAll(server());
      await second;
    });

    it("suggests a rule for exactly what was asked, and asks again about anything else", async () => {
      const page = await open({ path: "/approvals" });
      const call = server().call("transfer", { to: "*", amount: 10, note: "rent" });
      const card = page.getByRole("article", { name: "transfer" });
      await card.getByRole("radio", { name: "Always, for a pattern" }).check();
      const pattern = card.getByLabel("Calls of transfer with these arguments");
      expect(JSON.parse(await pattern.inputValue())).toEqual({ to: "[*]", amount: 10, note: "rent" });
      await card.getByRole("textbox", { name: "note" }).fill("rent May");
      await expect.poll(async () => JSON.parse(await pattern.inputValue()).note).toBe("rent May");
      const approve = card.getByRole("button", { name: "Approve" });
      await pattern.fill("{}");
      await card.getByLabel("Only calls without any other arguments").uncheck();
      expect(await approve.isDisabled()).toBe(true);
      await card.getByLabel("Yes, every call of transfer").check();
      await expect.poll(() => approve.isDisabled()).toBe(false);
      await pattern.fill('{ "to": "[*]", "amount": 10, "note": "rent May" }');
      await card.getByLabel("Only calls without any other arguments").check();
      await approve.click();
      await call;
      await server().call("transfer", { to: "*", amount: 10, note: "rent May" });
      const other = server().call("transfer", { to: "Mallory", amount: 999_999, note: "rent May" });
      const to = card.getByRole("textbox", { name: "to (required)" });
      await expect.poll(() => to.inputValue()).toBe("Mallory");
      await denyAll(server());
      await other;

      await page.getByRole("radio", { name: "History" }).click();
      const allowed = page.getByRole("listitem").filter({ hasText: "Approved" }).first();
      await allowed.getByText("What was asked").click();
      await allowed.getByText("Always, for transfer").waitFor();
      await allowed.getByText("No other arguments").waitFor();
      await allowed.getByRole("region", { name: "Your changes" }).getByText("rent May").waitFor();
    });

    it("keeps a question in its place that somebody else decided, with what was being typed", async () => {
      const page = await open({ path: "/approvals" });
      const call = server().call("transfer", { to: "Bob", amount: 3 });
      const card = page.getByRole("article", { name: "transfer" });
      await card.getByText("Asked by node", { exact: true }).waitFor();
      await card.getByRole("textbox", { name: "note" }).fill("half a sentence");
      const [{ id } = { id: "" }] = await waiting(server());
      await server().ask(`/api/approvals/${id}`, { decision: "deny", reason: "too late" });
      await call;
      await card.getByText("Denied by Workspace token: too late").waitFor();
      expect(await card.getByRole("textbox", { name: "note" }).inputValue()).toBe("half a sentence");
      expect(await page.getByText("All done").count()).toBe(0);
      await card.getByRole("button", { name: "Dismiss" }).click();
      await page.getByText("All done. Nothing waits for you.").waitFor();
      expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("H1");
    });

    it("keeps what was made of a question while somebody looks elsewhere", async () => {
      const page = await open({ path: "/approvals" });
      const call = server().call("transfer", { to: "Dan", amount: 4 });
      const note = page.getByRole("article", { name: "transfer" }).getByRole("textbox", { name: "note" });
      await note.fill("half a sentence");
      await page.getByRole("radio", { name: "History" }).click();
      await note.waitFor({ state: "detached" });
      await page.getByRole("radio", { name: "Waiting" }).click();
      expect(await note.inputValue()).toBe("half a sentence");
      await page.getByRole("link", { name: "Calls", exact: true }).click();
      // It is not said to run while it waits.
      const row = page.getByRole("row").filter({ hasText: "transfer" }).first();
      await row.getByText("Waiting").first().waitFor();
      await page.getByRole("link", { name: "Home", exact: true }).click();
      await page.getByRole("link", { name: "Waiting for you 1" }).waitFor();
      await page.getByRole("link", { name: "Running now 0" }).waitFor();
      await page.getByRole("link", { name: /^Approvals/ }).click();
      expect(await note.inputValue()).toBe("half a sentence");
      await denyAll(server());
      await call;
    });

    it("takes a reason where the call is shown, says it to people in their words, and keeps the focus", async () => {
      const page = await open({ path: "/tools/transfer" });
      await page.getByRole("textbox", { name: "to (required)" }).fill("Mallory");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      const result = page.getByRole("region", { name: "Result" });
      await result.getByRole("button", { name: "Deny…" }).click();
      await result.getByLabel("Reason").fill("not to her");
      await page.keyboard.press("Enter");
      await result.getByText("The tool did not run. The call was denied: not to her").waitFor();
      await result.getByText("Denied", { exact: true }).waitFor();
      expect(await result.getByText("Do not repeat").count()).toBe(0);
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Result");
    });

    it("shows the calls that people made, however many calls those made in turn", async () => {
      await server().call("many", { count: 150 });
      const page = await open({ path: "/calls" });
      await page.getByRole("row").filter({ hasText: "many" }).first().waitFor();
      expect(await page.getByRole("row").filter({ hasText: "one_of_many" }).count()).toBe(0);
    });

    it("lets go of a call that has ended where only running ones are shown", async () => {
      const page = await open({ path: "/calls?status=running" });
      const call = server().call("slow", {});
      const row = page.getByRole("row").filter({ hasText: "slow" });
      await row.waitFor();
      await server().call("end_slow", {});
      await call;
      await row.waitFor({ state: "detached" });
    });

    it("keeps what was selected and what is being read, whatever comes in above it", async () => {
      for (let index = 0; index < 60; index++) await server().call("one_of_many", { index });
      const page = await open({ path: "/calls" });
      await page.getByRole("row").filter({ hasText: '"index":59' }).first().waitFor();
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      const selected = page.locator("[role=row].bg-accent-wash");
      await selected.filter({ hasText: '"index":58' }).waitFor();
      await server().call("one_of_many", { index: 1_000 });
      await page.getByRole("row").filter({ hasText: '"index":1000' }).waitFor();
      await selected.filter({ hasText: '"index":58' }).waitFor();

      const scroller = page.getByRole("region", { name: "Calls" });
      await scroller.evaluate((element) => element.scrollTo({ top: 880 }));
      const read = page.getByRole("row").filter({ hasText: '"index":38' });
      await read.waitFor();
      const before = (await read.boundingBox())?.y;
      await server().call("one_of_many", { index: 1_001 });
      await expect.poll(() => scroller.evaluate((element) => element.scrollTop)).toBe(924);
      await expect.poll(async () => (await read.boundingBox())?.y).toBe(before);
      await read.getByText('"index":38').click();
      await page.waitForURL(/\/calls\/.+/);
    });

    it("goes back through filters, and takes none of them to another page", async () => {
      const page = await open({ path: "/calls" });
      await page.getByLabel("Tool, such as file").fill("hello");
      await page.waitForURL(/tool=hello/);
      await page.getByText("No call fits these filters.").waitFor();
      await server().call("hello_world", { name: "Ada" });
      await page.getByRole("row").filter({ hasText: "Hello World" }).waitFor();
      await page.getByLabel("Status", { exact: true }).selectOption("error");
      await page.waitForURL(/status=error/);
      await page.goBack();
      await page.goBack();
      await page.waitForURL(/\/calls$/);
      expect(await page.getByLabel("Tool, such as file").inputValue()).toBe("");
      await page.getByRole("searchbox").fill("zzz");
      await page.getByRole("link", { name: "Settings" }).click();
      await page.waitForURL(/\/settings$/);
      await page.waitForTimeout(600);
      expect(page.url()).toMatch(/\/settings$/);
    });

    it("says that there is no such call, and does not show another one instead", async () => {
      const { callId } = await server().call("inventory", {});
      const page = await open({ path: `/calls/${callId}` });
      await page.getByRole("button", { name: "Run again", exact: true }).waitFor();
      await page.keyboard.press("Control+k");
      await page.keyboard.type("call_doesnotexist");
      await page.keyboard.press("Enter");
      await page.getByRole("alert").getByText("call_doesnotexist").waitFor();
      expect(await page.getByRole("button", { name: "Run again", exact: true }).count()).toBe(0);
    });

    it("opens a call that is run again at once, with the question that it waits for", async () => {
      const asked = server().call("transfer", { to: "Eve", amount: 5 });
      await waitFor(server(), 1);
      await denyAll(server());
      await asked;
      const { items } = await server().ask<{ items: { callId: string }[] }>(
        "/api/calls?tool=transfer&limit=1",
      );
      const page = await open({ path: `/calls/${items[0]?.callId}` });
      await page.getByRole("button", { name: "Run again", exact: true }).click();
      await page.getByRole("button", { name: "Approve" }).click();
      await page.getByText("sent 5 to Eve").first().waitFor();
      expect(page.url()).not.toContain(items[0]?.callId);
      await page.getByText("Replay of").waitFor();
    });

    it("tells a cancelled call from a failed one", async () => {
      const page = await open({ path: "/calls" });
      const call = server().call("slow", { name: "cancelled" }, { callId: "to_cancel" });
      await page.getByRole("row").filter({ hasText: "slow" }).filter({ hasText: "Running" }).waitFor();
      await page.goto(`${server().url}/calls/to_cancel`);
      await page.getByRole("button", { name: "Cancel" }).click();
      await call;
      await page.getByRole("heading", { level: 1 }).getByText("Cancelled").waitFor();
    });

    it("downloads the whole record of a large call", async () => {
      const { callId } = await server().call("long_text", { lines: 60_000 });
      const page = await open({ path: `/calls/${callId}` });
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Download the record" }).click(),
      ]);
      const record = JSON.parse(await readFile(await download.path(), "utf8"));
      expect(record.callId).toBe(callId);
      expect(record.result.content).toHaveLength(record.resultSize);
      expect(record.result.content).toContain("line 59999 of the long text");
    });

    it("finds loops however many calls came after them", async () => {
      for (let round = 0; round < 8; round++)
        await server().call("inventory", {}, { sessionID: "in-circles" });
      await server().call("many", { count: 2_100 });
      const page = await open({ path: "/reloads" });
      const loops = page.getByRole("region", { name: "Loops caught" });
      await loops.getByRole("link", { name: "inventory" }).first().waitFor();
    });
  },
  () => ({ files }),
);

describeConsole(
  "a run whose server is away for a while",
  ({ server, open }) => {
    it("finds the answer in the record once the server is back", async () => {
      const page = await open({ path: "/tools/report" });
      await page.getByRole("textbox", { name: "steps" }).fill("20");
      await page.getByRole("button", { name: "Run" }).click();
      await page.getByText("Section 2", { exact: true }).first().waitFor();
      server().disconnect();
      server().reconnect();
      const result = page.getByRole("region", { name: "Result" });
      await result.getByText("sections are done").waitFor();
      await result.getByRole("link", { name: "Open trace" }).waitFor();
      expect(await result.getByText("network error").count()).toBe(0);
    });
  },
  () => ({ canBeCut: true }),
);

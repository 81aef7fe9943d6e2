import { expect, it } from "vitest";
import { describeConsole } from "./describe-console.ts";

describeConsole("what the server is asked to keep and to tell", ({ server, open }) => {
  it("makes a token that works, shows it once, and takes it back", async () => {
    const page = await open({ path: "/settings" });
    const tokens = page.getByRole("region", { name: "Tokens" });
    await tokens.getByRole("textbox", { name: "Name" }).fill("agent seven");
    await tokens.getByRole("button", { name: "Create a token" }).click();
    await tokens.getByText("Copy it now").waitFor();
    const text = /trk_[\w-]{43}/.exec(await tokens.innerText())?.[0];
    const ask = () => fetch(`${server().url}/api/tools`, { headers: { authorization: `Bearer ${text}` } });
    expect((await ask()).status).toBe(200);

    await page.reload();
    await tokens.getByText("agent seven").waitFor();
    expect(await page.content()).not.toContain(text);
    await tokens.getByRole("button", { name: /agent seven/ }).click();
    await tokens.getByText("agent seven").waitFor({ state: "detached" });
    expect((await ask()).status).toBe(401);
  });

  it("makes a token that may not talk to models, and says so in the list", async () => {
    const page = await open({ path: "/settings" });
    const tokens = page.getByRole("region", { name: "Tokens" });
    const make = async (name: string) => {
      await tokens.getByRole("textbox", { name: "Name" }).fill(name);
      await tokens.getByRole("button", { name: "Create a token" }).click();
      await tokens.getByText(name).waitFor();
      return tokens.getByRole("listitem").filter({ hasText: name });
    };
    expect(await (await make("talker")).innerText()).toContain("Tools: * · May chat");
    await tokens.getByRole("switch", { name: "May chat" }).click();
    expect(await (await make("silent")).innerText()).toContain("Tools: * · No chat");
    const { items } = await server().ask<{ items: { name: string; scopes: object }[] }>("/api/tokens");
    expect(items.map(({ name, scopes }) => [name, scopes])).toEqual([
      ["talker", { tools: ["*"], chat: true }],
      ["silent", { tools: ["*"], chat: false }],
    ]);
  });

  it("takes a secret and never shows it", async () => {
    const page = await open({ path: "/settings" });
    const secrets = page.getByRole("region", { name: "Secrets" });
    await secrets.getByRole("textbox", { name: "Name" }).fill("weather/API_KEY");
    await secrets.getByLabel("Value").fill("a-very-secret-value");
    await secrets.getByRole("button", { name: "Set the secret" }).click();
    await secrets.getByText("weather/API_KEY").waitFor();
    expect(await page.content()).not.toContain("a-very-secret-value");
    await secrets.getByRole("button", { name: /weather\/API_KEY/ }).click();
    await secrets.getByText("weather/API_KEY").waitFor({ state: "detached" });
  });

  it("shows the settings of tools, and says why a short value is no secret", async () => {
    const page = await open({ path: "/settings" });
    const settings = page.getByRole("region", { name: "Settings of tools" });
    await settings.getByRole("textbox", { name: "Name" }).fill("weather/TIMEOUT");
    await settings.getByLabel("Value").fill("5000");
    await settings.getByRole("button", { name: "Set the value" }).click();
    const item = settings.getByRole("listitem").filter({ hasText: "weather/TIMEOUT" });
    expect(await item.innerText()).toContain("5000");
    const secrets = page.getByRole("region", { name: "Secrets" });
    await secrets.getByRole("textbox", { name: "Name" }).fill("weather/TIMEOUT");
    await secrets.getByLabel("Value").fill("5000");
    await secrets.getByRole("button", { name: "Set the secret" }).click();
    await secrets.getByText(/shorter than 8 characters/).waitFor();
    await settings.getByRole("button", { name: /weather\/TIMEOUT/ }).click();
    await item.waitFor({ state: "detached" });
  });

  it("shows what tools keep in their folders, and clears it", async () => {
    await server().write(".toolrack/data/notes/a.txt", "12345");
    const page = await open({ path: "/settings" });
    const data = page.getByRole("region", { name: "Files that tools keep" });
    await data.getByText(/1 file, 5/).waitFor();
    await data.getByRole("button", { name: /notes/ }).click();
    await data.getByRole("button", { name: "Remove", exact: true }).click();
    await data.getByText("No tool has kept any files.").waitFor();
    expect(await server().ask("/api/data")).toEqual({ items: [] });
  });

  it("shows the limits, what was loaded at the start, and where a file is broken", async () => {
    const page = await open({ path: "/settings" });
    await page.getByText("Calls of one tool at one time").waitFor();
    await server().write("tools/odd.ts", "const a = 1;\nconst b = ;\n");
    await page.getByRole("link", { name: "Reloads and alerts" }).click();
    const history = page.getByRole("region", { name: "Reloads", exact: true });
    await history.getByText(/hello_world/).waitFor();
    await page.getByText(/> 2 \| const b = ;/).waitFor();
  });

  it("says nothing of reloads to a token that is not told of them", async () => {
    const scopes = { tools: ["*"] };
    const { token } = await server().ask<{ token: string }>("/api/tokens", { name: "user", scopes });
    const page = await open();
    await page.evaluate((text) => localStorage.setItem("toolrack.token", text), token);
    await page.goto(`${server().url}/reloads`);
    await page.getByRole("alert").getByText("This needs the token of an admin").waitFor();
    expect(await page.getByRole("region", { name: "Reloads", exact: true }).count()).toBe(0);
  });

  it("shows who has connected", async () => {
    const { url, token } = server();
    await fetch(`${url}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "initialize",
        params: {
          protocolVersion: "2025-11-25",
          capabilities: {},
          clientInfo: { name: "Some Editor", version: "3.1" },
        },
      }),
    });
    const page = await open();
    await page.getByText("Some Editor").waitFor();
    await page.getByText("3.1 · Workspace token").waitFor();
  });
});

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, it } from "vitest";
import { AuthorizationServer } from "../../server/src/mcp/connect/testing/authorization-server.fixture.ts";
import { describeConsole } from "./describe-console.ts";

const opened = new AsyncDisposableStack();
afterAll(() => opened.disposeAsync());

/** An API that tells its description, and what it was sent. */
const api = createServer(({ url, headers }, response) => {
  const described = url === "/openapi.json" ? description : { url, key: headers["x-key"] };
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(described));
});
let base = "";
const description = {
  openapi: "3.1.0",
  info: { title: "Pet shop", version: "1" },
  servers: [{ url: "/v1" }],
  components: { securitySchemes: { shopKey: { type: "apiKey", in: "header", name: "X-Key" } } },
  paths: {
    "/pets/{id}": {
      parameters: [{ name: "id", in: "path", required: true, schema: { type: "integer" } }],
      get: { operationId: "getPet", summary: "One pet" },
      delete: { operationId: "removePet", security: [{ shopKey: [] }] },
    },
    "/odd/{gone}": { get: { operationId: "odd" } },
  },
};

describeConsole(
  "HTTP APIs",
  ({ server, open }) => {
    it("adds an API by its address alone, says what was found, left out and is missing, and tries it out", async () => {
      const page = await open({ path: "/mcp-servers?add" });
      await page.getByLabel("An address, or JSON").fill(`${base}/openapi.json`);
      expect(await page.getByRole("radio", { name: "API description" }).isChecked()).toBe(true);
      expect(await page.getByLabel("Name").inputValue()).toBe("api");
      await page.getByLabel("Name").fill("shop");
      await page.getByRole("button", { name: "Add 1 server" }).click();
      await page.waitForURL(/mcp-servers\/shop/);
      await page.getByText("Pet shop OpenAPI 3.1.0").waitFor();
      await page.getByRole("heading", { name: "1 left out" }).waitFor();
      await page.getByText("Its path has {gone}, and no parameter says what that is.").waitFor();
      const note = page.getByRole("region", { name: "Not all of it can be used yet" });
      await note.getByText("Its entry has no credentials for shopKey.").waitFor();
      await page.getByRole("link", { name: "Try out getPet" }).click();
      await page.getByRole("textbox", { name: /^id/ }).fill("7");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByText("/v1/pets/7").first().waitFor();
    });

    it("shows the same in Chinese", async () => {
      const page = await open({ path: "/mcp-servers/shop", language: "zh-CN" });
      await page.getByRole("region", { name: "还不能全部使用" }).getByText("shopKey").waitFor();
      await page.getByRole("link", { name: /shop/ }).getByText("有缺失").waitFor();
      await page.getByRole("link", { name: "试用 getPet" }).waitFor();
      await page.getByRole("button", { name: "添加" }).click();
      await page.getByLabel("地址，或包含").fill(`${base}/openapi.json`);
      await page.getByRole("radio", { name: "API 描述" }).waitFor();
    });

    it("keeps nothing of an address that leads to no description, and says why", async () => {
      const page = await open({ path: "/mcp-servers?add" });
      await page.getByLabel("An address, or JSON").fill(`${base}/nothing`);
      await page.getByRole("button", { name: "Add 1 server" }).click();
      await page.getByRole("alert").getByText('It has neither "openapi" nor "swagger"').waitFor();
      const { items } = await server().ask<{ items: { key: string }[] }>("/api/mcp-servers");
      expect(items.map(({ key }) => key)).not.toContain("api");
    });

    it("signs in at an API on the page of its authorization server, and out again", async () => {
      const page = await open({ path: "/mcp-servers/notes" });
      await page.getByText('Nobody has signed in at the API "notes".').waitFor();
      const popup = page.waitForEvent("popup");
      await page.getByRole("button", { name: "Sign in" }).click();
      // The authorization server of the test agrees at once, and sends the browser back.
      await (await popup).getByRole("heading", { name: "Signed in" }).waitFor();
      await page.getByRole("button", { name: "Sign out of the server" }).waitFor();
      await expect.poll(() => page.getByText("Nobody has signed in").count()).toBe(0);
      await page.getByRole("link", { name: "Try out list" }).click();
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByText("/api/notes").first().waitFor();
      await page.goBack();
      await page.getByRole("button", { name: "Sign out of the server" }).click();
      await page.getByText('Nobody has signed in at the API "notes".').waitFor();
    });
  },
  async () => {
    await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
    opened.defer(() => void api.close());
    // A listening server at an address has a port.
    base = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
    const client = { id: "ours" };
    const authority = opened.use(await AuthorizationServer.start({ behind: base, isApi: true, client }));
    const { origin } = authority;
    const flow = { authorizationUrl: `${origin}/authorize`, tokenUrl: `${origin}/token`, scopes: {} };
    const notes = {
      openapi: "3.1.0",
      paths: { "/notes": { get: { operationId: "list", security: [{ person: ["use"] }] } } },
      components: { securitySchemes: { person: { type: "oauth2", flows: { authorizationCode: flow } } } },
    };
    const entry = { spec: "notes.json", baseUrl: `${origin}/api`, auth: { person: { clientId: "ours" } } };
    const files = {
      "notes.json": JSON.stringify(notes),
      "apis.json": JSON.stringify({ apis: { notes: entry } }),
    };
    return { files };
  },
);

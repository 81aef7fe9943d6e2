import { expect, it } from "vitest";
import { TestServer } from "../server.fixture.ts";

const tool = (name: string) =>
  `export const schema = { name: "${name}", description: "d", type: "object", properties: {} };
export default async () => ({ content: [{ type: "text", text: "x" }] });`;

it("lists the last hundred loads, the newest first, and begins with the opening", async () => {
  await using server = await TestServer.start({ files: { "tools/first.ts": tool("first") } });
  const list = async () => (await server.ask("/api/reloads")).body.items;
  expect(await list()).toMatchObject([{ added: ["first"], changed: [], removed: [], failed: [] }]);

  await server.workspace.write("tools/second.ts", tool("second"));
  await server.workspace.write("tools/first.ts", "export const schema = {;");
  await server.ask("/api/reload", { method: "POST" });
  const [newest, oldest] = await list();
  expect(newest).toMatchObject({ added: ["second"], failed: ["tools/first.ts"] });
  expect(newest.at).toBeGreaterThanOrEqual(oldest.at);

  for (let count = 0; count < 100; count++) await server.app.files.load();
  const all = await list();
  expect(all).toHaveLength(100);
  expect(all.at(-1)).toMatchObject({ added: [], changed: [], removed: [] });
});

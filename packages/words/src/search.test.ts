import { Tool, ToolRegistry } from "@toolrack/core";
import { describe, expect, test } from "vitest";
import { openWords } from "./index.ts";

const texts: Readonly<Record<string, string>> = {
  convert_currency: "Converts an amount of money into another currency.",
  get_weather: "The weather in a city, now.",
  law_search: "Finds laws and decisions of courts.",
  send_email: "Sends a message to a person.",
  book_flight: "Books a seat on a plane.",
  resize_image: "Changes the size of a picture.",
};

async function rackOf(words: boolean, more: Readonly<Record<string, string>> = {}): Promise<ToolRegistry> {
  const registry = new ToolRegistry({ search: words ? { words: openWords } : {} });
  for (const [name, description] of Object.entries({ ...texts, ...more }))
    registry.register(Tool.define({ name, description, parameters: { type: "object" }, execute: () => "" }));
  await registry.prepareSearch();
  return registry;
}

const first = (registry: ToolRegistry, query: string) => registry.search(query, 1)[0]?.name;

describe("search by meaning", () => {
  test.each([
    ["I need a lawyer", "law_search"],
    ["how many euros is that", "convert_currency"],
    ["will it rain tomorrow", "get_weather"],
    ["明天会下雨吗", "get_weather"],
    ["把图片缩小", "resize_image"],
    ["订一张机票", "book_flight"],
  ])("%j finds %s, which has none of its words", async (query, name) => {
    expect(first(await rackOf(true), query)).toBe(name);
    expect(first(await rackOf(false), query)).not.toBe(name);
  });

  test("an English request finds a tool that speaks Chinese", async () => {
    const registry = await rackOf(true, {
      tool_a: "根据地址查询经纬度坐标。",
      tool_b: "生成发票并发送给客户。",
    });
    expect(first(registry, "coordinates of an address")).toBe("tool_a");
    expect(first(registry, "make an invoice for a client")).toBe("tool_b");
  });

  test("a Chinese request finds the English tool that does it before Chinese ones that share a few characters", async () => {
    const registry = await rackOf(true, {
      stock_price: "Gets the current price of a stock.",
      tool_a: "获取科技公司的新闻，包含现在最热门的产品。",
      tool_b: "查询公司的电话和地址，现在支持多个城市。",
    });
    expect(first(registry, "苹果公司现在的股价是多少")).toBe("stock_price");
  });

  test("each of several wishes finds its tool", async () => {
    const registry = await rackOf(true);
    const found = registry.search("I want to fly to Berlin. Then tell me whether it rains there.", 2);
    expect(found.map(({ name }) => name).sort()).toEqual(["book_flight", "get_weather"]);
  });

  test("what means nothing finds nothing, and a name comes first whatever it means", async () => {
    const registry = await rackOf(true);
    expect(registry.search("xqzzvk qqrrtt")).toEqual([]);
    expect(first(registry, "send_email")).toBe("send_email");
  });

  test("follows tools that come, change and go, as if they had been there from the start", async () => {
    const registry = await rackOf(true, { passing: "Plays music." });
    registry.unregister("passing");
    registry.update("law_search", { description: "Bakes a cake." });
    registry.register(
      Tool.define({
        name: "songs",
        description: "Plays a song.",
        parameters: { type: "object" },
        execute: () => "",
      }),
    );
    await registry.prepareSearch();
    const fresh = await rackOf(true, { law_search: "Bakes a cake.", songs: "Plays a song." });
    for (const query of ["music please", "an attorney", "dessert recipe", "明天会下雨吗"])
      expect(registry.search(query).map(({ name }) => name)).toEqual(
        fresh.search(query).map(({ name }) => name),
      );
    expect(first(registry, "some music")).toBe("songs");
  });

  test("finds for a caller the best of what it may use", async () => {
    const registry = await rackOf(true);
    const found = registry.search("will it rain tomorrow", 1, ({ name }) => name !== "get_weather");
    expect(found.map(({ name }) => name)).not.toContain("get_weather");
  });

  test("words that cannot be read leave search as it was", async () => {
    const registry = new ToolRegistry({ search: { words: () => Promise.reject(new Error("no such file")) } });
    registry.register(
      Tool.define({ name: "a", description: "apples", parameters: { type: "object" }, execute: () => "" }),
    );
    await registry.prepareSearch();
    expect(first(registry, "apples")).toBe("a");
  });
});

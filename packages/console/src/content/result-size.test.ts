import { expect, it } from "vitest";
import { dataSize, resultSize } from "./result-size.ts";

it("counts bytes, not characters", () => {
  expect(resultSize({ content: "hello", type: "text" })).toBe(5);
  expect(resultSize({ content: "你好", type: "text" })).toBe(6);
  expect(resultSize({ content: "你好", type: "text" }, 200)).toBe(600);
});

it("counts pictures and files that came with the text", () => {
  const data = Buffer.from("12345").toString("base64");
  const image = { type: "image", data, mimeType: "image/png" };
  expect(resultSize({ content: "", type: "text", blocks: [image] })).toBe(5);
  expect(dataSize(`data:text/plain;base64,${Buffer.from("1234").toString("base64")}`)).toBe(4);
  expect(dataSize("https://example.com/x.png")).toBe(0);
});

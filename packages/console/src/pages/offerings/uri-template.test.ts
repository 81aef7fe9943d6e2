import { expect, it } from "vitest";
import { fillTemplate, variablesOf } from "./uri-template.ts";

it("asks for every variable once", () => {
  expect(variablesOf("a://{kind}/{+path*}{?page,kind}")).toEqual(["kind", "path", "page"]);
  expect(variablesOf("a://b")).toEqual([]);
});

it.each([
  ["a://{id}", { id: "x/y z" }, "a://x%2Fy%20z"],
  ["a://{+path}", { path: "x/y z" }, "a://x/y%20z"],
  ["a://b{?page,size}", { page: "2", size: "" }, "a://b?page=2"],
  ["a://b{?page,size}", { page: "2", size: "9" }, "a://b?page=2&size=9"],
  ["a://b{/x,y}", { x: "1", y: "2" }, "a://b/1/2"],
  ["a://{x,y}", {}, "a://"],
])("fills %s", (template, values, uri) => {
  expect(fillTemplate(template, values)).toBe(uri);
});

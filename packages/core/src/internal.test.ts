import { expect, it } from "vitest";
import * as publicEntry from "./index.ts";
import * as internal from "./internal.ts";

it("what only our own packages need is no part of the public entry", () => {
  expect(Object.keys(internal).filter((name) => Object.hasOwn(publicEntry, name))).toEqual([]);
});

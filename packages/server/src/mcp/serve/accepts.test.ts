import { expect, test } from "vitest";
import { accepts } from "./http-checks.ts";

test.each([
  ["application/json, text/event-stream", true],
  ["*/*", true],
  ["application/*, text/*", true],
  ["Application/JSON;charset=utf-8 , TEXT/Event-Stream ; q=0.5", true],
  ["text/event-stream;q=0, */*", false],
  ["*/*;q=0, text/event-stream", true],
  ["text/*;q=0.0, */*", false],
  ["text/html, */*;q=0.1", true],
  ["application/json", false],
  ["text/event-stream-other", false],
  ["", false],
])("whether %j takes a stream", (header, isTaken) => {
  expect(accepts(header, "text/event-stream")).toBe(isTaken);
});

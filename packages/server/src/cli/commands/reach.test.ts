import { expect, it } from "vitest";
import { reachOf } from "./serve.ts";

it.each(["127.0.0.1", "127.1.2.3", "::1", "localhost", "rack.localhost"])(
  "finds nobody else on %s",
  (host) => {
    expect(reachOf(host, "7300")).toEqual([]);
  },
);

it("names an address as it is typed", () => {
  expect(reachOf("192.0.2.7", "7300")).toEqual(["http://192.0.2.7:7300"]);
  expect(reachOf("2001:db8::1", "7300")).toEqual(["http://[2001:db8::1]:7300"]);
});

it("never names the address that stands for all", () => {
  for (const host of ["0.0.0.0", "::"]) {
    expect(reachOf(host, "7300").join(" ")).not.toMatch(/0\.0\.0\.0|\[::\]|127\.0\.0\.1/);
  }
});

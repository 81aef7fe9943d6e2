import { expect, it } from "vitest";
import { grantedHosts, missingHosts } from "./egress.ts";

it.each<[declared: string[] | undefined, granted: string[], hosts: string[], missing: string[]]>([
  [undefined, [], [], []],
  [undefined, ["a.example"], ["a.example"], []],
  [[], ["a.example"], [], []],
  [["a.example"], [], [], ["a.example"]],
  [["a.example", "b.example"], ["a.example"], ["a.example"], ["b.example"]],
  [["api.a.example"], ["*.a.example"], ["api.a.example"], []],
  [["*.a.example"], ["api.a.example"], ["api.a.example"], []],
  [["*"], ["api.a.example", "b.example"], ["api.a.example", "b.example"], []],
  [["A.example"], ["a.EXAMPLE"], ["A.example"], []],
  [["a.example:8080"], ["a.example"], [], ["a.example:8080"]],
  [["a.example:8080"], ["a.example:8080"], ["a.example:8080"], []],
  [["a.example:443"], ["a.example"], ["a.example:443"], []],
  [["evil-a.example"], ["*.a.example"], [], ["evil-a.example"]],
])("a tool that declares %j and was granted %j may reach %j", (declared, granted, hosts, missing) => {
  expect(grantedHosts(declared, granted)).toEqual(hosts);
  expect(missingHosts(declared, granted)).toEqual(missing);
});

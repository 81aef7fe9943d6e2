import { expect, it } from "vitest";
import { grantProblem, parseGrants } from "../../config/network-grants.ts";

it.each([
  ["api.example.com", "api.example.com", 443, true],
  ["api.example.com", "API.Example.com.", 80, true],
  ["api.example.com", "api.example.com", 8080, false],
  ["api.example.com", "example.com", 443, false],
  ["api.example.com", "evil-api.example.com", 443, false],
  ["api.example.com", "api.example.com.evil.org", 443, false],
  ["*.example.com", "a.b.example.com", 443, true],
  ["*.example.com", "example.com", 443, false],
  ["*.example.com", "evilexample.com", 443, false],
  ["host:8080", "host", 8080, true],
  ["host:8080", "host", 443, false],
  ["[::1]:8080", "::1", 8080, true],
  ["10.0.0.0/8", "10.1.2.3", 443, false],
  ["", "", 443, false],
  ["*", "example.com", 443, true],
  ["*", "example.com", 8080, false],
  ["*:8080", "example.com", 8080, true],
  ["*:8080", "example.com", 443, false],
  ["https://api.example.com", "api.example.com", 443, false],
  ["*.", "example.com", 443, false],
  ["a:b:c", "a", 443, false],
])("the grant %j lets %j on port %i through: %j", (grant, host, port, expected) => {
  expect(parseGrants([grant]).allows(host, port)).toBe(expected);
});

it("takes only addresses and names of the own network for private ones", () => {
  const hosts = [
    "example.com",
    "*.example.com",
    "localhost:3000",
    "127.0.0.1",
    "intranet",
    "nas.local",
    "10.0.0.0/8",
  ];
  expect(parseGrants(hosts).mayBePrivate).toEqual([
    "localhost",
    "127.0.0.1",
    "intranet",
    "nas.local",
    "10.0.0.0/8",
  ]);
});

it.each([
  "api.example.com",
  "API.example.com",
  "*.example.com",
  "*",
  "*:443",
  "host:8080",
  "my_host.example.com",
  "10.0.0.0/8",
  "127.0.0.1:3000",
  "[::1]:8080",
  "fd00::/8",
  "::1",
  "xn--bcher-kva.example",
])("takes %j for a grant", (grant) => {
  expect(grantProblem(grant)).toBeUndefined();
});

it.each([
  ["https://api.example.com", 'Write "api.example.com".'],
  ["http://api.example.com:8080/v1", 'Write "api.example.com:8080".'],
  ["api.example.com/v1", 'Write "api.example.com".'],
  ["bücher.example", 'Write "xn--bcher-kva.example".'],
  ["0x7f.1", 'Write "127.0.0.1".'],
  ["a:b:c", "host"],
  ["host:", "host"],
  ["host:99999", "port"],
  ["*.", "host"],
  ["*example.com", "host"],
  ["api.*.com", "host"],
  ["a b", "host"],
  ["", "host"],
])("says what is wrong with the grant %j", (grant, hint) => {
  expect(grantProblem(grant)).toContain(hint);
  expect(parseGrants([grant]).allows("example.com", 443)).toBe(false);
});

it("opens no private address by a grant for every host", () => {
  expect(parseGrants(["*", "*:8080"]).mayBePrivate).toEqual([]);
});

import { expect, it } from "vitest";
import { normalise } from "./normalise.ts";
import { withoutSecrets } from "./without-secrets.ts";

it("leaves out what is secret, wherever it is, and nothing else", () => {
  const login = { type: "object", properties: { user: { type: "string" }, password: { type: "string" } } };
  const node = normalise({
    type: "object",
    properties: {
      login,
      logins: { type: "array", items: login },
      pin: { type: "string", format: "password" },
      key: { anyOf: [{ type: "string", format: "password" }, { type: "number" }] },
      any: {},
    },
  });
  const value = {
    login: { user: "a", password: "p" },
    logins: [{ user: "b", password: "p" }],
    pin: "1234",
    key: "k",
    any: { x: [1] },
    more: true,
  };
  expect(withoutSecrets(node, value)).toEqual({
    login: { user: "a" },
    logins: [{ user: "b" }],
    any: { x: [1] },
    more: true,
  });
});

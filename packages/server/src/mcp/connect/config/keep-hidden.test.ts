import { describe, expect, it } from "vitest";
import { keepHidden, shownEntry } from "./secret-values.ts";

const kept = {
  url: "https://user:pass-of-user@example.com/mcp?api_key=key-of-user&page=1",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: that is how an entry names a secret.
  headers: { Authorization: "Bearer ${secret:ZZ}", "X-Key": "written-in-clear" },
  env: { SEC: "of-the-environment" },
  args: ["--verbose", "postgres://bob:pass-of-bob@db/x"],
  toolrack: { oauth: { clientId: "rack", clientSecret: "of-the-client", issuer: "https://login.example" } },
};

it("what was shown, changed and sent back has the values that were hidden", () => {
  const shown = shownEntry(kept) as typeof kept;
  expect(JSON.stringify(shown)).not.toMatch(/pass-of|key-of|in-clear|of-the/);
  expect(keepHidden(shown, kept)).toEqual(kept);
  const changed = {
    ...shown,
    args: ["--quiet", ...shown.args],
    headers: { "X-Key": "another", Authorization: shown.headers.Authorization },
  };
  expect(keepHidden(changed, kept)).toEqual({
    ...kept,
    args: ["--quiet", ...kept.args],
    headers: { ...kept.headers, "X-Key": "another" },
  });
});

it("an entry that is not valid gets back what was hidden of it as a whole", () => {
  const broken = { command: "x", env: ["KEY=of-the-environment"] };
  expect(keepHidden(shownEntry(broken), broken)).toEqual(broken);
});

it.each([
  [{ env: { OTHER: "[hidden]" } }, /^env\.OTHER: It says \[hidden\], which stands for/],
  [{ headers: { "X-Key": "Bearer [redacted]" } }, /^headers\.X-Key: /],
  [{ url: "https://user:[redacted]@elsewhere.example/mcp" }, /^url: It says \[redacted\]/],
  [{ args: ["--token", "[hidden]"] }, /^args\[1\]: /],
  [{ env: { toString: "[hidden]" } }, /^env\.toString: /],
])("a placeholder that stands for nothing is refused: %j", (given, reason) => {
  expect(() => keepHidden(given, kept)).toThrow(reason);
  expect(() => keepHidden(given, undefined)).toThrow(reason);
});

describe("secrets that look alike", () => {
  const one = "postgres://bob:pass-of-one@db/x";
  const other = "postgres://bob:pass-of-other@db/x";
  const alike = "postgres://bob:[redacted]@db/x";
  const named = ["--token", "value-of-token", "--password", "value-of-password"];

  it("stay where they are when nothing moved, or something was added behind them", () => {
    const before = { args: [one, other] };
    expect(keepHidden(shownEntry(before), before)).toEqual(before);
    expect(keepHidden({ args: [alike, alike, "-v"] }, before)).toEqual({ args: [one, other, "-v"] });
  });

  it.each([[[alike]], [["-v", alike, alike]], [[alike, "-v", alike]], [[alike, alike, alike]]])(
    "are asked for where nobody can tell which is which: %j",
    (args) => {
      expect(() => keepHidden({ args }, { args: [one, other] })).toThrow(/^args\[\d\]: It says \[redacted\]/);
    },
  );

  it("go with the options whose values they are", () => {
    expect(shownEntry({ args: named })).toEqual({ args: ["--token", "[hidden]", "--password", "[hidden]"] });
    const keep = (...args: string[]) => keepHidden({ args }, { args: named });
    expect(keep("--password", "[hidden]", "--token", "[hidden]")).toEqual({
      args: ["--password", "value-of-password", "--token", "value-of-token"],
    });
    expect(keep("-v", "--password", "[hidden]")).toEqual({
      args: ["-v", "--password", "value-of-password"],
    });
    expect(() => keep("--password", "[hidden]", "[hidden]")).toThrow(/^args\[2\]: /);
    expect(() => keep("--secret", "[hidden]")).toThrow(/^args\[1\]: /);
  });
});

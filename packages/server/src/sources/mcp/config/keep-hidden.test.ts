import { expect, it } from "vitest";
import { keepHidden } from "./keep-hidden.ts";
import { shownEntry } from "./shown-entry.ts";

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

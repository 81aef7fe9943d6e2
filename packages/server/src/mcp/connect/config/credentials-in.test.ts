import { describe, expect, it } from "vitest";
import type { ResolvedEntry } from "./resolve-entry.ts";
import { credentialsIn, shownEntry } from "./secret-values.ts";

function ofProcess(env: Record<string, string>, args: readonly string[] = []): string[] {
  const entry: ResolvedEntry = {
    kind: "process",
    roots: [],
    command: "server",
    args,
    env: { PATH: "/usr/local/bin-1234567890", ...env },
    cwd: "/",
    install: undefined,
  };
  return credentialsIn(entry, {});
}

function ofAddress(url: string, headers: Record<string, string> = {}): string[] {
  return credentialsIn({ kind: "address", roots: [], url: new URL(url), headers, type: undefined }, {});
}

describe("the credentials of an entry", () => {
  it.each([
    ["SEC", "zz9secretvalueA"],
    ["SEC", "written-in-clear"],
    ["PASSWORD", "letmein"],
    ["GITHUB_TOKEN", "abcdef"],
    ["API_KEY", "/path-like/key=="],
    ["CERTIFICATE", "-----BEGIN KEY-----\nabc\n-----END KEY-----"],
  ])("have the variable %s=%j", (name, value) => {
    expect(ofProcess({ [name]: value })).toContain(value);
  });

  it.each([
    ["NODE_ENV", "production"],
    ["AWS_REGION", "ap-southeast-1"],
    ["MODEL", "gpt-4o-mini"],
    ["TZ_OF_USER", "Europe/Berlin"],
    ["ROOT", "/home/ann/documents/2026"],
    ["BASE", "https://api.example.com/v1/things"],
    ["HOST", "db-1.internal.example.com:5432"],
    ["USER_NAME", "ann.smith@example.com"],
    ["PORT_RANGE", "8000-8999"],
    ["PASSWORD", "12345"],
  ])("do not have the setting %s=%j", (name, value) => {
    expect(ofProcess({ [name]: value })).toEqual([]);
  });

  it("have passwords inside of longer texts", () => {
    const address = "postgres://bob:pass-of-bob@db/x";
    expect(ofProcess({ DATABASE: address }, [address.replace("bob@", "ann@")])).toEqual(
      expect.arrayContaining(["pass-of-bob", "pass-of-ann"]),
    );
    expect(ofAddress("https://x.example/mcp?api_key=letmein&page=twenty-four")).toEqual(["letmein"]);
  });

  it.each([
    [["--token=abcDEF123456"], "abcDEF123456"],
    [["--api-key=a=b:c/d=="], "a=b:c/d=="],
    [["-password=letmein"], "letmein"],
    [["--password", "hunter2hunter2"], "hunter2hunter2"],
    [["--header", "X-Api-Key: letmein-now"], "letmein-now"],
    [["--header", "X-Api-Key:letmein-now"], "letmein-now"],
    [["--header=Authorization: Bearer letmeinnow"], "letmeinnow"],
    [["-e", "API_KEY=letmein"], "letmein"],
    [["--token", "-Ab3_letmein"], "-Ab3_letmein"],
    [["--env=API_KEY=letmein"], "letmein"],
  ])("have the argument that is named like a secret: %j", (args, secret) => {
    expect(ofProcess({}, args)).toEqual([secret]);
    expect(JSON.stringify(shownEntry({ command: "server", args }))).not.toContain(secret);
  });

  it("have an argument that is secret as a whole, and the secret in it", () => {
    const args = ["--auth-header", "X-Api-Key: letmein-now"];
    expect(ofProcess({}, args)).toEqual(["X-Api-Key: letmein-now", "letmein-now"]);
    expect(shownEntry({ args })).toEqual({ args: ["--auth-header", "[hidden]"] });
  });

  it.each([
    [["--no-auth", "/home/ann/documents"]],
    [["--auth", "--verbose"]],
    [["--auth", "--port=8080-8999", "--auth", "-v", "--auth", "-verbose"]],
    [["--max-tokens=100000"]],
    [["--mode=production", "--", "production"]],
    [["--scope", "auth:readonly"]],
    [["https://example.com/secret:things"]],
    [["C:\\Users\\ann", "npm:@scope/package"]],
  ])("do not have other arguments: %j", (args) => {
    expect(ofProcess({}, args)).toEqual([]);
    expect(shownEntry({ args })).toEqual({ args });
  });

  it("are shown as references where they are written as such", () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: that is how an entry names a variable.
    const args = ["--token=${secret:ZZ}", "--password", "${PASSWORD}", "Authorization:Bearer ${secret:ZZ}"];
    expect(shownEntry({ args })).toEqual({ args });
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a default is a value.
    expect(shownEntry({ args: ["--token=${TOKEN:-letmein}"] })).toEqual({ args: ["--token=[hidden]"] });
  });

  it("have what headers carry, without the name of the scheme", () => {
    const basic = Buffer.from("ann:pass-of-ann").toString("base64");
    const found = ofAddress("https://x.example", {
      Authorization: `Basic ${basic}`,
      "X-Key": "Token letmein-now",
      Accept: "application/json, text/event-stream",
      "User-Agent": "rack/1.2.3 of Ann",
    });
    expect(found.sort()).toEqual([basic, "letmein-now", "pass-of-ann"].sort());
  });

  it("have the secret of a client that is written down in clear", () => {
    const oauth = { clientId: "rack", clientSecret: "of-the-client" };
    const entry: ResolvedEntry = {
      kind: "address",
      roots: [],
      url: new URL("https://x"),
      headers: {},
      type: undefined,
    };
    expect(credentialsIn(entry, { toolrack: { oauth } })).toEqual(["of-the-client"]);
  });
});

import { describe, expect, it } from "vitest";
import { applyEdits, openTomlDocument } from "./client-document.ts";

const open = (text: string) => openTomlDocument(text, "mcp_servers", "toolrack");
const put = (text: string, value: Record<string, unknown> = { command: "node", args: ["a"] }) =>
  applyEdits(text, open(text).set(value));
const take = (text: string) => applyEdits(text, open(text).remove());
const table = '[mcp_servers.toolrack]\ncommand = "node"\nargs = ["a"]\n';

describe("a table is put into a file", () => {
  it.each<[string, string, string]>([
    ["that is empty", "", table],
    ["that holds blanks and a byte order mark", "\uFEFF\n", `\uFEFF${table}`],
    ["that has settings", 'model = "x" # mine\n', `model = "x" # mine\n\n${table}`],
    ["whose last line does not end", "[a]\nb = 1", `[a]\nb = 1\n\n${table}`],
    ["with Windows' line ends", "[a]\r\nb = 1\r\n", `[a]\r\nb = 1\r\n\r\n${table.replaceAll("\n", "\r\n")}`],
    [
      "beside other servers, however they are written",
      '[mcp_servers]\na = { command = "x" }\n[mcp_servers."b.c"]\ncommand = """\n[mcp_servers.toolrack]\n"""\n',
      `[mcp_servers]\na = { command = "x" }\n[mcp_servers."b.c"]\ncommand = """\n[mcp_servers.toolrack]\n"""\n\n${table}`,
    ],
    [
      "in place of another, with what stands around it",
      '# before\n[ "mcp_servers" . toolrack ] # ours\ncommand = "old"\n# a note\nargs = [\n  "]", # one\n  "b",\n]\n\n# of the next\n[next]\n',
      '# before\n[ "mcp_servers" . toolrack ] # ours\ncommand = "node"\nargs = ["a"]\n# a note\n\n# of the next\n[next]\n',
    ],
    [
      "in place of tables without one above them",
      'a = 1\n\n[mcp_servers.toolrack.env]\nA = "b"\n\n[next]\n',
      `a = 1\n\n[next]\n\n${table}`,
    ],
    [
      "in place of one with tables of its own",
      '[mcp_servers.toolrack]\nurl = "u"\n[mcp_servers.toolrack.http_headers]\nAuthorization = "x"\n\n[next]\na = 1979-05-27 07:32:00\n',
      `${table}\n[next]\na = 1979-05-27 07:32:00\n`,
    ],
  ])("%s", (_, before, after) => {
    expect(put(before)).toBe(after);
  });

  it("leaves lines as they are whose values are kept", () => {
    const before =
      "[mcp_servers.toolrack]\ncommand = 'node' # as it was\nargs = ['b']\nstartup_timeout_sec = 20\n[mcp_servers.toolrack.env]\nA = 'b'\n";
    const { entry } = open(before);
    expect(put(before, { ...(entry as object), args: ["c"] })).toBe(
      "[mcp_servers.toolrack]\nargs = [\"c\"]\ncommand = 'node' # as it was\nstartup_timeout_sec = 20\n[mcp_servers.toolrack.env]\nA = 'b'\n",
    );
  });

  it("quotes what needs it", () => {
    const text = put("", { command: 'C:\\a "b"\u007f', http_headers: { "X Y": "z", plain: "" } });
    expect(text).toBe(
      '[mcp_servers.toolrack]\ncommand = "C:\\\\a \\"b\\"\\u007f"\nhttp_headers = { "X Y" = "z", plain = "" }\n',
    );
    expect(open(text).entry).toEqual({ command: 'C:\\a "b"\u007f', http_headers: { "X Y": "z", plain: "" } });
  });
});

describe("a table is taken out of a file", () => {
  it.each<[string, string, string]>([
    ["that has nothing else", table, ""],
    ["behind others", `[a]\nb = 1\n\n${table}`, "[a]\nb = 1\n"],
    ["before others", `${table}\n# next\n[a]\n`, "\n# next\n[a]\n"],
    ["between others", `x = 1\n\n${table}\n[a]\n`, "x = 1\n\n[a]\n"],
    [
      "with tables of its own",
      `${table}[mcp_servers.toolrack.env]\nA = "b"\n[mcp_servers.other]\ncommand = "x"\n`,
      '[mcp_servers.other]\ncommand = "x"\n',
    ],
    [
      "that is not there",
      '[mcp_servers.toolracks]\ncommand = "x"\n',
      '[mcp_servers.toolracks]\ncommand = "x"\n',
    ],
  ])("%s", (_, before, after) => {
    expect(take(before)).toBe(after);
  });
});

it.each<[string, string, RegExp]>([
  ["is no TOML", '{ "a": 1 }', /line 1: this is no TOML/],
  ["has a text that does not end", '[a]\nb = "c\n', /line 2/],
  ["has two values on a line", "a = 1 b = 2\n", /line 1/],
  ["has a value without quotes", "a = b\n", /line 1/],
  ["has its servers on one line", 'mcp_servers = { a = { command = "x" } }\n', /not written as a table/],
  ["has its servers in long keys", 'mcp_servers.a.command = "x"\n', /not written as a table/],
  ["has the entry on one line", '[mcp_servers]\ntoolrack = { command = "x" }\n', /not written as a table/],
  ["has the entry in a list", '[[mcp_servers.toolrack]]\ncommand = "x"\n', /not written as a table/],
  ["has the table twice", `${table}${table}`, /is there twice/],
  ["has a key twice", `${table}command = "x"\n`, /"command" is there twice/],
])("refuses a file that %s", (_, text, reason) => {
  expect(() => open(text)).toThrow(SyntaxError);
  expect(() => open(text)).toThrow(reason);
});

it("reads every kind of value, and leaves each as it is written", () => {
  const text = `
a.'b c'."d" = "\\u00e9\\t\\U0001F600"
e = '''
x''y'''
f = """\\
   z\\"""" # "
g = [ 1_000, 0x1F, +inf, [ true, ], { h = 1.5e3, i.j = 07:32:00 } ] # end
[k]
l = 1979-05-27T07:32:00-07:00
[[m]]
`;
  expect(put(text)).toBe(`${text}\n${table}`);
  const inside = (name: string) => openTomlDocument(text, "k", name).entry;
  expect(inside("missing")).toBeUndefined();
  const own = `[mcp_servers.toolrack]\n${text.slice(1, text.indexOf("[k]"))}`;
  expect(open(own).entry).toMatchObject({
    a: { "b c": { d: "é\t😀" } },
    e: "x''y",
    f: 'z"',
    g: [1000, 31, Number.POSITIVE_INFINITY, [true], { h: 1500 }],
  });
  // Values that the wish keeps, whatever their kind, keep their lines.
  expect(put(own, { ...(open(own).entry as object), command: "node" })).toBe(
    own.replace("\n", '\ncommand = "node"\n'),
  );
});

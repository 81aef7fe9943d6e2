// `npm run house`: the rooms of the house at a glance. Sizes, casts without a reason, forbidden imports and cycles.
// The rules are those of docs/architecture.md; `house.test.ts` fails when one is broken.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

export interface SourceFile {
  /** From the root of the repo, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly room: string;
  readonly imports: readonly Import[];
}

export interface Import {
  readonly target: string;
  readonly line: number;
}

/**
 * The rooms of the server, lowest first. A room may import rooms of lower levels only, and only through their
 * `index.ts`; of the helpers, the file that is needed. Rooms of one level do not know each other, but for those in `neighbours`.
 */
const levels: readonly (readonly string[])[] = [
  ["helpers"],
  ["config", "store"],
  ["fleet"],
  ["access", "lint"],
  ["calls"],
  ["mcp/wire"],
  ["sandbox", "files", "skills", "code", "mcp/connect", "apis", "builtin-tools"],
  ["tests"],
  ["http/wire"],
  ["http", "mcp/serve", "chat"],
  ["evals"],
  ["rack"],
  ["cli"],
  ["main"],
];
const neighbours: ReadonlySet<string> = new Set(["files → sandbox", "skills → sandbox", "code → sandbox"]);

/** The rooms of the console, lowest first, by the same rules. Each page is a room, whose door is its `…Page.vue`. */
const consoleLevels: readonly (readonly string[])[] = [
  ["console/text"],
  ["console/api"],
  ["console/ui"],
  ["console/content"],
  ["console/form"],
  ["console/calls"],
  ["console/pages"],
  ["console/shell"],
  ["console"],
];

const isTest = /\.(test|test-d|fixture)\.|\/(testing|e2e)\//;

/** Reads every source file of the packages, without tests and what only tests use. */
export function readHouse(root: string): SourceFile[] {
  const paths = ["core", "words", "server", "console"].flatMap((name) =>
    readdirSync(join(root, "packages", name, "src"), { recursive: true, encoding: "utf8" })
      .map((path) => `packages/${name}/src/${path.replaceAll("\\", "/")}`)
      .filter((path) => /\.(ts|vue)$/.test(path) && !isTest.test(path)),
  );
  const known = new Set(paths);
  return paths.map((path) => {
    const text = readFileSync(join(root, path), "utf8");
    return { path, text, room: roomOf(path), imports: importsOf(root, path, text, known) };
  });
}

/** Every import that goes up, sideways, past a door, or through a door that gives away another room's things. */
export function forbiddenImports(house: readonly SourceFile[]): string[] {
  return house.filter(({ path }) => /^packages\/(server|console)\//.test(path)).flatMap(forbiddenImportsOf);
}

function forbiddenImportsOf({ path, room, text, imports }: SourceFile): string[] {
  return imports.flatMap(({ target, line }) => {
    const other = roomOf(target);
    if (other === room) return [];
    const where = `${insideOf(path)}:${line} imports ${insideOf(target)}`;
    if (levelOf(other) > levelOf(room)) return [`${where}: upward`];
    if (levelOf(other) === levelOf(room) && !neighbours.has(`${room} → ${other}`))
      return [`${where}: sideways`];
    if (other !== "helpers" && !isDoor(target)) return [`${where}: past the door`];
    if (path.endsWith("/index.ts") && room !== "main" && isExport(text, line)) {
      return [`${where}: a door gives away another room's things`];
    }
    return [];
  });
}

function isDoor(path: string): boolean {
  return path.endsWith(`/${roomOf(path).replace(/^console\//, "")}/index.ts`) || path.endsWith("Page.vue");
}

/** The path from the package's sources. */
function insideOf(path: string): string {
  return path.replace(/^packages\/\w+\/src\//, "");
}

/** Groups of files that import each other in a circle, types included, each as its files in order. */
export function importCycles(house: readonly SourceFile[]): string[][] {
  const targets = new Map(house.map(({ path, imports }) => [path, imports.map(({ target }) => target)]));
  const index = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  // Tarjan's algorithm: a group of files that reach each other is cut off the stack by the one found first.
  const visit = (path: string): void => {
    index.set(path, index.size);
    lowest.set(path, index.size - 1);
    stack.push(path);
    for (const target of targets.get(path) ?? []) {
      if (!index.has(target)) visit(target);
      if (stack.includes(target)) {
        lowest.set(path, Math.min(lowest.get(path) ?? 0, lowest.get(target) ?? 0));
      }
    }
    if (lowest.get(path) !== index.get(path)) return;
    const group = stack.splice(stack.indexOf(path));
    if (group.length > 1) cycles.push(group.sort());
  };
  for (const { path } of house) if (!index.has(path)) visit(path);
  return cycles;
}

/** Casts with no comment on their line or on the line above, as `path:line`. */
export function castsWithoutReason(house: readonly SourceFile[]): string[] {
  return house.flatMap(({ path, text }) => {
    const lines = text.split("\n");
    return lines.flatMap((line, index) => {
      const code = line.replace(/(["'`])(?:(?!\1).)*\1/g, '""');
      const isCast =
        // A word after the type belongs to a sentence, such as "as the schema says" in a text.
        /\bas (?!const\b)(?:(?:typeof|keyof|readonly) |[{([]|[A-Za-z$][\w$.]*(?![\w$.]| [a-z']))/.test(
          code,
        ) && !/^\s*(import|export|\*|\/\/|\/\*)|\bas [\w$]+,?$|\bin keyof\b/.test(code);
      const hasReason = /\/\/|\*\//.test(line) || /^\s*(\/\/|\*|\/\*)/.test(lines[index - 1] ?? "");
      return isCast && !hasReason ? [`${path}:${index + 1}`] : [];
    });
  });
}

/** The room a file belongs to: `mcp/serve`, `calls`; for core and console the first folder below `src`, or the page. */
export function roomOf(path: string): string {
  const [, name, , ...rest] = path.split("/");
  const first = rest[0] ?? "";
  if (name === "console" && first === "pages") return [name, ...rest.slice(0, -1)].join("/");
  if (name !== "server") return rest.length > 1 ? `${name}/${first}` : `${name}`;
  if (rest.length === 1) return "main";
  if (first === "mcp" || rest[1] === "wire") return `${first}/${rest[1]}`;
  return first;
}

function levelOf(room: string): number {
  const isOfConsole = room.startsWith("console");
  const known = isOfConsole ? room.split("/", 2).join("/") : room;
  const level = (isOfConsole ? consoleLevels : levels).findIndex((rooms) => rooms.includes(known));
  if (level < 0)
    throw new Error(`The room ${room} has no level: add it to scripts/house.ts and docs/architecture.md.`);
  return level;
}

function importsOf(root: string, path: string, text: string, known: ReadonlySet<string>): Import[] {
  const statements =
    /^(?:import|export)\b(?:[^;"]|"(?=[^"]*" from))*?\bfrom\s+"(\.[^"]+)"|\bimport\(\s*"(\.[^"]+)"\s*\)|^import "(\.[^"]+)"/gm;
  return [...text.matchAll(statements)].flatMap((match) => {
    const specifier = match[1] ?? match[2] ?? match[3] ?? "";
    const target = relative(root, resolve(root, dirname(path), specifier)).replaceAll("\\", "/");
    const line = text.slice(0, match.index).split("\n").length;
    return known.has(target) ? [{ target, line }] : [];
  });
}

function isExport(text: string, line: number): boolean {
  return text.split("\n")[line - 1]?.startsWith("export") === true;
}

function print(): void {
  const house = readHouse(resolve(import.meta.dirname, ".."));
  const casts = castsWithoutReason(house);
  const rooms = Map.groupBy(house, ({ room }) => room);
  console.log("room                      files   lines  median  under 40  over 400  casts without a reason");
  for (const [room, files] of [...rooms].sort(([a], [b]) => a.localeCompare(b))) row(room, files, casts);
  row("the whole house", house, casts);
  report("Forbidden imports", forbiddenImports(house));
  report("Casts without a reason", casts);
  report(
    "Cycles",
    importCycles(house).map((group) => group.join(" ↔ ")),
  );
}

function row(name: string, files: readonly SourceFile[], casts: readonly string[]): void {
  const lines = files.map(({ text }) => text.split("\n").length - 1).sort((a, b) => a - b);
  const paths = new Set(files.map(({ path }) => path));
  const numbers = [
    files.length,
    lines.reduce((sum, count) => sum + count, 0),
    lines[Math.floor(lines.length / 2)] ?? 0,
    lines.filter((count) => count < 40).length,
    lines.filter((count) => count > 400).length,
    casts.filter((cast) => paths.has(cast.slice(0, cast.lastIndexOf(":")))).length,
  ];
  const widths = [6, 8, 8, 10, 10, 24];
  console.log(
    name.padEnd(25) + numbers.map((number, at) => String(number).padStart(widths[at] ?? 8)).join(""),
  );
}

function report(title: string, lines: readonly string[]): void {
  console.log(`\n${title}: ${lines.length === 0 ? "none" : lines.length}`);
  for (const line of lines) console.log(`  ${line}`);
}

if (import.meta.main) print();

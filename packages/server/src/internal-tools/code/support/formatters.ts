import type { ProgramResult } from "./run-program.ts";

/** A formatter that a project may have chosen. */
export interface Formatter {
  /** Also the name of its program in `node_modules/.bin`. */
  readonly name: string;
  readonly label: string;
  readonly package: string;
  readonly configFiles: readonly string[];
  /** A key of package.json that configures it. */
  readonly packageKey?: string;
  readonly write: (path: string) => string[];
  readonly check: (path: string) => string[];
  /** What a check said; `undefined` when it failed for another reason than unformatted files. */
  readonly unformatted: (result: ProgramResult) => readonly string[] | undefined;
}

/** In order of preference where a folder configures several. */
export const formatters: readonly Formatter[] = [
  {
    name: "biome",
    label: "Biome",
    package: "@biomejs/biome",
    configFiles: ["biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc"],
    write: (path) => ["format", "--write", "--colors=off", path],
    check: (path) => ["format", "--colors=off", "--max-diagnostics=1000", "--reporter=json", path],
    unformatted: fromBiome,
  },
  {
    name: "dprint",
    label: "dprint",
    package: "dprint",
    configFiles: ["dprint.json", "dprint.jsonc", ".dprint.json", ".dprint.jsonc"],
    write: (path) => ["fmt", path],
    check: (path) => ["check", "--list-different", path],
    unformatted: ({ code, stdout }) => (code === 0 || code === 20 ? lines(stdout) : undefined),
  },
  {
    name: "prettier",
    label: "Prettier",
    package: "prettier",
    packageKey: "prettier",
    configFiles: [
      ".prettierrc",
      ...["json", "json5", "yaml", "yml", "toml", "js", "cjs", "mjs", "ts", "cts", "mts"].map(
        (end) => `.prettierrc.${end}`,
      ),
      ...["js", "cjs", "mjs", "ts", "cts", "mts"].map((end) => `prettier.config.${end}`),
    ],
    write: (path) => ["--write", "--log-level=warn", path],
    check: (path) => ["--list-different", path],
    unformatted: ({ code, stdout }) => (code === 0 || code === 1 ? lines(stdout) : undefined),
  },
];

interface BiomeReport {
  readonly diagnostics?: readonly {
    readonly category?: string;
    readonly message?: string;
    readonly description?: string;
    readonly location?: { readonly path?: string | { readonly file?: string } };
  }[];
}

/** Biome ends with 1 for unformatted files and for broken ones; only its report tells them apart. */
function fromBiome({ code, stdout }: ProgramResult): readonly string[] | undefined {
  if (code === 0) return [];
  const { diagnostics = [] } = parseReport(stdout);
  const files = new Set<string>();
  for (const { category, location, message, description } of diagnostics) {
    const path = typeof location?.path === "string" ? location.path : location?.path?.file;
    const isDifference = category === "format" && !/abort/i.test(message ?? description ?? "");
    if (!isDifference || path === undefined) return undefined;
    files.add(path);
  }
  return files.size === 0 ? undefined : [...files];
}

function parseReport(text: string): BiomeReport {
  try {
    return JSON.parse(text) as BiomeReport;
  } catch {
    return {};
  }
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

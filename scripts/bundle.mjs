// Bundles a package into few files: node ../../scripts/bundle.mjs, run in the folder of the package. Loading the program from
// 1,200 files took twice as long as from a dozen. Nothing is minified, so that stack traces keep the names of functions.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire, isBuiltin } from "node:module";
import { basename, dirname, join, relative, sep } from "node:path";
import { build, transform } from "esbuild";

const folder = process.cwd();
const source = join(folder, "src");
const target = join(folder, "dist");
const isServer = basename(folder) === "server";

/** What others import. */
const exported = {
  core: ["index.ts", "client.ts", "format/index.ts", "internal.ts", "schema/visit.ts"],
  server: ["index.ts", "testing.ts"],
  words: ["index.ts"],
}[basename(folder)];

/** The program, and those that run in threads and processes of their own. */
const programs = {
  core: [],
  words: [],
  server: [
    "main.ts",
    "builtin-tools/database/support/sqlite-child.ts",
    "mcp/connect/process/watchdog-main.ts",
    "rack/watchdog-thread.ts",
    "store/sqlite-reader-thread.ts",
  ],
}[basename(folder)];

/** Stays outside: what has programs or native code, what the user's own code shares with us, and drivers that few need. */
const external = {
  core: [],
  words: [],
  server: [
    "@napi-rs/keyring",
    "@toolrack/core",
    "@toolrack/words",
    "@vscode/ripgrep",
    "#esbuild",
    "msgpackr-extract",
    "mysql2",
    "pg",
    "pnpm",
    "zod",
  ],
}[basename(folder)];

const common = {
  absWorkingDir: folder,
  bundle: true,
  platform: "node",
  target: "node24",
  // Some packages have a CommonJS build that a bundler cannot follow, and a module beside it.
  mainFields: ["module", "main"],
  conditions: ["toolrack-source"],
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
};

/**
 * Files find others by their own place, which a bundle changes, except for programs: they are given the place that they had.
 * All that has `import.meta` lies at the top of the target, which is checked below.
 */
const places = (text, path) => {
  const file = relative(source, path).split(sep).join("/");
  if (programs.includes(file) || !path.startsWith(source)) return text;
  // See `copyCompiler`.
  const own = text.replaceAll(/\b(require|import)\("esbuild(\/package\.json)?"\)/g, '$1("#esbuild$2")');
  const url = `new URL(${JSON.stringify(`./${file.replace(/\.ts$/, ".js")}`)}, import.meta.url)`;
  const folder = `process.getBuiltinModule("node:url").fileURLToPath(new URL(".", ${url})).slice(0, -1)`;
  return own
    .replaceAll(/(?<!")import\.meta\.url/g, `${url}.href`)
    .replaceAll(/(?<!")import\.meta\.dirname/g, folder);
};

/** Reads a file without its comments, which esbuild would keep inside of classes: a third of what is loaded at a start. */
const plainText = {
  name: "plain-text",
  setup(bundle) {
    bundle.onLoad({ filter: /\.[cm]?[jt]s$/, namespace: "file" }, async ({ path }) => {
      const loader = path.endsWith("ts") ? "ts" : "js";
      const text = places(readFileSync(path, "utf8"), path);
      const { code } = await transform(text, { loader, minifyWhitespace: true, target: "esnext" });
      return { contents: isServer ? withPlainBuiltins(code) : code, loader: "js" };
    });
  },
};

/**
 * Takes parts of Node without an `import`, in code that has no needless spaces: as modules of their own they were a fifth of
 * the files that a start loads. What this does not find is left to `plainBuiltins`.
 */
function withPlainBuiltins(code) {
  const imports = /\bimport(?: ([\w$]+))?,?(?:\*as ([\w$]+) |\{([^}]*)\}| )from"([^"]+)";/g;
  return code.replaceAll(imports, (statement, name, all, members, path) => {
    if (!isBuiltin(path) || path.endsWith("process")) return statement;
    const part = `process.getBuiltinModule(${JSON.stringify(path.replace(/^(?!node:)/, "node:"))})`;
    const taken = members?.replaceAll(/\b([\w$]+) as ([\w$]+)/g, "$1:$2");
    const names = [name, all, taken === undefined ? undefined : `{${taken}}`];
    return `const ${names.flatMap((one) => (one ? `${one}=${part}` : [])).join()};`;
  });
}

/**
 * An `import` of a part of Node reads all of its members, and some of them load whole libraries: that of node:http undici,
 * that of node:crypto the Web Crypto API. In this way 28 parts took 26 ms of CPU instead of 116, and 6 MB less. Members that
 * load something when they are read are left out; whoever imports one is told by esbuild.
 */
const isUsed = (name) => ["AsyncLocalStorage", "BlockList"].includes(name);
const plainBuiltins = {
  name: "plain-builtins",
  setup(bundle) {
    bundle.onResolve({ filter: /./ }, ({ path, kind }) => {
      if (kind === "require-call" || !isBuiltin(path) || path === "node:process") return undefined;
      return { path: path.replace(/^(?!node:)/, "node:"), namespace: "builtin" };
    });
    bundle.onLoad({ filter: /./, namespace: "builtin" }, ({ path }) => {
      const members = Object.entries(Object.getOwnPropertyDescriptors(process.getBuiltinModule(path)));
      const names = members.filter(
        ([name, { get }]) => (get === undefined || isUsed(name)) && /^[A-Za-z_]\w*$/.test(name),
      );
      const exports = names.filter(([name]) => name !== "default").map(([name]) => `${name} = part.${name}`);
      const part = `const part = process.getBuiltinModule(${JSON.stringify(path)});\nexport default part;`;
      return { contents: `${part}\nexport const ${exports.join(", ")};` };
    });
  },
};

/** esbuild gives an `import()` of a CommonJS package its default alone. Here it gets the names that Node would give it. */
const namedImports = {
  name: "named-imports",
  setup(bundle) {
    bundle.onResolve({ filter: /^[^.]/ }, async ({ path, kind, resolveDir }) => {
      if (kind !== "dynamic-import" || isBuiltin(path)) return undefined;
      const found = await bundle.resolve(path, { kind: "import-statement", resolveDir });
      if (found.external) return undefined;
      // A module that only bundlers can read is no CommonJS.
      const names = await import(found.path).catch(() => ({}));
      if (!("module.exports" in names)) return undefined;
      return { path: found.path, namespace: "named" };
    });
    bundle.onLoad({ filter: /./, namespace: "named" }, async ({ path }) => {
      const names = Object.keys(await import(path)).filter((name) => /^[A-Za-z_$][\w$]*$/.test(name));
      const named = names
        .filter((name) => name !== "default")
        .map((name) => `export const ${name} = all.${name};`);
      const contents = `const all = require(${JSON.stringify(path)});\nexport default all;\n${named.join("\n")}`;
      return { contents, resolveDir: dirname(path) };
    });
  },
};

const { metafile } = await build({
  ...common,
  entryPoints: [...exported, ...programs].map((entry) => join(source, entry)),
  outbase: source,
  outdir: target,
  format: "esm",
  splitting: true,
  external,
  plugins: [plainText, plainBuiltins, namedImports],
});
if (isServer) addRequire(metafile);
checkPlaces(metafile);
const parts = [metafile];
if (isServer) {
  // What the program does before it loads the rest, in one file.
  const quick = await build({
    ...common,
    entryPoints: [join(source, "cli/tool-lists.ts")],
    outfile: join(target, "quick-list.js"),
    format: "esm",
    external,
    plugins: [plainText, plainBuiltins],
  });
  parts.push(quick.metafile);
  // The program of sandboxed workers, which get it as a text.
  const program = "sandbox/single-file/worker/program";
  const worker = await build({
    ...common,
    entryPoints: [join(source, `${program}.ts`)],
    outfile: join(target, `${program}.js`),
    format: "cjs",
  });
  parts.push(worker.metafile);
}
pruneTypes();
const inputs = parts.flatMap((part) => Object.keys(part.inputs)).filter((input) => !/^[a-z]+:/.test(input));
writeLicenses(isServer ? [...inputs, relative(folder, copyCompiler())] : inputs);

/**
 * Copies the part of esbuild that is JavaScript; the manifest names the packages with its programs. As a dependency it would
 * bring an install script, which those packages make needless, and npm warns of it. It must lie in a folder `lib`, and tells
 * where it was copied from.
 */
function copyCompiler() {
  const original = createRequire(join(source, "main.ts")).resolve("esbuild");
  const { name, version, license } = JSON.parse(
    readFileSync(join(dirname(original), "..", "package.json"), "utf8"),
  );
  mkdirSync(join(target, "esbuild", "lib"), { recursive: true });
  copyFileSync(original, join(target, "esbuild", "lib", "main.js"));
  const manifest = { name, version, license, type: "commonjs", main: "lib/main.js" };
  writeFileSync(join(target, "esbuild", "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  return original;
}

/**
 * Packages in CommonJS need `require` for what stays outside. Only files that mention it get one: making it takes 0.2 ms, and
 * a start loads 80 files.
 */
function addRequire({ outputs }) {
  const made = 'const require = process.getBuiltinModule("node:module").createRequire(import.meta.url);';
  for (const file of Object.keys(outputs)) {
    const text = readFileSync(join(folder, file), "utf8");
    if (/\brequire\b/.test(text)) writeFileSync(join(folder, file), `${made}\n${text}`);
  }
}

function checkPlaces({ outputs }) {
  for (const [file, { inputs, entryPoint }] of Object.entries(outputs)) {
    const own = Object.keys(inputs).filter((input) => input.startsWith("src/") && input !== entryPoint);
    const placed = own.filter((input) => readFileSync(join(folder, input), "utf8").includes("import.meta."));
    if (placed.length > 0 && dirname(file) !== "dist")
      throw new Error(
        `${file} is not at the top of dist, but has ${placed.join(", ")}, which uses import.meta.`,
      );
  }
}

/** The licences of the packages that are in the bundle ask to be passed on with it. */
function writeLicenses(inputs) {
  const packages = new Map();
  for (const input of inputs) {
    const [, place] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input) ?? [];
    if (place === undefined || packages.has(place)) continue;
    const directory = join(folder, place);
    const { name, version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
    const files = readdirSync(directory).filter((file) => /^(?:licen[cs]e|notice)/i.test(file));
    const texts = files.map((file) => readFileSync(join(directory, file), "utf8").trim());
    packages.set(place, [`${name} ${version} (${license})`, ...texts].join("\n\n"));
  }
  const rule = `\n\n${"-".repeat(80)}\n\n`;
  if (packages.size > 0)
    writeFileSync(join(target, "LICENSES.txt"), `${[...packages.values()].sort().join(rule)}\n`);
}

/**
 * Deletes the types that nobody outside can reach. In those that stay, a type of a package that is in the bundle becomes
 * `unknown`: it belongs to what the rack does inside, and its package would be installed for its types alone. Four such
 * packages, with what they bring, were 16 MB of 92.
 */
function pruneTypes() {
  const reached = new Set();
  const follow = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    const text = withoutBundledTypes(readFileSync(file, "utf8"));
    writeFileSync(file, text);
    for (const [, place] of text.matchAll(/(?:from |import\()"(\.[^"]+)"/g))
      follow(join(dirname(file), place.replace(/\.[jt]s$/, ".d.ts")));
  };
  for (const entry of exported) follow(join(target, entry.replace(/\.ts$/, ".d.ts")));
  for (const file of readdirSync(target, { recursive: true }))
    if (file.endsWith(".d.ts") && !reached.has(join(target, file))) rmSync(join(target, file));
}

function withoutBundledTypes(text) {
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const { dependencies, devDependencies, peerDependencies } = manifest;
  // Types that come in a package of their own, such as those of `pg`, are not installed with it.
  const installed = Object.keys({ ...dependencies, ...peerDependencies }).filter(
    (name) => !(`@types/${name}` in devDependencies),
  );
  const isInstalled = (name) =>
    name.startsWith(".") || isBuiltin(name) || installed.some((one) => `${name}/`.startsWith(`${one}/`));
  const declarations = text.replaceAll(
    /^import (?:type )?\{([^}]*)\} from "([^"]+)";$/gm,
    (line, names, name) => {
      if (isInstalled(name)) return line;
      const types = names.split(",").map((one) =>
        one
          .trim()
          .replace(/^type /, "")
          .replace(/^.* as /, ""),
      );
      // With as many parameters as any of them has.
      return types.map((type) => `type ${type}<A = unknown, B = unknown, C = unknown> = unknown;`).join("\n");
    },
  );
  return declarations.replaceAll(/import\("([^"]+)"\)\.\w+(?:<[^<>]*>)?/g, (type, name) =>
    isInstalled(name) ? type : "unknown",
  );
}

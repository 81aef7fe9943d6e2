import { isBuiltin } from "node:module";
import { pathToFileURL } from "node:url";

/** What a tool loads modules with. */
export interface ToolModules {
  readonly require: (name: string) => unknown;
  readonly importx: (name: string) => Promise<unknown>;
  /** Packages that were required while they were not there. */
  readonly missing: ReadonlySet<string>;
}

export interface ToolModulesOptions {
  /** Node's own, which resolves in the folder of the tool's dependencies. */
  readonly require: NodeJS.Require;
  readonly dependencies: readonly string[];
  /** Something stands in for every package, so that the file can be evaluated before they are installed. */
  readonly isDescribing: boolean;
}

/** The sandbox refuses these anyway; said here, it tells what to do instead. */
const unavailable: Readonly<Record<string, string>> = {
  child_process: "Use await this.api.execute(command, args) instead.",
  cluster: "A tool is one process.",
  worker_threads: "A tool is one thread.",
  inspector: "Write to this.api.logger instead.",
  sqlite: "Keep data in this.api.storage instead.",
};

/** `require` and `importx` for one tool: what Node has, and the packages that the tool declared. */
export function toolModules({ require, dependencies, isDescribing }: ToolModulesOptions): ToolModules {
  const missing = new Set<string>();
  const declared = new Set(dependencies);

  const load = (name: unknown): unknown => {
    if (typeof name !== "string" || name === "") throw new TypeError("require needs the name of a module.");
    const plain = name.replace(/^node:/, "");
    const [root = ""] = plain.split("/");
    if (isBuiltin(name)) {
      const advice = unavailable[root];
      if (advice !== undefined)
        throw coded("MODULE_UNAVAILABLE", `The module "${name}" is not there. ${advice}`);
      return require(name);
    }
    if (/^[./]|^file:/.test(name)) {
      throw coded(
        "MODULE_UNAVAILABLE",
        `"${name}" cannot be loaded: a single-file tool is one file. Write it into the file, or publish it as a package.`,
      );
    }
    const [packageName] = /^(?:@[^/]+\/)?[^/]+/.exec(name) ?? [name];
    if (declared.has(packageName)) return require(name);
    if (isDescribing) {
      missing.add(packageName);
      return standIn(packageName);
    }
    throw coded(
      "UNDECLARED_DEPENDENCY",
      `The package "${packageName}" is not declared. Add it to getDependencies(): { "${packageName}": "*" }.`,
    );
  };

  const importx = async (name: string): Promise<unknown> => {
    try {
      return asOne(load(name));
    } catch (thrown) {
      // Modules that wait for something at their top level can only be imported.
      if ((thrown as { code?: unknown }).code !== "ERR_REQUIRE_ASYNC_MODULE") throw thrown;
      return asOne(await import(pathToFileURL(require.resolve(name)).href));
    }
  };
  return { require: load, importx, missing };
}

/**
 * What people write after `importx` differs: the default export, or the named ones. An ES module that has both
 * answers to both.
 */
function asOne(module: unknown): unknown {
  if (typeof module !== "object" || module === null || !("default" in module)) return module;
  const named = module as Record<PropertyKey, unknown>; // A module is asked for any name.
  const main = named.default;
  if ((typeof main !== "object" && typeof main !== "function") || main === null) return module;
  return new Proxy(main, {
    get: (target, key) => (key in target ? Reflect.get(target, key) : named[key]),
    has: (target, key) => key in target || key in named,
  });
}

/** Can be called, made, and asked for anything, and is the same again. */
function standIn(packageName: string): unknown {
  // What `import { name }` compiles to copies the module, and finds in the prototype what is not its own.
  const names = new Proxy({}, { get: (_, key) => (key === "then" ? undefined : made) });
  // A plain function: the prototype of a class is fixed, and a proxy could not answer with another.
  const made: unknown = new Proxy(function standIn() {}, {
    apply: () => made,
    construct: () => made as object,
    get: (_, key) => {
      if (key === "then" || key === "__esModule") return undefined; // It is no promise, and has a default export.
      if (key === Symbol.toPrimitive) return () => `[${packageName}]`;
      if (key === "prototype") return {};
      return made;
    },
    getPrototypeOf: () => names,
    set: () => true,
  });
  return made;
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

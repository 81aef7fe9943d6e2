import { isBuiltin } from "node:module";

export interface ToolModules {
  readonly require: (name: string) => unknown;
  readonly importx: (name: string) => Promise<unknown>;
  /** Packages that were required before they were installed. */
  readonly missing: ReadonlySet<string>;
}

/** Advice for modules of Node that a tool cannot load, because the sandbox would refuse them anyway. */
const unavailable: Readonly<Record<string, string>> = {
  child_process: "Use await this.api.execute(command, args) instead.",
  cluster: "A tool is one process.",
  worker_threads: "A tool is one thread.",
  inspector: "Write to this.api.logger instead.",
  sqlite: "Keep data in this.api.storage instead.",
};

/**
 * Makes `require` and `importx` for one tool. They load Node's own modules and the packages in
 * `dependencies`, with Node's `require`, which resolves in the folder of the tool's dependencies. While the
 * tool is described, every other package is a placeholder, so that the file can be evaluated before its
 * packages are installed.
 */
export function toolModules(
  require: NodeJS.Require,
  dependencies: readonly string[],
  isDescribing: boolean,
): ToolModules {
  const missing = new Set<string>();
  const declared = new Set(dependencies);

  const load = (name: unknown): unknown => {
    if (typeof name !== "string" || name === "") throw new TypeError("require needs the name of a module.");
    if (isBuiltin(name)) {
      const advice = unavailable[name.replace(/^node:/, "").split("/")[0] ?? ""];
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
    if (declared.has(packageName)) return requirePackage(name);
    if (isDescribing) {
      missing.add(packageName);
      return placeholder(packageName);
    }
    throw coded(
      "UNDECLARED_DEPENDENCY",
      `The package "${packageName}" is not declared. Add it to getDependencies(): { "${packageName}": "*" }.`,
    );
  };

  const requirePackage = (name: string): unknown => {
    try {
      return require(name);
    } catch (thrown) {
      if (!isImportOnly(thrown)) throw thrown;
      const message = `The package "${name}" can only be imported. Write await importx("${name}") in execute() instead of require.`;
      throw Object.assign(coded(thrown.code, message), { cause: thrown });
    }
  };

  const importx = async (name: string): Promise<unknown> => {
    try {
      return mergeExports(load(name));
    } catch (thrown) {
      if (!isImportOnly(thrown)) throw thrown;
      return mergeExports(await import(name));
    }
  };
  return { require: load, importx, missing };
}

/**
 * Whether `require` failed because a package can only be imported: its code has a top-level await, or its package.json
 * exports it for `import` alone.
 */
function isImportOnly(thrown: unknown): thrown is Error & { readonly code: string } {
  const { code } = thrown as { readonly code?: unknown }; // Node's errors have a code; others give undefined.
  return code === "ERR_REQUIRE_ASYNC_MODULE" || code === "ERR_PACKAGE_PATH_NOT_EXPORTED";
}

/**
 * People use the result of `importx` as the default export, or by its named exports. For an ES module with both, this
 * returns an object that works for both.
 */
function mergeExports(module: unknown): unknown {
  if (typeof module !== "object" || module === null || !("default" in module)) return module;
  const named = module as Record<PropertyKey, unknown>; // A module may export any name.
  const main = named.default;
  if ((typeof main !== "object" && typeof main !== "function") || main === null) return module;
  return new Proxy(main, {
    get: (target, key) => (key in target ? Reflect.get(target, key) : named[key]),
    has: (target, key) => key in target || key in named,
  });
}

/** A placeholder package: calling it, constructing it or reading a member gives the placeholder again. */
function placeholder(packageName: string): unknown {
  // Code compiled from `import { name }` copies the module and reads missing names from its prototype.
  const names = new Proxy({}, { get: (_, key) => (key === "then" ? undefined : self) });
  // A plain function, because a class has a fixed `prototype`, for which a proxy must not return another
  // value.
  const self: unknown = new Proxy(function placeholder() {}, {
    apply: () => self,
    construct: () => self as object,
    get: (_, key) => {
      if (key === "then" || key === "__esModule") return undefined; // It must not look like a promise or an ES module.
      if (key === Symbol.toPrimitive) return () => `[${packageName}]`;
      if (key === "prototype") return {};
      return self;
    },
    getPrototypeOf: () => names,
    set: () => true,
  });
  return self;
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

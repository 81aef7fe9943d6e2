import type { Zod4Schema } from "./zod-types.ts";

/** Zod's own compiler, as `zod/v4/core` exports it since 4.6. */
export interface ZodCompiler {
  readonly compile: (schema: Zod4Schema) => Zod4Schema;
  readonly version: { readonly major: number; readonly minor: number; readonly patch: number };
  readonly globalConfig?: { readonly jitless?: boolean };
}

let loading: Promise<ZodCompiler | undefined> | undefined;

/**
 * The compiler of the Zod that is installed beside this package, if there is one. Zod is no dependency: where it
 * is missing, its schemas simply go on being interpreted. Never rejects.
 */
export function loadZodCompiler(): Promise<ZodCompiler | undefined> {
  // A specifier that bundlers cannot read keeps Zod out of programs that do not use it.
  const specifier = "zod/v4/core";
  loading ??= import(/* @vite-ignore */ specifier).then(
    (module: Partial<ZodCompiler>) =>
      typeof module.compile === "function" && module.version !== undefined
        ? (module as ZodCompiler)
        : undefined,
    () => undefined,
  );
  return loading;
}

/**
 * A schema that gives the same answers about five times faster, or the schema itself. Only a compiler of exactly
 * the schema's own version is trusted to know its insides. Never throws.
 */
export function compileZod(compiler: ZodCompiler | undefined, schema: Zod4Schema): Zod4Schema {
  if (compiler === undefined || compiler.globalConfig?.jitless === true) return schema;
  const own = schema._zod.version;
  const { major, minor, patch } = compiler.version;
  if (own?.major !== major || own.minor !== minor || own.patch !== patch) return schema;
  try {
    return compiler.compile(schema);
  } catch {
    // Zod promises not to throw; an interpreted schema is the answer if it ever does.
    return schema;
  }
}

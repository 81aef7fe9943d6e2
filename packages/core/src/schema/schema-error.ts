const brand = Symbol.for("toolrack.SchemaError");

/**
 * A schema that cannot be used: not a schema at all, malformed, or without a JSON Schema form. It is the
 * author's mistake; a value that does not fit a schema never causes one.
 */
export class SchemaError extends Error {
  override readonly name = "SchemaError";
  /** Where in a JSON Schema the mistake is, as people write it: `properties.age.type`. */
  readonly path: string | undefined;

  constructor(message: string, options?: { readonly path?: string; readonly cause?: unknown }) {
    super(message, options && "cause" in options ? { cause: options.cause } : undefined);
    this.path = options?.path;
    Object.defineProperty(this, brand, { value: true });
  }

  /** Recognises it across copies of this package, which `instanceof` does not. */
  static is(value: unknown): value is SchemaError {
    return typeof value === "object" && value !== null && brand in value;
  }
}

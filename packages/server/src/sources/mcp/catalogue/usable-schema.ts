import type { JsonSchemaObject } from "@toolrack/core";
import type { UpstreamTool } from "./catalogue.ts";
import { cleanSchema } from "./clean-text.ts";
import { type LooseSchema, loosenSchema } from "./loosen-schema.ts";
import { shortened } from "./shortened.ts";

/** A part of a tool's schemas that nothing is checked against here: the server checks what it is given by itself. */
export interface UncheckedItem {
  /** Such as `inputSchema.properties.age.pattern`. */
  readonly part: string;
  readonly reason: string;
}

const MOST_UNCHECKED = 20;

/** A definition never changes, it is followed by another; so each is looked at once. */
const known = new WeakMap<object, LooseSchema>();

/**
 * A schema of a server as it is shown and gone by here: without texts that nobody sees, and without the parts that a
 * validator, that of a client too, cannot use. A client may refuse a whole list of tools for one of them.
 */
export function usableSchema(given: JsonSchemaObject): LooseSchema {
  let usable = known.get(given);
  if (usable === undefined) {
    // It has the form of what it is made from.
    usable = loosenSchema(cleanSchema(given) as JsonSchemaObject);
    known.set(given, usable);
  }
  return usable;
}

export function uncheckedIn({ inputSchema, outputSchema }: UpstreamTool): UncheckedItem[] {
  const items = Object.entries({ inputSchema, outputSchema }).flatMap(([name, schema]) =>
    schema === undefined
      ? []
      : usableSchema(schema).unchecked.map(({ path, problem }) => ({
          part: shortened(path === "" ? name : `${name}.${path}`),
          reason: shortened(`It ${problem}`),
        })),
  );
  return items.slice(0, MOST_UNCHECKED);
}

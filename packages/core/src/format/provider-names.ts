import { canonicalName } from "../tool/name.ts";

/** What a provider takes as a tool's name. */
export interface NameRule {
  readonly accepts: RegExp;
  readonly maxLength: number;
}

/**
 * The provider's name for each of the rack's names. A name the provider takes stays; another is rewritten.
 * It depends on the set of names only, never on their order.
 */
export function providerNames(names: Iterable<string>, rule: NameRule): Map<string, string> {
  const sorted = [...new Set(names)].sort(byCodeUnit);
  const taken = new Set(sorted.filter((name) => rule.accepts.test(name)));
  return new Map(
    sorted.map((name) => {
      if (rule.accepts.test(name)) return [name, name];
      const free = freeName(name, taken, rule);
      taken.add(free);
      return [name, free];
    }),
  );
}

/** The order of code units: the same on every machine, unlike an order by language. */
export function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function freeName(name: string, taken: ReadonlySet<string>, rule: NameRule): string {
  for (let attempt = 0; ; attempt++) {
    // No accepted name holds a NUL, so each attempt has a hash of its own.
    const salted = attempt === 0 ? name : `${name}\0${attempt}`;
    const candidate = canonicalName(salted, rule.maxLength);
    const legal = rule.accepts.test(candidate)
      ? candidate
      : `_${canonicalName(`${salted}\0`, Math.min(64, rule.maxLength) - 1)}`;
    if (!taken.has(legal)) return legal;
  }
}

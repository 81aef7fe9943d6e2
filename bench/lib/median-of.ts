import { median } from "./statistics.ts";
import type { Measured } from "./suite.ts";

/** The median over all rounds of one figure of a sample, which may be several values or none; not a number without any. */
export function medianOf<Sample>(entry: Measured<Sample> | undefined, key: keyof Sample): number {
  const values = (entry?.samples ?? []).flatMap((sample) => sample[key] ?? []) as number[];
  return values.length === 0 ? Number.NaN : median(values);
}

import type { FieldNode } from "./field-node.ts";

/** The number nearest to zero that fits the bounds, or near enough where they leave no room. */
export function startNumber({ schema, integer }: Extract<FieldNode, { kind: "number" }>): number {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  const least = largest(minimum, exclusiveMinimum);
  const most = smallest(maximum, exclusiveMaximum);
  // Before draft 6 `exclusiveMinimum: true` said how `minimum` was meant.
  const isAbove = exclusiveMinimum === true || exclusiveMinimum === least;
  const isBelow = exclusiveMaximum === true || exclusiveMaximum === most;
  const step = typeof multipleOf === "number" && multipleOf > 0 ? multipleOf : integer ? 1 : 0;
  const fits = (value: number) =>
    (isAbove ? value > least : value >= least) && (isBelow ? value < most : value <= most);
  if (fits(0)) return 0;
  // Zero lies outside, so one of the bounds is the near one.
  const isUp = least >= 0;
  const bound = isUp ? least : most;
  if (step > 0) {
    const near = (isUp ? Math.ceil(bound / step) : Math.floor(bound / step)) * step;
    return fits(near) ? near : near + (isUp ? step : -step);
  }
  if (fits(bound)) return bound;
  const whole = isUp ? Math.floor(bound) + 1 : Math.ceil(bound) - 1;
  return fits(whole) ? whole : (least + most) / 2;
}

function largest(...bounds: readonly unknown[]): number {
  return Math.max(Number.NEGATIVE_INFINITY, ...bounds.filter((bound) => typeof bound === "number"));
}

function smallest(...bounds: readonly unknown[]): number {
  return Math.min(Number.POSITIVE_INFINITY, ...bounds.filter((bound) => typeof bound === "number"));
}

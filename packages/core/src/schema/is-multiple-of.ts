export function isMultipleOf(value: number, divisor: number): boolean { return Number.isInteger(value / divisor); }

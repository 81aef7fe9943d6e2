import { amount } from "./amount.ts";

const units = ["KB", "MB", "GB", "TB"] as const;

/** A number of bytes as people read it: `812 bytes`, `1.2 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1024) return amount(bytes, "byte");
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, "")} ${units[unit]}`;
}

/**
 * Whether a number is a whole multiple of another, both taken as the decimals they are written as: 19.99 is one of
 * 0.01, although dividing the binary fractions says otherwise. Nothing is a multiple of 0.
 */
export function isMultipleOf(value: number, divisor: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0;
  if (!Number.isFinite(value) || divisor === 0) return false;
  const left = decimalOf(value);
  const right = decimalOf(divisor);
  const exponent = Math.min(left.exponent, right.exponent);
  return scaled(left, exponent) % scaled(right, exponent) === 0n;
}

/** The number is `digits` times ten to the power of `exponent`. */
interface Decimal {
  readonly digits: bigint;
  readonly exponent: number;
}

function decimalOf(number: number): Decimal {
  const [mantissa = "", exponent = "0"] = String(Math.abs(number)).split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
}

/** As a whole number of units of ten to the power of `exponent`. */
function scaled(decimal: Decimal, exponent: number): bigint {
  return decimal.digits * 10n ** BigInt(decimal.exponent - exponent);
}

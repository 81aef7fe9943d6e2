/** The schemes whose addresses the rack itself answers for, and by which source. Nobody else can put something there. */
const reserved: ReadonlyMap<string, string | undefined> = new Map([
  ["skill", "skills"],
  ["toolrack", undefined],
]);

/** Whether an address, or a template of addresses, is not for the source with this key. */
export function isReservedFrom(sourceKey: string, uri: string): boolean {
  const scheme = uri.slice(0, Math.max(uri.indexOf(":"), 0)).toLowerCase();
  return reserved.has(scheme) && reserved.get(scheme) !== sourceKey;
}

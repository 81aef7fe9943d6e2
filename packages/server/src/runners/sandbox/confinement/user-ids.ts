/** The range that Linux keeps for users without an account. Containers with few user ids have it too. */
const first = 61_184;
const last = 65_519;

let next = first + Math.floor(Math.random() * (last - first));

/**
 * The user for the next process when the server is root: another one each time, so that neither signals nor files
 * nor the count of processes connect two of them. Nothing when the server is no root and cannot change users.
 */
export function nextUserId(): number | undefined {
  if (process.getuid?.() !== 0) return undefined;
  next = next === last ? first : next + 1;
  return next;
}

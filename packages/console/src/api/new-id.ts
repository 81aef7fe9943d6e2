/** An id for a call. `randomUUID` exists only on secure pages, and a console on an intranet may not be one. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** What the rack tells a model whose call was denied: the reason, and not to come back with the same. */
const denial =
  /^Running ".*?" was refused(?:: (?<reason>.*)|, without giving a reason)\. It did not run\. Do not repeat the call unchanged\.$/s;

/** What went wrong with a call, for people. What was written for the model that made it is said in other words. */
export function messageOf(
  { code, message }: { readonly code: string; readonly message: string },
  t: (key: string, values: Record<string, unknown>) => string,
): string {
  const found = code === "approval_denied" ? denial.exec(message) : null;
  if (found === null) return message;
  const reason = found.groups?.reason;
  return reason === undefined ? t("errors.denied", {}) : t("errors.deniedBecause", { reason });
}

import { redact } from "@toolrack/core";

/** Whether what has such a name is kept out of records, too. */
export function isSecretName(name: string): boolean {
  return (redact({ [name]: "text" }) as Record<string, unknown>)[name] !== "text";
}

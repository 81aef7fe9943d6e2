import { redact } from "@toolrack/core";

/** Whether what stands behind such a name in the query of an address is a secret. */
export function isSecretParameter(name: string): boolean {
  const text = `?${encodeURIComponent(name)}=text`;
  return redact(text) !== text;
}

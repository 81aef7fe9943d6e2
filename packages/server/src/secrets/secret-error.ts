/** A secret that cannot be kept or read. The message is for people, and never has any of the value in it. */
export class SecretError extends Error {
  override readonly name = "SecretError";
}

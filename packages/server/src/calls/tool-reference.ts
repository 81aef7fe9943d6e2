const reference = /^["']?@?tool:\/\/([^\s"'/?#]+)["']?$/;

/** The name in `tool://name` or `@tool://name`; nothing when it is no such reference. */
export function parseToolReference(text: string): string | undefined {
  return reference.exec(text.trim())?.[1];
}

import type { ToolInfo } from "@toolrack/core";

/** A tool in lists, as programs read it. */
export interface ToolSummary {
  readonly name: string;
  readonly title?: string;
  readonly displayName?: string;
  readonly description?: string;
  readonly aliases?: readonly string[];
  readonly category?: string;
  readonly tags?: readonly string[];
  readonly origin?: string;
  readonly dangerous: boolean;
  readonly readOnly: boolean;
  readonly disabled: boolean;
}

export function toolSummary(info: ToolInfo): ToolSummary {
  const { name, title, displayName, description, aliases, origin, disabled, metadata } = info;
  const { category, tags, dangerous = false, readOnly = false } = metadata;
  return {
    name,
    ...(title === undefined ? {} : { title }),
    ...(displayName === undefined ? {} : { displayName }),
    ...(description === undefined ? {} : { description }),
    ...(aliases === undefined || aliases.length === 0 ? {} : { aliases }),
    ...(category === undefined ? {} : { category }),
    ...(tags === undefined ? {} : { tags }),
    ...(origin === undefined ? {} : { origin }),
    dangerous,
    readOnly,
    disabled,
  };
}

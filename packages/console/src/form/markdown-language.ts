import { markdown } from "@codemirror/lang-markdown";
import type { Extension } from "@codemirror/state";

/** Colours for Markdown. What stands in fences stays plain text, so that no other language has to be loaded. */
export function markdownLanguage(): Extension {
  return markdown();
}

import { defineAsyncComponent, h, type VNode } from "vue";

/** Loaded with its parser when the first Markdown is shown. */
export const MarkdownView = defineAsyncComponent(() => import("./MarkdownView.vue"));

const signs = [
  /^#{1,6} \S/m,
  /^\s*[-*] \S/m,
  /^\s*\d+\. \S/m,
  /^```/m,
  /\*\*[^*\n]+\*\*/,
  /^\|.+\|\s*$/m,
  /\[[^\]\n]+\]\(https?:/,
];

/** A row of a table and the line of dashes below its head, which nothing but Markdown has. */
const table = /\|[^\n]*\n[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*\|[-:| \t]*$/m;

export function looksLikeMarkdown(text: string): boolean {
  const head = text.slice(0, 4_000);
  return (
    table.test(head) || signs.filter((sign) => sign.test(head)).length >= 2 || /^#{1,3} \S.*\n/.test(head)
  );
}

/** What any Markdown has. A description without it is shown at once, without the parser. */
const anyMark = /[`*_#[|<]|^\s*([-+]|\d+\.) |https?:/m;

/** A description of a tool or an argument, which its author may have written in Markdown. */
export function DescriptionText({ text }: { readonly text: string }): VNode {
  return anyMark.test(text)
    ? h(MarkdownView, { text, small: true })
    : h("p", { class: "whitespace-pre-wrap" }, text);
}
DescriptionText.props = ["text"];

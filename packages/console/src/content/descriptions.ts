import { Lightbulb } from "@lucide/vue";
import { defineAsyncComponent, h, type VNode } from "vue";
import type { FileReport } from "../api/index.ts";
import { fileFailureText } from "../text/index.ts";

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

/** Why a tool file does not load, the lines around the mistake, and how to fix it. */
export function FileFailure({ failure }: { readonly failure: NonNullable<FileReport["failure"]> }): VNode[] {
  const { reason, remedy } = fileFailureText(failure);
  return [
    h("pre", { class: "code-block" }, reason),
    ...(failure.frame ? [h("pre", { class: "code-block rounded-md bg-sunken p-3" }, failure.frame)] : []),
    h("p", { class: "flex items-start gap-2 border-t border-line pt-3 text-sm" }, [
      h(Lightbulb, { size: 15, class: "mt-0.5 shrink-0 text-warn" }),
      ` ${remedy}`,
    ]),
  ];
}
FileFailure.props = ["failure"];

import { TriangleAlert } from "@lucide/vue";
import { type Component, type FunctionalComponent, h, type VNode } from "vue";
import { RouterLink } from "vue-router";
import type { ApiError } from "../api/index.ts";
import { formatAgo, formatMoment, lineDiff, t } from "../text/index.ts";
import ActionButton from "./ActionButton.vue";
import { toCall } from "./address.ts";
import CopyButton from "./CopyButton.vue";
import { errorText, type NamedCall, nameOf } from "./call-texts.ts";
import { now } from "./screen.ts";

/** Makes a component that only draws its properties, with the names of all of them. */
function part<Props extends object>(
  names: readonly (keyof Props & string)[],
  draw: FunctionalComponent<Props>,
): FunctionalComponent<Props> {
  // A component must name its properties, or they would become attributes of its element.
  return Object.assign(draw, { props: [...names] });
}

export const CallLink = part<{ call: NamedCall & { readonly callId: string } }>(["call"], ({ call }) =>
  h(
    RouterLink,
    { class: "hover:text-accent hover:underline", to: toCall(call.callId), title: call.toolName },
    () => nameOf(call),
  ),
);

/** How long ago something was. The exact time is its title. */
export const RelativeTime = part<{ at: number }>(["at"], ({ at }) =>
  h(
    "time",
    { datetime: new Date(at).toISOString(), title: formatMoment(at) },
    formatAgo(at, Math.max(now.value, at)),
  ),
);

/** Why a read or an action failed, if it did. A read can be repeated; the note of an action can be dismissed. */
export const ErrorNote = part<{
  of: { readonly error: ApiError | undefined; reload?(): unknown; dismiss?(): unknown };
}>(["of"], ({ of }) => {
  const { error, dismiss } = of;
  if (error === undefined) return undefined;
  const looks = "flex items-start gap-2.5 rounded-lg border border-bad/40 bg-bad-wash px-3.5 py-2.5 text-sm";
  return h("div", { class: looks, role: "alert" }, [
    h(TriangleAlert, { size: 16, class: "mt-0.5 shrink-0 text-bad" }),
    h("div", { class: "min-w-0 flex-1" }, [
      h("p", { class: "whitespace-pre-wrap break-words" }, errorText(error)),
      error.code !== "unreachable" && h("p", { class: "mt-0.5 font-mono text-2xs text-soft" }, error.code),
    ]),
    dismiss && h(ActionButton, { text: t("errors.dismiss"), small: true, onClick: () => dismiss() }),
    !dismiss &&
      error.code !== "forbidden" &&
      h(ActionButton, { text: t("errors.readAgain"), small: true, onClick: () => of.reload?.() }),
  ]);
});

/** Text to copy. `blocked` says why it cannot be copied yet. */
export const CodeBlock = part<{ text: string; label: string; blocked?: string | undefined }>(
  ["text", "label", "blocked"],
  ({ text, label, blocked }) =>
    h("div", { class: "relative rounded-md border border-line bg-sunken" }, [
      h(
        "pre",
        {
          class: "code-block max-h-[70vh] overflow-auto p-3 pr-12",
          tabindex: 0,
          "aria-label": label,
        },
        text,
      ),
      h(CopyButton, { class: "absolute top-2 right-2", text, blocked }),
    ]),
);

/** Shown for an empty list: one sentence, one command, and a slot for a button. */
export const EmptyState = part<{ icon: Component; text: string; command?: string }>(
  ["icon", "text", "command"],
  ({ icon, text, command }, { slots }) =>
    h("div", { class: "mx-auto flex max-w-md flex-col items-center gap-3 px-4 py-12 text-center" }, [
      h(
        "span",
        { class: "grid size-10 place-items-center rounded-full bg-sunken text-faint" },
        h(icon, { size: 19 }),
      ),
      h("p", { class: "text-sm text-soft" }, text),
      command && h(CodeBlock, { class: "w-full text-left", text: command, label: text }),
      slots.default?.(),
    ]),
);

/** A list entry for an item that could not be read, with the reason. */
export const FailedItem = part<{ icon: Component; name: string; reason: string }>(
  ["icon", "name", "reason"],
  ({ icon, name, reason }) =>
    h("li", { class: "px-2.5 py-2" }, [
      h("span", { class: "flex items-center gap-1.5 text-sm font-medium text-bad" }, [
        h(icon, { size: 14, class: "shrink-0" }),
        name,
      ]),
      h("p", { class: "text-xs break-words text-soft" }, reason),
    ]),
);

/** A problem, with what it is about and how to fix it. */
export const ProblemNote = part<{ title: string; problem: string; remedy: string }>(
  ["title", "problem", "remedy"],
  ({ title, problem, remedy }) =>
    h("section", { class: "note flex items-start gap-2.5 px-3.5 py-2.5 text-sm", "aria-label": title }, [
      h(TriangleAlert, { size: 16, class: "mt-0.5 shrink-0 text-warn" }),
      h("div", { class: "flex min-w-0 flex-1 flex-col gap-1" }, [
        h("p", { class: "font-semibold" }, title),
        h("p", { class: "break-words whitespace-pre-wrap" }, problem),
        h("p", { class: "text-soft" }, remedy),
      ]),
    ]),
);

/** Names of facts, with what each of them is. */
export const FactList = part<{ facts: readonly (readonly (string | undefined)[])[] }>(
  ["facts"],
  ({ facts }) =>
    h(
      "dl",
      { class: "grid grid-cols-[auto_1fr] gap-x-6 gap-y-1.5 text-sm" },
      facts.map(([name, value]) => [
        h("dt", { class: "text-faint" }, name),
        h("dd", { class: "break-words" }, value),
      ]),
    ),
);

const signs = { same: " ", added: "+", removed: "−" };
const looks = { same: "text-soft", added: "bg-good-wash text-good", removed: "bg-bad-wash text-bad" };

/** Two texts, line by line: what was removed, added and left. */
export const DiffView = part<{ before: string; after: string; label: string }>(
  ["before", "after", "label"],
  ({ before, after, label }): VNode =>
    h(
      "div",
      {
        class: "max-h-72 overflow-auto rounded-md border border-line bg-surface py-1.5",
        tabindex: 0,
        role: "region",
        "aria-label": label,
      },
      lineDiff(before, after).map(({ kind, text }) =>
        h("div", { class: ["code-block px-3", looks[kind]] }, [
          h("span", { class: "select-none", "aria-hidden": "true" }, `${signs[kind]} `),
          kind !== "same" && h("span", { class: "sr-only" }, `${t(`ui.${kind}`)} `),
          text,
        ]),
      ),
    ),
);

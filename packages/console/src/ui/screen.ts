import { nextTick, onBeforeUnmount, onMounted, onScopeDispose, type Ref, ref, watch } from "vue";
import { copyText, keep, kept } from "../text/index.ts";

export const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

/** The storage key that `public/theme.js` reads before the first paint. */
const KEY = "toolrack.theme";
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

const stored = kept(KEY);
export const theme = ref<Theme>(themes.find((known) => known === stored) ?? "system");
/** Whether the dark theme is shown, for components that draw their own colours. */
export const isDark = ref(false);

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  keep(KEY, chosen === "system" ? undefined : chosen);
  apply();
}

function apply(): void {
  isDark.value = theme.value === "dark" || (theme.value === "system" && systemIsDark.matches);
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
}

systemIsDark.addEventListener("change", apply);
apply();

/** The time, updated every second for all components; paused while the page is hidden. */
export const now = ref(Date.now());

setInterval(() => {
  // In tests the document is gone before this timer.
  if (globalThis.document?.hidden === false) now.value = Date.now();
}, 1_000);
document.addEventListener("visibilitychange", () => {
  now.value = Date.now();
});

const phone = matchMedia("(max-width: 39.99rem)");
/** Whether the page is as narrow as on a phone, where only short texts fit into a field. */
export const narrowScreen = ref(phone.matches);
phone.addEventListener("change", ({ matches }) => {
  narrowScreen.value = matches;
});

const MOMENT = 1_600;
/** A failure is shown longer, because its message explains how to copy by hand. */
const LONGER = 6_000;

export function useCopy() {
  const state = ref<"" | "copied" | "failed">("");
  let timer: ReturnType<typeof setTimeout> | undefined;
  onScopeDispose(() => clearTimeout(timer));
  const forget = () => {
    state.value = "";
  };
  async function copy(text: string): Promise<void> {
    const isCopied = await copyText(text);
    state.value = isCopied ? "copied" : "failed";
    clearTimeout(timer);
    timer = setTimeout(forget, isCopied ? MOMENT : LONGER);
  }
  return { state, copy };
}

/** Scrolls a list to its end when lines are added, unless the person has scrolled up to read earlier ones. */
export function useFollowedEnd(list: Readonly<Ref<HTMLElement | null>>, lines: () => unknown): void {
  watch(lines, async () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = list.value ?? {};
    if (scrollHeight - scrollTop - clientHeight > 24) return;
    await nextTick();
    list.value?.scrollTo({ top: list.value.scrollHeight });
  });
}

/** Keyboard shortcuts of the page, inactive in fields, dialogs and input methods. `mod+k` means Ctrl or Command. */
export function useShortcuts(handlers: Readonly<Record<string, (event: KeyboardEvent) => void>>): void {
  let prefix = "";
  let timer: ReturnType<typeof setTimeout> | undefined;

  const setPrefix = (key: string) => {
    prefix = key;
    clearTimeout(timer);
    if (key !== "") timer = setTimeout(setPrefix, 1_200, "");
  };
  const listen = (event: KeyboardEvent) => {
    if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
    const key = event.key.toLowerCase();
    if (event.metaKey || event.ctrlKey) run(`mod+${key}`, event);
    else if (event.altKey || isElsewhere(event)) return;
    else if (prefix !== "" && run(`${prefix} ${key}`, event)) setPrefix("");
    else if (!run(key, event)) setPrefix(key);
  };
  const run = (name: string, event: KeyboardEvent): boolean => {
    const handler = handlers[name];
    if (handler === undefined) return false;
    event.preventDefault();
    handler(event);
    return true;
  };
  onMounted(() => document.addEventListener("keydown", listen));
  onBeforeUnmount(() => {
    clearTimeout(timer);
    document.removeEventListener("keydown", listen);
  });
}

/** Whether the key belongs to a field or a dialog. Uses the composed path, because editors live in shadow roots. */
function isElsewhere(event: KeyboardEvent): boolean {
  const [target] = event.composedPath();
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest('[role="dialog"], [role="alertdialog"]') !== null) return true;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

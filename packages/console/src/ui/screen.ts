import {
  computed,
  onBeforeUnmount,
  onMounted,
  onScopeDispose,
  type Ref,
  readonly,
  ref,
  type WritableComputedRef,
} from "vue";
import { useRoute, useRouter } from "vue-router";
import { copyText, keep, kept } from "../text/index.ts";

export const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

/** The name that `public/theme.js` reads before the first paint. */
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

/** Whether the page is as narrow as on a phone, where only short texts fit into a field. */
const query = matchMedia("(max-width: 39.99rem)");
const isNarrow = ref(query.matches);
query.addEventListener("change", ({ matches }) => {
  isNarrow.value = matches;
});

export const narrowScreen = readonly(isNarrow);

export type CopyState = "" | "copied" | "failed";

const MOMENT = 1_600;
/** Shown longer, because it explains how to copy by hand. */
const LONGER = 6_000;

export function useCopy(): { readonly state: Ref<CopyState>; copy(text: string): Promise<void> } {
  const state = ref<CopyState>("");
  let timer: ReturnType<typeof setTimeout> | undefined;
  onScopeDispose(() => clearTimeout(timer));
  return {
    state,
    async copy(text) {
      state.value = (await copyText(text)) ? "copied" : "failed";
      clearTimeout(timer);
      timer = setTimeout(
        () => {
          state.value = "";
        },
        state.value === "copied" ? MOMENT : LONGER,
      );
    },
  };
}

/** Keyboard shortcuts of the page, inactive in fields, dialogs and input methods. `mod+k` means Ctrl or Command. */
export function useShortcuts(handlers: Readonly<Record<string, (event: KeyboardEvent) => void>>): void {
  let prefix = "";
  let timer: ReturnType<typeof setTimeout> | undefined;

  const listen = (event: KeyboardEvent) => {
    if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
    const withMod = event.metaKey || event.ctrlKey;
    if (withMod) {
      run(`mod+${event.key.toLowerCase()}`, event);
      return;
    }
    if (event.altKey || isElsewhere(event)) return;
    const key = event.key === "?" ? "?" : event.key.toLowerCase();
    if (prefix !== "" && run(`${prefix} ${key}`, event)) {
      prefix = "";
      return;
    }
    if (run(key, event)) return;
    prefix = key;
    clearTimeout(timer);
    timer = setTimeout(() => {
      prefix = "";
    }, 1_200);
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

/** The query of the address. A change keeps other keys, and `undefined` removes a key. */
export function useQuery() {
  const route = useRoute();
  const router = useRouter();
  return {
    text: (key: string) => (typeof route.query[key] === "string" ? route.query[key] : ""),
    async set(change: Readonly<Record<string, string | undefined>>, how: "replace" | "push" = "replace") {
      const kept = Object.entries({ ...route.query, ...change }).filter(([, value]) => value !== undefined);
      await router[how]({ query: Object.fromEntries(kept) });
    },
  };
}

/** The view that the address names under a key; default is the first, which is left out of the address. */
export function useView<View extends string>(
  key: string,
  views: () => readonly View[],
): WritableComputedRef<View> {
  const query = useQuery();
  return computed({
    get: () => views().find((known) => known === query.text(key)) ?? views()[0]!,
    set: (view) => void query.set({ [key]: view === views()[0] ? undefined : view }),
  });
}

export function toCall(callId: string) {
  return { name: "call", params: { callId } };
}

export function toTool(tool: string, tab?: "about") {
  return { name: "tools", params: { tool }, query: tab === undefined ? {} : { tab } };
}
